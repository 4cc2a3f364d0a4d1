/* SPDX-License-Identifier: Apache-2.0 */
/* From text to frames:
 *
 *   text ──► lines                                           text_reader_read
 *              │  colours and HTML are taken away             read_line, unescape.c
 *              ▼
 *            a plain line ──► strings of JSON with lines      read_plain, read_json
 *              │                │ each a line
 *              ▼                ▼
 *            what is behind the prefixes of a log             cut.c
 *              ▼
 *            the formats that may know it, one by one         formats.c, format_*.c
 *              ▼
 *            frames: module, stack, place for a name          found.c, stacks.c ──► the caller */
#include <config.h>

#include "text/reader.h"

#include <stdlib.h>

#include "text/cut.h"
#include "text/formats.h"
#include "text/prefix.h"
#include "text/signs.h"
#include "text/unescape.h"

enum { DEBUG_ID_PART = 8 };            /* hex digits with which each debug id and build id begins */
#define BYTE_ORDER_MARK "\xef\xbb\xbf" /* with which Windows begins a text */

/* ---- a reader ---- */

struct text_reader *text_reader_new(
        uint32_t max_modules, bool (*frame)(void *arg, const struct text_frame *f), void *arg)
{
	struct text_reader *r = calloc(1, sizeof *r + text_states_size());
	if (!r)
		return NULL;
	r->frame = frame;
	r->arg = arg;
	text_index_init(&r->index);
	text_states_init(r, r + 1);
	text_maps_init(&r->maps);
	if (text_modules_init(&r->modules, max_modules))
		return r;
	text_reader_free(r);
	return NULL;
}

void text_reader_free(struct text_reader *r)
{
	if (!r)
		return;
	text_modules_release(&r->modules);
	text_maps_release(&r->maps);
	free(r->unescaped);
	text_states_free_late(r);
	free(r);
}

size_t text_reader_memory(const struct text_reader *r)
{
	return sizeof *r + text_states_size() + text_states_late(r) + (r->unescaped ? sizeof *r->unescaped : 0) +
	       text_modules_memory(&r->modules) + text_maps_memory(&r->maps);
}

bool text_reader_know(struct text_reader *r, struct str name, struct str id)
{
	const struct text_module *ignored;
	const char *end = id.data + id.len, *slash = find_last(id.data, end, '/');
	struct rest behind = {slash ? slash + 1 : end, end};
	if (take_hex_digits(&behind).len < DEBUG_ID_PART) /* a FileID in base64 may have a slash, too */
		slash = NULL;
	struct str symbols = between(id.data, slash ? slash : id.data);
	if (!id.len)
		return text_modules_know_name(&r->modules, name);
	if (slash)
		id = between(slash + 1, end);
	return text_modules_know(&r->modules, name, symbols, id, TEXT_ID_GIVEN, true, &ignored);
}

void text_reader_use_fixed(struct text_reader *r, struct str program)
{
	r->uses_fixed = true;
	r->program = program;
}

void text_reader_tell_named(struct text_reader *r, bool titles)
{
	r->stacks.wanted = true;
	r->stacks.titled = titles;
}

const struct text_stack *text_reader_stack(const struct text_reader *r)
{
	return &r->stacks.stack;
}

uint64_t text_reader_named(const struct text_reader *r)
{
	return r->stacks.named;
}

uint32_t text_reader_modules(const struct text_reader *r)
{
	return r->modules.count;
}

const struct text_module *text_reader_module(const struct text_reader *r, uint32_t index)
{
	return text_modules_at(&r->modules, index);
}

bool text_reader_is_crowded(const struct text_reader *r)
{
	return text_modules_crowded(&r->modules);
}

void text_reader_trim(struct text_reader *r)
{
	if (text_maps_crowded(&r->maps))
		text_maps_forget(&r->maps);
}

void text_reader_forget(struct text_reader *r)
{
	text_modules_forget(&r->modules);
	text_maps_forget(&r->maps);
	r->base_count = 0;
}

void text_reader_begin(struct text_reader *r)
{
	text_reader_forget(r);
	text_maps_begin_process(&r->maps);
	text_states_free_late(r);
	memset(r + 1, 0, text_states_size());
	*r = (struct text_reader){.modules = r->modules,
	        .maps = r->maps,
	        .uses_fixed = r->uses_fixed,
	        .program = r->program,
	        .guess = r->guess,
	        .all_frames = r->all_frames,
	        .stacks = {.wanted = r->stacks.wanted, .titled = r->stacks.titled, .named = r->stacks.named},
	        .frame = r->frame,
	        .arg = r->arg,
	        .index = r->index,
	        .at = r->at,
	        .unescaped = r->unescaped};
	text_states_init(r, r + 1);
}

const struct guess *text_reader_guess(const struct text_reader *r)
{
	return !r->all_frames && r->guess.score ? &r->guess : NULL;
}

/* ---- text ---- */

