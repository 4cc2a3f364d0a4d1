/* SPDX-License-Identifier: Apache-2.0 */
/* Strings one after the other, in blocks that are compressed as they fill up. */
#ifndef RECORDS_NAME_STORE_H
#define RECORDS_NAME_STORE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Bytes of strings. Larger ones are smaller when compressed (64 KiB by a third), but where functions have another order
 * than addresses each name is in another block. */
enum { NAME_STORE_BLOCK = 8 << 10 };

struct name_store_block {
	uint8_t *data;
	uint32_t len : 31, packed : 1; /* len: bytes in memory */
};

struct name_store_packer;

/* Zero it before first use. */
struct name_store {
	struct name_store_block *blocks; /* full ones, and after name_store_end the last one */
	uint32_t count, cap;
	uint8_t *open; /* the last block while it is filled */
	uint32_t fill, open_cap;
	struct name_store_packer *packer; /* while it is filled */
	uint64_t held;                    /* bytes of the blocks */
};

void name_store_release(struct name_store *n);
uint64_t name_store_bytes(const struct name_store *n);
/* Appends a string, and tells its place. False if out of memory. */
bool name_store_add(struct name_store *n, const char *text, size_t len, uint64_t *place);
/* No string follows. Call it before any is read. False as above. */
bool name_store_end(struct name_store *n);

/* Reads strings, and keeps the blocks that it opened last. For one thread; zero it before first use. */
enum { NAME_STORE_OPEN = 16 };
struct name_store_reader {
	const struct name_store *names;
	struct {
		uint8_t *data;
		uint32_t block; /* 1 + its number; 0: none */
	} open[NAME_STORE_OPEN];
	unsigned next;
	uint8_t *joined; /* a string that lies in several blocks */
	uint32_t joined_cap;
};

/* A string of names that have ended, valid until the next call; NULL if out of memory. */
const uint8_t *name_store_read(struct name_store_reader *r, uint64_t place, size_t len);
void name_store_reader_release(struct name_store_reader *r);
uint64_t name_store_reader_bytes(const struct name_store_reader *r);

#endif
