/* SPDX-License-Identifier: Apache-2.0 */
/* The body of a symbolication request: a small strict pull reader that keeps numbers as they were written. */
#ifndef FORMAT_REQUEST_JSON_H
#define FORMAT_REQUEST_JSON_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

enum offset_kind {
	OFFSET_ADDRESS, /* look it up */
	OFFSET_ELF,     /* the same for an address of the ELF file itself; never in JSON */
	OFFSET_NONE,    /* -1: given back as -0x1 */
	OFFSET_TEXT,    /* not an integer from 0 to 2^64-1: returned as it was written */
};

struct request_frame {
	uint64_t offset; /* OFFSET_ADDRESS, OFFSET_ELF; for OFFSET_TEXT an index into job.texts */
	int32_t module;  /* index into the job's memory map; -1 for none (also for lower ones) */
	uint8_t kind;    /* enum offset_kind */
};

struct request_stack {
	struct request_frame *frames;
	uint32_t count;
};

/* raw: the inside of the JSON string as the request spelled it, escapes and all, valid inside a JSON string of a reply:
 * only half surrogate pairs, which many readers refuse, have become \ufffd. text: decoded (may hold NUL). */
struct request_module {
	struct str name_raw, id_raw, name, id;
};

struct request_job {
	struct request_module *modules;
	struct request_stack *stacks;
	struct str *texts; /* skipped offsets: the number as written, or a string's inside, raw: valid inside a JSON
	                      string */
	uint32_t module_count, stack_count, text_count;
};

struct request {
	struct request_job *jobs;
	uint32_t job_count;
	uint64_t frame_count, module_count; /* in all jobs */
};

struct request_limits {
	uint64_t jobs, frames, modules, stacks; /* but for jobs: in all jobs together */
};

enum request_version { REQUEST_V4, REQUEST_V5 };

/* Reads a body; everything is allocated from the arena, raw slices mostly point into the body, which must outlive the
 * request. Errors: ERR_BAD_REQUEST with a text that names the place ("job 1: stack 0 frame 3: module_index 7 is not in
 * memoryMap"; for bad JSON the byte offset), ERR_NO_MEMORY. */
enum err request_read(struct request *r, struct str body, enum request_version version,
        const struct request_limits *limits, struct arena *arena, struct error *e);

#endif
