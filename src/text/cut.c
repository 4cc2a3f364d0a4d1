/* SPDX-License-Identifier: Apache-2.0 */
/* A line is cut where the part begins that a format knows:
 *
 *   Nov 26 18:56:33 host app[71]: [rank0]: #1 0x7fe9c0a27249  (/lib/libc.so.6+0x27249)
 *   └── a known prefix ─────────┘ └─ unknown: neighbours have it in common (common.c)
 *
 * Formats are asked of what is behind the known prefix and the unknown one of the line before; then behind others that
 * this line and the one before may have in common; then of the whole line. Where none finds anything to look up, it may
 * be a frame that has a name, or stand above a stack. */
#include <config.h>

#include "text/cut.h"

#include "base/hash.h"
#include "text/formats.h"
#include "text/prefix.h"
#include "text/signs.h"

enum {
	CUTS_MAX = 24,     /* tried for a prefix of unknown form */
	SEARCH_TIMES = 64, /* how often each byte of a line may be searched for a module, in all ways to cut it */
};

/* A line as it begins in one of the ways to cut it. */
struct cut {
	struct rest line;
	unsigned signs, hotspot_depth; /* the latter: of the lines above */
};

static void read_named(struct text_reader *r, struct rest line, unsigned signs);
static void pass_no_frame(struct text_reader *r, struct rest line);
static bool read_cut(struct text_reader *r, struct cut *c, const char *begin);
static bool is_plain(const struct text_reader *r, const struct cut *c, const char *begin);
static bool is_json(struct rest line);
static bool ask_formats(struct text_reader *r, const struct cut *c, unsigned which);
static bool is_hotspot(const char *at, const char *end);
static bool find_prefix(struct text_reader *r, struct cut *c, const char *begin);
static bool has_map(const char *at, const char *end, unsigned signs);
static void note_begin(struct text_reader *r, const char *begin);
static void keep_line(struct text_reader *r, const struct cut *c, const char *begin, bool is_read);

/* ---- a line ---- */

/* A line without prefix and colours. begin: where a prefix of an unknown form begins, if it has one. Whether a format
 * recognises it. */
bool text_read_formats(struct text_reader *r, const char *begin, struct rest *line, unsigned signs)
{
	unsigned perf_depth = r->perf_depth;
	struct cut c = {*line, signs, r->hotspot_depth};
	r->search_left = SEARCH_TIMES * (size_t)(line->end - begin) + TEXT_NAME_MAX;
	r->frames = r->named_frames = 0;
	r->frames_before = r->all_frames;
	bool found = read_cut(r, &c, begin);
	if (!r->frames)
		r->base_count = r->strace_depth = 0;
	r->stacks.line = c.line;
	if (r->stacks.wanted && r->all_frames == r->frames_before)
		read_named(r, c.line, signs);
	if (!r->all_frames && (signs & (SIGN_HEX | SIGN_PLUS | SIGN_QUOTE)))
		guess_look(&r->guess, c.line, r->line - r->inner_lines, signs & SIGN_HEX);
	if (r->perf_depth == perf_depth)
		pass_no_frame(r, c.line);
	*line = c.line;
	return found;
}

/* A line in which no format found anything to look up. */
static void read_named(struct text_reader *r, struct rest line, unsigned signs)
{
	struct text_named named;
	bool below = r->stacks.count && r->stacks.end + 1 == r->line;
	bool may_be = signs & (SIGN_HEX | SIGN_QUOTE | SIGN_PAREN | SIGN_PLUS | SIGN_BRACE) || below;
	if (r->named_frames)
		return; /* a format has found it */
	if (may_be && text_read_named(r->stacks.line, below, &named))
		text_found_named(r, &named);
	else
		text_stacks_pass(r, line);
}

/* A line that is no frame ends a stack of perf, and where a signal came is behind it only if it stands between frames.
 */
static void pass_no_frame(struct text_reader *r, struct rest line)
{
	bool signal = r->signal_line == r->line, unknown = r->unknown_line == r->line;
	if (!r->perf_depth && !signal && !unknown)
		return;
	if (!text_is_between_frames(line)) {
		r->perf_depth = 0;
	} else if (!r->frames && r->caller_line != r->line) {
		r->signal_line += signal;
		r->unknown_line += unknown;
	}
}

/* Whether a format takes the line: as it is behind the prefix that is known, as it is, or behind another one. Sets
 * c->line to what is behind it. */
