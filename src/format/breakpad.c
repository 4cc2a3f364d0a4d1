/*
 * Lines are read where they lie in the chunk; only a line that is cut by the chunk's end is copied. Line records and
 * INLINE records are most of a file: each has a fast path that reads it in one go, relying on the line feed that ends
 * it, and falls back to the careful reader on anything unusual. "Damaged" is a line that cannot be read; it costs
 * itself only.
 *
 * Where a map for a few offsets is built, most functions have records that nobody wants: these lines are not read at
 * all, only looked through for the next keyword.
 */
#include <config.h>

#include "format/breakpad.h"

#include <endian.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "format/breakpad_scan.h"

struct breakpad {
	struct offmap_builder *builder;
	struct text_hash *hash;
	char *id;
	size_t id_len;
	uint8_t *carry; /* the start of a line whose end has not come */
	size_t carry_len, carry_cap;
	bool skipping; /* the rest of a line that is too long */
	bool seen_module;
	bool in_func; /* line and INLINE records have a function */
	bool asked;   /* for some offsets only */
	enum offmap_want want;
	uint64_t text_bytes, damaged;
};

/* A line without its end, being read. */
struct line {
	const uint8_t *at, *end;
};

struct breakpad *breakpad_new(const struct offmap_options *options, struct str id)
{
	struct breakpad *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	p->builder = offmap_builder_new(options);
	p->hash = text_hash_new();
	p->id = malloc(id.len + 1);
	if (!p->builder || !p->hash || !p->id) {
		breakpad_free(p);
		return NULL;
	}
	memcpy(p->id, id.data, id.len);
	p->id_len = id.len;
	return p;
}

void breakpad_free(struct breakpad *p)
{
	if (!p)
		return;
	offmap_builder_free(p->builder);
	text_hash_free(p->hash);
	free(p->id);
	free(p->carry);
	free(p);
}

bool breakpad_ask(struct breakpad *p, const uint64_t *offsets, size_t count)
{
	p->asked = true;
	return offmap_builder_ask(p->builder, offsets, count);
}

void breakpad_use_threads(struct breakpad *p)
{
	offmap_builder_use_threads(p->builder);
}

uint64_t breakpad_held_bytes(const struct breakpad *p)
{
	return offmap_builder_held_bytes(p->builder);
}

uint64_t breakpad_damaged(const struct breakpad *p)
{
	return p->damaged;
}

/* ---- fields ---- */

static const int8_t hex_values[256] = {
#define HEX(c, v) [c] = (v) + 1
        HEX('0', 0),
        HEX('1', 1),
        HEX('2', 2),
        HEX('3', 3),
        HEX('4', 4),
        HEX('5', 5),
        HEX('6', 6),
        HEX('7', 7),
        HEX('8', 8),
        HEX('9', 9),
        HEX('a', 10),
        HEX('b', 11),
        HEX('c', 12),
        HEX('d', 13),
        HEX('e', 14),
        HEX('f', 15),
        HEX('A', 10),
        HEX('B', 11),
        HEX('C', 12),
        HEX('D', 13),
        HEX('E', 14),
        HEX('F', 15),
#undef HEX
};

/* The value of a hex digit, or -1. */
static inline int hex_value(uint8_t c)
{
	return hex_values[c] - 1;
}

static inline bool is_blank(uint8_t c)
{
	return c == ' ' || c == '\t';
}

static void skip_blanks(struct line *l)
{
	while (l->at < l->end && is_blank(*l->at))
		l->at++;
}

/* A field ends at a blank or the end of the line. */
static bool field_ends(const struct line *l)
{
	return l->at == l->end || is_blank(*l->at);
}

static bool take_hex(struct line *l, uint64_t *value)
{
	uint64_t v = 0;
	skip_blanks(l);
	const uint8_t *start = l->at;
	for (int d; l->at < l->end && (d = hex_value(*l->at)) >= 0; l->at++) {
		if (v >> 60)
			return false;
		v = v << 4 | (unsigned)d;
	}
	*value = v;
	return l->at > start && field_ends(l);
}

