/* SPDX-License-Identifier: Apache-2.0 */
/* What lines of one stack have in common before the part that a format knows: a prefix of some log, of which nobody has
 * told the form. Runs of digits may differ: times, process ids and numbers of lines do. */
#ifndef TEXT_COMMON_H
#define TEXT_COMMON_H

#include "text/scan.h"

enum {
	COMMON_MAX = 160,  /* bytes of a prefix */
	SHAPES = 64,       /* a power of two */
	BEFORE_MAX = 1024, /* bytes of the line before that are kept; a longer one is not */
};

struct text_common {
	char prefix[COMMON_MAX]; /* the latest that was found */
	size_t len;              /* 0: none so far */
	const char *before;      /* the line before, without prefixes of known forms: in the text, or kept */
	char kept[BEFORE_MAX];
	size_t before_len;               /* 0: there is none that can be used */
	uint64_t before_line, before_at; /* its number, and where it begins in the whole text */
	unsigned before_signs;
	bool before_is_read;     /* a format took it */
	uint32_t failed[SHAPES]; /* shapes of lines in which no prefix was found; see text_common_with_before */
};

/* The part of the line that is like this prefix; empty: it begins otherwise. */
struct str text_common_match(struct rest line, struct str prefix);
/* The part of the line that is like the beginning of the line before, at most COMMON_MAX bytes. *shape: a hash of it
 * and of some bytes behind it, numbers being alike; not 0. In most lines of a log no prefix is found, and few shapes
 * are many lines'. */
struct str text_common_with_before(const struct text_common *c, struct rest line, uint32_t *shape);
/* Where the prefix may end in these common bytes of a line: behind `from`, which is NULL at first. NULL: at no other
 * place. */
const char *text_common_cut(struct str common, struct rest line, const char *from);

#endif
