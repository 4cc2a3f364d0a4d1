/* SPDX-License-Identifier: Apache-2.0 */
/* What all fuzz targets share. */
#ifndef FUZZ_H
#define FUZZ_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* One input; what it finds ends the process. Called by libFuzzer, or by replay.c. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static inline void fuzz_check(bool good, const char *what)
{
	if (good)
		return;
	fprintf(stderr, "fuzz: %s\n", what);
	abort();
}

/* In a block of its own size, so that a read behind it is seen; the caller frees it. */
static inline uint8_t *fuzz_copy(const void *data, size_t n)
{
	uint8_t *copy = malloc(n ? n : 1);
	fuzz_check(copy, "no memory");
	if (n)
		memcpy(copy, data, n);
	return copy;
}

#endif
