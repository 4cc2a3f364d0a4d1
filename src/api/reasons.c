/* SPDX-License-Identifier: Apache-2.0 */
/* Why frames have no names, and how replies say it. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "api/inquiry.h"
#include "api/writer.h"
#include "base/utf8.h"

struct inquiry_reason inquiry_module_reason(const struct module_want *want)
{
	struct inquiry_reason r = {.reason = REASON_NO_ID};
	if (!want)
		return r;
	if (want->state == WANT_FOUND) {
		r.reason = want->module->map->code_count ? REASON_NONE : REASON_STRIPPED;
	} else {
		r.reason = want->failure == FAILURE_CORRUPT     ? REASON_CORRUPT
		           : want->failure == FAILURE_TOO_LARGE ? REASON_TOO_LARGE
		                                                : REASON_NOT_FOUND;
		memcpy(r.detail, want->why, sizeof r.detail);
	}
	return r;
}

/* The module has symbols, but none at this offset. */
static enum reason offset_reason(const struct module_want *want, const struct symbol *symbol)
{
	uint64_t base = want->image_base, offset = symbol->offset;
	uint64_t address = offset > UINT64_MAX - base ? UINT64_MAX : offset + base;
	enum reason reason = offmap_reason(want->module->map, address, &symbol->answer);
	return reason == REASON_ABOVE_LAST && base && offset >= base ? REASON_WRONG_OFFSET : reason;
}

struct inquiry_reason inquiry_reason(
        const struct inquiry *s, uint32_t job, const struct request_frame *f, uint64_t number)
{
	const struct symbol *symbol = s->symbol_of[number];
	struct inquiry_reason r = {.reason = REASON_NONE};
	if (symbol && symbol->answer.found)
		return r;
	if (f->module < 0)
		r.reason = REASON_NO_MODULE;
	else if (f->kind == OFFSET_TEXT || f->kind == OFFSET_NONE)
		r.reason = f->kind == OFFSET_TEXT ? REASON_NO_INTEGER : REASON_NO_OFFSET;
	if (r.reason)
		return r;
	const struct module_want *want = inquiry_want(s, job, f->module);
	r = inquiry_module_reason(want);
	if (!r.reason && symbol)
		r.reason = offset_reason(want, symbol);
	else if (!r.reason && f->kind == OFFSET_FILE)
		r.reason = inquiry_file_map(want)->count ? REASON_NOT_LOADED : REASON_NO_SEGMENTS;
	return r;
}

void inquiry_write_reason(struct writer *w, const struct inquiry_reason *r)
{
	uint8_t escaped[6 * FAILURE_WHY_SIZE];
	if (!r->reason)
		return;
	WRITE(w, "\"reason\":\"");
	write_str(w, str_from(reason_row(r->reason)->word));
	WRITE(w, "\",");
	if (!*r->detail)
		return;
	WRITE(w, "\"detail\":\"");
	write_bytes(w, escaped, json_escape(escaped, (const uint8_t *)r->detail, strlen(r->detail)));
	WRITE(w, "\",");
}

void inquiry_write_reasons(struct writer *w, uint32_t seen)
{
	_Static_assert(REASONS <= 32, "seen has a bit for each");
	const char *before = "";
	WRITE(w, "\"reasons\":{");
	for (unsigned i = 1; i < REASONS; i++) {
		const struct reason_row *row = reason_row((enum reason)i);
		if (!(seen >> i & 1))
			continue;
		write_str(w, str_from(before));
		WRITE(w, "\"");
		write_str(w, str_from(row->word));
		WRITE(w, "\":{\"means\":\"");
		write_str(w, str_from(row->means));
		WRITE(w, "\",\"help\":\"");
		write_str(w, str_from(row->help));
		WRITE(w, "\"}");
		before = ",";
	}
	WRITE(w, "}");
}
