/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/record_json.h"

#include <inttypes.h>

static void add_text(struct buffer *out, const char *key, struct str s, bool there)
{
	buffer_printf(out, ",\"%s\":", key);
	if (there)
		buffer_append_json(out, s);
	else
		buffer_append(out, "null", 4);
}

void record_json_range(struct buffer *out, const struct symbfile_range *r)
{
	buffer_printf(out, "{\"t\":\"range\",\"va\":\"0x%" PRIx64 "\",\"len\":%" PRIu64 ",\"depth\":%u", r->va,
	        r->length, r->depth);
	add_text(out, "func", r->func, true);
	add_text(out, "file", r->file, r->has_file);
	add_text(out, "call_file", r->call_file, r->has_call_file);
	buffer_printf(out, ",\"call_line\":%u,\"lines\":[", r->call_line);
	for (size_t i = 0; i < r->line_count; i++)
		buffer_printf(out, "%s[%u,%u]", i > 0 ? "," : "", r->lines[i].offset, r->lines[i].line);
	buffer_append(out, "]}", 2);
}

void record_json_pad(struct buffer *out, const struct symbfile_pad *p)
{
	buffer_printf(out, "{\"t\":\"pad\",\"va\":\"0x%" PRIx64 "\",\"entries\":[", p->va);
	for (size_t i = 0; i < p->count; i++) {
		buffer_printf(out, "%s{\"func\":", i > 0 ? "," : "");
		buffer_append_json(out, p->frames[i].func);
		add_text(out, "file", p->frames[i].file, true);
		buffer_printf(out, ",\"line\":%u}", p->frames[i].line);
	}
	buffer_append(out, "]}", 2);
}
