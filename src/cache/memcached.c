/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules, found by trial with servers that were paused, killed and restarted. docs/memcached.md says what they mean for
 * operators.
 *
 * Connections
 *
 *  1. The ASCII protocol, over a connection for each thread and server (mc_connection.h): a value that is read is
 * matched to a key that was asked for, and each answer is read to its end. Many values are asked for, or sent, in one
 * round trip.
 *
 *  2. After anything unclean (an unexpected answer, a timeout) the connection is closed; a later call would read the
 *     answer to an earlier one.
 *
 * Servers
 *
 *  3. A key's route chooses the server on a ring of hashed points made of the servers' names: with one more server
 *     about 1/n of the routes move, all of them to it. A server that is gone keeps its routes: what it has is missing.
 *
 *  4. A call to a hung server waits for memcached_timeout. So each server has a breaker, shared by all threads: two
 *     calls in a row without an answer open it. Then one thread in a second may try; everybody else gets MC_DOWN at
 *     once.
 *
 *  5. A server that closed an idle connection, or was restarted, fails the first call over the old one: such a call is
 *     made once more. A timeout is not, since it has used its time.
 *
 * Meaning
 *
 *  6. MC_MISSING is never authoritative, and a write without an answer may have been applied: mc_add, mc_renew and
 *     mc_release read back.
 */
#include <config.h>

#include "cache/memcached.h"

#include <arpa/inet.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <openssl/crypto.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/permits.h"
#include "base/search.h"
#include "base/varint.h"
#include "cache/mc_connection.h"

enum {
	POINTS = 160,      /* points of each server on the ring */
	MGET_MAX = 200,    /* keys a call */
	FAILURES_OPEN = 2, /* in a row */
	CALL_WAITS = 10, /* a whole call for many keys may take this many times memcached_timeout, which bounds a single
	                    wait only */
	EXPIRE_MAX = 30 * 24 * 3600, /* memcached takes a larger number for a date */
	COMMAND_MAX = MC_KEY_MAX + 100,
};
#define AT_ONCE UINT32_MAX /* an item that expires so */
static const int64_t probe_interval = SECOND;

struct server {
	char *name;                /* as configured; owned */
	struct mc_address address; /* the same */
	/* the breaker */
	atomic_uint failures;    /* in a row */
	atomic_int reason;       /* errno of the last failure, if it tells an administrator something; else 0 */
	atomic_llong next_probe; /* while it is open: when somebody may try next; 0: closed */
};

struct point {
	uint64_t at;
	unsigned server;
};

struct mc_servers {
	unsigned count;
	long connect_ms, wait_ms;
	struct server items[CONFIG_LIST_MAX];
	struct point ring[CONFIG_LIST_MAX * POINTS];
	bool keyed;
	struct mac_key key; /* when keyed */
};

struct mc_client {
	struct mc_servers *servers; /* not owned */
	struct mac *mac;            /* NULL: not keyed */
	struct mc_connection connections[CONFIG_LIST_MAX];
	uint32_t *order;  /* indices of gets, by server; then the server of each get */
	size_t order_cap; /* capacity in gets */
};

/* ---- servers and their ring ---- */

/* No host names: they would be resolved inside calls, without a timeout. */
static bool parse_address(struct mc_address *a, const char *name)
{
	char host[CONFIG_HOST_SIZE];
	in_port_t port;
	struct sockaddr_un *path = (struct sockaddr_un *)&a->to;
	struct sockaddr_in *four = (struct sockaddr_in *)&a->to;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a->to;
	if (*name == '/' && strlen(name) < sizeof path->sun_path) {
		path->sun_family = AF_UNIX;
		strcpy(path->sun_path, name);
		a->len = sizeof *path;
		return true;
	}
	if (*name == '/' || !config_parse_address(host, &port, name))
		return false;
	if (*name == '[') {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(port);
		a->len = sizeof *six;
		return inet_pton(AF_INET6, host, &six->sin6_addr) == 1;
	}
	four->sin_family = AF_INET;
	four->sin_port = htons(port);
	a->len = sizeof *four;
	return inet_pton(AF_INET, host, &four->sin_addr) == 1;
}

