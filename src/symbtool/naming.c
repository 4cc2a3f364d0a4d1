/* SPDX-License-Identifier: Apache-2.0 */
/* The rules are those of web/names.js, which a test compares. */
#include <config.h>

#include "symbtool/naming.h"

#include <stdlib.h>
#include <string.h>

#include "base/buffer.h"
#include "text/scan.h"

enum {
	DEPTH_MAX = 50, /* types inside of each other that are a name themselves */
	HASH_DIGITS = 16,
};

#define ELLIPSIS "…"

/* ---- library namespaces ---- */

static bool is_word(int c)
{
	return is_letter(c) || is_digit(c) || c == '_';
}

static bool take_any(struct rest *r, const char *const *words, size_t count)
{
	for (size_t i = 0; i < count; i++)
		if (take_literal(r, words[i]))
			return true;
	return false;
}

/* "std::", with the namespaces that libraries have for their versions. */
static bool take_std(struct rest *r)
{
	static const char *const versions[] = {"__cxx11::", "__1::", "__ndk1::", "__debug::"};
	if (!take_literal(r, "std::"))
		return false;
	take_any(r, versions, sizeof versions / sizeof *versions);
	return true;
}

/* "basic_string<char, std::char_traits<char>, std::allocator<char> >": the part that stays. */
static struct str take_basic(struct rest *r)
{
	static const char *const kinds[] = {"string_view", "stringstream", "string", "ostringstream", "istringstream",
	        "ostream", "istream", "iostream", "ofstream", "ifstream", "fstream"};
	static const char *const arguments[] = {"char_traits<char>", "allocator<char>"};
	struct rest p = *r;
	if (!take_literal(&p, "basic_"))
		return (struct str){"", 0};
	const char *from = p.at;
	if (!take_any(&p, kinds, sizeof kinds / sizeof *kinds))
		return (struct str){"", 0};
	struct str kind = between(from, p.at);
	if (!take_literal(&p, "<char"))
		return (struct str){"", 0};
	for (int i = 0; i < 2; i++) {
		struct rest q = p;
		if (!take_literal(&q, ","))
			break;
		take_literal(&q, " ");
		if (!take_std(&q) || !take_any(&q, arguments, 2))
			break;
		take_literal(&q, " ");
		p = q;
	}
	if (!take_literal(&p, ">"))
		return (struct str){"", 0};
	*r = p;
	return kind;
}

static bool is_hash(struct rest r)
{
	int n = 0;
	for (; n < HASH_DIGITS && (is_digit(peek(&r)) || (peek(&r) >= 'a' && peek(&r) <= 'f')); n++)
		r.at++;
	return n == HASH_DIGITS;
}

/* Rust's number of a crate, or of an instance. */
static bool take_rust_hash(struct rest *r)
{
	struct rest p = *r;
	if (take_literal(&p, "[") && is_hash(p) && p.end - p.at > HASH_DIGITS && p.at[HASH_DIGITS] == ']')
		r->at = p.at + HASH_DIGITS + 1;
	else if (take_literal(&p, "::h") && is_hash(p) && p.end - p.at == HASH_DIGITS)
		r->at = p.end;
	else
		return false;
	return true;
}

static bool take_anonymous(struct rest *r)
{
	static const char *const words[] = {"(anonymous namespace)", "`anonymous namespace'", "{anonymous}"};
	struct rest p = *r;
	if (take_any(r, words, 3))
		return true;
	if (!take_literal(&p, "_GLOBAL__N_1") || is_word(peek(&p)))
		return false;
	*r = p;
	return true;
}

static void put_plain(struct buffer *out, struct str name)
{
	struct rest r = {name.data, name.data + name.len};
	while (r.at < r.end) {
		bool begins = r.at == name.data || !is_word((unsigned char)r.at[-1]);
		if (begins && take_std(&r)) {
			buffer_append(out, "std::", 5);
			buffer_append_str(out, take_basic(&r));
		} else if (take_anonymous(&r)) {
			buffer_append(out, "{anon}", 6);
		} else if (!take_rust_hash(&r)) {
			buffer_append(out, r.at++, 1);
		}
	}
}

/* ---- brackets ---- */

static char closing_of(char open)
{
	return open == '<' ? '>' : open == '(' ? ')' : open == '{' ? '}' : 0;
}

/* ends[i]: where the bracket ends that begins at i; 0: none begins there, or it has no end. open: room for as many. */
static void find_ends(struct str text, uint32_t *ends, uint32_t *open)
{
	size_t depth = 0;
	memset(ends, 0, text.len * sizeof *ends);
	for (size_t i = 0; i < text.len; i++) {
		char c = text.data[i];
		if (c == '-' && i + 1 < text.len && text.data[i + 1] == '>')
			i++;
		else if (closing_of(c))
			open[depth++] = (uint32_t)i;
		else if (depth && c == closing_of(text.data[open[depth - 1]]))
			ends[open[--depth]] = (uint32_t)i;
	}
}

