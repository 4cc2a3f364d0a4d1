/* SPDX-License-Identifier: Apache-2.0 */
/* What became of the frames of all texts, for the last lines of --filter. */
#ifndef SYMBTOOL_FILTER_TALLY_H
#define SYMBTOOL_FILTER_TALLY_H

#include "base/buffer.h"
#include "base/reason.h"
#include "text/reader.h"

struct filter_tally {
	uint64_t why[REASONS]; /* of the frames of stacks */
	uint64_t named;        /* those that had names */
	struct buffer lacking; /* names of modules that lack symbols, NUL-terminated each; the caller's */
	unsigned lacking_count;
};

/* A module lacks symbols. */
void filter_tally_lacking(struct filter_tally *t, const struct text_module *m);
/* On standard error. guess: of a text without frames, or NULL; program: that of -e, or NULL. */
void filter_tally_print(const struct filter_tally *t, const struct guess *guess, const char *program);

#endif