static void ring_init(struct mc_servers *s)
{
	for (unsigned i = 0; i < s->count; i++)
		for (unsigned k = 0; k < POINTS; k++) {
			uint8_t number[4];
			put_u32(number, k);
			s->ring[i * POINTS + k].at =
			        checksum(s->items[i].name, strlen(s->items[i].name), number, sizeof number);
			s->ring[i * POINTS + k].server = i;
		}
	qsort(s->ring, s->count * POINTS, sizeof s->ring[0], search_order);
}

/* The server of the first point at or after the route's hash. There is at least one server. */
static unsigned server_of(const struct mc_servers *s, uint64_t route)
{
	uint8_t bytes[8];
	if (s->count == 1)
		return 0;
	put_u64(bytes, route);
	uint64_t at = checksum(bytes, sizeof bytes, NULL, 0);
	size_t i =
	        at ? search_up_to(s->ring, s->count * POINTS, sizeof *s->ring, offsetof(struct point, at), at - 1) : 0;
	return s->ring[i < s->count * POINTS ? i : 0].server;
}

static enum err add_server(struct mc_servers *s, const char *name, struct error *e)
{
	struct server *server = &s->items[s->count];
	for (unsigned i = 0; i < s->count; i++)
		if (strcmp(s->items[i].name, name) == 0)
			return error_set(e, ERR_CONFIG, "memcached: %.100s is named twice", name);
	if (!parse_address(&server->address, name))
		return error_set(e, ERR_CONFIG,
		        "memcached: %.100s is neither address:port (numbers, IPv6 in brackets) nor the path of a unix "
		        "socket",
		        name);
	if (!(server->name = strdup(name)))
		return no_memory(e);
	s->count++;
	return ERR_OK;
}

static long milliseconds(int64_t t)
{
	return t < MS ? 1 : (long)(t / MS);
}

struct mc_servers *mc_servers_new(const struct config *c, struct error *e)
{
	struct mc_servers *s = calloc(1, sizeof *s);
	if (!s) {
		no_memory(e);
		return NULL;
	}
	s->connect_ms = milliseconds(c->memcached_connect_timeout);
	s->wait_ms = milliseconds(c->memcached_timeout);
	for (unsigned i = 0; i < c->memcached.count; i++)
		if (add_server(s, c->memcached.items[i], e)) {
			mc_servers_free(s);
			return NULL;
		}
	s->keyed = c->memcached_secret_file && *c->memcached_secret_file;
	if (s->keyed && mac_key_load(&s->key, c->memcached_secret_file, e)) {
		mc_servers_free(s);
		return NULL;
	}
	ring_init(s);
	return s;
}

void mc_servers_free(struct mc_servers *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->count; i++) {
		metric_add(M_MEMCACHED_GONE, atomic_load(&s->items[i].next_probe) ? -1 : 0);
		free(s->items[i].name);
	}
	OPENSSL_cleanse(&s->key, sizeof s->key);
	free(s);
}

enum err mc_check(const struct config *c, struct error *e)
{
	struct mc_servers *s = mc_servers_new(c, e);
	mc_servers_free(s);
	return s ? ERR_OK : e->code;
}

unsigned mc_servers_count(const struct mc_servers *s)
{
	return s->count;
}

bool mc_enabled(const struct mc_servers *s)
{
	return s->count > 0;
}

/* ---- breakers ---- */

/* While the breaker is open, true for the one thread that may try. */
static bool breaker_allows(struct server *s)
{
	long long next = atomic_load(&s->next_probe), now = clock_now();
	return next == 0 ||
	       (now >= next && atomic_compare_exchange_strong(&s->next_probe, &next, now + probe_interval));
}

static void breaker_answered(struct server *s)
{
	atomic_store(&s->failures, 0);
	atomic_store(&s->reason, 0);
	if (atomic_load(&s->next_probe) == 0 || atomic_exchange(&s->next_probe, 0) == 0)
		return;
	metric_add(M_MEMCACHED_GONE, -1);
	log_event(LOG_LEVEL_INFO, "memcached back", "%s answers again", s->name);
}