/* "operator()", "operator<<", "operator new[]", "operator\"\" _s": its length; 0: it is none. */
static size_t operator_length(struct str text, size_t at)
{
	static const char *const long_ones[] = {
	        "()", "[]", "<=>", "<<=", ">>=", "->*", "->", "<<", ">>", "<=", ">=", " new", " delete"};
	struct rest r = {text.data + at, text.data + text.len};
	if ((at && is_word((unsigned char)text.data[at - 1])) || !take_literal(&r, "operator"))
		return 0;
	const char *from = r.at;
	if (take_any(&r, long_ones, sizeof long_ones / sizeof *long_ones)) {
		if (*from == ' ')
			take_literal(&r, "[]");
	} else if (peek(&r) > 0 && strchr("-+*/%^&|~!=<>,", peek(&r))) {
		r.at++;
		take_literal(&r, "=");
	} else if (take_literal(&r, "\"\"") || take_literal(&r, "\\\"\\\"")) {
		take_literal(&r, " ");
		while (is_word(peek(&r)))
			r.at++;
	}
	return r.at == from ? 0 : (size_t)(r.at - text.data) - at;
}

static bool is_empty(struct str s)
{
	return trimmed(s).len == 0;
}

static void put_without_parameters(struct buffer *out, struct str s)
{
	const char *from = s.len ? memchr(s.data, '(', s.len) : NULL, *to = s.len ? memrchr(s.data, ')', s.len) : NULL;
	if (!from || !to || to < from) {
		buffer_append_str(out, s);
		return;
	}
	buffer_append_str(out, between(s.data, from));
	buffer_append_str(out, between(to + 1, s.data + s.len));
}

/* A name, and where its brackets end. */
struct folding {
	struct buffer *out;
	struct str name;
	const uint32_t *ends;
};

static void put_folded(const struct folding *f, size_t from, size_t to, unsigned depth);

/* Arguments and template arguments are left out; a type of Rust or a lambda is the name itself. first: nothing of the
 * name stands before. */
static void put_inside(const struct folding *f, size_t from, size_t to, bool first, unsigned depth)
{
	char bracket = f->name.data[from - 1];
	struct str s = {f->name.data + from, to - from};
	if (bracket == '{')
		put_without_parameters(f->out, s);
	else if (bracket == '<' && (first || find_word(s.data, s.data + s.len, " as ")) && depth < DEPTH_MAX)
		put_folded(f, from, to, depth + 1);
	else if (!is_empty(s))
		buffer_append(f->out, ELLIPSIS, strlen(ELLIPSIS));
}

static void put_folded(const struct folding *f, size_t from, size_t to, unsigned depth)
{
	size_t before = f->out->len;
	const char *name = f->name.data;
	for (size_t i = from; i < to;) {
		size_t len = operator_length(between(name + from, name + to), i - from), end = len ? 0 : f->ends[i];
		bool first = f->out->len == before;
		if (end) {
			buffer_append(f->out, name + i, 1);
			put_inside(f, i + 1, end, first, depth);
			i = end;
			len = 1;
		}
		len = len ? len : 1;
		buffer_append(f->out, name + i, len);
		i += len;
	}
}

struct str short_name(struct str name, struct arena *arena)
{
	struct buffer plain, out;
	buffer_init(&plain, SIZE_MAX);
	buffer_init(&out, SIZE_MAX);
	put_plain(&plain, name);
	struct str text = {(const char *)plain.data, plain.len};
	uint32_t *room = text.len && text.len < UINT32_MAX ? malloc(2 * text.len * sizeof *room) : NULL;
	char *copy = NULL;
	if (room) {
		find_ends(text, room, room + text.len);
		put_folded(&(struct folding){&out, text, room}, 0, text.len, 0);
	}
	if (out.len && !plain.failed && !out.failed && (copy = arena_alloc(arena, out.len)))
		name = (struct str){memcpy(copy, out.data, out.len), out.len};
	free(room);
	buffer_release(&plain);
	buffer_release(&out);
	return name;
}

/* ---- what is printed ---- */

struct str naming_function(const struct naming *n, struct str name, struct arena *arena)
{
	return n->short_names ? short_name(name, arena) : name;
}

/* The path in "hg:hg.mozilla.org/mozilla-central:xpcom/a.cpp:REVISION" and the like, as web/source_link.js reads them.
 */
static struct str path_in_repository(struct str file)
{
	static const char *const kinds[] = {"hg:", "git:", "s3:"};
	struct rest r = {file.data, file.data + file.len};
	if (!take_any(&r, kinds, sizeof kinds / sizeof *kinds))
		return file;
	const char *place = memchr(r.at, ':', (size_t)(r.end - r.at)),
	           *last = memrchr(r.at, ':', (size_t)(r.end - r.at));
	return place && last > place + 1 ? between(place + 1, last) : file;
}

struct str naming_file(const struct naming *n, struct str file)
{
	if (n->basenames)
		file = path_in_repository(file);
	bool windows = file.len > 2 && (file.data[1] == ':' || file.data[0] == '\\');
	const char *end = file.data + file.len, *from = file.data;
	for (const char *p = end; n->basenames && p > file.data && from == file.data; p--)
		if (p[-1] == '/' || (windows && p[-1] == '\\'))
			from = p;
	return from < end ? between(from, end) : file;
}
