/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Rules. libmemcached can return the value of another key, or abort the process, when it is used in other ways than
 * these; they were found by trial with servers that were paused, killed and restarted. docs/memcached.md says what this
 * means for operators.
 *
 * Library
 *
 *  1. add, cas and delete are the library's: ASCII protocol, VERIFY_KEY, keys of [A-Za-z0-9:_-] up to MC_KEY_MAX bytes.
 *     Never NOREPLY, BUFFER_REQUESTS, NO_BLOCK, replicas, UDP or ejection of servers; never memcached_get, which does
 *     not compare the key.
 *
 *  2. A handle has one server, so that the library never chooses one and a hung one cannot look like a miss; and one
 *     thread at a time, which takes it for a call.
 *
 *  3. Values are read and set over a connection of our own beside it (mc_connection.h): the library reads in pieces of
 *     8 KB, and writes one value a round trip. Each key that comes is matched to one that was asked for, and each
 *     answer is read to its end.
 *
 *  4. After anything unclean (an unexpected code or answer, a timeout, a fetch that was left early) the handle or the
 *     connection is thrown away; a later call would read the answer to an earlier one. A new handle has no memory of
 *     failures, so the library's own RETRY_TIMEOUT never holds a server back that has returned.
 *
 * Servers
 *
 *  5. A key's route chooses the server on a ring of hashed points made of the servers' names: with one more server
 *     about 1/n of the routes move, all of them to it.
 *
 *  6. The library waits memcached_timeout in every call to a hung server, for ever. So each server has a breaker,
 *     shared by all threads: two calls in a row without an answer open it. Then one thread in a second may try;
 *     everybody else gets MC_DOWN at once.
 *
 *  7. A server that closed an idle connection, or was restarted, fails the first call over the old one: such a call is
 *     made once more. A timeout is not, since it has used its time.
 *
 * Meaning
 *
 *  8. MC_MISSING is never authoritative, and a write without an answer may have been applied: mc_add, mc_renew and
 *     mc_release read back.
 *
 * Memory
 *
 *  9. The library ends the process when it cannot allocate one of its errors. So each handle has some memory to spare
 *     for these.
 */
#include <config.h>

#include "cache/memcached.h"

#include <arpa/inet.h>
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>

#include <libmemcached/memcached.h>
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
	HANDLES = 8,                 /* of a server at most; threads share them */
	SPARE_BLOCKS = 8,            /* of a handle; no call makes more errors than this */
	COMMAND_MAX = MC_KEY_MAX + 100,
	SPARE_SIZE = 2560, /* one of the library's errors, with its text of 2 KiB */
};
static const int64_t probe_interval = SECOND;

/* A handle of the library's, and its connection to one server; one thread has it at a time. */
struct handle {
	memcached_st *st;    /* NULL: not open */
	struct spare *spare; /* owned; there with st */
	bool proven;         /* a call over this connection has succeeded */
};

