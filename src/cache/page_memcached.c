/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Keys: "s" format version, what ("r" root, "c" code page, "s" string page, "m" marker, "l" lease), ":" module hash in
 * base64url; pages add ":" generation in base64url ":" number in hex. Markers have a version of their own, which stays:
 * an invalidation reaches processes of every version, and those of an older one after a rollback. Root, marker and
 * lease of a module are on one server, its pages are spread over all.
 *
 * A server that was restarted or flushed has lost its markers, and nobody knows of which modules. So each server has a
 * random number, its epoch, under the key "s1e". Whoever finds none puts one. The marker of a module that has none is
 * the epoch of its server: with the epoch, all of these change.
 */
#include <config.h>

#include "cache/page_memcached.h"

#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/metrics.h"
#include "base/process.h"
#include "base/put.h"
#include "base/varint.h"
#include "map/value.h"

enum { MARKER_VERSION = 1 }; /* of its eight bytes; of an epoch, too */
enum { MARKER_SECONDS = 30 * 86400 - 60, PAGES_OUTLIVE = 3600, STORE_TRIES = 10, STORE_PAUSE_MS = 150 };

/* Up to the module. */
static uint8_t *put_module(struct mc_key *key, unsigned version, char what, const struct module_hash *hash)
{
	uint8_t *at = put_decimal(PUT((uint8_t *)key->text, "s"), version);
	at = PUT(put_text(at, &what, 1), ":");
	return at + base64url((char *)at, hash->bytes, sizeof hash->bytes);
}

static void end_key(struct mc_key *key, uint8_t *end)
{
	*end = 0;
	key->len = (uint8_t)(end - (uint8_t *)key->text);
}

static void module_key(struct mc_key *key, char what, const struct module_hash *hash)
{
	end_key(key, put_module(key, what == 'm' ? MARKER_VERSION : OFFMAP_VERSION, what, hash));
	key->route = get_u64(hash->bytes + 8);
}

static void page_key(
        struct mc_key *key, const struct module_hash *hash, uint64_t generation, uint8_t kind, uint32_t number)
{
	uint8_t bytes[8];
	put_u64(bytes, generation);
	uint8_t *at = PUT(put_module(key, OFFMAP_VERSION, kind == PAGE_CODE ? 'c' : 's', hash), ":");
	at += base64url((char *)at, bytes, sizeof bytes);
	end_key(key, put_hex(PUT(at, ":"), number));
	key->route = checksum(hash->bytes, sizeof hash->bytes, key->text, key->len);
}

/* ---- roots and markers ---- */

/* The keys that may be asked for each module; those not wanted are left out. */
enum { ASK_MARKER, ASK_ROOT, ASK_LEASE, ASK_KINDS };
struct roots {
	struct mac *mac;
	struct root_get *roots;
	size_t count;
	uint64_t epochs[CONFIG_LIST_MAX]; /* of servers that were asked; 0: it has none */
	/* for each get: ASK_KINDS times its index in roots, plus what it asks for; behind all these, ASK_KINDS times
	 * count, plus the server whose epoch it asks for */
	const size_t *index;
};

static void take_root(const struct roots *r, struct root_get *g, const uint8_t *value, size_t len)
{
	struct value_id id = {*g->hash, 0, 0, PAGE_ROOT};
	struct page *p = NULL;
	offmap_free(g->map);
	g->map = NULL;
	enum err err = value_decode(value, len, &id, r->mac, &p);
	if (!err)
		err = offmap_root_decode(p->bytes, p->len, &g->map);
	if (err == ERR_CORRUPT)
		metric_add(M_PAGES_INVALID, 1);
	page_unref(p);
}

static void found_root(void *arg, size_t at, const uint8_t *value, size_t len, uint64_t cas)
{
	struct roots *r = arg;
	size_t index = r->index[at], kind = index % ASK_KINDS;
	(void)cas;
	if (index >= ASK_KINDS * r->count) {
		r->epochs[index - ASK_KINDS * r->count] = len == 8 ? get_u64(value) : 0;
		return;
	}
	struct root_get *g = &r->roots[index / ASK_KINDS];
	if (kind == ASK_MARKER && len == 8)
		g->marker = get_u64(value);
	if (kind == ASK_LEASE)
		g->leased = true;
	if (kind == ASK_ROOT)
		take_root(r, g, value, len);
}

static struct mc_key epoch_key(uint64_t route)
{
	struct mc_key key = {.route = route};
	end_key(&key, PUT(put_decimal(PUT((uint8_t *)key.text, "s"), MARKER_VERSION), "e"));
	return key;
}

static void found_epoch(void *arg, size_t at, const uint8_t *value, size_t len, uint64_t cas)
{
	(void)at;
	(void)cas;
	*(uint64_t *)arg = len == 8 ? get_u64(value) : 0;
}

