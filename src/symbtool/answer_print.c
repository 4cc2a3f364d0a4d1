/* SPDX-License-Identifier: Apache-2.0 */
/* Prints a reply: function, file and line of each address. */
#include <config.h>

#include <jansson.h>
#include <stdio.h>

#include "symbtool/answer.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

static const char *text_of(const json_t *object, const char *key)
{
	const char *text = json_string_value(json_object_get(object, key));
	return text ? text : "";
}

/* FUNCTION at FILE:LINE, as far as they are known. */
static void print_place(const json_t *call)
{
	json_int_t line = json_integer_value(json_object_get(call, "line"));
	bool bold = is_coloured();
	fputs(bold ? "\033[1m" : "", stdout);
	print_visible(stdout, text_of(call, "function"));
	fputs(bold ? "\033[0m" : "", stdout);
	if (*text_of(call, "file")) {
		fputs(" at ", stdout);
		print_visible(stdout, text_of(call, "file"));
	}
	if (line)
		printf(":%lld", (long long)line);
	putchar('\n');
}

/* Innermost first: the first has the address, the others stand below it. */
static void print_frame(const json_t *frame)
{
	const json_t *inlines = json_object_get(frame, "inlines");
	int indent = print_visible(stdout, text_of(frame, "module")) + printf("+");
	indent += print_visible(stdout, text_of(frame, "module_offset")) + printf("  ");
	if (!json_object_get(frame, "function")) {
		const char *reason = text_of(frame, "reason");
		fputs(*reason ? "??  " : "??", stdout);
		print_visible(stdout, reason);
		putchar('\n');
		return;
	}
	for (size_t i = 0; i < json_array_size(inlines); i++) {
		print_place(json_array_get(inlines, i));
		printf("%*s(inlined by) ", indent, "");
	}
	print_place(frame);
}

/* Whether all modules of a result were found. */
static bool found_all(const json_t *result)
{
	const char *key;
	json_t *found;
	json_object_foreach(
	        json_object_get(result, "found_modules"), key, found) if (json_is_false(found)) return false;
	return true;
}

enum err answer_print(const struct buffer *reply, struct answer_tally *tally, struct error *e)
{
	json_t *root = json_loadb((const char *)reply->data, reply->len, JSON_ALLOW_NUL, NULL);
	const json_t *result = json_array_get(json_object_get(root, "results"), 0);
	const json_t *stacks = json_object_get(result, "stacks");
	bool all = found_all(result);
	enum err err = json_is_array(stacks) ? ERR_OK : error_set(e, ERR_CORRUPT, "the reply has no stacks");
	for (size_t i = 0; i < json_array_size(stacks); i++) {
		const json_t *stack = json_array_get(stacks, i);
		if (tally->stacks++)
			putchar('\n');
		for (size_t j = 0; j < json_array_size(stack); j++) {
			const json_t *frame = json_array_get(stack, j);
			print_frame(frame);
			if (all && !json_object_get(frame, "function"))
				tally->nameless++;
		}
	}
	json_decref(root);
	return err;
}
