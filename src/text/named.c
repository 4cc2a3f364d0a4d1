/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/named.h"

#include "text/formats.h"

enum {
	LINE_BYTES = 16 << 10, /* of a line that is compared with the forms; names of C++ have some thousand */
	STEPS = 256,           /* so many ends of parts are tried in a line, for all forms together */
	NUMBER_DIGITS = 6,
	SIGNS_MAX = 8, /* # that are tried in a line */
};

/* A blank stands for blanks, _ for blanks or nothing, and what is not listed here for itself:
 *   %n %d    a decimal number; %n: the frame's
 *   %x %h    a number with 0x; of 3 to 16 hex digits
 *   %f %F    the function; %F: as long as possible, others as short as possible
 *   %m       the module
 *   %q %l    the file; its line
 *   %p       both, as FILE:LINE or FILE:LINE:COLUMN
 *   %r       Swift's marks
 *   %*       anything
 *   { }      around what is the function
 * A form that begins with a blank needs one; others may stand behind blanks. */
#define FORM(text)                    \
	{                             \
		text, sizeof text - 1 \
	}
static const struct {
	const char *text;
	size_t len;
} forms[] = {
        /* sanitizers, gdb, gfortran */
        FORM("#%n %x in %f (%m+%x)"),
        FORM("#%n %x in %f (%m+%x) (BuildId: %*"),
        FORM("#%n %x in %f at %p"),
        FORM("#%n %x in %f from %m"),
        FORM("#%n %x in %F %p"),
        FORM("#%n %x in %f"),
        FORM("#%n {<signal handler called>}"),
        FORM("#%n %F %p (%m+%x)"),
        FORM("#%n %F %p (%m+%x) (BuildId: %*"),
        FORM("#%n %f (%m+%x) (BuildId: %*"),
        FORM("#%n %f (%m+%x)"),
        FORM("#%n %f at %p"),
        /* backward-cpp */
        FORM("#%n Object \"%m\", at %x, in %f"),
        FORM("#%n Source \"%q\", line %l, in %f"),
        /* eu-stack */
        FORM("#%n %x - 1 %f - %m"),
        FORM("#%n %x %f - %m"),
        FORM("#%n %x - 1 %f"),
        FORM("#%n %x %f"),
        /* lldb, PyTorch */
        FORM("frame #%n: %x %m`%f at %p"),
        FORM("frame #%n: %x %m`%f"),
        FORM("* frame #%n: %x %m`%f at %p"),
        FORM("* frame #%n: %x %m`%f"),
        FORM("frame #%n: %f + %x (%x in %m)"),
        /* Rust, Node.js, boost */
        FORM("%n: %x - %f"),
        FORM("%n: %x %f [%m]"),
        FORM("%n# %f at %p"),
        FORM("%n# %f in %m"),
        FORM("%n# %f"),
        /* ClickHouse */
        FORM("%n. %p: %f @ %x in %m"),
        FORM("%n. %p: %f @ %x"),
        FORM("%n. %f @ %x in %m"),
        FORM("%n. %f @ %x"),
        /* Swift */
        FORM("%n %r %x %f + %d in %m at %p"),
        FORM("%n %r %x %f + %d in %m"),
        FORM("%n %r %x %f in %m at %p"),
        /* Wine */
        FORM("%n %x %f [%p] in %m (%*"),
        FORM("%n %x %f in %m (%*"),
        FORM("=>%n %x %f [%p] in %m (%*"),
        FORM("=>%n %x %f in %m (%*"),
        /* macOS */
        FORM("%n %m %x %f + %d (%p)"),
        FORM("%n %m %x %f + %d"),
        /* minidump-stackwalk */
        FORM("%d|%n|%m|%f|%q|%l|%*"),
        FORM("%d|%n|%m|%f|||%*"),
        FORM("%n %m!%f [%q : %l + %x]"),
        FORM("%n %m!%f + %x"),
        /* valgrind; massif's tree */
        FORM("%x: %f (in %m)"),
        FORM("%x: %f (%p)"),
        FORM("==%d== at %x: %f (in %m)"),
        FORM("==%d== at %x: %f (%p)"),
        FORM("==%d== by %x: %f (in %m)"),
        FORM("==%d== by %x: %f (%p)"),
        /* glog, absl */
        FORM("@ %x %d %f"),
        FORM("@ %x (unknown) %f"),
        FORM("@ %x %f"),
        /* Unreal Engine, Unity */
        FORM("%x %m!%f [%p]"),
        FORM("%x %m!%f"),
        FORM("%x (%m) %f"),
        /* Zig, D */
        FORM("%p: %x in %f (%m)"),
        FORM("??:? %f [%x]"),
        FORM("%p %f [%x]"),
        /* MariaDB, after addr2line */
        FORM("%p(%f)_[%x]"),
        /* .NET NativeAOT */
        FORM("at %f + %x"),
        /* perf script: of the kernel, and inlined calls */
        FORM(" %h %f ([%m])"),
        FORM(" %h %f (inlined)"),
};

