/* SPDX-License-Identifier: Apache-2.0 */
/* A jansson value as text. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include <jansson.h>

/* Flags are jansson's, such as JSON_COMPACT. NUL-terminated; the caller frees it. NULL for a NULL value or if out of
 * memory. Not json_dumps: if an allocation fails in the middle of an object, its text silently lacks some bytes. */
char *json_text(const json_t *value, size_t flags);

#endif
