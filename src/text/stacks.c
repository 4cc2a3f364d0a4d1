/* SPDX-License-Identifier: Apache-2.0 */
/* A line that numbers its frame tells where a stack begins: where the numbers begin anew. Frames without numbers are of
 * one stack until a line comes that stands between no frames. */
#include <config.h>

#include "text/stacks.h"

#include "text/formats.h"

enum { TITLE_MAX = 300 }; /* bytes */

bool text_is_between_frames(struct rest line)
{
	bool indented = line.end - line.at > 2 && is_blank(line.at[0]) && is_blank(line.at[1]);
	blanks(&line);
	return indented || take_literal(&line, "No locals.") || take_literal(&line, "No symbol table info available.");
}

uint64_t text_position(const struct text_reader *r, const char *at)
{
	return r->at + (r->mapped ? r->unescaped->at[at - r->unescaped->text] : (uint64_t)(at - r->start));
}

struct text_span text_span_of(const struct text_reader *r, struct str part)
{
	if (!part.len)
		return (struct text_span){0, 0, 0};
	uint64_t at = text_position(r, part.data), end = text_position(r, part.data + part.len);
	return (struct text_span){at, (uint32_t)(end - at), (uint8_t)r->escaped};
}

/* Without blanks around it, and not longer than titles are. */
static struct str cut_title(struct str words)
{
	words = trimmed(words);
	if (words.len > TITLE_MAX) {
		words.len = TITLE_MAX;
		while (words.len && ((unsigned char)words.data[words.len] & 0xc0) == 0x80)
			words.len--;
	}
	return words;
}

static struct text_span title_of(const struct text_reader *r, struct str words)
{
	return text_span_of(r, cut_title(words));
}

/* The next line is not where r->start is when the line before is read once more. */
static struct text_span following_title(const struct text_reader *r)
{
	struct str words = cut_title(r->following);
	return (struct text_span){r->following_at + (uint64_t)(words.data - r->following.data), (uint32_t)words.len, 0};
}

/* "  1: 1000 [ 1: 1000] @ 0x401136 0x401157" of a heap profile: a stack in a line. *what: what stands before it. */
static bool is_heap(struct rest line, struct str *what)
{
	const char *at = find_word(line.at, line.end, "@ 0x");
	uint64_t address;
	*what = NOTHING;
	if (!at)
		return false;
	struct rest r = {at + 2, line.end};
	while (take_0x(&r, &address))
		blanks(&r);
	*what = trimmed(between(line.at, at));
	return r.at == r.end;
}

/* "    47.13%  app      libcrash.so     [.] 0x0000000000001166" */
static bool is_report(struct rest line)
{
	bool any = false;
	if (!blanks(&line))
		return false;
	for (; is_digit(peek(&line)) || peek(&line) == '.'; line.at++)
		any = true;
	return any && peek(&line) == '%' &&
	       (find_word(line.at, line.end, " [.] ") || find_word(line.at, line.end, " [k] "));
}

static int64_t number_of(const struct text_reader *r)
{
	const struct text_stacks *s = &r->stacks;
	struct str ignored;
	if (s->in_json || is_heap(s->line, &ignored))
		return TEXT_UNNUMBERED;
	int64_t number = text_frame_number(s->line);
	if (number == TEXT_NEXT)
		number = s->count && s->end + 1 == r->line ? s->last + 1 : 0;
	return number;
}

static bool begins(const struct text_reader *r, int64_t number, bool list)
{
	const struct text_stacks *s = &r->stacks;
	struct str ignored;
	if (!s->count || s->closed)
		return true;
	if (s->end == r->line || s->in_json)
		return false; /* several frames in one line, or in one list */
	if (list || is_heap(s->line, &ignored))
		return !list || !s->list;
	if (number >= 0 && s->last >= 0 && number < s->last)
		return s->step > 0 || (!s->step && (number != s->last - 1 || s->interrupted));
	if (number >= 0 && s->last >= 0)
		return number == s->last || s->step < 0;
	return number >= 0 || s->last >= 0 || s->interrupted;
}

/* "0|1|libc.so.6||||0x29d90" of minidump-stackwalk */
static bool take_thread(struct rest line, struct str *thread)
{
	uint64_t number;
	const char *from = line.at;
	bool is = take_decimal(&line, &number) && peek(&line) == '|';
	*thread = between(from, line.at);
	return is;
}

static void begin(struct text_reader *r, bool list)
{
	struct text_stacks *s = &r->stacks;
	struct text_stack *stack = &s->stack;
	struct str words;
	s->count += !s->holds; /* one that is held is none */
	s->holds = false;
	s->next = 0;
	*stack = (struct text_stack){.words = ""};
	if (s->in_json)
		return;
	if (take_thread(s->line, &words)) {
		stack->words = "Thread ";
		stack->title = title_of(r, words);
	} else if (is_heap(s->line, &words)) {
		/* jemalloc tells the size in the next line */
		stack->title = words.len || r->mapped ? title_of(r, words) : following_title(r);
	} else if (list) {
		stack->words = "perf report";
	} else {
		stack->title = s->above;
		if (s->before_leads && s->before_line + 1 == s->above_line)
			stack->lead = s->before;
	}
}

bool text_stacks_place(struct text_reader *r, struct text_frame *f)
{
	struct text_stacks *s = &r->stacks;
	struct rest line = s->line;
	f->stack = TEXT_NO_STACK;
	if (!s->in_json && take_literal(&line, "SUMMARY: "))
		return false;
	bool same = s->count && s->end == r->line && !s->closed, list = !s->in_json && is_report(s->line);
	int64_t number = same ? s->last : number_of(r);
	bool first = begins(r, number, list);
	if (first)
		begin(r, list);
	s->step = first ? 0 : number < 0 || same ? s->step : number > s->last ? 1 : -1;
	s->source = number < 0 && f->own.line;
	f->stack = s->count - 1;
	f->number = number >= 0 ? (uint32_t)number : s->next;
	s->next = f->number + 1;
	s->last = number;
	s->end = r->line;
	s->list = list;
	s->closed = s->interrupted = s->before_leads = false;
	s->above = s->before = (struct text_span){0, 0, 0};
	return first;
}

static bool leads(struct rest line)
{
	if (find_word(line.at, line.end, "located "))
		return find_word(line.at, line.end, "is located ");
	return find_word(line.at, line.end, "Sanitizer") &&
	       (find_word(line.at, line.end, "ERROR: ") || find_word(line.at, line.end, "WARNING: "));
}

void text_stacks_pass(struct text_reader *r, struct rest line)
{
	struct text_stacks *s = &r->stacks;
	if ((s->interrupted && !s->titled) || !trimmed(between(line.at, line.end)).len)
		return;
	bool source = s->source && r->line == s->end + 1;
	s->interrupted = s->interrupted || !(source || text_is_between_frames(line));
	if (!s->titled)
		return;
	s->before = s->above;
	s->before_line = s->above_line;
	s->before_leads = s->leads && s->before.len;
	s->above = title_of(r, between(line.at, line.end));
	s->above_line = r->line;
	s->leads = leads(line);
}

void text_stacks_close(struct text_reader *r)
{
	struct text_stacks *s = &r->stacks;
	s->closed = true;
	s->leads = s->before_leads = false;
	s->above = s->before = (struct text_span){0, 0, 0};
}
