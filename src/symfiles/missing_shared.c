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
#include "base/hex.h"
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
	bool no_memory;
};

static void take_value(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas)
{
	struct reading *r = arg;
	uint64_t tag, right;
	struct error e;
	(void)cas;
	if (len < TAG || len > TAG + VALUE_MAX || r->values[index])
		return;
	memcpy(&tag, value, TAG);
	const struct str text = {(const char *)value + TAG, len - TAG};
	if (tag_of(r->c, r->gets[index].key.text, text.data, text.len, &right) && tag == right)
		r->no_memory = json_parse(&r->values[index], text, 0, &e) == ERR_NO_MEMORY || r->no_memory;
}

/* After a failure there is nothing in values. */
static enum err get(struct mc_client *c, struct mc_get *gets, json_t **values, size_t count, struct error *e)
{
	struct reading r = {.c = c, .values = values, .gets = gets};
	memset(values, 0, count * sizeof(json_t *));
	mc_multiget(c, gets, count, clock_now() + SECOND, take_value, &r);
	enum err err = r.no_memory ? no_memory(e) : ERR_OK;
	for (size_t i = 0; i < count && !err; i++)
		if (gets[i].status == MC_DOWN)
			err = error_set(e, ERR_UNAVAILABLE, "memcached does not answer; try again");
	for (size_t i = 0; i < count && err; i++) {
		json_decref(values[i]);
		values[i] = NULL;
	}
	return err;
}

/* The names of all processes' lists, this one's last. */
static enum err get_names(json_t **out, struct mc_client *c, struct error *e)
{
	struct mc_get g = {.key = key_of(names_key)};
	json_t *found, *names = NULL, *name;
	size_t i;
	enum err err = get(c, &g, &found, 1, e);
	bool ok = !err && (names = json_array());
	json_array_foreach(found, i, name)
	{
		const char *text = json_string_value(name);
		if (text && strlen(text) == strlen(own_name()) &&
		        strspn(text, "sym:ing0123456789abcdef") == strlen(text) && strcmp(text, own_name()) != 0 &&
		        json_array_size(found) - i < PROCESSES_MAX)
			ok = ok && json_array_append(names, name) == 0;
	}
	json_decref(found);
	ok = ok && json_array_append_new(names, json_string(own_name())) == 0;
	*out = names;
	if (ok)
		return ERR_OK;
	json_decref(names);
	*out = NULL;
	return err ? err : no_memory(e);
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
	const char *clients = json_string_value(json_object_get(j, "clients"));
	if (!clients || !hex_read_number(str_from(clients), &m->clients))
		m->clients = 1;
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

/* Those that most clients want first, of these most often; of these the latest. */
static int by_count(const void *a, const void *b)
{
	const struct missing_module *x = a, *y = b;
	unsigned of_x = missing_clients(x), of_y = missing_clients(y);
	if (of_x != of_y)
		return of_x < of_y ? 1 : -1;
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
		into->clients |= m[i].clients;
		into->first = m[i].first < into->first ? m[i].first : into->first;
		if (m[i].last > into->last) {
			into->last = m[i].last;
			memcpy(into->agent, m[i].agent, sizeof into->agent);
		}
	}
	qsort(m, n, sizeof *m, by_count);
	return n;
}

/* Which clients, for other processes; or how many. */
static json_t *clients_json(const struct missing_module *m, bool which)
{
	return which ? json_sprintf("%llx", (unsigned long long)m->clients) : json_integer(missing_clients(m));
}

/* NULL if out of memory: names and agents are texts (missing_note). */
static json_t *list_json(const struct missing_module *m, size_t count, bool which)
{
	json_t *list = json_array();
	bool ok = list;
	for (size_t i = 0; i < count && ok; i++)
		ok = json_array_append_new(
		             list, json_pack("{s:s, s:s, s:I, s:o, s:I, s:I, s:s}", "debug_file", m[i].name, "debug_id",
		                           m[i].id, "count", (json_int_t)m[i].count, "clients",
		                           clients_json(&m[i], which), "first", (json_int_t)m[i].first, "last",
		                           (json_int_t)m[i].last, "agent", m[i].agent)) == 0;
	if (ok)
		return list;
	json_decref(list);
	return NULL;
}

/* Nothing is written that lacks anything: what others have of this process is worth more. */
void missing_share(struct missing_list *l, struct mc_client *c, int64_t now)
{
	if (!c || !missing_has_news(l))
		return;
	struct error e;
	struct missing_module *m = calloc(MISSING_MAX, sizeof *m);
	size_t n = m ? missing_copy(l, m, MISSING_MAX, now - KEPT) : 0;
	if (m)
		qsort(m, n, sizeof *m, by_count);
	json_t *list = m ? list_json(m, n < SHARED_MAX ? n : SHARED_MAX, true) : NULL, *names = NULL;
	bool told = list && !get_names(&names, c, &e);
	if (told) {
		put(c, own_name(), list);
		put(c, names_key, names);
	} else {
		missing_not_told(l);
	}
	json_decref(list);
	json_decref(names);
	free(m);
}

/* Appends what other processes counted; m has room for it. */
static enum err add_others(struct mc_client *c, struct missing_module *m, size_t *n, int64_t now, struct error *e)
{
	struct mc_get gets[PROCESSES_MAX] = {{.status = MC_MISSING}};
	json_t *values[PROCESSES_MAX], *names, *one;
	enum err err = get_names(&names, c, e);
	size_t others = err ? 0 : json_array_size(names) - 1, i;
	for (i = 0; i < others; i++)
		gets[i].key = key_of(json_string_value(json_array_get(names, i)));
	if (!err)
		err = get(c, gets, values, others, e);
	for (size_t k = 0; k < others && !err; k++) {
		json_array_foreach(values[k], i, one)
		{
			if (i < SHARED_MAX && module_from(&m[*n], one) && m[*n].last >= now - KEPT)
				++*n;
		}
		json_decref(values[k]);
	}
	json_decref(names);
	return err;
}

enum err missing_json(
        char **text, struct missing_list *l, struct mc_client *c, size_t max, int64_t now, struct error *e)
{
	struct missing_module *m = calloc(MISSING_MAX + PROCESSES_MAX * SHARED_MAX, sizeof *m);
	*text = NULL;
	if (!m)
		return no_memory(e);
	size_t n = missing_copy(l, m, MISSING_MAX, now - KEPT);
	enum err err = c ? add_others(c, m, &n, now, e) : ERR_OK;
	if (!err) {
		n = merge(m, n);
		json_t *body = json_pack(
		        "{s:o, s:I}", "missing", list_json(m, n < max ? n : max, false), "modules", (json_int_t)n);
		*text = json_text(body, JSON_COMPACT);
		json_decref(body);
	}
	free(m);
	return err || *text ? err : no_memory(e);
}
