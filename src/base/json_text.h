/* SPDX-License-Identifier: Apache-2.0 */
/* A value of jansson as text. */
#ifndef JSON_TEXT_H
#define JSON_TEXT_H

#include <jansson.h>

/* With JSON_COMPACT and such flags, NUL-terminated; the caller frees it. NULL without memory, and for NULL. json_dumps
 * is not used: where it cannot allocate in the middle of an object, its text lacks some bytes and nothing tells so. */
char *json_text(const json_t *value, size_t flags);

#endif
