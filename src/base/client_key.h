/* SPDX-License-Identifier: Apache-2.0 */
/* Who a client is, for turns and shares: an IPv4 address, or the network of an IPv6 address. */
#ifndef BASE_CLIENT_KEY_H
#define BASE_CLIENT_KEY_H

#include <stdbool.h>
#include <stdint.h>

/* The 128 bits of the address; IPv4 as ::ffff:a.b.c.d. */
struct client_key {
	uint64_t hi, lo;
};

/* The client of an address as text; of IPv6 only the first `prefix` bits (at most 128) count. All that is no address
 * (NULL too) is one client. */
struct client_key client_key_of(const char *address, unsigned prefix);

static inline bool client_key_equal(struct client_key a, struct client_key b)
{
	return a.hi == b.hi && a.lo == b.lo;
}

/* Whether a client that holds `has` of the `used` of `most` that all share may have one more: the last quarter is for
 * clients that hold none, and while others wait nobody gets more than half. */
static inline bool client_may_have(uint64_t has, uint64_t used, uint64_t most, bool others_wait)
{
	if (!has || used >= most)
		return used < most;
	return used < most - most / 4 && (!others_wait || has < (most + 1) / 2);
}

/* For a hash table: the random seed keeps outsiders from choosing addresses that collide. */
uint64_t client_key_hash(struct client_key key, uint64_t seed);

/* "192.0.2.1", "2001:db8::/64", or "unknown" for what is no address. */
enum { CLIENT_KEY_TEXT = 56 };
const char *client_key_text(char out[CLIENT_KEY_TEXT], struct client_key key, unsigned prefix);

#endif