static bool read_cut(struct text_reader *r, struct cut *c, const char *begin)
{
	if (is_plain(r, c, begin)) {
		r->hotspot_depth = 0;
		r->begins = NULL;
		keep_line(r, c, begin, false);
		return false;
	}
	bool known = c->line.at > begin, json = r->json_depth || is_json(c->line);
	struct cut whole = *c;
	whole.line.at = begin;
	bool found = ask_formats(r, c, known || json ? TEXT_ANCHORED | TEXT_FLOATING : TEXT_ANCHORED);
	if (found && !known && r->begins)
		note_begin(r, begin);
	if (!found && !json)
		found = find_prefix(r, c, begin);
	bool floats = known || c->signs & r->index.floating_signs;
	if (!found && !json && floats &&
	        ask_formats(r, &whole, known ? TEXT_ANCHORED | TEXT_FLOATING : TEXT_FLOATING)) {
		*c = whole;
		found = true;
		note_begin(r, begin);
	}
	if (!found)
		found = ask_formats(r, c, TEXT_ANYWHERE);
	keep_line(r, c, begin, found || json);
	return found;
}

/* No format would be asked of it, however it is cut: so are most lines of a log. */
static bool is_plain(const struct text_reader *r, const struct cut *c, const char *begin)
{
	size_t before = r->common.before_len;
	return !(c->signs & SIGNS_OF_FRAMES) && r->line > r->awaited && !r->json_depth &&
	       !(before && r->common.before[before - 1] == '{') &&
	       !text_formats_by_beginning(&r->index, c->line.at, c->line.end) &&
	       (begin == c->line.at || !text_formats_by_beginning(&r->index, begin, c->line.end)) &&
	       !is_hotspot(c->line.at, c->line.end) && !has_map(begin, c->line.end, c->signs);
}

/* A line of JSON, which is not read twice. */
static bool is_json(struct rest line)
{
	blanks(&line);
	int first = peek(&line), next = line.end - line.at > 1 ? (unsigned char)line.at[1] : '{';
	bool begins = first == '{' || first == '[';
	return first > 0 && (begins ? next > 0 && strchr("{[]}\" ", next) : strchr("}]\",", first) != NULL);
}

/* which: a set of enum text_asked. */
static bool ask_formats(struct text_reader *r, const struct cut *c, unsigned which)
{
	struct rest line = c->line;
	bool hotspot = is_hotspot(line.at, line.end);
	if (which & TEXT_ANCHORED && (hotspot || text_is_counted(line)))
		which |= TEXT_ANYWHERE;
	r->hotspot_depth = hotspot ? c->hotspot_depth + 1 : 0;
	r->begins = NULL;
	r->signs = c->signs;
	r->stacks.line = line;
	unsigned signs = (c->signs & SIGNS_OF_FRAMES) | (r->line <= r->awaited ? TEXT_AWAITED : 0);
	return text_formats_ask(r, line, signs, which);
}

/* Java's hs_err: "C  [libjn.so+0x112c]  name+0x1c", "j  J.go()V+1", "v  ~StubRoutines::call_stub". */
static bool is_hotspot(const char *at, const char *end)
{
	while (at < end && is_blank((unsigned char)*at))
		at++;
	return end - at > 2 && at[1] == ' ' && memchr("CVvJjA", *at, 6);
}

/* ---- known prefixes ---- */

/* Lines of several programs may stand among each other; each has a process, and a memory map, of its own. The oldest
 * program is forgotten when there are too many. */
static void change_source(struct text_reader *r, struct str source)
{
	uint64_t hash = name_hash_seeded(source, NOTHING, 0);
	if (r->source && r->sources[r->source - 1].hash == hash)
		return;
	if (r->source)
		r->sources[r->source - 1].process = r->maps.process;
	r->perf_depth = r->strace_depth = r->base_count = 0;
	for (r->source = 1; r->source <= TEXT_SOURCES && r->source <= r->source_count; r->source++) {
		if (r->sources[r->source - 1].hash != hash)
			continue;
		r->maps.process = r->sources[r->source - 1].process;
		return;
	}
	r->source = r->source_count++ % TEXT_SOURCES + 1;
	r->sources[r->source - 1].hash = hash;
	text_maps_begin_process(&r->maps);
}

/* Whether its prefix begins and ends like the latest one, and tells of no source: then it need not be read again. */
static bool has_same_prefix(const struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	size_t len = r->prefix_len;
	if (len <= sizeof r->prefix || r->source || (size_t)(end - at) < len)
		return false;
	char last = at[len - 2];
	return !memcmp(at, r->prefix, sizeof r->prefix) && at[len - 1] == ' ' &&
	       (last == r->prefix_last || (is_digit((unsigned char)last) && is_digit((unsigned char)r->prefix_last))) &&
	       !text_prefix_goes_on((struct rest){at + len, end}, signs & SIGN_BRACE);
}