struct match {
	const char *end;
	struct text_named named;
	unsigned steps;
};

static bool match(struct match *m, const char *form, const char *at);

/* FILE:LINE or FILE:LINE:COLUMN. */
static bool take_place(struct str text, struct text_named *out)
{
	uint64_t number[2] = {0, 0};
	const char *end = text.data + text.len;
	for (unsigned i = 0; i < 2; i++) {
		const char *colon = find_last(text.data, end, ':');
		struct rest digits = {colon ? colon + 1 : end, end};
		if (!colon || colon == text.data || !take_decimal(&digits, &number[i]) || digits.at != end)
			break;
		end = colon;
		out->line = (uint32_t)(number[i] <= UINT32_MAX ? number[i] : 0);
	}
	out->file = between(text.data, end);
	return end < text.data + text.len && !ends_with(out->file, "??");
}

static bool keep(struct match *m, char kind, struct str part)
{
	struct rest digits = {part.data, part.data + part.len};
	uint64_t line;
	switch (kind) {
	case 'f':
	case 'F':
		m->named.function = part;
		return !is_blank((unsigned char)*part.data);
	case 'm':
		m->named.module = part;
		return !is_blank((unsigned char)*part.data);
	case 'q':
		m->named.file = part;
		return true;
	case 'l':
		if (!take_decimal(&digits, &line) || digits.at != digits.end || line > UINT32_MAX)
			return false;
		m->named.line = (uint32_t)line;
		return true;
	case 'p':
		return take_place(part, &m->named);
	}
	return true;
}

/* Where a part may end that began at `from`: the next place after `after` at which what follows in the form may begin,
 * or the one before it; NULL: there is none. */
static const char *next_end(const struct match *m, const char *follows, const char *from, const char *after, bool last)
{
	if (!*follows)
		return after ? NULL : m->end;
	if (last)
		return find_last(from + 1, after ? after : m->end, *follows);
	after = after ? after + 1 : from + 1;
	return after < m->end ? memchr(after, *follows, (size_t)(m->end - after)) : NULL;
}

/* A part whose end the rest of the form tells. */
static bool match_part(struct match *m, char kind, const char *form, const char *at)
{
	struct text_named before = m->named;
	if (at == m->end)
		return false;
	for (const char *end = NULL; m->steps && (end = next_end(m, form, at, end, kind == 'F'));) {
		m->steps--;
		m->named = before;
		if (keep(m, kind, between(at, end)) && match(m, form, end))
			return true;
	}
	m->named = before;
	return false;
}

static bool take_hex_number(struct rest *r)
{
	const char *from = r->at;
	struct str digits = take_hex_digits(r);
	return r->at > from && digits.len >= 3 && digits.len <= 16;
}