/* "": we know only that it does not answer. */
static const char *reason_of(struct server *s, char *out, size_t size)
{
	int reason = atomic_load(&s->reason);
	out[0] = 0;
	if (reason == EUSERS)
		snprintf(out, size, ": too many connections, raise its -c (docs/operation.md)");
	else if (reason)
		snprintf(out, size, ": %s%s", strerror(reason),
		        reason == EACCES && *s->name == '/' ? " (docs/memcached.md says which group it takes)" : "");
	return out;
}

static void breaker_failed(struct server *s)
{
	char reason[160];
	long long closed = 0;
	metric_add(M_MEMCACHED_ERRORS, 1);
	if (atomic_fetch_add(&s->failures, 1) + 1 < FAILURES_OPEN)
		return;
	/* Many threads can fail at the same time: only one opens it. */
	if (!atomic_compare_exchange_strong(&s->next_probe, &closed, clock_now() + probe_interval))
		return;
	metric_add(M_MEMCACHED_BREAKER_OPEN, 1);
	metric_add(M_MEMCACHED_GONE, 1);
	log_event(LOG_LEVEL_WARNING, "memcached gone", "%s does not answer%s; it is asked again once a second", s->name,
	        reason_of(s, reason, sizeof reason));
}

/* Only errors about reaching the server tell an administrator something. */
static void note_reason(struct server *s, int error)
{
	static const int known[] = {EACCES, EPERM, ENOENT, ECONNREFUSED, EHOSTUNREACH, ENETUNREACH, EUSERS};
	int kept = 0;
	for (unsigned i = 0; i < sizeof known / sizeof known[0]; i++)
		if (error == known[i])
			kept = error;
	atomic_store(&s->reason, kept);
}

unsigned mc_server(const struct mc_client *c, uint64_t route)
{
	return c->servers->count ? server_of(c->servers, route) : 0;
}

bool mc_reachable(struct mc_client *c, uint64_t route)
{
	struct mc_servers *s = c->servers;
	return s->count > 0 && atomic_load(&s->items[server_of(s, route)].next_probe) == 0;
}

/* ---- clients ---- */

struct mc_client *mc_client_new(struct mc_servers *s)
{
	struct mc_client *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->servers = s;
	/* Never go on without it: we would trust values that are not ours. */
	if (!s->keyed || (c->mac = mac_new(&s->key)))
		return c;
	free(c);
	return NULL;
}

struct mac *mc_mac(struct mc_client *c)
{
	return c->mac;
}

void mc_client_free(struct mc_client *c)
{
	if (!c)
		return;
	for (unsigned i = 0; i < c->servers->count; i++)
		mc_connection_close(&c->connections[i]);
	mac_free(c->mac);
	free(c->order);
	free(c);
}

/* ---- calls ---- */

/* From now on for a whole call. */
static struct mc_connection *bound_waits(struct mc_client *c, unsigned server)
{
	c->connections[server].until = clock_now() + CALL_WAITS * MS * c->servers->wait_ms;
	return &c->connections[server];
}

static bool connection_open(struct mc_client *c, unsigned server)
{
	const struct mc_servers *s = c->servers;
	bool open = mc_connection_open(&c->connections[server], &s->items[server].address, s->connect_ms, s->wait_ms);
	bound_waits(c, server);
	return open;
}

/* A call over a connection has ended; answered: clearly. Whether it is to be made once more, over a new one. */
static bool call_ended(struct mc_client *c, unsigned server, bool answered)
{
	struct server *s = &c->servers->items[server];
	struct mc_connection *connection = &c->connections[server];
	bool again = !answered && connection->proven && connection->error != ETIMEDOUT;
	if (answered) {
		connection->proven = true;
		breaker_answered(s);
		return false;
	}
	mc_connection_close(connection);
	if (connection->error == EREMOTEIO) { /* an answer, though not a helpful one: the server is alive */
		metric_add(M_MEMCACHED_ERRORS, 1);
		breaker_answered(s);
		return false;
	}
	if (again)
		return true;
	note_reason(s, connection->error);
	breaker_failed(s);
	return false;
}

