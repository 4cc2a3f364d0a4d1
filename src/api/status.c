/* SPDX-License-Identifier: Apache-2.0 */
/* Pages for operators: heartbeats, version, metrics, and a page that always fails. */
#include <config.h>

#include "api/status.h"

#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "api/router.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "api/services.h"

#ifdef HAVE_ISAL
#define INFLATES_WITH "ISA-L"
#else
#define INFLATES_WITH "zlib"
#endif

static const char json[] = "application/json", ok[] = "{\"status\":\"ok\"}";

/* Checked each time, so that the switch outlives the process: a balancer must not send requests to one that its socket
 * starts again either. */
static bool is_draining(const struct config *c)
{
	return *c->drain_file && access(c->drain_file, F_OK) == 0;
}

void lbheartbeat_handle(struct exchange *x)
{
	struct error e;
	if (is_draining(x->config)) {
		error_set(&e, ERR_UNAVAILABLE, "this server is being drained: drain_file exists");
		exchange_reply_error(x, &e, 1);
		return;
	}
	exchange_reply_text(x, 200, json, NULL, str_from(ok));
}

void broken_handle(struct exchange *x)
{
	struct error e;
	error_set(&e, ERR_INTERNAL, "this page always fails, to test alerting");
	exchange_reply_error(x, &e, 0);
}

void version_handle(struct exchange *x)
{
	char text[512];
	snprintf(text, sizeof text, "{\"source\":\"%s\",\"version\":\"%s\",\"commit\":\"%s\",\"build\":\"%s\"}",
	        *SOURCE ? SOURCE : "unknown", FULL_VERSION, *COMMIT ? COMMIT : "unknown",
	        "compiler " __VERSION__ ", " INFLATES_WITH);
	exchange_reply_text(x, 200, json, NULL, str_from(text));
}

void metrics_handle(struct exchange *x)
{
	struct buffer text;
	struct error e;
	buffer_init(&text, 1 << 20);
	metrics_print(&text);
	if (text.failed) {
		no_memory(&e);
		exchange_reply_error(x, &e, 1);
	} else {
		struct str all = {(const char *)text.data, text.len};
		exchange_reply_text(x, 200, "text/plain; version=0.0.4; charset=utf-8", NULL, all);
	}
	buffer_release(&text);
}

/* The heartbeat of the backends. Requests for it are parked until the thread knows. */

enum { WAITING_MAX = 64, TEXT_MAX = 4096 };
static const int64_t kept = 5 * SECOND, patience = 10 * SECOND;

/* What is wrong. */
struct diagnosis {
	struct error first; /* ERR_OK: nothing */
	size_t len;
	char all[TEXT_MAX]; /* those that have room, in one line */
};

static struct {
	pthread_t thread;
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t wanted;
	struct exchange *waiting; /* linked by x->user */
	unsigned waiting_count;
	bool runs;
	int64_t asking_since; /* 0: no check is running */
	int64_t known_until;  /* time of the result; 0: there is none */
	struct diagnosis result;
} heart = {.lock = PTHREAD_MUTEX_INITIALIZER, .wanted = PTHREAD_COND_INITIALIZER};

static void diagnose(void *arg, const struct error *e)
{
	struct diagnosis *d = arg;
	if (!d->first.code)
		d->first = *e;
	int n = snprintf(d->all + d->len, TEXT_MAX - d->len, "%s%s", d->len ? "; " : "", e->text);
	if (n > 0 && (size_t)n < TEXT_MAX - d->len)
		d->len += (size_t)n;
}

static void reply_heartbeat(struct exchange *x, const struct diagnosis *result)
{
	if (result->first.code)
		exchange_reply_problems(x, &result->first, (struct str){result->all, result->len}, kept / SECOND);
	else
		exchange_reply_text(x, 200, json, NULL, str_from(ok));
}

static void reply_result(struct exchange *x)
{
	pthread_mutex_lock(&heart.lock);
	struct diagnosis result = heart.result;
	pthread_mutex_unlock(&heart.lock);
	reply_heartbeat(x, &result);
}

/* With the lock held: parks x; false if *result can be answered now. */
static bool wait_for_result(struct exchange *x, struct diagnosis *result)
{
	int64_t now = clock_now();
	if (now < heart.known_until) {
		*result = heart.result;
		return false;
	}
	bool stuck = heart.asking_since && now - heart.asking_since > patience;
	if (stuck || !heart.runs || heart.waiting_count == WAITING_MAX) {
		struct error e;
		error_set(&e, ERR_UNAVAILABLE, "memcached, a source or a store takes too long to answer");
		*result = (struct diagnosis){0};
		diagnose(result, &e);
		return false;
	}
	x->user = heart.waiting;
	heart.waiting = x;
	heart.waiting_count++;
	pthread_cond_signal(&heart.wanted);
	return true;
}

void heartbeat_handle(struct exchange *x)
{
	struct diagnosis result;
	pthread_mutex_lock(&heart.lock);
	bool parked = wait_for_result(x, &result);
	pthread_mutex_unlock(&heart.lock);
	if (!parked)
		reply_heartbeat(x, &result);
}

/* With the lock held. */
static void resume_waiting(void)
{
	while (heart.waiting) {
		struct exchange *x = heart.waiting;
		heart.waiting = x->user;
		exchange_resume(x, reply_result);
	}
	heart.waiting_count = 0;
}

/* The place of uploaded symbol files is among the sources, but nobody has tried to write there. */
static void probe_sym_store(struct diagnosis *found)
{
	struct symbfile_store *store = symfiles_store(services_symfiles());
	struct store_client *c = store ? store_client_take(store) : NULL;
	struct error e;
	if (store && (c ? store_probe(c, &e) : no_memory(&e)))
		diagnose(found, &e);
	store_client_give(c);
}

static void *beat(void *arg)
{
	pthread_mutex_lock(&heart.lock);
	while (heart.runs) {
		struct diagnosis found = {0};
		if (!heart.waiting) {
			pthread_cond_wait(&heart.wanted, &heart.lock);
			continue;
		}
		heart.asking_since = clock_now();
		pthread_mutex_unlock(&heart.lock);
		modules_probe(services_modules(), diagnose, &found);
		probe_sym_store(&found);
		pthread_mutex_lock(&heart.lock);
		heart.asking_since = 0;
		heart.result = found;
		heart.known_until = clock_now() + kept;
		resume_waiting();
	}
	resume_waiting();
	pthread_mutex_unlock(&heart.lock);
	return arg;
}

enum err status_start(struct error *e)
{
	heart.runs = true;
	int failed = pthread_create(&heart.thread, NULL, beat, NULL);
	if (!failed) {
		pthread_setname_np(heart.thread, "heartbeat");
		return ERR_OK;
	}
	heart.runs = false;
	return error_set(e, ERR_IO, "thread: %s", strerror(failed));
}

void status_stop(void)
{
	pthread_mutex_lock(&heart.lock);
	bool runs = heart.runs;
	heart.runs = false;
	pthread_cond_signal(&heart.wanted);
	pthread_mutex_unlock(&heart.lock);
	if (runs)
		pthread_join(heart.thread, NULL);
}