static bool take_number(struct rest *r, char kind)
{
	uint64_t number;
	const char *from = r->at;
	switch (kind) {
	case 'n':
		return take_decimal(r, &number) && r->at - from <= NUMBER_DIGITS;
	case 'd':
		return take_decimal(r, &number);
	case 'x':
		return take_0x(r, &number);
	default:
		return take_hex_number(r);
	}
}

/* "[ra] [system]", or nothing */
static void pass_marks(struct rest *r)
{
	while (peek(r) == '[') {
		const char *close = memchr(r->at, ']', (size_t)(r->end - r->at));
		if (!close)
			return;
		r->at = close + 1;
		blanks(r);
	}
}

/* Whether the rest of the line has the rest of a form. */
static bool match(struct match *m, const char *form, const char *at)
{
	struct rest r = {at, m->end};
	for (; *form; form++) {
		if (*form == '%' && strchr("ndxh", form[1])) {
			if (!take_number(&r, *++form))
				return false;
		} else if (*form == '%' && form[1] == 'r') {
			pass_marks(&r);
			form++;
			while (form[1] == ' ')
				form++;
		} else if (*form == '%') {
			return form[1] == '*' || match_part(m, form[1], form + 2, r.at);
		} else if (*form == ' ' || *form == '_') {
			if (!blanks(&r) && *form == ' ')
				return false;
		} else if (*form == '{') {
			const char *close = strchr(form, '}');
			m->named.function = (struct str){r.at, (size_t)(close - form - 1)};
		} else if (*form != '}') {
			if (peek(&r) != (unsigned char)*form)
				return false;
			r.at++;
		}
	}
	return r.at == r.end;
}

/* Java's hs_err: "j  Crash.die()I+0", "v  ~StubRoutines::call_stub" */
static bool read_hotspot(struct rest line, struct text_named *out)
{
	bool is = line.end - line.at > 3 && strchr("jJvA", *line.at) && *line.at && line.at[1] == ' ';
	*out = (struct text_named){.function = trimmed(between(line.at, line.end))};
	return is && out->function.len > 3;
}

/* Where a line of massif's tree has a frame: "| ->99.99% (10,000,000B) 0x1091A7: grab (in /opt/app)". */
static const char *behind_tree(struct rest line)
{
	static const char mark[] = "B) 0x";
	const char *arrow = find_word(line.at, line.end, "->"), *at = arrow ? find_word(arrow, line.end, mark) : NULL;
	return at ? at + strlen("B) ") : line.at;
}

/* Whether the first and the last byte of a line may be those of a form: most lines of a log are none of any. */
static bool may_have_form(const char *form, size_t len, int first, int last)
{
	int ends = (unsigned char)form[len - 1];
	bool open = form[len - 2] == '%' || ends == '}';
	if (!open && ends != last)
		return false;
	if (*form == ' ')
		return is_blank(first);
	if (*form != '%')
		return *form == first;
	return form[1] == 'n' || form[1] == 'd' ? is_digit(first) : form[1] != 'x' || first == '0';
}

/* A line that begins with a word as no form does, unless that is a file: then it ends so, and has an address. */
static bool is_words(struct rest line)
{
	int first = peek(&line), last = line.end[-1];
	return is_letter(first) && first != 'f' && first != 'a' &&
	       ((last != ')' && last != ']') || !find_0x(line.at, line.end));
}

bool text_read_named(struct rest line, bool below, struct text_named *out)
{
	while (line.end > line.at && is_blank((unsigned char)line.end[-1]))
		line.end--;
	if (line.at == line.end || line.end - line.at > LINE_BYTES)
		return false;
	if ((below && read_hotspot(line, out)) || text_windbg_symbol(line, out))
		return true;
	struct rest inner = line;
	blanks(&inner);
	if (peek(&inner) == '|' || peek(&inner) == '-')
		inner.at = behind_tree(inner);
	if (is_words(inner))
		return false;
	struct match m = {.end = line.end, .steps = STEPS};
	for (size_t i = 0; i < sizeof forms / sizeof *forms && m.steps; i++) {
		if (!may_have_form(forms[i].text, forms[i].len, *forms[i].text == ' ' ? *line.at : peek(&inner),
		            (unsigned char)line.end[-1]))
			continue;
		m.named = (struct text_named){.line = 0};
		if (!match(&m, forms[i].text, *forms[i].text == ' ' ? line.at : inner.at))
			continue;
		*out = m.named;
		out->function = text_without_offset(out->function);
		return !text_is_placeholder(out->function);
	}
	return false;
}

