/* SPDX-License-Identifier: Apache-2.0 */
/* Cuts flat functions into pieces and pages. Private to the makers of pages. */
#ifndef MAP_ENCODE_H
#define MAP_ENCODE_H

#include "map/flat.h"
#include "map/offmap.h"

/* A string: a file or the name of an inlined function, one slot however often its id is defined. Only sixteen bytes,
 * because every record visits one or two of them in random order. */
struct string_slot {
	uint32_t page, local; /* where it was last written: page number + 1, index there */
	union {
		uint32_t text; /* offset in `texts` */
		uint32_t id;   /* if external: in the string pages */
	};
	uint16_t len; /* of the text; unless external */
	bool external : 1;
	bool defined : 1;
	bool is_origin : 1; /* if undefined: an origin is "<unknown>", a file is empty */
};

struct string_table {
	struct string_slot *slots; /* slot 0 means no string */
	uint32_t count, cap;
	uint8_t *texts; /* the short texts, escaped, one after the other */
	uint32_t texts_len, texts_cap;
};

struct encoder;

/* Makes single pages: the caller knows where each ends. A piece may start at most 2^32 - 1 bytes after the first; a
 * name that goes into a string page must have its name_external. NULL if out of memory. */
struct encoder *encoder_new(void);
void encoder_free(struct encoder *e);

/* All return false if out of memory. */
bool encode_function(struct encoder *e, const struct string_table *strings, struct flat *f, uint64_t from, uint64_t to,
        bool endless);
bool encode_string(struct encoder *e, const char *text, uint32_t len);

/* Closes the code page of all functions encoded since the last one, and returns it with one reference; NULL if out of
 * memory. */
struct page *encoder_take_code(struct encoder *e);
/* The same for the strings given to encode_string; `first` is the id of the first one. */
struct page *encoder_take_strings(struct encoder *e, uint32_t first);
/* After a failure: drops what was encoded since the last page. */
void encoder_drop_open(struct encoder *e);
/* Bytes of its buffers. */
uint64_t encoder_buffer_bytes(const struct encoder *e);

#endif