struct server {
	char *name;                  /* as configured; owned */
	char host[CONFIG_HOST_SIZE]; /* empty: name is the path of a unix socket */
	in_port_t port;
	struct mc_address address; /* the same */
	/* the breaker */
	atomic_uint failures;    /* in a row */
	atomic_int reason;       /* errno of the last failure, if it tells an administrator something; else 0 */
	atomic_llong next_probe; /* while it is open: when somebody may try next; 0: closed */
	/* handles */
	pthread_mutex_t lock;   /* guards what follows */
	pthread_cond_t given;   /* back by a thread */
	unsigned used, waiting; /* handles that threads have; threads that wait for one */
	unsigned idle_count;
	struct handle idle[HANDLES];
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

/* The memory that the library gets when there is no other and it asks for little. */
struct spare {
	bool taken[SPARE_BLOCKS];
	_Alignas(16) uint8_t blocks[SPARE_BLOCKS][SPARE_SIZE];
};

struct mc_client {
	struct mc_servers *servers; /* not owned */
	struct mac *mac;            /* NULL: not keyed */
	struct mc_connection connections[CONFIG_LIST_MAX];
	uint32_t *order;  /* indices of gets, by server; then the server of each get */
	size_t order_cap; /* capacity in gets */
	bool repeated;    /* the last call was repeated */
};

/* ---- servers and their ring ---- */

/* No host names: they would be resolved inside calls, without a timeout. */
static bool parse_address(struct server *s, const char *name)
{
	struct mc_address *a = &s->address;
	struct sockaddr_un *path = (struct sockaddr_un *)&a->to;
	struct sockaddr_in *four = (struct sockaddr_in *)&a->to;
	struct sockaddr_in6 *six = (struct sockaddr_in6 *)&a->to;
	if (*name == '/' && strlen(name) < sizeof path->sun_path) {
		path->sun_family = AF_UNIX;
		strcpy(path->sun_path, name);
		a->len = sizeof *path;
		return true;
	}
	if (*name == '/' || !config_parse_address(s->host, &s->port, name))
		return false;
	if (*name == '[') {
		six->sin6_family = AF_INET6;
		six->sin6_port = htons(s->port);
		a->len = sizeof *six;
		return inet_pton(AF_INET6, s->host, &six->sin6_addr) == 1;
	}
	four->sin_family = AF_INET;
	four->sin_port = htons(s->port);
	a->len = sizeof *four;
	return inet_pton(AF_INET, s->host, &four->sin_addr) == 1;
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
	if (!parse_address(server, name))
		return error_set(e, ERR_CONFIG,
		        "memcached: %.100s is neither address:port (numbers, IPv6 in brackets) nor the path of a unix "
		        "socket",
		        name);
	if (!(server->name = strdup(name)))
		return no_memory(e);
	pthread_mutex_init(&server->lock, NULL);
	clock_condition_init(&server->given);
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

static void release_server(struct server *s);

void mc_servers_free(struct mc_servers *s)
{
	if (!s)
		return;
	for (unsigned i = 0; i < s->count; i++)
		release_server(&s->items[i]);
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
		        reason == EACCES && !*s->host ? " (docs/memcached.md says which group it takes)" : "");
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

/* ---- memory for the library ---- */

static void *spare_alloc(const memcached_st *st, size_t n, void *context)
{
	struct spare *s = context;
	void *p = malloc(n);
	(void)st;
	for (unsigned i = 0; !p && n <= SPARE_SIZE && i < SPARE_BLOCKS; i++)
		if (!s->taken[i]) {
			s->taken[i] = true;
			p = s->blocks[i];
		}
	return p;
}

static void spare_free(const memcached_st *st, void *p, void *context)
{
	struct spare *s = context;
	(void)st;
	for (unsigned i = 0; i < SPARE_BLOCKS; i++)
		if (p == s->blocks[i]) {
			s->taken[i] = false;
			return;
		}
	free(p);
}

static void *spare_calloc(const memcached_st *st, size_t count, size_t size, void *context)
{
	(void)st;
	(void)context;
	return calloc(count, size);
}

/* Never a spare block: errors do not grow. Growing anything else of a spare block fails, as it would without it. */
static void *spare_realloc(const memcached_st *st, void *p, size_t n, void *context)
{
	const struct spare *s = context;
	(void)st;
	for (unsigned i = 0; i < SPARE_BLOCKS; i++)
		if (p == s->blocks[i])
			return n <= SPARE_SIZE ? p : NULL;
	return realloc(p, n);
}

/* ---- handles ---- */

static void handle_drop(struct handle *h)
{
	if (!h->st)
		return;
	memcached_free(h->st);
	free(h->spare);
	h->st = NULL;
	h->spare = NULL;
	h->proven = false;
}

static bool set_behaviors(memcached_st *st, const struct mc_servers *s)
{
	const struct {
		memcached_behavior_t behavior;
		uint64_t value;
	} table[] = {
	        {MEMCACHED_BEHAVIOR_VERIFY_KEY, 1},
	        {MEMCACHED_BEHAVIOR_SUPPORT_CAS, 1},
	        {MEMCACHED_BEHAVIOR_TCP_NODELAY, 1},
	        {MEMCACHED_BEHAVIOR_TCP_KEEPALIVE, 1},
	        {MEMCACHED_BEHAVIOR_CONNECT_TIMEOUT, (uint64_t)s->connect_ms},
	        {MEMCACHED_BEHAVIOR_POLL_TIMEOUT, (uint64_t)s->wait_ms},
	        {MEMCACHED_BEHAVIOR_RETRY_TIMEOUT, 1},
	};
	for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++)
		if (memcached_behavior_set(st, table[i].behavior, table[i].value) != MEMCACHED_SUCCESS)
			return false;
	return true;
}

static bool handle_open(struct handle *h, const struct mc_servers *s, const struct server *server)
{
	if (h->st)
		return true;
	struct spare *spare = calloc(1, sizeof *spare);
	memcached_st *st = spare ? memcached_create(NULL) : NULL;
	bool ok = st && memcached_set_memory_allocators(
	                        st, spare_alloc, spare_free, spare_realloc, spare_calloc, spare) == MEMCACHED_SUCCESS;
	ok = ok && set_behaviors(st, s);
	if (ok && *server->host)
		ok = memcached_server_add(st, server->host, server->port) == MEMCACHED_SUCCESS;
	else if (ok)
		ok = memcached_server_add_unix_socket(st, server->name) == MEMCACHED_SUCCESS;
	if (!ok) {
		memcached_free(st);
		free(spare);
		return false;
	}
	h->st = st;
	h->spare = spare;
	return true;
}

/* Threads call seldom, and for a moment: they share few connections. A handle that is not open, if none is idle. False:
 * others had all of them until `until`, or the breaker opened meanwhile. */
static bool handle_take(struct server *s, struct handle *h, int64_t until)
{
	bool waited = false, in_time = true;
	pthread_mutex_lock(&s->lock);
	s->waiting++;
	while (s->used == HANDLES && in_time) {
		waited = true;
		in_time = clock_wait(&s->given, &s->lock, until);
	}
	s->waiting--;
	bool taken = s->used < HANDLES && !(waited && atomic_load(&s->next_probe) != 0);
	if (taken) {
		s->used++;
		*h = s->idle_count ? s->idle[--s->idle_count] : (struct handle){0};
	} else if (s->waiting) {
		pthread_cond_signal(&s->given); /* it may have been meant for this thread */
	}
	pthread_mutex_unlock(&s->lock);
	return taken;
}

static void handle_give_back(struct server *s, struct handle *h)
{
	pthread_mutex_lock(&s->lock);
	s->used--;
	if (h->st)
		s->idle[s->idle_count++] = *h;
	if (s->waiting)
		pthread_cond_signal(&s->given);
	pthread_mutex_unlock(&s->lock);
}

static void release_server(struct server *s)
{
	if (atomic_load(&s->next_probe) != 0)
		metric_add(M_MEMCACHED_GONE, -1);
	while (s->idle_count)
		handle_drop(&s->idle[--s->idle_count]);
	pthread_cond_destroy(&s->given);
	pthread_mutex_destroy(&s->lock);
	free(s->name);
}

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

/* ---- add, cas and delete: calls of the library ---- */

enum call_kind { CALL_ADD, CALL_CAS, CALL_DELETE };

struct call {
	enum call_kind kind;
	const struct mc_key *key;
	const void *value;
	size_t len;
	time_t expire;
	uint64_t cas; /* the number of the value to replace */
};

static memcached_return_t call_once(memcached_st *st, const struct call *call)
{
	const char *key = call->key->text, *value = call->len > 0 ? call->value : "";
	const size_t key_len = call->key->len;
	if (call->kind == CALL_ADD)
		return memcached_add(st, key, key_len, value, call->len, call->expire, 0);
	if (call->kind == CALL_CAS)
		return memcached_cas(st, key, key_len, value, call->len, call->expire, 0, call->cas);
	return memcached_delete(st, key, key_len, 0);
}

/* MC_DOWN for every code that the call should not return. */
static enum mc_status call_status(enum call_kind kind, memcached_return_t code)
{
	if (code == MEMCACHED_SUCCESS)
		return MC_OK;
	if (kind != CALL_DELETE && code == MEMCACHED_E2BIG)
		return MC_TOO_LARGE;
	if ((kind == CALL_ADD && code == MEMCACHED_NOTSTORED) || (kind != CALL_DELETE && code == MEMCACHED_DATA_EXISTS))
		return MC_EXISTS;
	if (kind != CALL_ADD && code == MEMCACHED_NOTFOUND)
		return MC_MISSING;
	return MC_DOWN;
}

/* An answer, though not a helpful one: the server is alive. */
static void note_server_error(struct server *s)
{
	metric_add(M_MEMCACHED_ERRORS, 1);
	breaker_answered(s);
}

static enum mc_status call_with(struct mc_client *c, struct server *s, struct handle *h, const struct call *call)
{
	for (unsigned attempt = 0; attempt < 2 && handle_open(h, c->servers, s); attempt++) {
		bool proven = h->proven;
		c->repeated = attempt > 0;
		memcached_return_t code = call_once(h->st, call);
		enum mc_status status = call_status(call->kind, code);
		if (status != MC_DOWN) {
			h->proven = true;
			breaker_answered(s);
			return status;
		}
		/* while the library still knows it */
		note_reason(s, memcached_last_error_errno(h->st));
		handle_drop(h);
		if (code == MEMCACHED_SERVER_ERROR || code == MEMCACHED_SERVER_MEMORY_ALLOCATION_FAILURE) {
			note_server_error(s);
			return MC_DOWN;
		}
		if (!proven || code == MEMCACHED_TIMEOUT)
			break;
	}
	breaker_failed(s);
	return MC_DOWN;
}

static enum mc_status call_key(struct mc_client *c, const struct call *call)
{
	c->repeated = false;
	if (c->servers->count == 0)
		return MC_DOWN;
	struct server *s = &c->servers->items[server_of(c->servers, call->key->route)];
	if (!breaker_allows(s))
		return MC_DOWN;
	permit_give();
	struct handle h;
	if (!handle_take(s, &h, clock_now() + CALL_WAITS * MS * c->servers->wait_ms))
		return MC_DOWN;
	enum mc_status status = call_with(c, s, &h, call);
	handle_give_back(s, &h);
	return status;
}

static time_t expire_time(uint32_t seconds)
{
	return seconds < EXPIRE_MAX ? seconds : EXPIRE_MAX;
}

/* ---- values, many in one round trip, over our own connections ---- */

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
	if (connection->error == EREMOTEIO) {
		note_server_error(s);
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

/* "set KEY 0 EXPIRE LENGTH", the value, and an end of line. */
static void put_set(struct iovec parts[3], char command[COMMAND_MAX], const struct mc_item *item)
{
	int n = snprintf(command, COMMAND_MAX, "set %s 0 %ld %zu\r\n", item->key.text, (long)expire_time(item->expire),
	        item->len);
	parts[0] = (struct iovec){command, (size_t)n};
	parts[1] = (struct iovec){(void *)(uintptr_t)item->value, item->len};
	parts[2] = (struct iovec){(void *)(uintptr_t) "\r\n", 2};
}

/* MC_DOWN: the server has no memory for it. False: the answer is of another form, or breaks off. */
static bool read_answer(struct mc_connection *c, enum mc_status *status)
{
	struct str line;
	if (!mc_connection_line(c, &line))
		return false;
	if (str_equal(line, str_from("STORED"))) {
		*status = MC_OK;
		return true;
	}
	if (str_equal(line, str_from("SERVER_ERROR object too large for cache"))) {
		*status = MC_TOO_LARGE;
		return true;
	}
	if (str_equal(line, str_from("SERVER_ERROR out of memory storing object"))) {
		metric_add(M_MEMCACHED_ERRORS, 1);
		*status = MC_DOWN;
		return true;
	}
	c->error = str_equal(str_first(line, 13), str_from("SERVER_ERROR ")) ? EREMOTEIO : EPROTO;
	return false;
}

/* What one server gets of them, from the first that has no answer yet. */
struct writing {
	struct mc_client *client;
	struct mc_item *items;
	const uint32_t *indices; /* into items */
	size_t count, answered;
	bool sent;
};

static bool writing_send(struct writing *w, unsigned server)
{
	char commands[MC_SET_MAX][COMMAND_MAX];
	struct iovec parts[3 * MC_SET_MAX];
	size_t n = 0;
	if (!connection_open(w->client, server))
		return false;
	for (size_t i = w->answered; i < w->count; i++) {
		put_set(parts + n, commands[i], &w->items[w->indices[i]]);
		n += 3;
	}
	return mc_connection_send(&w->client->connections[server], parts, n);
}

static bool writing_read(struct writing *w, unsigned server)
{
	struct mc_connection *connection = bound_waits(w->client, server);
	for (; w->answered < w->count; w->answered++)
		if (!read_answer(connection, &w->items[w->indices[w->answered]].status))
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
	bool sent = w->sent;
	while (call_ended(w->client, server, sent && writing_read(w, server)))
		sent = writing_send(w, server);
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
		all[s] = (struct writing){c, items, c->order + first[s], first[s + 1] - first[s], 0, false};
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
	struct writing w = {c, &item, &(const uint32_t){0}, 1, 0, false};
	char reason[160];
	struct server *s = &c->servers->items[server];
	permit_give();
	writing_begin(&w, server);
	writing_finish(&w, server);
	if (item.status == MC_OK)
		return ERR_OK;
	if (w.answered)
		return error_set(
		        e, ERR_UNAVAILABLE, "memcached %.80s answers, but stores nothing: its memory is full", s->name);
	return error_set(
	        e, ERR_UNAVAILABLE, "memcached %.80s does not answer%s", s->name, reason_of(s, reason, sizeof reason));
}

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
	const struct call *call; /* with the value that is expected */
	bool same;
	uint64_t cas;
};

static void compare(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas)
{
	struct comparison *to = arg;
	(void)index;
	to->same = len == to->call->len && (!len || memcmp(value, to->call->value, len) == 0);
	to->cas = cas;
}

/* MC_OK: the same value is there; MC_EXISTS: another one. */
static enum mc_status compare_value(struct mc_client *c, const struct call *call, uint64_t *cas)
{
	struct comparison found = {call, false, 0};
	struct mc_get get = {.key = *call->key};
	mc_multiget(c, &get, 1, INT64_MAX, compare, &found);
	*cas = found.cas;
	return get.status == MC_OK && !found.same ? MC_EXISTS : get.status;
}

enum mc_status mc_add(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire)
{
	struct call call = {CALL_ADD, key, value, len, expire_time(expire), 0};
	uint64_t cas;
	enum mc_status status = call_key(c, &call);
	/* If the call was repeated, the value that exists can be that of the first attempt. */
	if (status != MC_DOWN && !(status == MC_EXISTS && c->repeated))
		return status;
	status = compare_value(c, &call, &cas);
	return status == MC_MISSING ? MC_DOWN : status;
}

/* After a cas without a clear answer: did it succeed? */
static enum mc_status replaced(struct mc_client *c, const struct call *call, bool release)
{
	uint64_t cas;
	enum mc_status status = compare_value(c, call, &cas);
	if (release && status == MC_MISSING)
		return MC_OK;
	if (status != MC_OK && status != MC_EXISTS)
		return status;
	/* The number changes with every write: if it is unchanged, nothing was written. */
	if (cas == call->cas)
		return MC_DOWN;
	return release ? MC_EXISTS : status;
}

/* Gets with cas, compares, and writes with cas. The time -1 means "at once", and makes it a conditional delete. */
static enum mc_status replace(struct mc_client *c, struct call *call)
{
	bool release = call->expire < 0;
	enum mc_status status = compare_value(c, call, &call->cas);
	if (status != MC_OK)
		return status;
	status = call_key(c, call);
	return status == MC_DOWN || (status != MC_OK && c->repeated) ? replaced(c, call, release) : status;
}

enum mc_status mc_renew(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire)
{
	return replace(c, &(struct call){CALL_CAS, key, value, len, expire_time(expire), 0});
}

enum mc_status mc_release(struct mc_client *c, const struct mc_key *key, const void *value, size_t len)
{
	return replace(c, &(struct call){CALL_CAS, key, value, len, -1, 0});
}

enum mc_status mc_delete(struct mc_client *c, const struct mc_key *key)
{
	return call_key(c, &(struct call){.kind = CALL_DELETE, .key = key});
}
