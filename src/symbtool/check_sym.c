/* SPDX-License-Identifier: Apache-2.0 */
/* The reader is given no more than one line at a time: when it counts one more as damaged, it was this line. */
#include <config.h>

#include "symbtool/check_sym.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/hex.h"
#include "sym/line.h"
#include "sym/reader.h"
#include "symbtool/input.h"
#include "symbtool/visible.h"

enum {
	SYM_LINE_SHOWN = 120,              /* bytes of a damaged line that are kept */
	DAMAGES_MAX = 100000,              /* that are kept; all are counted */
	LINE_ROOM = BREAKPAD_LINE_MAX + 3, /* so that the line is too long is seen to be, whatever its end */
};

struct sym_damage {
	uint64_t number; /* of the line, from 1 */
	const char *reason;
	char text[SYM_LINE_SHOWN + 1]; /* what is not printable is '?' */
};

struct sym_report {
	uint64_t funcs, publics, lines, inlines;
	uint64_t damaged;
	struct sym_damage *items; /* of the first of them */
	size_t count;
	uint32_t cap;
	uint64_t problem_line; /* 0: of the file as a whole */
	char problem[256];     /* why it is no symbol file; empty: it is one */
};

struct checker {
	struct sym_report *report;
	struct symreader *reader;
	uint8_t *line;     /* that comes, as far as there is room */
	uint64_t line_len; /* of it so far, without its line feed */
	uint64_t number, damaged;
	bool in_line;  /* a piece of it has come, but not its end */
	bool has_func; /* line and INLINE records belong to one */
};

static const struct {
	const char *keyword, *reason;
} reasons[] = {
        {"FUNC", "not FUNC [m] ADDRESS SIZE PARAMETERS NAME"},
        {"INLINE", "not INLINE DEPTH CALL-LINE CALL-FILE ORIGIN ADDRESS SIZE..."},
        {"PUBLIC", "not PUBLIC [m] ADDRESS PARAMETERS NAME"},
        {"INLINE_ORIGIN", "not INLINE_ORIGIN ID NAME"},
        {"FILE", "not FILE ID NAME"},
};

/* The line's first word is this one. */
static bool starts_with(struct str line, const char *word)
{
	size_t len = strlen(word);
	return line.len >= len && memcmp(line.data, word, len) == 0 &&
	       (line.len == len || strchr(" \t\r", line.data[len]));
}

static struct str without_blanks(struct str line)
{
	while (line.len && (*line.data == ' ' || *line.data == '\t'))
		line = (struct str){line.data + 1, line.len - 1};
	return line;
}

static const char *damage_of(const struct checker *c, struct str line)
{
	if (c->line_len > BREAKPAD_LINE_MAX)
		return "the line is too long";
	if (!c->has_func && starts_with(line, "INLINE"))
		return "INLINE without a FUNC before it";
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (starts_with(line, reasons[i].keyword))
			return reasons[i].reason;
	if (!line.len || hex_value(*line.data) < 0)
		return "not a known record";
	return c->has_func ? "not ADDRESS SIZE LINE FILE" : "a line record without a FUNC before it";
}

static enum err add_damage(struct checker *c, struct str line, struct error *e)
{
	struct sym_report *r = c->report;
	if (r->count == DAMAGES_MAX)
		return ERR_OK;
	if (!array_reserve(&r->items, &r->cap, r->count + 1, sizeof *r->items))
		return no_memory(e);
	struct sym_damage *d = &r->items[r->count++];
	*d = (struct sym_damage){.number = c->number, .reason = damage_of(c, line)};
	size_t len = line.len < SYM_LINE_SHOWN ? line.len : SYM_LINE_SHOWN;
	for (size_t i = 0; i < len; i++)
		d->text[i] = line.data[i] >= 0x20 && line.data[i] < 0x7f ? line.data[i] : '?';
	return ERR_OK;
}

static enum err end_line(struct checker *c, struct error *e)
{
	size_t len = c->line_len < LINE_ROOM ? (size_t)c->line_len : LINE_ROOM, shown = len;
	if (shown && c->line[shown - 1] == '\r')
		shown--;
	struct str line = without_blanks((struct str){(char *)c->line, shown});
	bool is_damaged = c->reader->damaged != c->damaged;
	enum err err = is_damaged ? add_damage(c, line, e) : ERR_OK;
	if (starts_with(line, "FUNC") || starts_with(line, "PUBLIC"))
		c->has_func = !is_damaged && *line.data == 'F';
	c->damaged = c->reader->damaged;
	c->line_len = 0;
	return err;
}

