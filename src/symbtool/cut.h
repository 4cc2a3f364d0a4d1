/* SPDX-License-Identifier: Apache-2.0 */
/* An executable's ranges and return pads, cut into parts for upload. */
#ifndef SYMBTOOL_CUT_H
#define SYMBTOOL_CUT_H

#include "extract/extract.h"
#include "extract/ids.h"
#include "symbfile/file_id.h"
#include "symbfile/segments.h"
#include "symbfile/symbfile.h"
#include "symbtool/spool.h"

struct cut_options {
	struct extract_options extract;
	uint64_t part_size; /* bytes at most */
	bool discard;       /* keep nothing: for measuring */
};

struct cut {
	struct file_id id;
	struct ids own; /* that the executable has itself */
	char name[256]; /* of its file; empty: a longer one */
	struct load_segments segments;
	struct spool kinds[SYMBFILE_KINDS];
	struct extract_stats stats;
};

#define PART_SIZE (UINT64_C(32) << 20)

/* Shows progress on a terminal. The text of an error names the file. On failure there is nothing to release. */
enum err cut_executable(struct cut *c, const char *path, const struct cut_options *options, struct error *e);
void cut_release(struct cut *c);
/* Warns about what is missing, such as return pads of an unsupported machine. */
void cut_warn(const struct cut *c, const char *path);

#endif
