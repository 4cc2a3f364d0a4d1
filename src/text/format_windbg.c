/* SPDX-License-Identifier: Apache-2.0 */
/* WinDbg: rows of k, kb, kp, kv and kn, and of STACK_TEXT in what !analyze prints. A row has a number or none, where
 * the stack is and the return address, arguments, and a symbol:
 *
 * 01 000000c8`2a0ff5c8 00007ff7`12341234     app+0x29d90
 * 0019e56c 0040c987 025805a8 0000003f 0019e5bc app+0x29d90 (FPO: [Non-Fpo])
 * 00000016`f1f7b510 00007ffa`366f44c4     : 00000000`00000000 00000212`a36edc80 00000016`f1f7bbc0 : app+0x29d90
 * 0f (Inline Function) --------`--------     app!inner+0x12
 *
 * Functions have their module and ! before them, so what has none is a module: without its extension, as WinDbg names
 * it. */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

struct windbg {
	uint64_t heading, row; /* the last lines of them, or of warnings below; 0: none yet */
	bool next_is_exact;    /* the next row has no return address */
};

enum { NUMBER_MAX = 3, COLUMN_MIN = 8, COLUMN_MAX = 17 };

/* An address, or dashes in place of one. */
static bool take_column(struct rest *r)
{
	const char *at = r->at;
	while (at < r->end && (hex_value((unsigned char)*at) >= 0 || *at == '`' || *at == '-'))
		at++;
	if (at - r->at < COLUMN_MIN || at - r->at > COLUMN_MAX || at == r->end || !is_blank(*at))
		return false;
	r->at = at;
	return blanks(r);
}

struct row {
	bool numbered, inlined;
	uint64_t number;
	struct rest symbol;
};

static bool take_row(struct rest line, struct row *row)
{
	blanks(&line);
	struct rest r = line;
	*row = (struct row){0};
	if (take_hex(&r, &row->number) && r.at - line.at <= NUMBER_MAX && blanks(&r)) {
		row->numbered = true;
		line = r;
	}
	row->inlined = take_literal(&line, "(Inline Function) ") || take_literal(&line, "(Inline) ");
	blanks(&line);
	unsigned columns = 0;
	for (;; blanks(&line)) {
		if (take_column(&line))
			columns++;
		else if (!columns || !take_literal(&line, ": "))
			break;
	}
	row->symbol = line;
	return columns > !row->inlined;
}

/* Whether the row has an address itself, and no return address: it is the first, below a handler of the kernel, or
 * calls inlined there are all that stands above. Rows without numbers may be hidden between those that are seen: the
 * heading tells which is the first, if there is one. */
static bool is_exact(const struct windbg *w, const struct row *row, uint64_t line)
{
	bool below = w->row && w->row + 1 == line;
	if (below && w->next_is_exact)
		return true;
	if (row->numbered)
		return !row->number;
	return w->heading ? w->heading + 1 == line : !below;
}

static bool read_windbg(struct text_reader *r, struct rest line)
{
	struct windbg *w = r->state;
	struct row row;
	struct text_frame f = {.base = TEXT_IMAGE};
	if (!take_row(line, &row))
		return false;
	bool exact = is_exact(w, &row, r->line);
	struct rest s = row.symbol;
	w->row = r->line;
	w->next_is_exact = row.inlined ? exact : find_word(s.at, s.end, "!Ki") != NULL;
	while (s.at < s.end && !is_blank(*s.at) && !strchr("+!`<>()[]", *s.at))
		s.at++;
	struct str name = between(row.symbol.at, s.at);
	if (!name.len || name.len > TEXT_NAME_MAX || !take_literal(&s, "+") || !take_0x(&s, &f.offset) ||
	        (s.at < s.end && !is_blank(*s.at)))
		return false;
	return text_found_windows(r, &f, exact ? TEXT_EXACT : TEXT_CALL, name, s.at);
}

static bool read_heading(struct text_reader *r, struct rest line)
{
	struct windbg *w = r->state;
	blanks(&line);
	if (take_literal(&line, "#"))
		blanks(&line);
	bool goes_on = w->heading + 1 == r->line && take_literal(&line, "WARNING: ");
	if (goes_on || take_literal(&line, "ChildEBP ") || take_literal(&line, "Child-SP ") ||
	        take_literal(&line, "STACK_TEXT:")) {
		w->heading = r->line;
		text_await(r, 1);
	}
	if (w->row + 1 == r->line && take_literal(&line, "WARNING: "))
		w->row = r->line;
	return false;
}

bool text_windbg_number(struct rest line, uint64_t *number)
{
	struct row row;
	if (!take_row(line, &row) || !row.numbered)
		return false;
	*number = row.number;
	return true;
}

/* "app!ns::f+0x12 [C:\\src\\a.cpp @ 8]", "app!f+0x12 (FPO: [Non-Fpo])" */
bool text_windbg_symbol(struct rest line, struct text_named *out)
{
	struct row row;
	uint64_t number;
	*out = (struct text_named){.line = 0};
	if (!memchr(line.at, '!', (size_t)(line.end - line.at)) || !take_row(line, &row))
		return false;
	struct rest s = row.symbol;
	while (s.at < s.end && !strchr("!+ `<>()[]", *s.at))
		s.at++;
	out->module = between(row.symbol.at, s.at);
	if (!out->module.len || !take_literal(&s, "!"))
		return false;
	const char *name = s.at, *open = s.end > name && s.end[-1] == ']' ? find_last(name, s.end, '[') : NULL,
	           *at = open ? find_word(open, s.end, " @ ") : NULL;
	struct rest digits = {at ? at + strlen(" @ ") : s.end, s.end};
	if (at && take_decimal(&digits, &number) && peek(&digits) == ']' && number <= UINT32_MAX) {
		out->file = between(open + 1, at);
		out->line = (uint32_t)number;
		s.end = open;
	}
	const char *note = find_word(name, s.end, " (FPO: "), *plus = find_word(name, s.end, "+0x");
	out->function = trimmed(between(name, plus ? plus : note ? note : s.end));
	return out->function.len > 0;
}

TEXT_FORMAT(text_windbg, .names = "WinDbg", .which = TEXT_ANCHORED, .signs = SIGN_PLUS, .read = read_windbg,
        .state_size = sizeof(struct windbg));

TEXT_FORMAT(text_windbg_headings, .which = TEXT_ANCHORED, .begins = "#CSW",
        .words = TEXT_WORDS("ChildEBP ", "Child-SP ", "STACK_TEXT:"), .read = read_heading, .state_of = &text_windbg);