/* ids have 64 bits at most. */
static bool take_id(struct line *l, uint64_t *value)
{
	uint64_t v = 0;
	skip_blanks(l);
	const uint8_t *start = l->at;
	for (; l->at < l->end && *l->at >= '0' && *l->at <= '9'; l->at++)
		if (__builtin_mul_overflow(v, 10, &v) || __builtin_add_overflow(v, (uint64_t)(*l->at - '0'), &v))
			return false;
	*value = v;
	return l->at > start && field_ends(l);
}

static bool take_decimal(struct line *l, uint32_t *value)
{
	uint64_t v;
	if (!take_id(l, &v) || v > UINT32_MAX)
		return false;
	*value = (uint32_t)v;
	return true;
}

static struct str take_rest(struct line *l)
{
	skip_blanks(l);
	return (struct str){(const char *)l->at, (size_t)(l->end - l->at)};
}

static struct str take_word(struct line *l)
{
	skip_blanks(l);
	const uint8_t *start = l->at;
	while (!field_ends(l))
		l->at++;
	return (struct str){(const char *)start, (size_t)(l->at - start)};
}

/* The keyword and the blank behind it, or nothing. */
static inline bool take_keyword(struct line *l, const char *word, size_t len)
{
	if ((size_t)(l->end - l->at) < len || memcmp(l->at, word, len) != 0)
		return false;
	if ((size_t)(l->end - l->at) > len && !is_blank(l->at[len]))
		return false;
	l->at += len;
	return true;
}
#define TAKE_KEYWORD(l, word) take_keyword((l), (word), sizeof(word) - 1)

static void take_multiple_mark(struct line *l)
{
	struct line mark = *l;
	struct str word = take_word(&mark);
	if (word.len == 1 && word.data[0] == 'm')
		*l = mark;
}

/* ---- records; each returns false when the line is damaged ---- */

static bool read_file(struct breakpad *p, struct line l)
{
	uint64_t id;
	if (!take_id(&l, &id))
		return false;
	struct str name = take_rest(&l);
	if (name.len)
		offmap_add_file(p->builder, id, name);
	return name.len != 0;
}

/* The form of 2021 has the number of the file, or -1, before the name. */
static void drop_file_number(struct str *name)
{
	struct line l = {(const uint8_t *)name->data, (const uint8_t *)name->data + name->len};
	const uint8_t *digits = l.at;
	if (l.end - l.at >= 2 && l.at[0] == '-' && l.at[1] == '1') {
		l.at += 2;
	} else {
		while (l.at < l.end && *l.at >= '0' && *l.at <= '9')
			l.at++;
	}
	if (l.at == digits || l.at == l.end || !is_blank(*l.at))
		return;
	struct str rest = take_rest(&l);
	if (rest.len)
		*name = rest;
}

static bool read_origin(struct breakpad *p, struct line l)
{
	uint64_t id;
	if (!take_id(&l, &id))
		return false;
	struct str name = take_rest(&l);
	drop_file_number(&name);
	offmap_add_origin(p->builder, id, name);
	return true;
}

/* The records behind have no function. */
static void end_func(struct breakpad *p)
{
	offmap_end_func(p->builder);
	p->in_func = false;
	p->want = offmap_builder_want(p->builder);
}

static bool read_func(struct breakpad *p, struct line l)
{
	uint64_t addr, size, parameters;
	end_func(p);
	take_multiple_mark(&l);
	if (!take_hex(&l, &addr) || !take_hex(&l, &size) || !take_hex(&l, &parameters))
		return false;
	offmap_add_func(p->builder, addr, size, take_rest(&l));
	p->in_func = true;
	p->want = offmap_builder_want(p->builder);
	return true;
}