/* Fills c->order with indices by server; those of server i start at first[i]. The keys lie `size` bytes apart. False
 * if out of memory. */
static bool sort_by_server(
        struct mc_client *c, const void *first_key, size_t size, size_t count, size_t first[CONFIG_LIST_MAX + 1])
{
	size_t next[CONFIG_LIST_MAX + 1] = {0};
	if (count > c->order_cap) {
		uint32_t *bigger = realloc(c->order, 2 * count * sizeof *bigger);
		if (!bigger)
			return false;
		c->order = bigger;
		c->order_cap = count;
	}
	uint32_t *server = c->order + count;
	memset(first, 0, (CONFIG_LIST_MAX + 1) * sizeof *first);
	for (size_t i = 0; i < count; i++) {
		const struct mc_key *key = (const void *)((const char *)first_key + i * size);
		server[i] = server_of(c->servers, key->route);
		first[server[i] + 1]++;
	}
	for (unsigned s = 0; s < CONFIG_LIST_MAX; s++) {
		first[s + 1] += first[s];
		next[s] = first[s];
	}
	for (size_t i = 0; i < count; i++)
		c->order[next[server[i]]++] = (uint32_t)i;
	return true;
}

/* ---- writing ---- */

enum verb { SET = 1, ADD = 2, CAS = 4, DELETE = 8 };

/* What one server gets, from the first item that has no answer yet. */
struct writing {
	struct mc_client *client;
	enum verb verb;
	struct mc_item *items;
	const uint32_t *indices; /* into items */
	size_t count, answered;
	uint64_t cas; /* the number of the value to replace */
	bool sent;
	bool repeated; /* what was answered may be the second attempt */
};

/* "VERB KEY 0 EXPIRE LENGTH", the value, and an end of line. Expires at once: a time of -1. */
static void put_command(struct iovec parts[3], char command[COMMAND_MAX], const struct writing *w, size_t i)
{
	const struct mc_item *item = &w->items[w->indices[i]];
	const char *key = item->key.text;
	const long expire = item->expire == AT_ONCE ? -1 : item->expire < EXPIRE_MAX ? (long)item->expire : EXPIRE_MAX;
	int n;
	parts[1] = (struct iovec){(void *)(uintptr_t)item->value, item->len};
	parts[2] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
	if (w->verb == DELETE) {
		n = snprintf(command, COMMAND_MAX, "delete %s", key);
	} else if (w->verb == CAS) {
		n = snprintf(command, COMMAND_MAX, "cas %s 0 %ld %zu %llu\r\n", key, expire, item->len,
		        (unsigned long long)w->cas);
	} else {
		n = snprintf(command, COMMAND_MAX, "%s %s 0 %ld %zu\r\n", w->verb == ADD ? "add" : "set", key, expire,
		        item->len);
	}
	parts[0] = (struct iovec){command, (size_t)n};
}

/* False: the answer is of another form, or breaks off. */
static bool read_answer(struct mc_connection *c, enum verb verb, enum mc_status *status)
{
	static const struct {
		const char *line;
		unsigned verbs; /* which it answers */
		enum mc_status status;
	} answers[] = {
	        {"STORED", SET | ADD | CAS, MC_OK},
	        {"DELETED", DELETE, MC_OK},
	        {"NOT_STORED", ADD, MC_EXISTS},
	        {"EXISTS", CAS, MC_EXISTS},
	        {"NOT_FOUND", CAS | DELETE, MC_MISSING},
	        {"SERVER_ERROR object too large for cache", SET | ADD | CAS, MC_TOO_LARGE},
	        {"SERVER_ERROR out of memory storing object", SET | ADD | CAS, MC_DOWN},
	};
	struct str line;
	if (!mc_connection_line(c, &line))
		return false;
	for (unsigned i = 0; i < sizeof answers / sizeof answers[0]; i++)
		if ((answers[i].verbs & verb) && str_equal(line, str_from(answers[i].line))) {
			*status = answers[i].status;
			metric_add(M_MEMCACHED_ERRORS, *status == MC_DOWN);
			return true;
		}
	c->error = str_equal(str_first(line, 13), str_from("SERVER_ERROR ")) ? EREMOTEIO : EPROTO;
	return false;
}