/* ---- numbers ---- */

static bool take_few_digits(struct rest *r, uint64_t *number)
{
	const char *from = r->at;
	return take_decimal(r, number) && r->at - from <= NUMBER_DIGITS;
}

/* "#3 " or "#3:", at the beginning or behind a blank. */
static bool take_signed_number(struct rest line, uint64_t *number)
{
	const char *sign = line.at;
	for (unsigned i = 0; i < SIGNS_MAX && sign < line.end; i++, sign++) {
		sign = memchr(sign, '#', (size_t)(line.end - sign));
		if (!sign)
			return false;
		struct rest r = {sign + 1, line.end};
		if ((sign == line.at || is_blank((unsigned char)sign[-1])) && take_few_digits(&r, number) &&
		        (is_blank(peek(&r)) || peek(&r) == ':'))
			return true;
	}
	return false;
}

int64_t text_frame_number(struct rest line)
{
	uint64_t number, other;
	struct rest r;
	blanks(&line);
	take_literal(&line, "=>"); /* Wine */
	r = line;
	if (take_literal(&r, "==") && take_decimal(&r, &number) && take_literal(&r, "==") && blanks(&r))
		return take_literal(&r, "at 0x") ? 0 : take_literal(&r, "by 0x") ? TEXT_NEXT : TEXT_UNNUMBERED;
	r = line;
	if (take_literal(&r, "@") && blanks(&r))
		return take_literal(&r, "0x") ? TEXT_NEXT : TEXT_UNNUMBERED;
	if (text_windbg_number(line, &number))
		return (int64_t)number;
	if (take_signed_number(line, &number))
		return (int64_t)number;
	r = line;
	if (take_decimal(&r, &other) && take_literal(&r, "|") && take_few_digits(&r, &number) && peek(&r) == '|')
		return (int64_t)number;
	r = line;
	if (!take_few_digits(&r, &number))
		return TEXT_UNNUMBERED;
	if ((peek(&r) == ':' || peek(&r) == '#' || peek(&r) == '.') && r.end - r.at > 1 &&
	        is_blank((unsigned char)r.at[1]))
		return (int64_t)number;
	/* "3   MyApp  0x0000000104b5c8d4 …", "3 [ra] 0x…", " 3 0x… in app" */
	const char *hex = is_blank(peek(&r)) ? find_word(r.at, r.end, "0x") : NULL;
	return hex && is_blank((unsigned char)hex[-1]) ? (int64_t)number : TEXT_UNNUMBERED;
}

/* ---- what is no name ---- */

struct str text_without_offset(struct str name)
{
	const char *plus = find_last(name.data, name.data + name.len, '+');
	struct rest r = {plus ? plus + 1 : name.data, name.data + name.len};
	uint64_t ignored;
	blanks(&r);
	if (!plus || !(take_0x(&r, &ignored) || take_decimal(&r, &ignored)) || r.at != r.end)
		return name;
	return trimmed(between(name.data, plus));
}

bool text_is_placeholder(struct str name)
{
	static const char *const words[] = {"??", "<unknown", "(unknown", "[unknown", "unknown", "<null>", "<redacted>",
	        "n/a", "___lldb_unnamed_symbol", "(function-name not available)"};
	struct rest r = {name.data, name.data + name.len};
	uint64_t ignored;
	if (!name.len || str_equal(name, str_from("?")))
		return true;
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (take_literal(&r, words[i]))
			return true;
	return take_0x(&r, &ignored) && (r.at == r.end || is_blank(peek(&r)));
}
