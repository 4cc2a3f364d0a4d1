/* SPDX-License-Identifier: Apache-2.0 */
/* memcached: bytes by key on several servers, with our own consistent hash and a breaker for each server. Follows every
 * rule at the head of memcached.c. */
#ifndef CACHE_MEMCACHED_H
#define CACHE_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/error.h"
#include "base/mac.h"

/* The servers and their breakers, shared by all threads. NULL only with an error; if no server is configured,
 * mc_enabled is false and every call returns MC_DOWN. */
struct mc_servers;
struct mc_servers *mc_servers_new(const struct config *c, struct error *e);
void mc_servers_free(struct mc_servers *s);
/* Checks that mc_servers_new would succeed. */
enum err mc_check(const struct config *c, struct error *e);
unsigned mc_servers_count(const struct mc_servers *s);
bool mc_enabled(const struct mc_servers *s);

/* One thread's handles and connections. */
struct mc_client;
struct mc_client *mc_client_new(struct mc_servers *s);
void mc_client_free(struct mc_client *c);
/* What authenticates the values, from memcached_secret_file; NULL without one. Owned by the client. */
struct mac *mc_mac(struct mc_client *c);

enum mc_status {
	MC_OK,
	MC_MISSING,   /* or lost: not proof that it was never there */
	MC_EXISTS,    /* add: the key is there; cas: the value changed */
	MC_TOO_LARGE, /* above the server's item limit; the old value is gone */
	MC_DOWN,      /* no server, an open breaker, a timeout or an error */
};

enum { MC_KEY_MAX = 64 };
/* Keys consist of [A-Za-z0-9:_-]. route chooses the server: keys with equal routes are on one server. */
struct mc_key {
	char text[MC_KEY_MAX + 1];
	uint8_t len;
	uint64_t route;
};

struct mc_get {
	struct mc_key key;
	enum mc_status status; /* out */
};

/* Gets all keys in as few round trips as the servers allow (at most 200 keys per call to a server; all servers are
 * asked before any answer is read). Calls found for each value that arrived, with the index of its get, while the bytes
 * are valid; its key was compared. Keys may repeat. No call begins after the deadline (clock_now()): the rest is
 * MC_DOWN. */
void mc_multiget(struct mc_client *c, struct mc_get *gets, size_t count, int64_t deadline,
        void (*found)(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas), void *arg);

/* expire: seconds, 0 = never, at most 30 days. */
enum { MC_SET_MAX = 32 };
struct mc_item {
	struct mc_key key;
	const void *value;
	size_t len;
	uint32_t expire;
	enum mc_status status; /* out */
};
/* Sets up to MC_SET_MAX values in one round trip to each server. */
void mc_set_many(struct mc_client *c, struct mc_item *items, size_t count);
enum mc_status mc_set(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire);
/* After a timeout the value is read back and compared, so MC_OK means that it is ours. */
enum mc_status mc_add(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire);
/* For leases: if the value is still this one, writes it again, or deletes the key. */
enum mc_status mc_renew(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire);
enum mc_status mc_release(struct mc_client *c, const struct mc_key *key, const void *value, size_t len);
enum mc_status mc_delete(struct mc_client *c, const struct mc_key *key); /* MC_MISSING if it was not there */
/* The number of this route's server; 0 if none is configured. */
unsigned mc_server(const struct mc_client *c, uint64_t route);
/* Whether the breaker of this route's server is closed. */
bool mc_reachable(struct mc_client *c, uint64_t route);
/* Writes a small value to the server of this number; the error names it if it refuses that. ERR_UNAVAILABLE. */
enum err mc_probe(struct mc_client *c, unsigned server, struct error *e);

#endif