static bool writing_send(struct writing *w, unsigned server)
{
	char commands[MC_SET_MAX][COMMAND_MAX];
	struct iovec parts[3 * MC_SET_MAX];
	size_t n = 0;
	if (!connection_open(w->client, server))
		return false;
	for (size_t i = w->answered; i < w->count; i++, n += 3)
		put_command(parts + n, commands[i], w, i);
	return mc_connection_send(&w->client->connections[server], parts, n);
}

static bool writing_read(struct writing *w, unsigned server)
{
	struct mc_connection *connection = bound_waits(w->client, server);
	for (; w->answered < w->count; w->answered++)
		if (!read_answer(connection, w->verb, &w->items[w->indices[w->answered]].status))
			return false;
	return true;
}

static void writing_begin(struct writing *w, unsigned server)
{
	if (w->count && !breaker_allows(&w->client->servers->items[server]))
		w->count = 0;
	w->sent = w->count && writing_send(w, server);
}

static void writing_finish(struct writing *w, unsigned server)
{
	if (!w->count)
		return;
	while (call_ended(w->client, server, w->sent && writing_read(w, server))) {
		w->repeated = true;
		w->sent = writing_send(w, server);
	}
}

/* Writes one item, whose status is set. */
static void write_one(struct writing *w, unsigned server)
{
	w->indices = &(const uint32_t){0};
	w->count = 1;
	permit_give();
	writing_begin(w, server);
	writing_finish(w, server);
}

void mc_set_many(struct mc_client *c, struct mc_item *items, size_t count)
{
	size_t first[CONFIG_LIST_MAX + 1];
	struct writing all[CONFIG_LIST_MAX];
	unsigned servers = c->servers->count;
	for (size_t i = 0; i < count; i++)
		items[i].status = MC_DOWN;
	if (!servers || !count || !sort_by_server(c, &items->key, sizeof *items, count, first))
		return;
	permit_give();
	for (unsigned s = 0; s < servers; s++) {
		all[s] = (struct writing){.client = c,
		        .verb = SET,
		        .items = items,
		        .indices = c->order + first[s],
		        .count = first[s + 1] - first[s]};
		writing_begin(&all[s], s);
	}
	for (unsigned s = 0; s < servers; s++)
		writing_finish(&all[s], s);
}

enum mc_status mc_set(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire)
{
	struct mc_item item = {*key, value, len, expire, MC_DOWN};
	mc_set_many(c, &item, 1);
	return item.status;
}

enum err mc_probe(struct mc_client *c, unsigned server, struct error *e)
{
	struct mc_item item = {{"symbolicated:probe", 18, 0}, "1", 1, 60, MC_DOWN};
	struct writing w = {.client = c, .verb = SET, .items = &item};
	char reason[160];
	struct server *s = &c->servers->items[server];
	write_one(&w, server);
	if (item.status == MC_OK)
		return ERR_OK;
	if (w.answered)
		return error_set(
		        e, ERR_UNAVAILABLE, "memcached %.80s answers, but stores nothing: its memory is full", s->name);
	return error_set(
	        e, ERR_UNAVAILABLE, "memcached %.80s does not answer%s", s->name, reason_of(s, reason, sizeof reason));
}

/* ---- reading ---- */

/* The keys that one call asks one server for. */
struct mc_batch {
	struct mc_get *gets;
	const uint32_t *indices; /* into gets; NULL: nothing */
	size_t count;
	void (*found)(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas);
	void *arg;
	bool sent;
};