/* Its server has none: puts one, or reads what another process has just put. 0: the server does not answer. */
static uint64_t put_epoch(struct mc_client *c, const struct mc_key *key, int64_t deadline)
{
	uint8_t value[8];
	uint64_t epoch = random_u64();
	put_u64(value, epoch);
	enum mc_status status = clock_now() < deadline ? mc_add(c, key, value, sizeof value, 0) : MC_DOWN;
	if (status == MC_OK)
		return epoch;
	struct mc_get get = {.key = *key};
	epoch = 0;
	if (status == MC_EXISTS)
		mc_multiget(c, &get, 1, deadline, found_epoch, &epoch);
	return epoch;
}

/* What is asked for all of them, in `gets` and `index`; each server's epoch once, behind its markers: a marker that is
 * lost between is lost with the epoch. */
static size_t ask_roots(
        struct mc_client *c, const struct root_get *roots, size_t count, struct mc_get *gets, size_t *index)
{
	static const char letters[ASK_KINDS] = {'m', 'r', 'l'};
	uint64_t routes[CONFIG_LIST_MAX];
	bool asked[CONFIG_LIST_MAX] = {false};
	size_t n = 0;
	for (size_t i = 0; i < ASK_KINDS * count; i++) {
		const struct root_get *g = &roots[i / ASK_KINDS];
		size_t kind = i % ASK_KINDS;
		if ((kind == ASK_ROOT && !g->want_root) || (kind == ASK_LEASE && !g->want_lease))
			continue;
		module_key(&gets[n].key, letters[kind], g->hash);
		unsigned server = mc_server(c, gets[n].key.route);
		routes[server] = gets[n].key.route;
		asked[server] = true;
		index[n++] = i;
	}
	for (unsigned server = 0; server < CONFIG_LIST_MAX; server++)
		if (asked[server]) {
			gets[n].key = epoch_key(routes[server]);
			index[n++] = ASK_KINDS * count + server;
		}
	return n;
}

/* After the answers: which were reached, and the markers of those that have none. */
static void settle_markers(struct mc_client *c, struct roots *r, const struct mc_get *gets, size_t n, int64_t deadline)
{
	for (size_t i = 0; i < n; i++)
		if (r->index[i] >= ASK_KINDS * r->count && gets[i].status != MC_DOWN) {
			uint64_t *epoch = &r->epochs[r->index[i] - ASK_KINDS * r->count];
			*epoch = *epoch ? *epoch : put_epoch(c, &gets[i].key, deadline);
		}
	for (size_t i = 0; i < n; i++)
		if (r->index[i] < ASK_KINDS * r->count && r->index[i] % ASK_KINDS == ASK_MARKER) {
			struct root_get *g = &r->roots[r->index[i] / ASK_KINDS];
			g->is_epoch = !g->marker;
			if (g->is_epoch)
				g->marker = r->epochs[mc_server(c, gets[i].key.route)];
			g->reached = gets[i].status != MC_DOWN && g->marker;
		}
}

/* A root is stored with its marker and its origin in one number: whoever has other sources does not believe it. */
static uint64_t stored_marker(uint64_t marker, uint64_t origin)
{
	return marker ^ origin;
}

/* Whether the root is one to use: not if it was stored by a load that began before the module was invalidated. */
static bool is_believed(struct root_get *g)
{
	static const uint64_t none[] = {0};
	const uint64_t *origins = g->origin_count ? g->origins : none;
	const unsigned count = g->origin_count ? g->origin_count : 1;
	for (unsigned i = 0; i < count && g->reached; i++)
		if (g->map->marker == stored_marker(g->marker, origins[i])) {
			g->map->marker = g->marker;
			g->map->origin = origins[i];
			return true;
		}
	return false;
}

void page_memcached_roots(struct mc_client *c, struct root_get *roots, size_t count, int64_t deadline)
{
	size_t most = ASK_KINDS * count + CONFIG_LIST_MAX, *index = calloc(most, sizeof *index);
	struct mc_get *gets = calloc(most, sizeof *gets);
	struct roots r = {.mac = mc_mac(c), .roots = roots, .count = count, .index = index};
	for (size_t i = 0; i < count; i++) {
		roots[i].reached = roots[i].leased = roots[i].is_epoch = false;
		roots[i].marker = 0;
		roots[i].map = NULL;
	}
	if (!gets || !index)
		goto out;
	size_t n = ask_roots(c, roots, count, gets, index);
	mc_multiget(c, gets, n, deadline, found_root, &r);
	settle_markers(c, &r, gets, n, deadline);
	for (size_t i = 0; i < count; i++)
		if (roots[i].map && !is_believed(&roots[i])) {
			offmap_free(roots[i].map);
			roots[i].map = NULL;
		}
out:
	free(gets);
	free(index);
}

