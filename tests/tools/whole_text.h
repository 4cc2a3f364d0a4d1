/* SPDX-License-Identifier: Apache-2.0 */
/* A text that is in one piece. */
#ifndef TESTS_WHOLE_TEXT_H
#define TESTS_WHOLE_TEXT_H

#include "sym/records.h"

static inline const uint8_t *whole_text_get(void *arg, uint64_t place, size_t len, uint8_t *room)
{
	(void)len;
	(void)room;
	return (const uint8_t *)arg + place;
}

static inline struct symtext whole_text(const uint8_t *text)
{
	return (struct symtext){whole_text_get, (void *)(uintptr_t)text}; /* never written to */
}

#endif
