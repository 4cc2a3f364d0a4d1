/* SPDX-License-Identifier: Apache-2.0 */
/* A table in which each text has one place, that of its hash; the text itself decides whether the digest is its own.
 * Whoever finds its place locked makes the digest: the holder may lose its core to a load, for tens of milliseconds. */
#include <config.h>

#include "modules/digests.h"

#include <stdatomic.h>
#include <string.h>

enum {
	PLACES = 4096,
	TEXT = 110, /* bytes: a longer text is not kept */
};

struct place {
	struct module_hash digest;
	atomic_flag locked;
	uint8_t len; /* 0: nothing is kept here */
	char text[TEXT];
};

static struct place places[PLACES];

static bool look_up(struct place *p, const char *text, size_t len, struct module_hash *h)
{
	if (atomic_flag_test_and_set_explicit(&p->locked, memory_order_acquire))
		return false;
	bool known = p->len == len && memcmp(p->text, text, len) == 0;
	if (known)
		*h = p->digest;
	atomic_flag_clear_explicit(&p->locked, memory_order_release);
	return known;
}

static void keep(struct place *p, const char *text, size_t len, const struct module_hash *h)
{
	if (atomic_flag_test_and_set_explicit(&p->locked, memory_order_acquire))
		return;
	p->digest = *h;
	p->len = (uint8_t)len;
	memcpy(p->text, text, len);
	atomic_flag_clear_explicit(&p->locked, memory_order_release);
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
	struct place *p = &places[checksum(text, len, "", 0) % PLACES];
	if (look_up(p, text, len, h))
		return true;
	if (!module_hash_make(h, kind, name, id))
		return false;
	keep(p, text, len, h);
	return true;
}
