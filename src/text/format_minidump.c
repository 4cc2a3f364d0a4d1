/* SPDX-License-Identifier: Apache-2.0 */
/* minidump-stackwalk -m: fields between bars. Breakpad's version writes return addresses for all but a thread's first
 * frame. */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

/* The text up to the next bar, which is passed; false if there is none. */
static bool field(struct rest *r, struct str *f)
{
	const char *bar = r->at < r->end ? memchr(r->at, '|', (size_t)(r->end - r->at)) : NULL;
	if (!bar)
		return false;
	*f = between(r->at, bar);
	r->at = bar + 1;
	return true;
}

/* Module|xul.dll|105.0|xul.pdb|4C4C44…1|0x10000000|0x1fffffff|0 */
static bool read_module(struct text_reader *r, struct rest line)
{
	struct str code, version, debug, id;
	if (!take_literal(&line, "Module|") || !field(&line, &code) || !field(&line, &version) ||
	        !field(&line, &debug) || !field(&line, &id))
		return false;
	return text_told(r, code, debug, id, TEXT_ID_GIVEN);
}

/* 0|1|libc.so.6||||0x29d90: thread, frame, module, function, file, line, offset in the module where there is no line */
static bool read_pipes(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	uint64_t thread, number;
	struct str module, function, file, row;
	if (read_module(r, line))
		return true;
	if (!take_decimal(&line, &thread) || !take_literal(&line, "|") || !take_decimal(&line, &number) ||
	        !take_literal(&line, "|") || !field(&line, &module))
		return false;
	const char *from = line.at;
	if (!field(&line, &function) || !field(&line, &file) || !field(&line, &row) || function.len)
		return false;
	struct str gap = between(from, line.at - 1);
	if (!take_0x(&line, &f.offset) || line.at != line.end)
		return false;
	return text_found_at(r, &f, number ? TEXT_CALL : TEXT_EXACT, module, gap, TEXT_FIELDS);
}

TEXT_FORMAT(text_pipes, .names = "minidump-stackwalk", .which = TEXT_ANCHORED, .signs = SIGN_BRACE,
        .words = TEXT_WORDS("Module|"), .read = read_pipes);