/* ---- pages ---- */

/* The gets of one call, and their results. */
struct pages {
	struct mac *mac;
	struct page_get **pages;
	uint64_t most, bytes; /* of pages that may yet be taken; received */
	bool more;            /* than may be taken */
};

static void found_page(void *arg, size_t at, const uint8_t *value, size_t len, uint64_t cas)
{
	struct pages *p = arg;
	struct page_get *g = p->pages[at];
	struct value_id id = {g->module->hash, g->module->map->generation, g->number, g->kind};
	(void)cas;
	p->bytes += len;
	if (g->page || p->more)
		return;
	enum err err = value_decode(value, len, &id, p->mac, &g->page);
	if (!err && !offmap_is_page(g->module->map, g->page, g->number)) {
		page_unref(g->page);
		g->page = NULL;
		err = ERR_CORRUPT;
	}
	if (err == ERR_CORRUPT)
		metric_add(M_PAGES_INVALID, 1);
	if (err)
		return;
	if ((p->more = g->page->len > p->most)) {
		page_unref(g->page);
		g->page = NULL;
		return;
	}
	p->most -= g->page->len;
}

bool page_memcached_pages(
        struct mc_client *c, struct page_get **pages, size_t count, uint64_t most, int64_t deadline, uint64_t *bytes)
{
	struct pages all = {mc_mac(c), pages, most, 0, false};
	struct mc_get *gets = calloc(count + 1, sizeof *gets);
	for (size_t i = 0; i < count; i++) {
		struct page_get *g = pages[i];
		g->page = NULL;
		if (gets)
			page_key(&gets[i].key, &g->module->hash, g->module->map->generation, g->kind, g->number);
	}
	if (gets)
		mc_multiget(c, gets, count, deadline, found_page, &all);
	*bytes = all.bytes;
	free(gets);
	return !all.more;
}

/* ---- markers and leases ---- */

enum mc_status page_memcached_invalidate(struct mc_client *c, const struct module_hash *hash)
{
	struct mc_key marker, root, lease;
	uint8_t value[8];
	module_key(&marker, 'm', hash);
	module_key(&root, 'r', hash);
	module_key(&lease, 'l', hash);
	put_u64(value, random_u64());
	enum mc_status status = mc_set(c, &marker, value, sizeof value, MARKER_SECONDS);
	if (status != MC_OK)
		return MC_DOWN;
	/* If the root cannot be deleted, it still has the old marker, so nobody believes it. */
	mc_delete(c, &root);
	/* a new load must not wait for one that still loads or stores the old file */
	mc_delete(c, &lease);
	return MC_OK;
}

struct lease {
	struct mc_key key;
	uint8_t value[8];
};

static struct lease lease_of(const struct module_hash *hash, uint64_t token)
{
	struct lease l;
	module_key(&l.key, 'l', hash);
	put_u64(l.value, token);
	return l;
}

enum mc_status page_memcached_lease(struct mc_client *c, const struct module_hash *hash, uint64_t token)
{
	const struct lease l = lease_of(hash, token);
	return mc_add(c, &l.key, l.value, sizeof l.value, LEASE_SECONDS);
}

enum mc_status page_memcached_lease_renew(
        struct mc_client *c, const struct module_hash *hash, uint64_t token, uint64_t marker)
{
	const struct lease l = lease_of(hash, token);
	enum mc_status status = mc_renew(c, &l.key, l.value, sizeof l.value, LEASE_SECONDS);
	if (status != MC_MISSING)
		return status;
	status = page_memcached_lease(c, hash, token);
	if (status != MC_OK)
		return status;
	/* An invalidation deletes the lease, after it has put its marker. */
	struct root_get g = {.hash = hash};
	page_memcached_roots(c, &g, 1, INT64_MAX);
	if (g.reached && g.marker == marker)
		return MC_OK;
	page_memcached_lease_release(c, hash, token);
	return g.reached ? MC_MISSING : MC_DOWN;
}

void page_memcached_lease_release(struct mc_client *c, const struct module_hash *hash, uint64_t token)
{
	const struct lease l = lease_of(hash, token);
	if (mc_release(c, &l.key, l.value, sizeof l.value) == MC_EXISTS) /* it may have been renewed meanwhile */
		mc_release(c, &l.key, l.value, sizeof l.value);
}

/* ---- storing ---- */

enum { BATCH_BYTES = 256 << 10 }; /* of values that are sent together */

struct page_store {
	struct mc_client *client;
	struct module *module;
	const struct store_options *options;
	bool (*go_on)(void *arg);
	void *arg;
	uint64_t total; /* bytes that were stored */
	/* the values that are to be sent together */
	struct mc_item items[MC_SET_MAX];
	struct buffer values[MC_SET_MAX];
	unsigned count;
	size_t bytes;
};

