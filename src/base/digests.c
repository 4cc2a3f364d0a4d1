/* SPDX-License-Identifier: Apache-2.0 */
/* A table in which each text has one place, that of its hash; the text itself decides whether the digest is its own. */
#include <config.h>

#include "base/digests.h"

#include <pthread.h>
#include <string.h>

enum {
	PLACES = 4096,
	LOCKS = 64, /* each for every 64th place */
	TEXT = 112, /* bytes: a longer text is not kept */
};

struct place {
	struct module_hash digest;
	uint8_t len; /* 0: nothing is kept here */
	char text[TEXT];
};

static struct place places[PLACES];
static pthread_mutex_t locks[LOCKS];
static pthread_once_t once = PTHREAD_ONCE_INIT;

static void init_locks(void)
{
	for (unsigned i = 0; i < LOCKS; i++)
		pthread_mutex_init(&locks[i], NULL);
}

/* kind, name and id, each with its end, so that no two modules have the same text. 0: too long, or the ends are not
 * certain. */
static size_t make_text(char text[TEXT], const char *kind, struct str name, struct str id)
{
	size_t first = strlen(kind) + 1, len = first + name.len + 1 + id.len;
	if (name.len > TEXT || id.len > TEXT || len > TEXT || memchr(name.data, 0, name.len))
		return 0;
	memcpy(text, kind, first);
	memcpy(text + first, name.data, name.len);
	text[first + name.len] = 0;
	memcpy(text + first + name.len + 1, id.data, id.len);
	return len;
}

bool digest_of_module(struct module_hash *h, const char *kind, struct str name, struct str id)
{
	char text[TEXT];
	size_t len = make_text(text, kind, name, id);
	if (!len)
		return module_hash_make(h, kind, name, id);
	size_t at = checksum(text, len, "", 0) % PLACES;
	struct place *p = &places[at];
	pthread_mutex_t *lock = &locks[at % LOCKS];
	pthread_once(&once, init_locks);
	pthread_mutex_lock(lock);
	bool known = p->len == len && memcmp(p->text, text, len) == 0;
	if (known)
		*h = p->digest;
	pthread_mutex_unlock(lock);
	if (known)
		return true;
	if (!module_hash_make(h, kind, name, id))
		return false;
	pthread_mutex_lock(lock);
	p->digest = *h;
	p->len = (uint8_t)len;
	memcpy(p->text, text, len);
	pthread_mutex_unlock(lock);
	return true;
}