static bool read_public(struct breakpad *p, struct line l)
{
	uint64_t addr, parameters;
	end_func(p);
	take_multiple_mark(&l);
	if (!take_hex(&l, &addr) || !take_hex(&l, &parameters))
		return false;
	offmap_add_public(p->builder, addr, take_rest(&l));
	return true;
}

/* Pairs of hex numbers up to the end of the line; 0: not that. */
static uint64_t count_pairs(struct line l)
{
	uint64_t addr, size, pairs = 0;
	for (skip_blanks(&l); l.at < l.end; skip_blanks(&l), pairs++)
		if (!take_hex(&l, &addr) || !take_hex(&l, &size))
			return 0;
	return pairs;
}

static bool read_inline(struct breakpad *p, struct line l)
{
	uint32_t depth, call_line, third, origin;
	uint64_t addr, size;
	if (!p->in_func || !take_decimal(&l, &depth) || !take_decimal(&l, &call_line) || !take_decimal(&l, &third))
		return false;
	struct line behind = l;
	/* With a call file there are four numbers before the pairs; the form of 2021 has three. */
	bool has_file = take_decimal(&behind, &origin) && count_pairs(behind);
	if (has_file)
		l = behind;
	else if (!count_pairs(l))
		return false;
	offmap_add_inline(p->builder, depth, call_line, has_file, third, has_file ? origin : third);
	for (skip_blanks(&l); l.at < l.end && take_hex(&l, &addr) && take_hex(&l, &size); skip_blanks(&l))
		offmap_add_inline_range(p->builder, addr, size);
	return true;
}

static bool read_line_record(struct breakpad *p, struct line l)
{
	uint64_t addr, size, file;
	uint32_t line;
	if (!p->in_func || !take_hex(&l, &addr) || !take_hex(&l, &size) || !take_decimal(&l, &line) ||
	        !take_id(&l, &file))
		return false;
	offmap_add_line(p->builder, addr, size, line, file);
	return true;
}

/* INFO CODE_ID <id> <file>; other INFO lines say nothing that is needed here. */
static bool read_info(struct breakpad *p, struct line l)
{
	skip_blanks(&l);
	if (TAKE_KEYWORD(&l, "CODE_ID") && take_word(&l).len)
		offmap_set_code_file(p->builder, take_rest(&l));
	return true;
}

static enum err read_module(struct breakpad *p, struct line l, struct error *e)
{
	bool ok = TAKE_KEYWORD(&l, "MODULE") && take_word(&l).len && take_word(&l).len;
	struct str id = ok ? take_word(&l) : (struct str){"", 0};
	for (size_t i = 0; i < id.len; i++)
		ok = ok && hex_value((uint8_t)id.data[i]) >= 0;
	if (!ok || !id.len || !take_rest(&l).len)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (p->id_len && (id.len != p->id_len || strncasecmp(id.data, p->id, id.len) != 0))
		return error_set(e, ERR_CORRUPT, "MODULE line has another debug id");
	p->seen_module = true;
	p->want = offmap_builder_want(p->builder);
	return ERR_OK;
}

/* One line, [at, end) without its line feed. */
static enum err read_line(struct breakpad *p, const uint8_t *at, const uint8_t *end, struct error *e)
{
	struct line l = {at, end};
	const uint8_t *nul = memchr(at, 0, (size_t)(end - at));
	if (nul)
		l.end = nul;
	while (l.end > l.at && l.end[-1] == '\r')
		l.end--;
	if (!p->seen_module)
		return read_module(p, l, e);
	skip_blanks(&l);
	if (l.at == l.end)
		return ERR_OK;
	bool ok;
	if (TAKE_KEYWORD(&l, "FUNC"))
		ok = read_func(p, l);
	else if (TAKE_KEYWORD(&l, "INLINE"))
		ok = read_inline(p, l);
	else if (TAKE_KEYWORD(&l, "PUBLIC"))
		ok = read_public(p, l);
	else if (TAKE_KEYWORD(&l, "INLINE_ORIGIN"))
		ok = read_origin(p, l);
	else if (TAKE_KEYWORD(&l, "FILE"))
		ok = read_file(p, l);
	else if (TAKE_KEYWORD(&l, "STACK"))
		ok = true;
	else if (TAKE_KEYWORD(&l, "INFO"))
		ok = read_info(p, l);
	else
		ok = read_line_record(p, l);
	p->damaged += !ok;
	return ERR_OK;
}

