/* SPDX-License-Identifier: Apache-2.0 */
/* Two hosts that add their names to the value of all names at the same time may lose one; it is there again when that
 * host next writes its list. Values begin with the tag that the secret of memcached gives them. */
#include <config.h>

#include "symfiles/missing_shared.h"

#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json_text.h"
#include "base/process.h"

enum {
	KEPT = 7 * 24 * 3600,  /* seconds: modules that nobody asks for any more, and the lists of other processes */
	SHARED_MAX = 1000,     /* modules of one process */
	VALUE_MAX = 600 << 10, /* bytes of it; below the least item limit that makes sense */
	PROCESSES_MAX = 32,    /* the latest */
	TAG = 8,
};

static const char names_key[] = "sym:missing:names";

static struct mc_key key_of(const char *text)
{
	struct mc_key k = {.route = 1};
	k.len = (uint8_t)snprintf(k.text, sizeof k.text, "%s", text);
	return k;
}

/* ---- this process ---- */

static char own_key[32];

static void make_own_key(void)
{
	snprintf(own_key, sizeof own_key, "sym:missing:%016llx", (unsigned long long)random_u64());
}

static const char *own_name(void)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	pthread_once(&once, make_own_key);
	return own_key;
}

/* ---- values ---- */

static bool tag_of(struct mc_client *c, const char *key, const void *text, size_t len, uint64_t *tag)
{
	struct mac *mac = mc_mac(c);
	*tag = 0;
	return !mac || mac_tag(mac, key, strlen(key), text, len, tag);
}

static void put(struct mc_client *c, const char *key, const json_t *value)
{
	struct mc_key k = key_of(key);
	char *text = json_text(value, JSON_COMPACT);
	size_t len = text ? strlen(text) : 0;
	uint64_t tag;
	char *all = text && len <= VALUE_MAX ? malloc(TAG + len) : NULL;
	if (all && tag_of(c, key, text, len, &tag)) {
		memcpy(all, &tag, TAG);
		memcpy(all + TAG, text, len);
		mc_set(c, &k, all, TAG + len, KEPT);
	}
	free(all);
	free(text);
}

struct reading {
	struct mc_client *c;
	json_t **values; /* one for each get; NULL: it is not there, or not right */
	const struct mc_get *gets;
};

static void take_value(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas)
{
	struct reading *r = arg;
	uint64_t tag, right;
	(void)cas;
	if (len < TAG || len > TAG + VALUE_MAX || r->values[index])
		return;
	memcpy(&tag, value, TAG);
	if (tag_of(r->c, r->gets[index].key.text, value + TAG, len - TAG, &right) && tag == right)
		r->values[index] = json_loadb((const char *)value + TAG, len - TAG, 0, NULL);
}

static void get(struct mc_client *c, struct mc_get *gets, json_t **values, size_t count)
{
	struct reading r = {c, values, gets};
	memset(values, 0, count * sizeof(json_t *));
	mc_multiget(c, gets, count, clock_now() + SECOND, take_value, &r);
}

/* The names of all processes' lists, this one's last; NULL if out of memory. */
static json_t *get_names(struct mc_client *c)
{
	struct mc_get g = {.key = key_of(names_key)};
	json_t *found, *names = json_array(), *name;
	size_t i;
	get(c, &g, &found, 1);
	json_array_foreach(found, i, name)
	{
		const char *text = json_string_value(name);
		if (text && strlen(text) == strlen(own_name()) &&
		        strspn(text, "sym:ing0123456789abcdef") == strlen(text) && strcmp(text, own_name()) != 0 &&
		        json_array_size(found) - i < PROCESSES_MAX)
			json_array_append(names, name);
	}
	json_decref(found);
	json_array_append_new(names, json_string(own_name()));
	return names;
}

/* ---- modules ---- */

static bool take_text(char *to, size_t size, const json_t *from)
{
	const char *text = json_string_value(from);
	return text && (size_t)snprintf(to, size, "%s", text) < size;
}

static bool module_from(struct missing_module *m, const json_t *j)
{
	json_int_t count = json_integer_value(json_object_get(j, "count"));
	m->count = count > 0 ? (uint64_t)count : 0;
	m->first = json_integer_value(json_object_get(j, "first"));
	m->last = json_integer_value(json_object_get(j, "last"));
	return count > 0 && take_text(m->name, sizeof m->name, json_object_get(j, "debug_file")) &&
	       take_text(m->id, sizeof m->id, json_object_get(j, "debug_id")) &&
	       take_text(m->agent, sizeof m->agent, json_object_get(j, "agent"));
}

