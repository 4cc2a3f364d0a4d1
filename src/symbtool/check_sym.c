/* The reader is given one line at a time: when it counts one more as damaged, it was this line. */
#include <config.h>

#include "symbtool/check_sym.h"

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "format/breakpad.h"
#include "symbtool/input.h"

enum { DAMAGES_MAX = 100000 }; /* that are kept; all are counted */

struct checker {
	struct sym_report *report;
	struct breakpad *reader;
	struct buffer line; /* what came of the line so far */
	uint64_t number, damaged;
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

static const char *reason_of(const struct checker *c, struct str line)
{
	if (line.len > BREAKPAD_LINE_MAX)
		return "a line that is too long";
	if (!c->has_func && starts_with(line, "INLINE"))
		return "INLINE without a FUNC before it";
	for (size_t i = 0; i < sizeof reasons / sizeof *reasons; i++)
		if (starts_with(line, reasons[i].keyword))
			return reasons[i].reason;
	bool digit = line.len && strchr("0123456789abcdefABCDEF", *line.data);
	if (!digit)
		return "no record that is known";
	return c->has_func ? "not ADDRESS SIZE LINE FILE" : "a line record without a FUNC before it";
}

static enum err add_damage(struct checker *c, struct str line, struct error *e)
{
	struct sym_report *r = c->report;
	if (r->count == DAMAGES_MAX)
		return ERR_OK;
	if (r->count == r->cap) {
		size_t cap = r->cap ? 2 * r->cap : 16;
		struct sym_damage *items = realloc(r->items, cap * sizeof *items);
		if (!items)
			return error_set(e, ERR_NO_MEMORY, "out of memory");
		r->items = items;
		r->cap = cap;
	}
	struct sym_damage *d = &r->items[r->count++];
	*d = (struct sym_damage){.number = c->number, .reason = reason_of(c, line)};
	size_t len = line.len < SYM_LINE_SHOWN ? line.len : SYM_LINE_SHOWN;
	for (size_t i = 0; i < len; i++)
		d->text[i] = line.data[i] >= 0x20 && line.data[i] < 0x7f ? line.data[i] : '?';
	return ERR_OK;
}

/* With its line feed, unless the file ends without one. */
static enum err take_line(struct checker *c, const uint8_t *data, size_t len, struct error *e)
{
	c->number++;
	enum err err = breakpad_feed(c->reader, data, len, e);
	if (!err && data[len - 1] != '\n')
		err = breakpad_feed(c->reader, (const uint8_t *)"\n", 1, e);
	struct str line = without_blanks((struct str){(const char *)data, len - (data[len - 1] == '\n')});
	uint64_t damaged = breakpad_damaged(c->reader);
	bool is_damaged = damaged != c->damaged;
	c->damaged = damaged;
	if (!err && is_damaged)
		err = add_damage(c, line, e);
	if (starts_with(line, "FUNC") || starts_with(line, "PUBLIC"))
		c->has_func = !is_damaged && *line.data == 'F';
	return err;
}

static enum err keep(struct checker *c, const uint8_t *data, size_t len, struct error *e)
{
	return buffer_append(&c->line, data, len) ? ERR_OK : error_set(e, ERR_NO_MEMORY, "a line that is too long");
}

static enum err end_kept(struct checker *c, struct error *e)
{
	enum err err = c->line.len ? take_line(c, c->line.data, c->line.len, e) : ERR_OK;
	buffer_reset(&c->line);
	return err;
}

static enum err take_block(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct checker *c = arg;
	const uint8_t *end = data + len;
	enum err err = ERR_OK;
	while (!err && data < end) {
		const uint8_t *stop = memchr(data, '\n', (size_t)(end - data));
		size_t n = stop ? (size_t)(stop + 1 - data) : (size_t)(end - data);
		if (stop && !c->line.len)
			err = take_line(c, data, n, e);
		else
			err = keep(c, data, n, e);
		if (!err && stop)
			err = end_kept(c, e);
		data += n;
	}
	return err;
}

/* What the reader refuses as a whole goes into the report. */
static enum err conclude(struct checker *c, enum err err, struct error *e)
{
	struct sym_report *r = c->report;
	struct offmap *map = NULL;
	uint64_t line = c->number;
	bool refused = err == ERR_CORRUPT && line > 0;
	if (!err) {
		err = end_kept(c, e);
		line = c->number;
		refused = err == ERR_CORRUPT;
	}
	if (!err && (err = breakpad_finish(c->reader, &map, e)) == ERR_CORRUPT) {
		refused = true;
		line = 0;
	}
	r->damaged = breakpad_damaged(c->reader);
	if (map) {
		r->funcs = map->funcs;
		r->publics = map->publics;
		r->lines = map->lines;
		r->inlines = map->inlines;
	}
	offmap_free(map);
	if (!refused)
		return err;
	r->problem_line = line;
	snprintf(r->problem, sizeof r->problem, "%s", e->text);
	return ERR_OK;
}

enum err check_sym(const char *path, struct sym_report *report, struct error *e)
{
	static const struct offmap_options options = {.raw_budget = UINT64_MAX, .codec = CODEC_LZ4};
	struct checker c = {.report = report, .reader = breakpad_new(&options, (struct str){"", 0})};
	*report = (struct sym_report){0};
	if (!c.reader)
		return error_set(e, ERR_NO_MEMORY, "out of memory");
	buffer_init(&c.line, SIZE_MAX);
	enum err err = conclude(&c, input_read(path, take_block, &c, e), e);
	buffer_release(&c.line);
	breakpad_free(c.reader);
	return err;
}

void sym_report_release(struct sym_report *r)
{
	free(r->items);
	*r = (struct sym_report){0};
}

bool sym_report_is_sound(const struct sym_report *r)
{
	return !r->damaged && !r->problem[0];
}

static void print_json(const struct sym_report *r, const char *path)
{
	json_t *damages = json_array();
	for (size_t i = 0; i < r->count; i++)
		json_array_append_new(damages, json_pack("{s:I, s:s, s:s}", "line", (json_int_t)r->items[i].number,
		                                       "reason", r->items[i].reason, "text", r->items[i].text));
	json_t *o = json_pack("{s:s?, s:s, s:I, s:I, s:I, s:I, s:I, s:o, s:s?}", "path", path, "kind", "sym", "funcs",
	        (json_int_t)r->funcs, "publics", (json_int_t)r->publics, "lines", (json_int_t)r->lines, "inlines",
	        (json_int_t)r->inlines, "damaged", (json_int_t)r->damaged, "damages", damages, "error",
	        r->problem[0] ? r->problem : NULL);
	if (o && r->problem_line)
		json_object_set_new(o, "error_line", json_integer((json_int_t)r->problem_line));
	if (o)
		json_dumpf(o, stdout, JSON_COMPACT);
	putchar('\n');
	json_decref(o);
}

void sym_report_print(const struct sym_report *r, const char *path, bool json)
{
	if (json) {
		print_json(r, path);
		return;
	}
	for (size_t i = 0; i < r->count; i++)
		printf("%s:%" PRIu64 ": %s: %s\n", path, r->items[i].number, r->items[i].reason, r->items[i].text);
	if (r->problem_line)
		printf("%s:%" PRIu64 ": %s\n", path, r->problem_line, r->problem);
	else if (r->problem[0])
		printf("%s: %s\n", path, r->problem);
	printf("%s: symbol file, %" PRIu64 " FUNC, %" PRIu64 " PUBLIC, %" PRIu64 " lines, %" PRIu64 " INLINE; %" PRIu64
	       " damaged\n",
	        path, r->funcs, r->publics, r->lines, r->inlines, r->damaged);
}
