/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/missing: the modules that were asked for and not found, the most wanted first. */
#include <config.h>

#include "api/missing.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/router.h"
#include "base/clock.h"
#include "keys/auth.h"
#include "api/services.h"
#include "objects/bucket.h"
#include "symfiles/missing_shared.h"

enum {
	LISTED_MAX = 1000,
	SHARE_PERIOD = 2, /* seconds */
};

void missing_note_request(const struct exchange *x, struct str name, struct str id)
{
	const char *agent = exchange_param(x, "HTTP_USER_AGENT");
	if (!bucket_can_hold(name, id))
		return;
	missing_note(symfiles_missing(services_symfiles()), name, id, str_from(agent ? agent : ""),
	        client_key_hash(x->client, 0), time(NULL));
}

/* ---- telling other hosts ---- */

static struct {
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t stop;
	bool runs;
} sharing = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Only missing_stop waits for the lock, which waits for the end in any case. */
static void *share_main(void *arg)
{
	pthread_mutex_lock(&sharing.lock);
	while (sharing.runs) {
		clock_wait(&sharing.stop, &sharing.lock, clock_now() + SHARE_PERIOD * SECOND);
		missing_share(symfiles_missing(services_symfiles()), modules_memcached(services_modules()), time(NULL));
	}
	pthread_mutex_unlock(&sharing.lock);
	return arg;
}

enum err missing_start(struct error *e)
{
	clock_condition_init(&sharing.stop);
	sharing.runs = true;
	int failed = pthread_create(&sharing.thread, NULL, share_main, NULL);
	if (!failed)
		return ERR_OK;
	sharing.runs = false;
	return error_set(e, ERR_IO, "thread: %s", strerror(failed));
}

void missing_stop(void)
{
	pthread_mutex_lock(&sharing.lock);
	bool ran = sharing.runs;
	sharing.runs = false;
	pthread_cond_signal(&sharing.stop);
	pthread_mutex_unlock(&sharing.lock);
	if (ran)
		pthread_join(sharing.thread, NULL);
}

/* ---- the list ---- */

void missing_handle(struct exchange *x)
{
	struct error e;
	char key_id[64], *text = NULL;
	struct mc_client *c = NULL;
	enum err err = auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_UPLOAD | RIGHT_READ, key_id, &e);
	if (!err && x->config->memcached.count && !(c = modules_memcached(services_modules())))
		err = no_memory(&e);
	if (!err)
		err = missing_json(&text, symfiles_missing(services_symfiles()), c, LISTED_MAX, time(NULL), &e);
	if (err)
		exchange_reply_error(x, &e, 1);
	else
		exchange_reply_text(x, 200, "application/json", NULL, str_from(text));
	free(text);
}
