/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "uploads/catalog.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/hex.h"

enum { LOOKED_THROUGH = 1000 }; /* sets, for an uploader's */

/* The best of the sets that come after the cursor. */
struct catalog {
	const struct catalog_query *q;
	struct catalog_set here; /* the set whose objects are being listed */
	bool any;                /* there is one */
	struct catalog_set *sets;
	size_t count, max;
	bool more; /* than max */
	struct catalog_set after;
	bool has_after;
};

static uint64_t rank_of(const struct catalog_query *q, const struct catalog_set *s)
{
	return q->by_size ? s->size : (uint64_t)s->time;
}

/* Below 0: a comes first. Every set has its own place. */
static int order(const struct catalog_query *q, const struct catalog_set *a, const struct catalog_set *b)
{
	uint64_t x = rank_of(q, a), y = rank_of(q, b);
	if (x != y)
		return x > y ? -1 : 1;
	int by_id = memcmp(a->id.bytes, b->id.bytes, sizeof a->id.bytes);
	if (by_id || a->kind != b->kind)
		return by_id ? by_id : (a->kind < b->kind ? -1 : 1);
	return strcmp(a->name, b->name);
}

/* ---- cursors: RANK/FILEID/KIND/SET ---- */

static void print_cursor(char out[CATALOG_CURSOR], const struct catalog_query *q, const struct catalog_set *s)
{
	char hex[FILE_ID_HEX + 1];
	file_id_hex(hex, &s->id);
	snprintf(
	        out, CATALOG_CURSOR, "%" PRIu64 "/%s/%s/%s", rank_of(q, s), hex, symbfile_kind_names[s->kind], s->name);
}

static bool parse_folder(struct catalog_set *s, struct str *path)
{
	struct str id, kind, set;
	if (!layout_segment(path, &id) || !layout_segment(path, &kind) || !layout_segment(path, &set) ||
	        !hex_read(s->id.bytes, sizeof s->id.bytes, id) || !layout_parse_kind(kind, &s->kind) ||
	        !set_name_is_stored(set))
		return false;
	snprintf(s->name, sizeof s->name, "%.*s", STR_FMT(set));
	return true;
}

static bool parse_cursor(struct catalog *c, struct str text)
{
	struct str number;
	uint64_t rank;
	bool good = layout_segment(&text, &number) && str_number(number, INT64_MAX, &rank) &&
	            parse_folder(&c->after, &text) && !text.len;
	if (!good)
		return false;
	c->after.size = rank;
	c->after.time = (int64_t)rank;
	c->has_after = true;
	return true;
}

/* ---- listing ---- */

/* The set that was listed is complete: takes it, if it is among the best. */
static void take(struct catalog *c)
{
	const struct catalog_set *s = &c->here;
	if (!c->any || (c->has_after && order(c->q, &c->after, s) >= 0))
		return;
	size_t at = c->count;
	while (at > 0 && order(c->q, s, &c->sets[at - 1]) < 0)
		at--;
	c->more = c->more || c->count == c->max;
	if (at == c->max)
		return;
	c->count += c->count < c->max;
	memmove(&c->sets[at + 1], &c->sets[at], (c->count - at - 1) * sizeof *c->sets);
	c->sets[at] = *s;
}

static bool on_object(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct catalog *c = arg;
	struct catalog_set s = {.time = 0};
	struct set_object o;
	struct str folder = path, id;
	if (!layout_segment(&path, &id) || !set_object_parse(&o, path) || !parse_folder(&s, &folder))
		return true;
	bool same = c->any && memcmp(&s.id, &c->here.id, sizeof s.id) == 0 && s.kind == c->here.kind &&
	            strcmp(s.name, c->here.name) == 0;
	if (!same) {
		take(c);
		c->here = s;
		c->any = true;
	}
	c->here.forced = c->here.forced || o.forced;
	c->here.complete = c->here.complete || o.manifest;
	c->here.size += o.manifest ? 0 : size;
	c->here.time = time > c->here.time ? time : c->here.time;
	return true;
}

/* A set that is being removed has no manifest any more. */
static enum err read_manifest(struct manifest *m, struct catalog_set *s, struct store_client *c, struct error *e)
{
	json_t *names;
	*m = (struct manifest){.kind = s->kind, .set = s->name, .forced = s->forced};
	enum err err = manifest_get(m, &names, c, &s->id, NULL, e);
	s->complete = names;
	json_decref(names);
	return err;
}

static enum err pass_on(struct catalog *c, struct store_client *client, catalog_found *found, void *arg,
        char next[CATALOG_CURSOR], struct error *e)
{
	struct manifest m;
	unsigned passed = 0;
	enum err err = ERR_OK;
	for (size_t i = 0; i < c->count && !err; i++) {
		struct catalog_set *s = &c->sets[i];
		if (s->complete)
			err = read_manifest(&m, s, client, e);
		const char *uploader = c->q->uploader;
		bool wanted = !uploader || (s->complete && strcmp(m.uploader, uploader) == 0);
		if (!err && wanted && !found(arg, s, s->complete ? &m : NULL))
			err = no_memory(e);
		passed += wanted;
		if (passed == c->q->limit || i + 1 == c->count) {
			if (i + 1 < c->count || c->more)
				print_cursor(next, c->q, s);
			break;
		}
	}
	return err;
}

enum err symbfile_catalog(struct store_client *client, const struct catalog_query *q, catalog_found *found, void *arg,
        char next[CATALOG_CURSOR], struct error *e)
{
	struct catalog *c = calloc(1, sizeof *c);
	*next = 0;
	if (!c)
		return no_memory(e);
	c->q = q;
	c->max = q->uploader ? LOOKED_THROUGH : q->limit;
	c->sets = calloc(c->max, sizeof *c->sets);
	enum err err = c->sets ? ERR_OK : no_memory(e);
	if (!err && q->after && !parse_cursor(c, str_from(q->after)))
		err = error_set(e, ERR_BAD_REQUEST, "after is not the value of next from an earlier page");
	if (!err)
		err = store_list(client, STORE_FOLDER, on_object, c, NULL, e);
	if (!err) {
		take(c);
		err = pass_on(c, client, found, arg, next, e);
	}
	free(c->sets);
	free(c);
	return err;
}
