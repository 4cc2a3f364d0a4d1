/* SPDX-License-Identifier: Apache-2.0 */
/* memcached: bytes by key on several servers, with a consistent hash of ours and a breaker for each server. Keeps every
 * rule of docs/memcached.md. */
#ifndef STORE_MEMCACHED_H
#define STORE_MEMCACHED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/error.h"
#include "base/mac.h"

/* The servers and their breakers, shared by all threads. NULL with ERR_OK is never returned; with no server configured
 * mc_enabled is false and every call says MC_DOWN. */
struct mc_servers;
struct mc_servers *mc_servers_new(const struct config *c, struct error *e);
void mc_servers_free(struct mc_servers *s);
/* Whether mc_servers_new would make them. */
enum err mc_check(const struct config *c, struct error *e);
bool mc_enabled(const struct mc_servers *s);

/* One thread's handles. */
struct mc_client;
struct mc_client *mc_client_new(struct mc_servers *s);
void mc_client_free(struct mc_client *c);
/* What keys the values, by memcached_secret_file; NULL without one. The client's. */
struct mac *mc_mac(struct mc_client *c);

enum mc_status {
	MC_OK,
	MC_MISSING,   /* or lost: never authoritative */
	MC_EXISTS,    /* add: the key is there; cas: the value changed */
	MC_TOO_LARGE, /* above the server's item limit; the old value is gone */
	MC_DOWN,      /* no server, its breaker is open, a timeout or an error */
};

enum { MC_KEY_MAX = 64 };
/* Keys are of [A-Za-z0-9:_-]. route chooses the server: equal routes are together. */
struct mc_key {
	char text[MC_KEY_MAX + 1];
	uint8_t len;
	uint64_t route;
};

struct mc_get {
	struct mc_key key;
	enum mc_status status; /* out */
};

/* Gets all keys, in as few round trips as the servers allow (at most 200 keys a call to one server; all servers asked
 * before any is read). found is called for each value that came, with the index of its get, while the bytes are valid;
 * its key was compared. Keys may repeat. After the deadline (clock_now()) no further call is made: the rest is MC_DOWN.
 */
void mc_multiget(struct mc_client *c, struct mc_get *gets, size_t count, int64_t deadline,
        void (*found)(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas), void *arg);

/* expire: seconds, 0 = never, at most 30 days. */
enum mc_status mc_set(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire);
/* After a timeout the value is read back and compared, so that MC_OK means that it is ours. */
enum mc_status mc_add(struct mc_client *c, const struct mc_key *key, const void *value, size_t len, uint32_t expire);
/* Replaces the value if it still is `expected` (get with cas, compare, cas): renews or, with release, removes a lease
 * that is ours. */
enum mc_status mc_replace_if(struct mc_client *c, const struct mc_key *key, const void *expected, size_t expected_len,
        const void *value, size_t len, uint32_t expire, bool release);
enum mc_status mc_delete(struct mc_client *c, const struct mc_key *key); /* MC_MISSING when it was not there */
/* Whether the server of this route answered lately (its breaker is closed). */
bool mc_reachable(struct mc_client *c, uint64_t route);
/* Writes a small value to every server; ERR_UNAVAILABLE names the first that does not take it. */
enum err mc_probe(struct mc_client *c, struct error *e);

#endif