/* ---- the fast paths: at starts a line, and a line feed comes before the memory ends ---- */

/*
 * Fields are read eight bytes at a time, since how many digits one has cannot be foretold: a loop over them costs a
 * mispredicted branch. Each function reads digits; *at stays where it is unless at least one is there. What is left
 * behind them is for the caller to check. The memory ends at `end`, behind a line feed.
 */
#define EACH(byte) (UINT64_C(0x0101010101010101) * (byte))

/* The field at `at` in the upper bytes of a word, its last digit on top, and zeros below. Returns its length, or 0 when
 * it ends in none of the first eight bytes, or starts with no digit: to be read by steps. */
static inline unsigned load_field(const uint8_t *at, const uint8_t *end, uint64_t *word)
{
	uint64_t w;
	if (end - at < 8)
		return 0;
	memcpy(&w, at, sizeof w);
	w = le64toh(w);
	/* what ends a field is below '0'; bytes from 0x80 on are sorted out with the digits */
	uint64_t stops = ~((w | EACH(0x80)) - EACH('0')) & EACH(0x80);
	if (!stops || stops & 0x80)
		return 0;
	unsigned n = (unsigned)__builtin_ctzll(stops) / 8;
	*word = w << (64 - 8 * n);
	return n;
}

static bool slow_hex(const uint8_t **at, uint64_t *value)
{
	const uint8_t *c = *at;
	uint64_t v = 0;
	for (int d; (d = hex_value(*c)) >= 0; c++)
		v = v << 4 | (unsigned)d;
	if (c == *at || c - *at > 16)
		return false;
	*value = v;
	*at = c;
	return true;
}

static inline bool fast_hex(const uint8_t **at, const uint8_t *end, uint64_t *value)
{
	uint64_t w;
	unsigned n = load_field(*at, end, &w);
	if (!n)
		return slow_hex(at, value);
	uint64_t letters = w >> 6 & EACH(1), v = (w & EACH(0x0f)) + 9 * letters;
	/* a letter is 10 to 15, in 0x4. or 0x6.; a digit is less than 10 */
	uint64_t bad =
	        (((v + EACH(6)) >> 4 ^ letters) & EACH(1)) | (v & EACH(0x10)) | (w & EACH(0x80)) | (letters & w >> 4);
	if (bad)
		return false;
	v = __builtin_bswap64(v);
	v = (v | v >> 4) & UINT64_C(0x00ff00ff00ff00ff);
	v = (v | v >> 8) & UINT64_C(0x0000ffff0000ffff);
	*value = (v | v >> 16) & UINT32_MAX;
	*at += n;
	return true;
}

static bool slow_decimal(const uint8_t **at, uint32_t *value)
{
	const uint8_t *c = *at;
	uint32_t v = 0;
	while (*c >= '0' && *c <= '9')
		v = v * 10 + (uint32_t)(*c++ - '0');
	if (c == *at || c - *at > 9)
		return false;
	*value = v;
	*at = c;
	return true;
}

static inline bool fast_decimal(const uint8_t **at, const uint8_t *end, uint32_t *value)
{
	uint64_t w;
	unsigned n = load_field(*at, end, &w);
	if (!n)
		return slow_decimal(at, value);
	uint64_t v = w ^ EACH('0') << (64 - 8 * n);
	if ((v | (v + EACH(6))) & EACH(0xf0))
		return false;
	v = (v * 10 + (v >> 8)) & UINT64_C(0x00ff00ff00ff00ff);
	v = (v * 100 + (v >> 16)) & UINT64_C(0x0000ffff0000ffff);
	*value = (uint32_t)(v * 10000 + (v >> 32));
	*at += n;
	return true;
}

