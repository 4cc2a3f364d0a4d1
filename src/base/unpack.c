/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/unpack.h"

#include <stdlib.h>

#include "base/gzip.h"
#include "base/unzstd.h"

struct magic {
	enum packing packing;
	uint8_t len, first_mask;
	uint8_t bytes[PACKING_HEAD];
};

/* A zstd file may begin with a frame that decoders skip: pzstd writes one. */
static const struct magic magics[] = {
        {PACKING_GZIP, 2, 0xff, {0x1f, 0x8b}},
        {PACKING_ZSTD, 4, 0xff, {0x28, 0xb5, 0x2f, 0xfd}},
        {PACKING_ZSTD, 4, 0xf0, {0x50, 0x2a, 0x4d, 0x18}},
};

/* How many bytes of the magic are there. */
static size_t matching(const struct magic *m, const uint8_t *head, size_t len)
{
	size_t n = 0;
	while (n < len && n < m->len && (n == 0 ? head[0] & m->first_mask : head[n]) == m->bytes[n])
		n++;
	return n;
}

enum packing packing_of(const uint8_t *head, size_t len)
{
	enum packing packing = len ? PACKING_NONE : PACKING_UNKNOWN;
	for (unsigned i = 0; i < sizeof magics / sizeof magics[0]; i++) {
		size_t n = matching(&magics[i], head, len);
		if (n == magics[i].len)
			return magics[i].packing;
		if (n == len)
			packing = PACKING_UNKNOWN;
	}
	return packing;
}

bool packing_look(struct packing_head *h, const uint8_t **data, size_t *len)
{
	while (*len > 0 && h->packing == PACKING_UNKNOWN) {
		h->bytes[h->len++] = *(*data)++;
		--*len;
		h->packing = packing_of(h->bytes, h->len);
	}
	return h->packing != PACKING_UNKNOWN;
}

struct unpacker {
	enum packing packing;
	struct gunzip *gunzip;
	struct unzstd *unzstd;
};

struct unpacker *unpacker_new(void)
{
	return calloc(1, sizeof(struct unpacker));
}

void unpacker_free(struct unpacker *u)
{
	if (!u)
		return;
	gunzip_free(u->gunzip);
	unzstd_free(u->unzstd);
	free(u);
}

static bool start_gzip(struct unpacker *u)
{
	if (!u->gunzip)
		u->gunzip = gunzip_new();
	if (!u->gunzip)
		return false;
	gunzip_reset(u->gunzip);
	gunzip_ignore_trailing(u->gunzip);
	return true;
}

static bool start_zstd(struct unpacker *u)
{
	if (!u->unzstd)
		u->unzstd = unzstd_new();
	if (u->unzstd)
		unzstd_reset(u->unzstd);
	return u->unzstd != NULL;
}

bool unpacker_start(struct unpacker *u, enum packing packing)
{
	u->packing = packing;
	return packing == PACKING_ZSTD ? start_zstd(u) : start_gzip(u);
}

enum err unpacker_step(
        struct unpacker *u, const uint8_t **in, size_t *in_len, uint8_t *out, size_t out_cap, size_t *out_len)
{
	return u->packing == PACKING_ZSTD ? unzstd_step(u->unzstd, in, in_len, out, out_cap, out_len)
	                                  : gunzip_step(u->gunzip, in, in_len, out, out_cap, out_len);
}

bool unpacker_complete(const struct unpacker *u)
{
	return u->packing == PACKING_ZSTD ? unzstd_complete(u->unzstd) : gunzip_complete(u->gunzip);
}

bool unpacker_trails(const struct unpacker *u)
{
	return u->packing == PACKING_GZIP && gunzip_trails(u->gunzip);
}

const char *unpacker_bad(const struct unpacker *u)
{
	return u->packing == PACKING_ZSTD ? "bad zstd" : "bad gzip";
}

const char *unpacker_cut(const struct unpacker *u)
{
	return u->packing == PACKING_ZSTD ? "zstd ends early" : "gzip ends early";
}
