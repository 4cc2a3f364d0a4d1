/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/json_text.h"

#include <stdint.h>
#include <stdlib.h>

#include "base/buffer.h"

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

json_t *json_of_str(struct str bytes)
{
	struct buffer quoted;
	buffer_init(&quoted, SIZE_MAX);
	buffer_append_json(&quoted, bytes);
	json_t *value = quoted.failed ? NULL : json_loadb((const char *)quoted.data, quoted.len, JSON_DECODE_ANY, NULL);
	buffer_release(&quoted);
	return value;
}

bool json_set_text(json_t *object, const char *key, const char *text)
{
	return !text || json_object_set_new(object, key, json_string(text)) == 0;
}

static _Thread_local bool lacked_memory;

static void *allocate(size_t size)
{
	void *block = malloc(size);
	lacked_memory = lacked_memory || !block;
	return block;
}

/* Before there are threads. */
__attribute__((constructor)) static void note_allocations(void)
{
	json_set_alloc_funcs(allocate, free);
}

enum err json_parse(json_t **value, struct str text, size_t flags, struct error *e)
{
	json_error_t fault;
	lacked_memory = false;
	*value = json_loadb(text.data, text.len, flags, &fault);
	if (!lacked_memory)
		return *value ? ERR_OK : error_set(e, ERR_BAD_REQUEST, "%.150s", fault.text);
	json_decref(*value); /* its strings may lack some bytes */
	*value = NULL;
	return no_memory(e);
}

enum err json_parse_request(json_t **value, struct str text, struct error *e)
{
	struct error inner;
	enum err err = json_parse(value, text, JSON_REJECT_DUPLICATES, &inner);
	if (!err)
		return ERR_OK;
	return error_set(e, err, err == ERR_BAD_REQUEST ? "the request is not JSON: %s" : "%s", inner.text);
}
