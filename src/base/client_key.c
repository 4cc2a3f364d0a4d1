/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/client_key.h"

#include <arpa/inet.h>
#include <endian.h>
#include <stdio.h>
#include <string.h>
#include <xxhash.h>

/* A multicast address, so that it is nobody's. */
static const struct client_key nobody = {UINT64_MAX, UINT64_MAX};
static const uint64_t mapped = UINT64_C(0xffff) << 32;

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
	uint64_t v6[2];
	if (address && inet_pton(AF_INET, address, &v4) == 1)
		return (struct client_key){0, mapped | ntohl(v4.s_addr)};
	if (!address || inet_pton(AF_INET6, address, v6) != 1)
		return nobody;
	struct client_key key = {be64toh(v6[0]), be64toh(v6[1])};
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
	const uint64_t v6[] = {htobe64(key.hi), htobe64(key.lo)};
	if (client_key_equal(key, nobody))
		return strcpy(out, "unknown");
	if (is_ipv4(key))
		return inet_ntop(AF_INET, &v4, out, CLIENT_KEY_TEXT);
	inet_ntop(AF_INET6, v6, out, CLIENT_KEY_TEXT);
	if (prefix < 128)
		snprintf(out + strlen(out), CLIENT_KEY_TEXT - strlen(out), "/%u", prefix);
	return out;
}