static inline bool fast_blank(const uint8_t **at)
{
	return *(*at)++ == ' ';
}

static inline bool fast_end(const uint8_t **at)
{
	*at += **at == '\r';
	return *(*at)++ == '\n';
}

/* The start of the next line, or NULL: read it carefully. */
static const uint8_t *fast_line_record(struct breakpad *p, const uint8_t *at, const uint8_t *end)
{
	uint64_t addr, size;
	uint32_t line, file;
	if (!p->in_func || !fast_hex(&at, end, &addr) || !fast_blank(&at) || !fast_hex(&at, end, &size) ||
	        !fast_blank(&at) || !fast_decimal(&at, end, &line) || !fast_blank(&at) ||
	        !fast_decimal(&at, end, &file) || !fast_end(&at))
		return NULL;
	offmap_add_line(p->builder, addr, size, line, file);
	return at;
}

/* `INLINE ` has been seen. Ranges are added as they are read: a line that turns out odd behind its first pair is taken
 * back. */
static const uint8_t *fast_inline(struct breakpad *p, const uint8_t *at, const uint8_t *end)
{
	uint64_t pairs[2 * 16];
	uint32_t depth, call_line, file, origin;
	unsigned n = 0;
	if (!p->in_func || !fast_decimal(&at, end, &depth) || !fast_blank(&at) || !fast_decimal(&at, end, &call_line) ||
	        !fast_blank(&at) || !fast_decimal(&at, end, &file) || !fast_blank(&at) ||
	        !fast_decimal(&at, end, &origin))
		return NULL;
	offmap_expect_origin(p->builder, origin);
	do {
		if (n == sizeof pairs / sizeof *pairs || !fast_blank(&at) || !fast_hex(&at, end, &pairs[n]) ||
		        !fast_blank(&at) || !fast_hex(&at, end, &pairs[n + 1]))
			return NULL;
		n += 2;
	} while (*at == ' ');
	if (!fast_end(&at))
		return NULL;
	offmap_add_inline(p->builder, depth, call_line, true, file, origin);
	for (unsigned i = 0; i < n; i += 2)
		offmap_add_inline_range(p->builder, pairs[i], pairs[i + 1]);
	return at;
}