/* Behind what a log puts there, if it does. */
static const char *behind_prefix(struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	struct str source = {"", 0};
	if (has_same_prefix(r, at, end, signs))
		return at + r->prefix_len;
	const char *behind = text_without_prefix((struct rest){at, end}, signs & SIGN_BRACE, &source).at;
	size_t len = (size_t)(behind - at);
	if (!len)
		return at;
	r->prefix_len = 0;
	if (len > sizeof r->prefix && behind[-1] == ' ') {
		r->prefix_len = len;
		r->prefix_last = behind[-2];
		memcpy(r->prefix, at, sizeof r->prefix);
	}
	if (source.len)
		change_source(r, source);
	return behind;
}

/* ---- unknown ones ---- */

/* The same prefix as the line before, if that had one of an unknown form. */
static const char *behind_common(const struct text_reader *r, const char *at, const char *end)
{
	int first = (unsigned char)*r->common.prefix;
	if (r->common.len && (first == (unsigned char)*at || (is_digit(first) && is_digit((unsigned char)*at))))
		at += text_common_match((struct rest){at, end}, (struct str){r->common.prefix, r->common.len}).len;
	return at;
}

/* "r-xp 00026000" of a memory map, whose lines have no sign of frames */
static bool has_map(const char *at, const char *end, unsigned signs)
{
	return signs & SIGN_MAP && find_word(at, end, "p 0");
}

/* Most lines of a log need not be looked at: a frame has an address or a number, or a path in parentheses as perf
 * writes it. Those of memory maps, and the brace that opens a value of JSON, have none. */
static bool may_have_prefix(const struct text_reader *r, const struct cut *c)
{
	const char *at = c->line.at, *end = c->line.end;
	size_t before = r->common.before_len;
	if (at == end || !before)
		return false;
	return r->common.before[before - 1] == '{' || c->signs & SIGN_HEX || end[-1] == ')' ||
	       (c->signs & SIGN_BRACE && end[-1] == '{') ||
	       (c->signs & SIGN_QUOTE && memchr(at, '#', (size_t)(end - at))) || has_map(at, end, c->signs);
}

/* "3: ", "3 0x", "0|1|", "16. ", "1# ", "47.13%", "27,852 (", "7f4640e1e000-", "0x55…", "00 000000c8`"; no time of day,
 * nor a number before a word. */
static bool may_be_number(struct rest line)
{
	struct rest hex = line;
	size_t digits = take_hex_digits(&hex).len;
	if (digits > 4)
		return true;
	while (is_digit(peek(&line)))
		line.at++;
	int next = peek(&line), second = line.end - line.at > 1 ? (unsigned char)line.at[1] : 0;
	switch (next) {
	case ':':
	case '.':
		return is_blank(second) || (next == '.' && is_digit(second));
	case ' ':
	case '\t':
		return !is_letter(second) || hex_value(second) >= 0;
	default:
		return next >= 0 && strchr("|#x%,<>[", next);
	}
}

/* What begins with a mark: "#0", "==7==", "=>0", "(0x", "(gdb) ", "->99.99%"; any other mark may begin a format. */
static bool may_be_mark(struct rest line)
{
	int next = line.end - line.at > 1 ? (unsigned char)line.at[1] : -1;
	switch (peek(&line)) {
	case '#':
		return is_digit(next) || is_blank(next);
	case '=':
		return next == '=' || next == '>';
	case '(':
		return next == '0' || next == 'g' || next == 'l' || next == 'E';
	case '-':
		return next == '>';
	default:
		return true;
	}
}

/* How lines begin that formats know by their beginning. */
static bool may_be_anchored(struct rest line)
{
	bool indented = blanks(&line);
	int first = peek(&line);
	struct rest digits = line;
	if (is_digit(first))
		return indented || may_be_number(line);
	if (!is_letter(first))
		return may_be_mark(line);
	return is_hotspot(line.at, line.end) || take_hex_digits(&digits).len > 3 ||
	       (line.end - line.at > 1 && line.at[1] == ':') || text_formats_have_word(line);
}

static void know_prefix(struct text_reader *r, struct str prefix)
{
	memcpy(r->common.prefix, prefix.data, prefix.len);
	r->common.len = prefix.len;
}