static void read_line(struct text_reader *r, const char *at, const char *end, unsigned signs);
static void read_plain(struct text_reader *r, const char *at, const char *end, unsigned signs);
static bool read_json(struct text_reader *r, struct rest line, unsigned signs);
static bool read_strings(struct text_reader *r, struct rest line);
static bool read_string(struct text_reader *r, struct rest string, const char *line_feed);
static bool begin_unescaping(struct text_reader *r);

/* The next line tells whether a frame of a call graph has callees. False: it is still to come. */
static bool find_following(struct text_reader *r, const char *start, const char *stop, const char *end)
{
	const char *from = stop < end ? stop + 1 : end;
	const char *lf = memchr(from, '\n', (size_t)(end - from));
	r->following = between(from, lf ? lf : end);
	r->following_at = r->at + (uint64_t)(from - start);
	/* of macOS's call graphs, of compute-sanitizer's frames; jemalloc's title */
	bool matters = find_word(start, stop, "??? ") || find_word(start, stop, "Host Frame:") ||
	               (r->stacks.titled && *start == '@');
	return lf || end - start > TEXT_LINE_MAX || !matters;
}

static const char *find_escape(const char *from, const char *end)
{
	const char *at = memchr(from, ESCAPE, (size_t)(end - from));
	return at ? at : end;
}

enum text_result text_reader_read(struct text_reader *r, struct str text, bool last, size_t *used)
{
	*used = 0;
	r->result = TEXT_OK;
	r->escape = find_escape(text.data, text.data + text.len);
	while (*used < text.len && !r->result) {
		unsigned signs;
		const char *start = text.data + *used, *end = text.data + text.len;
		const char *stop = text_scan_line(start, end, &signs);
		bool lf = stop < end;
		size_t len = (size_t)(stop - start);
		r->following = NOTHING;
		if (!lf && !last && !r->skips && len <= TEXT_LINE_MAX)
			break;
		if (signs & SIGN_HEX && !r->skips && !find_following(r, start, stop, end) && !last)
			break;
		if (!r->skips)
			r->line++;
		r->start = start;
		if (r->escape < start)
			r->escape = find_escape(start, end);
		if (!r->skips && len <= TEXT_LINE_MAX)
			read_line(r, start, stop, signs);
		r->skips = !lf && !last;
		len += lf;
		*used += len;
		r->at += len;
	}
	text_keep_line(r);
	return r->result;
}

/* ---- a line: colours, HTML ---- */

/* Lines without a sign are none of a stack. The signs found so far may be those of the next line. */
static bool is_html(const char *at, const char *end, unsigned signs)
{
	bool begins = at < end && *at == '&';
	if ((!(signs & SIGNS_OF_FRAMES) && !begins) || !text_is_html(at, end))
		return false;
	text_scan_line(at, end, &signs);
	return signs & SIGNS_OF_FRAMES || begins;
}

/* "crash#012    #0 0x…#012    #1 0x…": so rsyslog writes a message of several lines. */
static bool read_syslog(struct text_reader *r, const char *at, const char *end)
{
	struct str source;
	if (!find_word(at, end, TEXT_SYSLOG_FEED) || !begin_unescaping(r))
		return false;
	struct rest line = text_without_prefix((struct rest){at, end}, true, &source);
	r->mapped = true;
	bool found = read_string(r, line, TEXT_SYSLOG_FEED);
	r->mapped = false;
	return found;
}

static void read_unescaped(struct text_reader *r, enum text_style style)
{
	unsigned signs;
	const char *at = r->unescaped->text, *end = at + r->unescaped->len;
	text_scan_line(at, end, &signs);
	r->escaped = style;
	r->mapped = true;
	read_plain(r, at, end, signs);
	r->escaped = 0;
	r->mapped = false;
}

/* Colours as terminals have them, and entities of HTML, as the source of a page has them: "  4: 0x55d9f3f4a1b2 -
 * &lt;unknown&gt;". */
static void read_line(struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	struct rest line = {at, end};
	bool coloured = r->escape >= at && r->escape < end, html = !coloured && is_html(at, end, signs);
	if ((coloured || html) && !begin_unescaping(r))
		return;
	if (coloured && text_unescape_colours(r->unescaped, line))
		read_unescaped(r, 0);
	else if (html && text_unescape_html(r->unescaped, line))
		read_unescaped(r, TEXT_HTML);
	else if (!(signs & SIGN_QUOTE) || !read_syslog(r, at, end))
		read_plain(r, at, end, signs);
}

/* ---- a plain line: prefixes, JSON ---- */

/* Where the line ends without blanks; but backward-cpp's ", in " has one. */
static const char *without_end(const char *at, const char *end)
{
	while (end > at && (end[-1] == '\r' || is_blank((unsigned char)end[-1])) &&
	        !ends_with(between(at, end), ", in "))
		end--;
	return end;
}

/* A number or word alone, as in lists of pretty-printed JSON. */
static bool is_scalar(struct rest line)
{
	if (line.end > line.at && line.end[-1] == ',')
		line.end--;
	while (line.at < line.end && (is_digit(peek(&line)) || strchr("-+.eEtrufalsn", *line.at)) && *line.at)
		line.at++;
	return line.at == line.end;
}

