/* SPDX-License-Identifier: Apache-2.0 */
/* What the tests of the offset map share: maps made from a text, and their answers as text. */
#ifndef TESTS_OFFMAP_TOOLS_H
#define TESTS_OFFMAP_TOOLS_H

#include "base/buffer.h"
#include "map/memory.h"
#include "map/read.h"
#include "seed.h"

/* No limit of memory, lookup = covering or nearest. */
extern const struct offmap_options plain_options, nearest_options;

/* A growing text without a cap that matters. */
struct buffer text_new(void);
/* Lets the test fail without memory. */
void text_add(struct buffer *text, const char *format, ...) __attribute__((format(printf, 2, 3)));
struct str text_str(const struct buffer *text);

/* The map of a whole symbol file, fed as the bytes before `cut` and those from there on. */
enum err map_try(
        struct str text, size_t cut, const struct offmap_options *options, struct offmap **out, struct error *e);
/* The same in one. The test fails when the file is corrupt. */
struct offmap *map_build(struct str text, const struct offmap_options *options);
struct offmap *map_build_cut(struct str text, size_t cut, const struct offmap_options *options);

/* Pages of the same bytes in the same order. */
void assert_same_pages(const struct offmap *a, const struct offmap *b);
/* And roots, too. */
void assert_same_maps(const struct offmap *a, const struct offmap *b);

/* Of the largest piece. */
uint32_t most_segments(const struct offmap *m);

/* Appends what an offset is: "inner b.c:3 < outer c.c:9 < function+0x10/0x40 a.c:7", "?" for an unknown place, "-" for
 * no symbol. */
void describe(const struct offmap *m, uint64_t offset, struct buffer *out);
void assert_answer(const struct offmap *m, uint64_t offset, const char *expected);
/* The same answers for all offsets in [from, to]. */
void assert_same_answers(const struct offmap *a, const struct offmap *b, uint64_t from, uint64_t to);

#endif
