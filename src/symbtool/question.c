/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/question.h"

#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "symbtool/cli.h"

void question_release(struct question *q)
{
	for (size_t i = 0; i < q->module_count; i++)
		free(q->modules[i]);
	free(q->modules);
	json_decref(q->numbers);
	free(q->frames);
	free(q->as_hex);
	free(q->ends);
	*q = (struct question){0};
}

enum err question_module(struct question *q, const char *name, uint32_t *number, struct error *e)
{
	const json_t *known = json_object_get(q->numbers, name);
	*number = (uint32_t)(known ? json_integer_value(known) : (json_int_t)q->module_count);
	if (known)
		return ERR_OK;
	if (q->module_count == QUESTION_MODULES)
		return error_set(e, ERR_TOO_LARGE, "more than %d modules", QUESTION_MODULES);
	if (!q->numbers && !(q->numbers = json_object()))
		return no_memory(e);
	if (!array_reserve(&q->modules, &q->module_cap, q->module_count + 1, sizeof *q->modules))
		return no_memory(e);
	q->modules[q->module_count] = strdup(name);
	if (!q->modules[q->module_count])
		return no_memory(e);
	q->module_count++;
	/* The name need not be UTF-8. */
	return json_object_set_new_nocheck(q->numbers, name, json_integer(*number)) == 0 ? ERR_OK : no_memory(e);
}

static size_t stack_start(const struct question *q)
{
	return q->stack_count ? q->ends[q->stack_count - 1] : 0;
}

static enum err add_frame(struct question *q, uint32_t module, uint64_t address, uint64_t as_hex, struct error *e)
{
	if (q->count == QUESTION_FRAMES)
		return error_set(e, ERR_TOO_LARGE, "more than %d addresses", QUESTION_FRAMES);
	if (!array_reserve(&q->frames, &q->cap, q->count + 1, sizeof *q->frames) ||
	        !array_reserve(&q->as_hex, &q->hex_cap, q->count + 1, sizeof *q->as_hex))
		return no_memory(e);
	if (q->return_addresses && q->count > stack_start(q) && address > 0)
		address--;
	q->as_hex[q->count] = as_hex;
	q->frames[q->count++] = (struct ask_frame){.module = (int32_t)module, .address = address};
	return ERR_OK;
}

/* What stands before the plus: a function of module 0, or another module. */
static enum err read_prefix(
        struct question *q, const char *text, size_t len, uint32_t *module, uint64_t *start, struct error *e)
{
	char *name = strndup(text, len);
	enum err err = name ? ERR_OK : no_memory(e);
	*start = 0;
	if (!err && !(q->function && q->module_count && q->function(q->modules[0], name, start)))
		err = question_module(q, name, module, e);
	free(name);
	return err;
}

enum err question_frame(struct question *q, uint32_t module, const char *text, struct error *e)
{
	uint64_t address, start = 0;
	const char *plus = strrchr(text, '+'), *digits = plus ? plus + 1 : text;
	if (plus == text)
		return error_set(e, ERR_BAD_REQUEST, "%.100s: no module before +", text);
	enum err err = read_address(digits, q->hex, &address, e);
	if (!err && plus)
		err = read_prefix(q, text, (size_t)(plus - text), &module, &start, e);
	else if (!err && !q->module_count)
		err = error_set(e, ERR_BAD_REQUEST, "%.100s: an address without a module", text);
	if (err)
		return err;
	uint64_t as_hex = 0;
	if (!q->hex && strspn(digits, "0123456789") == strlen(digits) && strlen(digits) < 17)
		as_hex = strtoull(digits, NULL, 16);
	return add_frame(q, module, start + address, as_hex != address ? start + as_hex : 0, e);
}

enum err question_end_stack(struct question *q, struct error *e)
{
	if (q->count == stack_start(q))
		return ERR_OK;
	if (!array_reserve(&q->ends, &q->stack_cap, q->stack_count + 1, sizeof *q->ends))
		return no_memory(e);
	q->ends[q->stack_count++] = q->count;
	return ERR_OK;
}

static char *next_word(char **line)
{
	char *word = NULL;
	*line += strspn(*line, " \t\r");
	if (**line == '"') {
		char *end = strchr(++*line, '"');
		word = *line;
		*line = end ? end + 1 : *line + strlen(*line);
		if (end)
			*end = 0;
	} else if (**line) {
		word = *line;
		*line += strcspn(*line, " \t\r");
		if (**line)
			*(*line)++ = 0;
	}
	return word;
}

/* Whether the line goes on with an address, so that the word before it names a module. */
static bool address_follows(const struct question *q, const char *line)
{
	uint64_t address;
	char word[32];
	struct error ignored;
	line += strspn(line, " \t\r");
	size_t len = strcspn(line, " \t\r");
	if (!len || len >= sizeof word)
		return false;
	memcpy(word, line, len);
	word[len] = 0;
	return !read_address(word, q->hex, &address, &ignored);
}

enum err question_line(struct question *q, char *line, struct error *e)
{
	size_t count = q->count;
	uint32_t module = 0;
	uint64_t address;
	struct error ignored;
	enum err err = ERR_OK;
	char *word = next_word(&line);
	if (word && strcmp(word, "CODE") == 0 && *line)
		word = next_word(&line);
	if (word && !strchr(word, '+') && read_address(word, q->hex, &address, &ignored) && address_follows(q, line)) {
		err = question_module(q, word, &module, e);
		word = next_word(&line);
	}
	for (; word && !err; word = next_word(&line))
		err = question_frame(q, module, word, e);
	if (err)
		q->count = count;
	return err ? err : question_end_stack(q, e);
}

size_t question_read_as_hex(struct question *q, size_t max)
{
	size_t kept = 0;
	for (size_t i = 0; i < q->count && kept < max; i++)
		if (q->as_hex[i] && !q->frames[i].names.count) {
			q->frames[kept] = q->frames[i];
			q->frames[kept++].address = q->as_hex[i];
		}
	q->count = kept;
	return kept;
}

void question_reset(struct question *q)
{
	q->count = q->stack_count = 0;
}
