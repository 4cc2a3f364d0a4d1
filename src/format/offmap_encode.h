/* SPDX-License-Identifier: Apache-2.0 */
/* Cutting flat functions into pieces and pages. Private to who makes pages. */
#ifndef FORMAT_OFFMAP_ENCODE_H
#define FORMAT_OFFMAP_ENCODE_H

#include "format/offmap.h"
#include "format/offmap_flat.h"

/* A string: a file or the name of an inlined function, once or however often its id is defined. Sixteen
 * bytes, for every record of a file comes by one or two of them, in no order. */
struct string_slot {
	uint32_t page, local; /* where it was written last: page number + 1, index there */
	uint32_t text;        /* where the short text lies in `texts`, or id in the string pages */
	uint16_t len;         /* of the short text */
	bool external : 1;    /* text is an id */
	bool defined : 1;
	bool is_origin : 1; /* undefined ones are "<unknown>", undefined files empty */
};

struct string_table {
	struct string_slot *slots; /* slot 0: none */
	uint32_t count, cap;
	uint8_t *texts; /* escaped; short ones one behind the other */
	uint32_t texts_len, texts_cap;
};

struct encoder;

/* Pages go to lists of the encoder. When those made are over raw_budget bytes in sum a page is compressed. */
struct encoder *encoder_new(uint64_t raw_budget, enum page_codec codec);
void encoder_free(struct encoder *e);

/* All return false without memory. */
bool encode_function(struct encoder *e, const struct string_table *strings, struct flat *f, uint64_t from, uint64_t to,
        bool endless);
bool encode_string(struct encoder *e, const char *text, uint32_t len, uint32_t *id);
/* Closes the open pages and moves the lists into m. */
bool encoder_finish(struct encoder *e, struct offmap *m);

/* Bytes of the pages so far, as they lie in memory, and of what goes with them. */
uint64_t encoder_held_bytes(const struct encoder *e);

/* An encoder of single pages, for who knows where they end: nothing closes one but the functions below, whose page has
 * one reference. No piece may start 2^32 bytes behind the first one. Each name that is to be in a string page has its
 * name_external. */
struct encoder *page_encoder_new(void);
/* The page of what encode_function was given since the last one; NULL without memory. */
struct page *encoder_take_code(struct encoder *e);
/* Of what encode_string was given; `first` is the number of the first string. */
struct page *encoder_take_strings(struct encoder *e, uint32_t first);
/* Forgets what was encoded since the last page, after a failure. */
void encoder_drop_open(struct encoder *e);
/* Bytes of its buffers. */
uint64_t encoder_buffer_bytes(const struct encoder *e);

#endif
