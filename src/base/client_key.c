/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/client_key.h"

#include <arpa/inet.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* A multicast address, so that it is nobody's. */
static const struct client_key nobody = {UINT64_MAX, UINT64_MAX};
static const uint64_t mapped = UINT64_C(0xffff) << 32;

static uint64_t get_be64(const uint8_t *at)
{
	uint64_t v = 0;
	for (unsigned i = 0; i < 8; i++)
		v = v << 8 | at[i];
	return v;
}

static void put_be64(uint8_t *at, uint64_t v)
{
	for (unsigned i = 8; i--; v >>= 8)
		at[i] = (uint8_t)v;
}

/* The first n bits. */
static uint64_t mask(unsigned n)
{
	return n ? ~UINT64_C(0) << (64 - n) : 0;
}

static bool is_ipv4(struct client_key key)
{
	return !key.hi && key.lo >> 32 == mapped >> 32;
}

struct client_key client_key_of(const char *address, unsigned prefix)
{
	struct in_addr v4;
	struct in6_addr v6;
	if (address && inet_pton(AF_INET, address, &v4) == 1)
		return (struct client_key){0, mapped | ntohl(v4.s_addr)};
	if (!address || inet_pton(AF_INET6, address, &v6) != 1)
		return nobody;
	struct client_key key = {get_be64(v6.s6_addr), get_be64(v6.s6_addr + 8)};
	if (!is_ipv4(key)) {
		key.hi &= mask(prefix < 64 ? prefix : 64);
		key.lo &= mask(prefix < 64 ? 0 : prefix - 64);
	}
	return key;
}

uint64_t client_key_hash(struct client_key key, uint64_t seed)
{
	return XXH3_64bits_withSeed(&key, sizeof key, seed);
}

const char *client_key_text(char out[CLIENT_KEY_TEXT], struct client_key key, unsigned prefix)
{
	struct in_addr v4 = {.s_addr = htonl((uint32_t)key.lo)};
	struct in6_addr v6;
	if (client_key_equal(key, nobody))
		return strcpy(out, "unknown");
	if (is_ipv4(key))
		return inet_ntop(AF_INET, &v4, out, CLIENT_KEY_TEXT);
	put_be64(v6.s6_addr, key.hi);
	put_be64(v6.s6_addr + 8, key.lo);
	inet_ntop(AF_INET6, &v6, out, CLIENT_KEY_TEXT);
	if (prefix < 128)
		snprintf(out + strlen(out), CLIENT_KEY_TEXT - strlen(out), "/%u", prefix);
	return out;
}