/* A line that is none of a JSON value ends it. */
static void pass_json(struct text_reader *r, struct rest line)
{
	blanks(&line);
	if (line.at < line.end && !strchr("{}[]\",", *line.at) && !is_scalar(line))
		r->json_depth = 0;
}

static void read_plain(struct text_reader *r, const char *at, const char *end, unsigned signs)
{
	struct rest line = {at, end = without_end(at, end)};
	take_literal(&line, BYTE_ORDER_MARK);
	const char *begin;
	line.at = text_behind_prefixes(r, line, signs, &begin);
	r->frames = 0;
	/* strings before the line around them, which may look like a frame, or like the end of a stack */
	if (!(signs & SIGN_QUOTE) || r->mapped || !read_json(r, line, signs))
		text_read_formats(r, begin, &line, signs);
	if (r->json_depth)
		pass_json(r, line);
}

/* The next string of a line of JSON, whose end is passed. */
static bool take_json_string(struct rest *line, struct str *out)
{
	const char *quote = line->at < line->end ? memchr(line->at, '"', (size_t)(line->end - line->at)) : NULL;
	const char *end = quote ? text_string_end(quote + 1, line->end) : NULL;
	if (!end)
		return false;
	*out = between(quote + 1, end);
	line->at = end + 1;
	return true;
}

/* Keys under which logs have a line of output. */
static bool is_logged(struct str key)
{
	static const char *const keys[] = {
	        "log", "message", "msg", "MESSAGE", "@message", "textPayload", "line", "text", "body", "event"};
	enum { SHORTEST = 3, LONGEST = 11 };
	return key.len >= SHORTEST && key.len <= LONGEST && strchr("lmM@tbe", *key.data) &&
	       is_one_of(key, keys, sizeof keys / sizeof *keys);
}

/* {"log":"#0 0x…","stream":"stderr"} */
static bool has_logged(struct rest line)
{
	struct str string;
	while (take_json_string(&line, &string)) {
		struct rest r = line;
		blanks(&r);
		if (!is_logged(string) || !take_literal(&r, ":"))
			continue;
		blanks(&r);
		if (peek(&r) == '"')
			return true;
	}
	return false;
}

/* Whether the line is JSON with strings of lines. */
static bool read_json(struct text_reader *r, struct rest line, unsigned signs)
{
	if (find_word(line.at, line.end, TEXT_JSON_FEED))
		return text_read_json(r, line) || read_strings(r, line) || peek(&line) == '{';
	struct rest inner = line;
	blanks(&inner);
	if (r->json_depth || peek(&inner) != '{' || !has_logged(line))
		return false;
	if (!read_strings(r, line))
		text_ask_formats(r, line, signs);
	return true;
}

/* ---- lines in strings ---- */

/* Those in which a program's output stands: with \n in or behind it, or under a key that logs use. Whether formats
 * recognise a line. */
static bool read_strings(struct text_reader *r, struct rest line)
{
	struct str string, key = {"", 0};
	bool found = false;
	if (!begin_unescaping(r))
		return false;
	r->escaped = TEXT_STRING;
	r->mapped = true;
	while (!r->result && take_json_string(&line, &string)) {
		struct rest value = {string.data, string.data + string.len};
		if (is_logged(key) || find_word(value.at, value.end, TEXT_JSON_FEED))
			found = read_string(r, value, TEXT_JSON_FEED) || found;
		blanks(&line);
		key = peek(&line) == ':' ? string : NOTHING;
	}
	r->escaped = 0;
	r->mapped = false;
	return found;
}

/* One of several lines is a report of its own, so is its memory map. Output that is logged line by line goes on. */
static bool read_string(struct text_reader *r, struct rest string, const char *line_feed)
{
	bool found = false;
	const char *feed = find_word(string.at, string.end, line_feed);
	uint32_t process = r->maps.process;
	bool whole = feed && feed + strlen(line_feed) < string.end;
	if (whole) {
		text_maps_begin_process(&r->maps);
		text_stacks_close(r);
		r->base_count = 0;
	}
	for (bool first = true; !r->result && text_unescape_line(r->unescaped, &string, line_feed); first = false) {
		unsigned signs;
		struct str source;
		const char *at = r->unescaped->text, *end = at + r->unescaped->len;
		text_scan_line(at, end, &signs);
		r->line += !first;
		r->inner_lines += !first;
		end = without_end(at, end);
		struct rest line = {at, end};
		line = text_without_prefix(line, signs & SIGN_BRACE, &source);
		found = text_read_formats(r, line.at, &line, signs) || found;
	}
	if (whole) {
		r->maps.process = process;
		text_stacks_close(r);
		r->line += 2; /* what follows is not of the same stack */
		r->inner_lines += 2;
		r->perf_depth = r->strace_depth = r->hotspot_depth = r->base_count = 0;
	}
	return found;
}

static bool begin_unescaping(struct text_reader *r)
{
	if (!r->unescaped && !(r->unescaped = malloc(sizeof *r->unescaped))) {
		r->result = TEXT_NO_MEMORY;
		return false;
	}
	r->unescaped->start = r->start;
	return true;
}
