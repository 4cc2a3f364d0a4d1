/* SPDX-License-Identifier: Apache-2.0 */
/* The call instructions of x86-64 and AArch64 code, found by reading it from its start. */
#ifndef EXTRACT_CALLS_H
#define EXTRACT_CALLS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Code that is read in order. */
struct call_cursor {
	uint16_t machine; /* EM_X86_64 or EM_AARCH64 */
	const uint8_t *bytes;
	size_t len, at;
};

/* Whether call instructions of this machine are known. */
bool calls_known(uint16_t machine);
/* The next call: offsets of the call and of the instruction after it. False: no more. */
bool call_next(struct call_cursor *c, size_t *start, size_t *next);

#endif
