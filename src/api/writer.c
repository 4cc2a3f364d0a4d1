/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/writer.h"

enum { BLOCK = 256 * 1024 }; /* of the reply at a time */

bool writer_make_block(struct writer *w, uint64_t largest)
{
	uint64_t most = largest > BLOCK ? largest : BLOCK;
	size_t room = w->size < most ? w->size : most;
	w->block = w->at = arena_alloc(w->exchange->scratch, room);
	w->end = w->block ? w->block + room : NULL;
	return w->block != NULL;
}

void writer_flush(struct writer *w)
{
	size_t len = (size_t)(w->at - w->block);
	w->failed = w->failed || len > w->size - w->sent || !exchange_reply_add(w->exchange, w->block, len);
	w->sent += w->failed ? 0 : len;
	w->at = w->block;
	exchange_turn(w->exchange);
}

void writer_across(struct writer *w, const char *data, size_t len)
{
	while (len) {
		size_t room = (size_t)(w->end - w->at), n = len < room ? len : room;
		w->at = put_text(w->at, data, n);
		data += n;
		len -= n;
		if (w->at == w->end)
			writer_flush(w);
	}
}
