/* SPDX-License-Identifier: Apache-2.0 */
/* Which symbols of a file can matter to a few addresses. Private to the offset map's builder.
 *
 * A FUNC that covers one of the addresses matters as a whole. Of all others only these do: in each gap between two
 * neighbouring addresses (the upper one included) the first start, which ends a PUBLIC before it, and the last, which
 * is what lies nearest below the upper address. */
#ifndef FORMAT_OFFMAP_ASKED_H
#define FORMAT_OFFMAP_ASKED_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/str.h"
#include "format/offmap_build.h"

struct asked;

/* A symbol without its records. */
struct asked_symbol {
	uint64_t addr, size;
	uint64_t order; /* place in the file, for ties */
	bool is_public, has_lines;
	struct str name; /* as in the file */
};

/* Addresses ascending, equal ones allowed; they are copied. NULL: no memory. */
struct asked *asked_new(const uint64_t *addresses, size_t count, bool nearest);
void asked_free(struct asked *a);
/* That it holds. */
uint64_t asked_bytes(const struct asked *a);

/* A FUNC of the file, and what is wanted of its records. false: no memory. */
bool asked_func(struct asked *a, const struct asked_symbol *s, enum offmap_want *want);
/* The FUNC added last, of which OFFMAP_WANT_LINE was said, has a line record. */
void asked_line(struct asked *a);
bool asked_public(struct asked *a, const struct asked_symbol *s);

/* Gives the symbols of the gaps, but for FUNCs that were wanted as a whole. give returns false to stop. */
bool asked_symbols(const struct asked *a, bool (*give)(void *arg, const struct asked_symbol *s), void *arg);

#endif