struct page_store *page_store_new(
        struct mc_client *c, struct module *m, const struct store_options *options, bool (*go_on)(void *arg), void *arg)
{
	struct page_store *s = calloc(1, sizeof *s);
	if (!s)
		return NULL;
	*s = (struct page_store){.client = c, .module = m, .options = options, .go_on = go_on, .arg = arg};
	for (unsigned i = 0; i < MC_SET_MAX; i++)
		buffer_init(&s->values[i], SIZE_MAX);
	return s;
}

uint64_t page_store_free(struct page_store *s)
{
	uint64_t total = s ? s->total : 0;
	for (unsigned i = 0; s && i < MC_SET_MAX; i++)
		buffer_release(&s->values[i]);
	free(s);
	return total;
}

/* Counts what was stored; what the server did not take stays. MC_DOWN: there is some of that. */
static enum mc_status note_stored(struct page_store *s)
{
	unsigned left = 0;
	enum mc_status status = MC_OK;
	for (unsigned i = 0; i < s->count; i++) {
		if (s->items[i].status == MC_OK) {
			s->total += s->items[i].len;
			metric_add(M_PAGES_STORED, 1);
			continue;
		}
		if (status != MC_TOO_LARGE)
			status = s->items[i].status;
		s->items[left++] = s->items[i];
	}
	s->count = left;
	return status;
}

enum mc_status page_store_flush(struct page_store *s)
{
	mc_set_many(s->client, s->items, s->count);
	enum mc_status status = note_stored(s);
	/* one slow answer from a busy server should not cost the whole map */
	for (unsigned i = 0; i < STORE_TRIES && status == MC_DOWN && s->go_on && s->go_on(s->arg); i++) {
		nanosleep(&(struct timespec){0, STORE_PAUSE_MS * MS}, NULL);
		mc_set_many(s->client, s->items, s->count);
		status = note_stored(s);
	}
	s->count = 0;
	s->bytes = 0;
	return status;
}

static enum mc_status add_value(struct page_store *s, const struct mc_key *key, const struct value_id *id,
        const struct page *p, uint32_t expire)
{
	struct buffer *value = &s->values[s->count];
	if (value_encode(value, id, p, s->options->codec, mc_mac(s->client)))
		return MC_DOWN;
	/* memcached counts key, value and some 60 bytes of its own against its limit */
	if (value->len + key->len + 64 > s->options->item_max)
		return MC_TOO_LARGE;
	s->items[s->count++] = (struct mc_item){*key, value->data, value->len, expire, MC_DOWN};
	s->bytes += value->len;
	return s->count == MC_SET_MAX || s->bytes >= BATCH_BYTES ? page_store_flush(s) : MC_OK;
}

enum mc_status page_store_page(struct page_store *s, uint32_t number, const struct page *p)
{
	struct mc_key key;
	struct value_id id = {s->module->hash, s->module->map->generation, number, p->kind};
	page_key(&key, &id.module, id.generation, id.kind, id.number);
	return add_value(s, &key, &id, p, s->options->expire ? s->options->expire + PAGES_OUTLIVE : 0);
}

enum mc_status page_store_root(struct page_store *s)
{
	struct mc_key key;
	const struct value_id id = {s->module->hash, 0, 0, PAGE_ROOT};
	pthread_mutex_lock(&s->module->lock); /* its counts may just be set */
	struct offmap map = *s->module->map;
	pthread_mutex_unlock(&s->module->lock);
	map.marker = stored_marker(map.marker, map.origin);
	struct page *root = offmap_root_encode(&map); /* to make room for it, modules may be locked and swept */
	if (!root)
		return MC_DOWN;
	module_key(&key, 'r', &s->module->hash);
	uint32_t expire = map.lacking ? s->options->expire_lacking : s->options->expire;
	enum mc_status status = add_value(s, &key, &id, root, expire);
	page_unref(root);
	return status == MC_OK ? page_store_flush(s) : status;
}

enum mc_status page_memcached_store(struct mc_client *c, struct module *m, const struct store_options *options,
        uint32_t number, const struct page *p)
{
	struct page_store *s = page_store_new(c, m, options, NULL, NULL);
	enum mc_status status = !s ? MC_DOWN : p ? page_store_page(s, number, p) : page_store_root(s);
	if (status == MC_OK)
		status = page_store_flush(s);
	page_store_free(s);
	return status;
}

bool page_memcached_reachable(struct mc_client *c, const struct module_hash *hash)
{
	struct mc_key key;
	module_key(&key, 'r', hash);
	return mc_reachable(c, key.route);
}