/* The first line from `at` on that may be wanted. */
static const uint8_t *skip_unwanted(struct breakpad *p, const uint8_t *at, const uint8_t *end)
{
	p->want = offmap_builder_want(p->builder); /* a line was enough */
	if (p->want == OFFMAP_WANT_NOTHING)
		return keyword_line(at, end);
	while (p->want == OFFMAP_WANT_LINE && at < end && *at == 'I' && end - at > 7 && memcmp(at, "INLINE ", 7) == 0)
		at = (const uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1;
	return at;
}

/* Whole lines: the last byte before end is a line feed. */
static enum err read_lines(struct breakpad *p, const uint8_t *at, const uint8_t *end, struct error *e)
{
	while (at < end) {
		const uint8_t *next = NULL;
		if (p->want != OFFMAP_WANT_ALL && (at = skip_unwanted(p, at, end)) == end)
			break;
		if (hex_value(*at) >= 0 && *at != 'F')
			next = fast_line_record(p, at, end);
		else if (*at == 'I' && end - at > 7 && memcmp(at, "INLINE ", 7) == 0)
			next = fast_inline(p, at + 7, end);
		else if (*at == 'S' && end - at > 6 && memcmp(at, "STACK ", 6) == 0 && p->seen_module)
			next = (const uint8_t *)memchr(at, '\n', (size_t)(end - at)) + 1;
		if (!next) {
			const uint8_t *stop = memchr(at, '\n', (size_t)(end - at));
			enum err err = read_line(p, at, stop, e);
			if (err)
				return err;
			next = stop + 1;
		}
		at = next;
	}
	return ERR_OK;
}

/* ---- chunks ---- */

/* A line that starts with these BREAKPAD_LINE_MAX bytes is too long. */
static void skip_long_line(struct breakpad *p, const uint8_t *start)
{
	struct line l = {start, start + BREAKPAD_LINE_MAX};
	p->damaged++;
	skip_blanks(&l);
	if (TAKE_KEYWORD(&l, "FUNC") || TAKE_KEYWORD(&l, "PUBLIC"))
		end_func(p);
}

static enum err keep(struct breakpad *p, const uint8_t *data, size_t len, struct error *e)
{
	bool too_long = p->carry_len + len - (len && data[len - 1] == '\n') > BREAKPAD_LINE_MAX;
	if (p->skipping)
		return ERR_OK;
	if (too_long && !p->seen_module)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	if (too_long)
		len = BREAKPAD_LINE_MAX - p->carry_len; /* its keyword may be cut between the two */
	if (p->carry_len + len > p->carry_cap) {
		size_t cap = 2 * (p->carry_len + len) + 256;
		uint8_t *grown = realloc(p->carry, cap);
		if (!grown)
			return error_set(e, ERR_NO_MEMORY, "out of memory");
		p->carry = grown;
		p->carry_cap = cap;
	}
	if (len)
		memcpy(p->carry + p->carry_len, data, len);
	p->carry_len += len;
	if (too_long) {
		p->skipping = true;
		skip_long_line(p, p->carry);
		p->carry_len = 0;
	}
	return ERR_OK;
}

/* The line whose start was kept ends with these bytes, the last of which is its line feed. */
static enum err end_kept(struct breakpad *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = keep(p, data, len, e);
	if (!err && !p->skipping && p->carry_len)
		err = read_lines(p, p->carry, p->carry + p->carry_len, e);
	p->carry_len = 0;
	p->skipping = false;
	return err;
}

enum err breakpad_feed(struct breakpad *p, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	const uint8_t *end = data + len, *last;
	if (!len)
		return ERR_OK;
	if (!p->asked)
		text_hash_add(p->hash, data, len);
	p->text_bytes += len;
	last = memrchr(data, '\n', len);
	if (!last)
		return keep(p, data, len, e);
	if (p->carry_len || p->skipping) {
		const uint8_t *first = memchr(data, '\n', len);
		err = end_kept(p, data, (size_t)(first + 1 - data), e);
		data = first + 1;
	}
	/* A line of the chunk is never over the limit unless the chunk is: then each is cut out and measured. */
	while (!err && data <= last && (size_t)(last + 1 - data) > BREAKPAD_LINE_MAX) {
		const uint8_t *stop = memrchr(data, '\n', BREAKPAD_LINE_MAX + 1);
		if (stop) {
			err = read_lines(p, data, stop + 1, e);
		} else {
			stop = memchr(data, '\n', (size_t)(last + 1 - data));
			if (!p->seen_module)
				return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
			skip_long_line(p, data);
		}
		data = stop + 1;
	}
	if (!err && data <= last)
		err = read_lines(p, data, last + 1, e);
	return err ? err : keep(p, last + 1, (size_t)(end - last - 1), e);
}

enum err breakpad_finish(struct breakpad *p, struct offmap **out, struct error *e)
{
	enum err err = ERR_OK;
	*out = NULL;
	if (p->carry_len && !p->skipping)
		err = end_kept(p, (const uint8_t *)"\n", 1, e);
	if (err)
		return err;
	if (!p->seen_module)
		return error_set(e, ERR_CORRUPT, "no MODULE line at the start");
	err = offmap_builder_finish(p->builder, out);
	if (err == ERR_CORRUPT)
		return error_set(e, err, "neither FUNC nor PUBLIC in the file");
	if (err)
		return error_set(e, err, "out of memory");
	(*out)->damaged = p->damaged;
	(*out)->text_bytes = p->text_bytes;
	(*out)->generation = p->asked ? 0 : text_hash_value(p->hash);
	return ERR_OK;
}
