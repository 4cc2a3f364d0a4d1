/* SPDX-License-Identifier: Apache-2.0 */
/* The text of a reply. Its size is known before a byte is sent: a first pass, with `block` NULL, only counts. The
 * second writes to a block, which is sent whenever it is full and so stays in the processor's cache. */
#ifndef API_WRITER_H
#define API_WRITER_H

#include "api/symbolicate.h"
#include "front/exchange.h"
#include "json/reply.h"

struct writer {
	struct exchange *exchange;
	uint8_t *block, *at, *end;
	uint64_t size; /* counted; then the most that may be sent */
	uint64_t sent;
	bool failed; /* out of memory, the client is gone, or more than `size`: nothing more is sent */
};

/* Allocates a block for a reply of w->size bytes, in which a piece of `largest` bytes is never split. A small reply is
 * one block, sent by one call. False if out of memory. It is in the exchange's scratch memory. */
bool writer_make_block(struct writer *w, uint64_t largest);
void writer_flush(struct writer *w);
/* For data that does not fit into the block. */
void writer_across(struct writer *w, const char *data, size_t len);

static inline void write_bytes(struct writer *w, const void *data, size_t len)
{
	if (!w->block)
		w->size += len;
	else if (len <= (size_t)(w->end - w->at))
		w->at = len ? put_text(w->at, data, len) : w->at;
	else
		writer_across(w, data, len);
}
#define WRITE(w, literal) write_bytes((w), (literal), sizeof(literal) - 1)

static inline void write_str(struct writer *w, struct str s)
{
	write_bytes(w, s.data, s.len);
}

static inline void write_number(struct writer *w, uint64_t v)
{
	uint8_t digits[20];
	write_bytes(w, digits, (size_t)(put_decimal(digits, v) - digits));
}

static inline void write_hex(struct writer *w, uint64_t v)
{
	uint8_t digits[18];
	write_bytes(w, digits, (size_t)(put_hex(PUT(digits, "0x"), v) - digits));
}

/* Writes a symbol as v4 has it, or v5 from "module_offset" to the closing brace. The block has room for any of them;
 * symbols.size counts the text. */
static inline void write_symbol(struct writer *w, const struct symbol *symbol, bool v4)
{
	if (!w->block)
		return;
	if (symbol->size > (size_t)(w->end - w->at))
		writer_flush(w);
	if (symbol->hot)
		w->at = put_text(w->at, symbol->hot->text, symbol->hot->len);
	else
		w->at = (v4 ? put_v4_head : put_v5_tail)(w->at, symbol->offset, &symbol->answer);
}

#endif
