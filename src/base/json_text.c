/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/json_text.h"

#include <stdlib.h>

/* Counting first leaves no growing buffer whose failure could go unnoticed. */
char *json_text(const json_t *value, size_t flags)
{
	size_t len = value ? json_dumpb(value, NULL, 0, flags) : 0;
	char *text = len ? malloc(len + 1) : NULL;
	if (text && json_dumpb(value, text, len, flags) == len) {
		text[len] = 0;
		return text;
	}
	free(text);
	return NULL;
}