static int by_module(const void *a, const void *b)
{
	const struct missing_module *x = a, *y = b;
	int names = strcmp(x->name, y->name);
	return names ? names : strcmp(x->id, y->id);
}

/* Those wanted most first; of these the latest. */
static int by_count(const void *a, const void *b)
{
	const struct missing_module *x = a, *y = b;
	if (x->count != y->count)
		return x->count < y->count ? 1 : -1;
	return x->last != y->last ? (x->last < y->last ? 1 : -1) : by_module(a, b);
}

/* Makes one of several of the same module; returns how many are left. */
static size_t merge(struct missing_module *m, size_t count)
{
	size_t n = 0;
	qsort(m, count, sizeof *m, by_module);
	for (size_t i = 0; i < count; i++) {
		if (!n || by_module(&m[n - 1], &m[i]) != 0) {
			m[n++] = m[i];
			continue;
		}
		struct missing_module *into = &m[n - 1];
		into->count += m[i].count;
		into->first = m[i].first < into->first ? m[i].first : into->first;
		if (m[i].last > into->last) {
			into->last = m[i].last;
			memcpy(into->agent, m[i].agent, sizeof into->agent);
		}
	}
	qsort(m, n, sizeof *m, by_count);
	return n;
}

/* NULL if out of memory. */
static json_t *list_json(const struct missing_module *m, size_t count)
{
	json_t *list = json_array();
	for (; count-- > 0 && list; m++) {
		json_t *one = json_pack("{s:s, s:s, s:I, s:I, s:I, s:s}", "debug_file", m->name, "debug_id", m->id,
		        "count", (json_int_t)m->count, "first", (json_int_t)m->first, "last", (json_int_t)m->last,
		        "agent", m->agent);
		/* a name that is no text for JSON is no name of a file */
		if (one)
			json_array_append_new(list, one);
	}
	return list;
}

void missing_share(struct missing_list *l, struct mc_client *c, int64_t now)
{
	struct missing_module *m = c && missing_has_news(l) ? calloc(MISSING_MAX, sizeof *m) : NULL;
	if (!m)
		return;
	size_t n = missing_copy(l, m, MISSING_MAX, now - KEPT);
	qsort(m, n, sizeof *m, by_count);
	json_t *list = list_json(m, n < SHARED_MAX ? n : SHARED_MAX), *names = get_names(c);
	put(c, own_name(), list);
	put(c, names_key, names);
	json_decref(list);
	json_decref(names);
	free(m);
}

/* Appends what other processes counted; m has room for it. */
static size_t add_others(struct mc_client *c, struct missing_module *m, size_t n, int64_t now)
{
	struct mc_get gets[PROCESSES_MAX] = {{.status = MC_MISSING}};
	json_t *values[PROCESSES_MAX], *names = get_names(c), *one;
	size_t others = json_array_size(names), i;
	others = others ? others - 1 : 0;
	for (i = 0; i < others; i++)
		gets[i].key = key_of(json_string_value(json_array_get(names, i)));
	get(c, gets, values, others);
	for (size_t k = 0; k < others; k++) {
		json_array_foreach(values[k], i, one)
		{
			if (i < SHARED_MAX && module_from(&m[n], one) && m[n].last >= now - KEPT)
				n++;
		}
		json_decref(values[k]);
	}
	json_decref(names);
	return n;
}

char *missing_json(struct missing_list *l, struct mc_client *c, size_t max, int64_t now)
{
	struct missing_module *m = calloc(MISSING_MAX + PROCESSES_MAX * SHARED_MAX, sizeof *m);
	if (!m)
		return NULL;
	size_t n = missing_copy(l, m, MISSING_MAX, now - KEPT);
	if (c)
		n = add_others(c, m, n, now);
	n = merge(m, n);
	json_t *list = list_json(m, n < max ? n : max),
	       *body = json_pack("{s:o, s:I}", "missing", list, "modules", (json_int_t)n);
	char *text = json_text(body, JSON_COMPACT);
	json_decref(body);
	free(m);
	return text;
}
