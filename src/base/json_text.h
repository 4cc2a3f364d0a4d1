/* SPDX-License-Identifier: Apache-2.0 */
/* jansson's values from and to text. */
#ifndef BASE_JSON_TEXT_H
#define BASE_JSON_TEXT_H

#include <stdbool.h>

#include <jansson.h>

#include "base/error.h"
#include "base/str.h"

/* Flags are jansson's, such as JSON_COMPACT. NUL-terminated; the caller frees it. NULL for a NULL value or if out of
 * memory. Not json_dumps: if an allocation fails in the middle of an object, its text silently lacks some bytes. */
char *json_text(const json_t *value, size_t flags);
/* A string of bytes that need not be UTF-8: what is not becomes U+FFFD each. NULL if out of memory. */
json_t *json_of_str(struct str bytes);
/* Sets a member of an object to a text; NULL leaves it out. False: out of memory. Not json_pack's "s*", which leaves it
 * out in that case too. */
bool json_set_text(json_t *object, const char *key, const char *text);
/* The value of a text, the caller's; NULL after a failure. ERR_BAD_REQUEST: jansson says what is wrong;
 * ERR_NO_MEMORY. Not json_loadb, which takes a text for which it has no memory for a malformed one. */
enum err json_parse(json_t **value, struct str text, size_t flags, struct error *e);
/* The same of a request, whose keys must differ; the text says that it is one. */
enum err json_parse_request(json_t **value, struct str text, struct error *e);

#endif