/* The line before, which no format took, without this prefix. Whether one takes it now, or it is a heading. */
static bool read_before(struct text_reader *r, struct str prefix, struct str following)
{
	struct text_common *c = &r->common;
	struct rest before = {c->before, c->before + c->before_len};
	struct str like = text_common_match(before, prefix), kept = r->following;
	const char *start = r->start;
	uint64_t at = r->at, kept_at = r->following_at;
	before.at += like.len;
	if (like.len && c->before_is_read && is_hotspot(before.at, before.end))
		r->hotspot_depth = 1;
	if (!like.len || c->before_is_read || c->before_line + 1 != r->line || r->mapped || !may_be_anchored(before))
		return false;
	uint64_t signal = r->signal_line, awaited = r->awaited;
	r->following = following;
	r->following_at = at + (uint64_t)(following.data - start);
	r->start = c->before;
	r->at = c->before_at;
	r->line--;
	if (r->stacks.above_line == r->line) { /* it is no title */
		r->stacks.above = r->stacks.before;
		r->stacks.above_line = r->stacks.before_line;
	}
	bool opens = str_equal(trimmed(between(before.at, before.end)), str_from("{")); /* a value of JSON */
	bool found = ask_formats(r, &(struct cut){before, c->before_signs, r->hotspot_depth}, TEXT_ANCHORED) || opens ||
	             signal != r->signal_line || awaited != r->awaited;
	r->line++;
	r->following = kept;
	r->following_at = kept_at;
	r->at = at;
	r->start = start;
	r->frames = 0;
	r->frames_before = r->all_frames;
	return found;
}

/* The line that a format was asked of is a frame, though nothing is to be looked up. */
static bool is_named_frame(const struct text_reader *r)
{
	return r->named_frames || r->caller_line == r->line;
}

/* Tries what this line and the one before have in common as a prefix of both; prefix: what is known of it. Sets c->line
 * to what is behind it. */
static bool find_prefix(struct text_reader *r, struct cut *c, const char *begin)
{
	struct cut cut = *c;
	const char *at = c->line.at > begin ? c->line.at : NULL, *end = c->line.end;
	if (!may_have_prefix(r, c) || is_named_frame(r))
		return false;
	uint32_t shape;
	struct str common = text_common_with_before(&r->common, (struct rest){begin, end}, &shape);
	uint32_t *failed = &r->common.failed[shape / 2 % SHAPES];
	if (*failed == shape)
		return false;
	for (unsigned i = 0; i < CUTS_MAX && (at = text_common_cut(common, (struct rest){begin, end}, at)); i++) {
		struct str prefix = between(begin, at);
		bool before = read_before(r, prefix, between(begin, end));
		cut.line.at = at;
		cut.hotspot_depth = r->hotspot_depth ? r->hotspot_depth : c->hotspot_depth;
		bool now = may_be_anchored(cut.line) && ask_formats(r, &cut, TEXT_ANCHORED);
		if (!now && !before && !is_named_frame(r))
			continue;
		if (r->begins > at && r->begins <= common.data + common.len) /* "# " before "#0" */
			prefix.len = (size_t)(r->begins - begin);
		know_prefix(r, prefix);
		*c = cut;
		return now || ask_formats(r, c, TEXT_FLOATING);
	}
	*failed = shape;
	return false;
}

/* A frame that is found wherever it stands tells which prefix is before it. */
static void note_begin(struct text_reader *r, const char *begin)
{
	const char *end = r->begins;
	while (end && end > begin && is_blank((unsigned char)end[-1]))
		end--;
	if (end && end < r->begins)
		end++;
	uint32_t ignored;
	struct str common = {"", 0};
	if (end)
		common = text_common_with_before(&r->common, (struct rest){begin, end}, &ignored);
	if (common.len && end > begin + 1 && common.data + common.len == end)
		know_prefix(r, common);
}

/* What it points to will not stay. */
static void keep_before(struct text_common *c)
{
	if (c->before_len && c->before != c->kept)
		memcpy(c->kept, c->before, c->before_len);
	c->before = c->kept;
}

static void keep_line(struct text_reader *r, const struct cut *c, const char *begin, bool is_read)
{
	struct text_common *kept = &r->common;
	size_t len = (size_t)(c->line.end - begin);
	kept->before_len = len <= BEFORE_MAX ? len : 0;
	kept->before = begin;
	if (r->mapped)
		keep_before(kept);
	kept->before_line = r->line;
	kept->before_at = r->at + (uint64_t)(begin - (r->mapped ? begin : r->start));
	kept->before_signs = c->signs;
	kept->before_is_read = is_read || r->mapped;
}

const char *text_behind_prefixes(struct text_reader *r, struct rest line, unsigned signs, const char **begin)
{
	*begin = behind_prefix(r, line.at, line.end, signs);
	return *begin < line.end ? behind_common(r, *begin, line.end) : *begin;
}

bool text_ask_formats(struct text_reader *r, struct rest line, unsigned signs)
{
	return ask_formats(r, &(struct cut){line, signs, r->hotspot_depth}, TEXT_ANCHORED | TEXT_FLOATING);
}

void text_keep_line(struct text_reader *r)
{
	keep_before(&r->common);
}
