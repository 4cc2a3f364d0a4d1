/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/unzstd.h"

#include <stdlib.h>

#include <zstd.h>
#include <zstd_errors.h>

#include "base/account.h"

enum { KEPT_MAX = 1 << 20 }; /* a context with a larger window is not kept for the next text */

struct unzstd {
	ZSTD_DCtx *context; /* NULL until it is needed */
	uint64_t charged;   /* bytes of it */
	enum err broken;    /* the first failure, which is final */
	bool ended;         /* the last byte consumed ended a frame */
};

struct unzstd *unzstd_new(void)
{
	return calloc(1, sizeof(struct unzstd));
}

static void drop_context(struct unzstd *z)
{
	ZSTD_freeDCtx(z->context);
	account_add(ACCOUNT_TEXTS, -(int64_t)z->charged);
	z->context = NULL;
	z->charged = 0;
}

void unzstd_free(struct unzstd *z)
{
	if (!z)
		return;
	drop_context(z);
	free(z);
}

void unzstd_reset(struct unzstd *z)
{
	if (z->charged > KEPT_MAX)
		drop_context(z);
	else if (z->context)
		ZSTD_DCtx_reset(z->context, ZSTD_reset_session_only);
	z->broken = ERR_OK;
	z->ended = false;
}

/* The context grows when a frame begins; how much is known afterwards only. */
static bool charge(struct unzstd *z)
{
	uint64_t bytes = ZSTD_sizeof_DCtx(z->context);
	if (bytes <= z->charged)
		return true;
	if (!account_take(ACCOUNT_TEXTS, bytes - z->charged)) {
		drop_context(z);
		return false;
	}
	z->charged = bytes;
	return true;
}

static enum err prepare(struct unzstd *z)
{
	if (z->context)
		return ERR_OK;
	z->context = ZSTD_createDCtx();
	if (!z->context)
		return ERR_NO_MEMORY;
	ZSTD_DCtx_setParameter(z->context, ZSTD_d_windowLogMax, UNZSTD_WINDOW_LOG_MAX);
	return ERR_OK;
}

static enum err run(struct unzstd *z, ZSTD_inBuffer *from, ZSTD_outBuffer *to)
{
	size_t result = ZSTD_decompressStream(z->context, to, from);
	if (ZSTD_isError(result))
		return ZSTD_getErrorCode(result) == ZSTD_error_memory_allocation ? ERR_NO_MEMORY : ERR_CORRUPT;
	z->ended = result == 0;
	return charge(z) ? ERR_OK : ERR_NO_MEMORY;
}

enum err unzstd_step(
        struct unzstd *z, const uint8_t **in, size_t *in_len, uint8_t *out, size_t out_cap, size_t *out_len)
{
	ZSTD_inBuffer from = {*in, *in_len, 0};
	ZSTD_outBuffer to = {out, out_cap, 0};
	if (!z->broken)
		z->broken = prepare(z);
	while (!z->broken && !(z->ended && from.pos == from.size)) {
		size_t before = from.pos + to.pos;
		z->broken = run(z, &from, &to);
		if (to.pos == to.size || from.pos + to.pos == before)
			break;
	}
	*in += from.pos;
	*in_len -= from.pos;
	*out_len = to.pos;
	return z->broken;
}

bool unzstd_complete(const struct unzstd *z)
{
	return z->ended && !z->broken;
}