/* Asks for what has not arrived yet. */
static bool batch_send(struct mc_client *c, unsigned server, const struct mc_batch *b)
{
	struct iovec parts[2 * MGET_MAX + 2];
	size_t n = 0;
	if (!connection_open(c, server))
		return false;
	parts[n++] = (struct iovec){(void *)(uintptr_t) "gets", 4};
	for (size_t i = 0; i < b->count; i++) {
		struct mc_get *get = &b->gets[b->indices[i]];
		if (get->status == MC_OK)
			continue;
		parts[n++] = (struct iovec){(void *)(uintptr_t) " ", 1};
		parts[n++] = (struct iovec){get->key.text, get->key.len};
	}
	parts[n++] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
	return n > 2 && mc_connection_send(&c->connections[server], parts, n);
}

/* The place in the batch, searching round from *at, of a key that is still awaited. A server answers in the order of
 * the question, so the first comparison nearly always hits. */
static bool batch_match(const struct mc_batch *b, const char *key, size_t len, size_t *at)
{
	for (size_t i = 0; i < b->count; i++) {
		size_t place = (*at + i) % b->count;
		const struct mc_get *get = &b->gets[b->indices[place]];
		if (get->status != MC_OK && get->key.len == len && memcmp(get->key.text, key, len) == 0) {
			*at = place;
			return true;
		}
	}
	return false;
}

/* The last word of *line as a number; *line is what comes before it. */
static bool take_number(struct str *line, uint64_t *number)
{
	size_t at = line->len;
	uint64_t v = 0, place = 1;
	while (at && line->data[at - 1] >= '0' && line->data[at - 1] <= '9' && line->len - at < 20) {
		v += place * (uint64_t)(line->data[--at] - '0');
		place *= 10;
	}
	if (at == line->len || !at || line->data[at - 1] != ' ')
		return false;
	line->len = at - 1;
	*number = v;
	return true;
}

/* "VALUE KEY FLAGS LENGTH CAS", the value, and so on, until "END". False: anything else came, or nothing. */
static bool batch_read(struct mc_client *c, unsigned server, struct mc_batch *b)
{
	struct mc_connection *connection = bound_waits(c, server);
	struct str line;
	size_t at = 0;
	while (mc_connection_line(connection, &line)) {
		uint64_t flags, len, cas;
		const uint8_t *value;
		if (str_equal(line, str_from("END")))
			return true;
		if (line.len < 6 || memcmp(line.data, "VALUE ", 6) != 0 || !take_number(&line, &cas) ||
		        !take_number(&line, &len) || !take_number(&line, &flags) || line.len < 6 ||
		        !batch_match(b, line.data + 6, line.len - 6, &at)) {
			connection->error = EPROTO;
			return false;
		}
		if (!mc_connection_bytes(connection, len, &value))
			return false;
		b->gets[b->indices[at]].status = MC_OK;
		b->found(b->arg, b->indices[at], value, len, cas);
		at = (at + 1) % b->count;
	}
	return false;
}

/* Reads the answers, asking again if the connection turns out to be dead. */
static void batch_finish(struct mc_client *c, unsigned server, struct mc_batch *b)
{
	bool whole = b->sent && batch_read(c, server, b);
	while (call_ended(c, server, whole))
		whole = batch_send(c, server, b) && batch_read(c, server, b);
	for (size_t i = 0; i < b->count && whole; i++)
		if (b->gets[b->indices[i]].status != MC_OK)
			b->gets[b->indices[i]].status = MC_MISSING;
}

void mc_multiget(struct mc_client *c, struct mc_get *gets, size_t count, int64_t deadline,
        void (*found)(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas), void *arg)
{
	size_t first[CONFIG_LIST_MAX + 1];
	unsigned servers = c->servers->count;
	for (size_t i = 0; i < count; i++)
		gets[i].status = MC_DOWN;
	if (servers == 0 || count > UINT32_MAX || !sort_by_server(c, &gets->key, sizeof *gets, count, first))
		return;
	permit_give();
	for (size_t done = 0; done < count && (!done || clock_now() < deadline); done += MGET_MAX) {
		struct mc_batch batches[CONFIG_LIST_MAX] = {0};
		/* All servers work while the first is read. */
		for (unsigned s = 0; s < servers; s++) {
			size_t left = first[s + 1] - first[s] > done ? first[s + 1] - first[s] - done : 0;
			if (left == 0 || !breaker_allows(&c->servers->items[s]))
				continue;
			batches[s] = (struct mc_batch){
			        gets, c->order + first[s] + done, left < MGET_MAX ? left : MGET_MAX, found, arg, false};
			batches[s].sent = batch_send(c, s, &batches[s]);
		}
		for (unsigned s = 0; s < servers; s++)
			if (batches[s].count > 0)
				batch_finish(c, s, &batches[s]);
	}
}