/* A line, or a piece of one. */
static enum err check_piece(struct checker *c, const uint8_t *data, size_t len, struct error *e)
{
	bool whole = data[len - 1] == '\n';
	size_t text = len - whole;
	if (c->line_len < LINE_ROOM) {
		size_t room = LINE_ROOM - (size_t)c->line_len;
		memcpy(c->line + c->line_len, data, text < room ? text : room);
	}
	c->number += !c->in_line;
	c->in_line = !whole;
	c->line_len += text;
	enum err err = symreader_feed(c->reader, data, len, e);
	return err || !whole ? err : end_line(c, e);
}

static enum err take_block(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	const uint8_t *end = data + len;
	enum err err = ERR_OK;
	while (!err && data < end) {
		const uint8_t *stop = memchr(data, '\n', (size_t)(end - data));
		size_t n = stop ? (size_t)(stop + 1 - data) : (size_t)(end - data);
		err = check_piece(arg, data, n, e);
		data += n;
	}
	return err;
}

/* What the reader refuses as a whole goes into the report. */
static enum err conclude(struct checker *c, enum err err, struct error *e)
{
	struct sym_report *r = c->report;
	uint64_t line = c->number;
	bool refused = err == ERR_CORRUPT && line > 0;
	if (!err) {
		err = c->in_line ? check_piece(c, (const uint8_t *)"\n", 1, e) : ERR_OK;
		line = c->number;
		refused = err == ERR_CORRUPT;
	}
	if (!err && (err = symreader_finish(c->reader, e)) == ERR_CORRUPT) {
		refused = true;
		line = 0;
	}
	r->damaged = c->reader->damaged;
	r->funcs = c->reader->records->funcs;
	r->publics = c->reader->records->publics;
	r->lines = c->reader->records->lines;
	r->inlines = c->reader->records->inlines;
	if (!refused)
		return err;
	r->problem_line = line;
	snprintf(r->problem, sizeof r->problem, "%s", e->text);
	return ERR_OK;
}

static void print_report_json(const struct sym_report *r, const char *path)
{
	json_t *damages = json_array();
	for (size_t i = 0; i < r->count; i++)
		json_array_append_new(damages, json_pack("{s:I, s:s, s:s}", "line", (json_int_t)r->items[i].number,
		                                       "reason", r->items[i].reason, "text", r->items[i].text));
	json_t *o = json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:o}", "path", json_of_bytes(path), "kind",
	        "sym", "funcs", (json_int_t)r->funcs, "publics", (json_int_t)r->publics, "lines", (json_int_t)r->lines,
	        "inlines", (json_int_t)r->inlines, "damaged", (json_int_t)r->damaged, "damages", damages, "error",
	        json_of_bytes(r->problem[0] ? r->problem : NULL));
	if (o && r->problem_line)
		json_object_set_new(o, "error_line", json_integer((json_int_t)r->problem_line));
	print_json_line(o);
	json_decref(o);
}

static void print_report_text(const struct sym_report *r, const char *path)
{
	for (size_t i = 0; i < r->count; i++) {
		print_visible(stdout, path);
		printf(":%" PRIu64 ": %s: %s\n", r->items[i].number, r->items[i].reason, r->items[i].text);
	}
	if (r->problem[0]) {
		print_visible(stdout, path);
		if (r->problem_line)
			printf(":%" PRIu64, r->problem_line);
		fputs(": ", stdout);
		print_visible(stdout, r->problem);
		putchar('\n');
	}
	print_visible(stdout, path);
	printf(": symbol file, %" PRIu64 " FUNC, %" PRIu64 " PUBLIC, %" PRIu64 " lines, %" PRIu64 " INLINE; %" PRIu64
	       " damaged\n",
	        r->funcs, r->publics, r->lines, r->inlines, r->damaged);
}

enum err check_sym(const char *path, bool json, bool *sound, struct error *e)
{
	struct sym_report report = {0};
	struct checker c = {
	        .report = &report, .reader = symreader_new((struct str){"", 0}, 0), .line = malloc(LINE_ROOM)};
	enum err err = c.reader && c.line ? conclude(&c, input_read(path, take_block, &c, e), e) : no_memory(e);
	*sound = !report.damaged && !report.problem[0];
	if (!err)
		(json ? print_report_json : print_report_text)(&report, path);
	symreader_free(c.reader);
	free(c.line);
	free(report.items);
	return err;
}
