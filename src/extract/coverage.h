/* SPDX-License-Identifier: Apache-2.0 */
/* Which bytes of the code have records already, so that no address gets two functions. */
#ifndef EXTRACT_COVERAGE_H
#define EXTRACT_COVERAGE_H

#include "extract/code_map.h"

struct coverage {
	const struct code_map *code;
	uint64_t *bits;  /* one for each byte of the sections, section after section */
	uint64_t *first; /* the first bit of each section */
};

/* code must outlive it. */
enum err coverage_init(struct coverage *c, const struct code_map *code, struct error *e);
void coverage_release(struct coverage *c);
/* Takes the free bytes from start on, and returns where they end, at most end; start itself if that is taken. */
uint64_t coverage_take(struct coverage *c, uint64_t start, uint64_t end);
/* The first address from start on that is free, or end. */
uint64_t coverage_free(const struct coverage *c, uint64_t start, uint64_t end);

#endif