/* ---- what reads back ---- */

struct comparison {
	const struct mc_item *item; /* with the value that is expected */
	bool same;
	uint64_t cas;
};

static void compare(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas)
{
	struct comparison *to = arg;
	(void)index;
	to->same = len == to->item->len && (!len || memcmp(value, to->item->value, len) == 0);
	to->cas = cas;
}

/* MC_OK: the same value is there; MC_EXISTS: another one. */
static enum mc_status compare_value(struct mc_client *c, const struct mc_item *item, uint64_t *cas)
{
	struct comparison found = {item, false, 0};
	struct mc_get get = {.key = item->key};
	mc_multiget(c, &get, 1, INT64_MAX, compare, &found);
	*cas = found.cas;
	return get.status == MC_OK && !found.same ? MC_EXISTS : get.status;
}

/* Writes one item to the server of its route; *repeated: perhaps twice. */
static enum mc_status call(struct mc_client *c, enum verb verb, struct mc_item *item, uint64_t cas, bool *repeated)
{
	struct writing w = {.client = c, .verb = verb, .items = item, .cas = cas};
	item->status = MC_DOWN;
	if (c->servers->count)
		write_one(&w, server_of(c->servers, item->key.route));
	*repeated = w.repeated;
	return item->status;
}

enum mc_status mc_add(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire)
{
	struct mc_item item = {*key, value, len, expire, MC_DOWN};
	bool repeated;
	uint64_t cas;
	enum mc_status status = call(c, ADD, &item, 0, &repeated);
	/* If the call was repeated, the value that exists can be that of the first attempt. */
	if (status != MC_DOWN && !(status == MC_EXISTS && repeated))
		return status;
	status = compare_value(c, &item, &cas);
	return status == MC_MISSING ? MC_DOWN : status;
}

/* After a cas without a clear answer: did it succeed? was: the number of the value before. */
static enum mc_status replaced(struct mc_client *c, const struct mc_item *item, uint64_t was)
{
	const bool release = item->expire == AT_ONCE;
	uint64_t cas;
	enum mc_status status = compare_value(c, item, &cas);
	if (release && status == MC_MISSING)
		return MC_OK;
	if (status != MC_OK && status != MC_EXISTS)
		return status;
	/* The number changes with every write: if it is unchanged, nothing was written. */
	if (cas == was)
		return MC_DOWN;
	return release ? MC_EXISTS : status;
}

/* Gets with cas, compares, and writes with cas. To expire at once makes it a conditional delete. */
static enum mc_status replace(struct mc_client *c, struct mc_item *item)
{
	bool repeated;
	uint64_t cas;
	enum mc_status status = compare_value(c, item, &cas);
	if (status != MC_OK)
		return status;
	status = call(c, CAS, item, cas, &repeated);
	return status == MC_DOWN || (status != MC_OK && repeated) ? replaced(c, item, cas) : status;
}

enum mc_status mc_renew(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire)
{
	return replace(c, &(struct mc_item){*key, value, len, expire, MC_DOWN});
}

enum mc_status mc_release(struct mc_client *c, const struct mc_key *key, const void *value, size_t len)
{
	return replace(c, &(struct mc_item){*key, value, len, AT_ONCE, MC_DOWN});
}

enum mc_status mc_delete(struct mc_client *c, const struct mc_key *key)
{
	bool repeated;
	return call(c, DELETE, &(struct mc_item){.key = *key}, 0, &repeated);
}
