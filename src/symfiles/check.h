/* SPDX-License-Identifier: Apache-2.0 */
/* Whether what arrives is a symbol file: plain, gzip or zstd, with the right id and at least one symbol; or with STACK
 * records, which answer nothing here, but help others to walk stacks. */
#ifndef SYMFILES_CHECK_H
#define SYMFILES_CHECK_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "base/unpack.h"

enum { CHECK_WORD = 256 };

/* What it says of itself. */
struct symfile_facts {
	enum packing packing;                            /* PACKING_UNKNOWN until enough bytes have come */
	uint64_t text;                                   /* bytes, unpacked */
	uint64_t hash;                                   /* of the text; known at the end */
	uint64_t functions, publics;                     /* of readable lines */
	bool stacks;                                     /* it has STACK records; looked for up to the first symbol */
	char code_id[CHECK_WORD], code_file[CHECK_WORD]; /* of INFO CODE_ID, cut to fit; empty: none */
};

/* Checks one file; the text may have max bytes. NULL if out of memory. */
struct symfile_check;
struct symfile_check *symfile_check_new(struct str id, uint64_t max);
void symfile_check_free(struct symfile_check *k); /* NULL is fine */
/* The next bytes. ERR_BAD_REQUEST: it is no such file, with the place of what is wrong; ERR_TOO_LARGE, ERR_NO_MEMORY.
 */
enum err symfile_check_add(struct symfile_check *k, const uint8_t *data, size_t len, struct error *e);
/* That was all. */
enum err symfile_check_end(struct symfile_check *k, struct error *e);
const struct symfile_facts *symfile_check_facts(const struct symfile_check *k);

#endif
