/* SPDX-License-Identifier: Apache-2.0 */
/* Reads the body of a symbolication request, strictly; numbers that are no offsets are kept as they were written. */
#ifndef JSON_REQUEST_H
#define JSON_REQUEST_H

#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"
#include "base/yield.h"

enum offset_kind {
	OFFSET_ADDRESS, /* look it up */
	OFFSET_ELF,     /* the same for an address within the ELF file; never in JSON */
	OFFSET_FILE,    /* the same for an offset in the file; never in JSON */
	OFFSET_NONE,    /* -1: returned as -0x1 */
	OFFSET_TEXT,    /* not an integer from 0 to 2^64-1: returned as written */
};

struct request_frame {
	uint64_t offset; /* OFFSET_ADDRESS, OFFSET_ELF, OFFSET_FILE; for OFFSET_TEXT an index into job.texts */
	int32_t module;  /* index into the job's memory map; negative numbers become -1: none */
	uint8_t kind;    /* enum offset_kind */
};

struct request_stack {
	struct request_frame *frames;
	uint32_t count;
};

/* raw: what stands between the quotes in the request, with escapes; may be copied into a reply's JSON string. Only
 * halves of surrogate pairs, which many readers refuse, have become \ufffd. text: decoded; may contain NULs. */
struct request_module {
	struct str name_raw, id_raw, name, id;
	struct str build_id; /* in hex, where a text told it and the id was made from it; else empty */
};

struct request_job {
	struct request_module *modules;
	struct request_stack *stacks;
	struct str *texts; /* of OFFSET_TEXT: the number as written, or a string, raw; may be copied into a reply's JSON
	                      string */
	uint32_t module_count, stack_count, text_count;
};

struct request {
	struct request_job *jobs;
	uint32_t job_count;
	uint64_t frame_count, module_count; /* in all jobs */
};

struct request_limits {
	uint64_t jobs, frames, modules, stacks; /* all except jobs count over all jobs */
};

enum request_version { REQUEST_V4, REQUEST_V5 };

/* Reads a body; calls y, which may be NULL, now and then. Everything is allocated from the arena; raw texts mostly
 * point into the body, which must outlive the request. ERR_BAD_REQUEST, with a text that names the place ("job 1: stack
 * 0 frame 3: module_index 7 is not in memoryMap"; for bad JSON the byte offset); ERR_NO_MEMORY. */
enum err request_read(struct request *r, struct str body, enum request_version version,
        const struct request_limits *limits, const struct yield *y, struct arena *arena, struct error *e);
/* Copies what points into the body to the arena, so that the body can be freed; but not if that is more than `most`
 * bytes. False: nothing is changed, and the body is still needed. */
bool request_leave_body(struct request *r, struct str body, size_t most, struct arena *arena);

#endif
