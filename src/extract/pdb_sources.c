/* SPDX-License-Identifier: Apache-2.0 */
/* "srcsrv" is a text: sections begin with "SRCSRV: "; lines of the section "variables" are NAME=VALUE, those of "source
 * files" values between asterisks, which are called var1, var2 and so on; SRCSRVTRG says where a file is. "sourcelink"
 * is JSON, {"documents":{PATH:URL}}, where both may end in an asterisk for the rest of a path. */
#include <config.h>

#include "extract/pdb_sources.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { DEPTH_MAX = 8, STEPS_MAX = 256, VALUES_MAX = 16 };
/* Longer lines and texts are ignored: what a path costs must not grow with the file. */
enum { LINE_BYTES_MAX = 4 * SOURCE_NAME_MAX };

/* ---- srcsrv ---- */

static char lower(char c)
{
	return c >= 'A' && c <= 'Z' ? (char)(c - 'A' + 'a') : c;
}

/* Slashes of either kind are the same, and letters of either case. */
static char folded(char c)
{
	return c == '\\' ? '/' : lower(c);
}

static bool same_path(struct str a, struct str b)
{
	bool same = a.len == b.len;
	for (size_t i = 0; i < a.len && same; i++)
		same = folded(a.data[i]) == folded(b.data[i]);
	return same;
}

/* FNV-1a, of at most as many bytes as a path may have. Never 0. */
static uint64_t path_hash(struct str path)
{
	uint64_t hash = 0xcbf29ce484222325;
	for (size_t i = 0; i < path.len && i < SOURCE_NAME_MAX; i++)
		hash = (hash ^ (uint8_t)folded(path.data[i])) * 0x100000001b3;
	return hash ? hash : 1;
}

static struct str cut_line(struct str *text)
{
	struct str line = str_cut(text, '\n');
	while (line.len > 0 && (line.data[line.len - 1] == '\r' || line.data[line.len - 1] == 0))
		line.len--;
	return line;
}

static bool starts(struct str s, const char *with)
{
	return s.len >= strlen(with) && strncasecmp(s.data, with, strlen(with)) == 0;
}

static struct str variable(const struct pdb_sources *s, struct str name)
{
	for (size_t i = 0; i < s->variable_count; i++)
		if (name.len == s->variables[i].name.len &&
		        strncasecmp(name.data, s->variables[i].name.data, name.len) == 0)
			return s->variables[i].value;
	return (struct str){NULL, 0};
}

static void add_variable(struct pdb_sources *s, struct str line)
{
	struct str name = str_cut(&line, '=');
	if (s->variable_count == SOURCE_VARIABLES_MAX || name.len == 0)
		return;
	s->variables[s->variable_count].name = name;
	s->variables[s->variable_count++].value = line;
}

static bool add_file(struct pdb_sources *s, struct str line)
{
	size_t at = (size_t)(line.data - s->files.data);
	struct str path = str_cut(&line, '*');
	uint64_t hash = path_hash(path);
	return path.len == 0 || map64_get(&s->lines, hash) || map64_put(&s->lines, hash, at + 1);
}

static bool read_srcsrv(struct pdb_sources *s, struct str text)
{
	static const char mark[] = "SRCSRV: ";
	bool in_variables = false, in_files = false, ok = true;
	s->files = text;
	while (text.len > 0 && ok) {
		struct str line = cut_line(&text);
		if (line.len > LINE_BYTES_MAX)
			continue;
		if (starts(line, mark)) {
			struct str what = {line.data + strlen(mark), line.len - strlen(mark)};
			in_variables = starts(what, "variables");
			in_files = starts(what, "source files");
		} else if (in_variables) {
			add_variable(s, line);
		} else if (in_files) {
			ok = add_file(s, line);
		}
	}
	s->target = variable(s, str_from("SRCSRVTRG"));
	return ok;
}

struct expansion {
	const struct pdb_sources *sources;
	struct str values[VALUES_MAX]; /* of the file's line: var1 is the first */
	unsigned steps;
	char *out;
	size_t len;
};

static bool append(struct expansion *x, struct str s)
{
	if (s.len >= SOURCE_NAME_MAX - x->len)
		return false;
	memcpy(x->out + x->len, s.data, s.len);
	x->len += s.len;
	x->out[x->len] = 0;
	return true;
}

static struct str value_of(const struct expansion *x, struct str name)
{
	unsigned number = 0;
	if (name.len < 4 || name.len > 5 || !starts(name, "var"))
		return variable(x->sources, name);
	for (size_t i = 3; i < name.len; i++)
		number = name.data[i] >= '0' && name.data[i] <= '9' ? number * 10 + (unsigned)(name.data[i] - '0')
		                                                    : VALUES_MAX + 1;
	return number >= 1 && number <= VALUES_MAX ? x->values[number - 1] : (struct str){NULL, 0};
}

/* Functions, such as %fnbksl%(...), are of paths on the user's machine: no place on a server has one. */
static bool expand(struct expansion *x, struct str text, unsigned depth)
{
	bool ok = depth < DEPTH_MAX;
	while (ok && text.len > 0) {
		struct str plain = str_cut(&text, '%');
		ok = append(x, plain);
		const char *end = text.len > 0 ? memchr(text.data, '%', text.len) : NULL;
		if (!end)
			return ok && text.len == 0;
		struct str value = value_of(x, str_cut(&text, '%'));
		ok = ok && value.data && x->steps++ < STEPS_MAX && expand(x, value, depth + 1);
	}
	return ok;
}

static bool find_in_srcsrv(const struct pdb_sources *s, struct str path, char out[SOURCE_NAME_MAX])
{
	uint64_t at = map64_get(&s->lines, path_hash(path));
	if (!at || !s->target.data)
		return false;
	struct str rest = {s->files.data + at - 1, s->files.len - (size_t)(at - 1)};
	struct str line = cut_line(&rest);
	struct expansion x = {.sources = s, .out = out};
	for (unsigned i = 0; i < VALUES_MAX && line.len > 0; i++)
		x.values[i] = str_cut(&line, '*');
	return same_path(x.values[0], path) && expand(&x, s->target, 0);
}

/* ---- sourcelink ---- */

static void skip_blanks(struct str *text)
{
	while (text->len > 0 && strchr(" \t\r\n", *text->data) && *text->data) {
		text->data++;
		text->len--;
	}
}

static bool take(struct str *text, char c)
{
	skip_blanks(text);
	bool is = text->len > 0 && *text->data == c;
	text->data += is;
	text->len -= is;
	return is;
}

/* A string of JSON, still with its backslashes. */
static bool take_string(struct str *text, struct str *string)
{
	if (!take(text, '"'))
		return false;
	size_t n = 0;
	while (n < text->len && text->data[n] != '"')
		n += text->data[n] == '\\' ? 2 : 1;
	if (n >= text->len)
		return false;
	*string = (struct str){text->data, n};
	text->data += n + 1;
	text->len -= n + 1;
	return true;
}

static void read_link(struct pdb_sources *s, struct str text)
{
	static const char documents[] = "\"documents\"";
	const char *at = text.len > 0 ? memmem(text.data, text.len, documents, strlen(documents)) : NULL;
	if (!at)
		return;
	text = (struct str){at + strlen(documents), text.len - (size_t)(at - text.data) - strlen(documents)};
	struct str path, url;
	bool more = take(&text, ':') && take(&text, '{');
	while (more && s->link_count < SOURCE_LINKS_MAX && take_string(&text, &path) && take(&text, ':') &&
	        take_string(&text, &url)) {
		s->links[s->link_count].path = path;
		s->links[s->link_count].url = url;
		s->link_count += path.len < LINE_BYTES_MAX && url.len < LINE_BYTES_MAX;
		more = take(&text, ',');
	}
}

/* What of the path is behind a string of JSON that ends with an asterisk; or all must be the same. */
static bool matches(struct str path, struct str json, struct str *rest)
{
	size_t at = 0;
	for (size_t i = 0; i < json.len; i++) {
		if (json.data[i] == '*' && i + 1 == json.len) {
			*rest = (struct str){path.data + at, path.len - at};
			return true;
		}
		i += json.data[i] == '\\' && i + 1 < json.len;
		if (at == path.len || folded(path.data[at++]) != folded(json.data[i]))
			return false;
	}
	*rest = (struct str){"", 0};
	return at == path.len;
}

/* With slashes, and without "/./", which paths of compilers have. */
static void make_url(char *text)
{
	char *to = text;
	for (const char *c = text; *c; c++)
		*to++ = *c == '\\' ? '/' : *c;
	*to = 0;
	for (char *at = text; (at = strstr(at, "/./"));)
		memmove(at, at + 2, strlen(at + 2) + 1);
}

static bool find_in_links(const struct pdb_sources *s, struct str path, char out[SOURCE_NAME_MAX])
{
	struct str rest;
	for (size_t i = 0; i < s->link_count; i++) {
		struct str url = s->links[i].url;
		if (!matches(path, s->links[i].path, &rest))
			continue;
		bool open = url.len > 0 && url.data[url.len - 1] == '*';
		int n = snprintf(out, SOURCE_NAME_MAX, "%.*s%.*s", (int)(url.len - open), url.data,
		        open ? (int)rest.len : 0, rest.data);
		make_url(out);
		return n < SOURCE_NAME_MAX;
	}
	return false;
}

/* ---- names ---- */

static bool is_revision(struct str s)
{
	for (size_t i = 0; i < s.len; i++)
		if (!strchr("0123456789abcdefABCDEF", s.data[i]) || !s.data[i])
			return false;
	return s.len >= 7;
}

static bool print_name(
        char out[SOURCE_NAME_MAX], const char *kind, struct str place, struct str path, struct str revision)
{
	char name[SOURCE_NAME_MAX];
	int n = snprintf(
	        name, sizeof name, "%s:%.*s:%.*s:%.*s", kind, STR_FMT(place), STR_FMT(path), STR_FMT(revision));
	if (n < 0 || n >= SOURCE_NAME_MAX || path.len == 0)
		return false;
	memcpy(out, name, (size_t)n + 1);
	return true;
}

/* hg.mozilla.org/REPOSITORY/raw-file/REVISION/PATH */
static bool name_of_mercurial(char out[SOURCE_NAME_MAX], struct str url)
{
	static const char raw[] = "/raw-file/";
	const char *at = memmem(url.data, url.len, raw, strlen(raw));
	if (!starts(url, "hg.") || !at)
		return false;
	struct str place = {url.data, (size_t)(at - url.data)};
	struct str rest = {at + strlen(raw), url.len - place.len - strlen(raw)}, revision = str_cut(&rest, '/');
	return is_revision(revision) && print_name(out, "hg", place, rest, revision);
}

/* raw.githubusercontent.com/OWNER/REPOSITORY/REVISION/PATH */
static bool name_of_github(char out[SOURCE_NAME_MAX], struct str url)
{
	static const char host[] = "raw.githubusercontent.com/";
	char place[SOURCE_NAME_MAX];
	if (!starts(url, host))
		return false;
	struct str rest = {url.data + strlen(host), url.len - strlen(host)};
	struct str owner = str_cut(&rest, '/'), repository = str_cut(&rest, '/'), revision = str_cut(&rest, '/');
	int n = snprintf(place, sizeof place, "github.com/%.*s/%.*s", STR_FMT(owner), STR_FMT(repository));
	return n < SOURCE_NAME_MAX && owner.len > 0 && repository.len > 0 && is_revision(revision) &&
	       print_name(out, "git", str_from(place), rest, revision);
}

/* BUCKET.s3.amazonaws.com/DIGEST/PATH */
static bool name_of_generated(char out[SOURCE_NAME_MAX], struct str url)
{
	static const char host[] = ".s3.amazonaws.com/";
	const char *at = memmem(url.data, url.len, host, strlen(host));
	struct str bucket = {url.data, at ? (size_t)(at - url.data) : 0};
	if (!at || memchr(bucket.data, '/', bucket.len))
		return false;
	struct str rest = {at + strlen(host), url.len - bucket.len - strlen(host)};
	return print_name(out, "s3", bucket, rest, (struct str){"", 0});
}

bool pdb_sources_name(const struct pdb_sources *s, struct str path, char out[SOURCE_NAME_MAX])
{
	static const char scheme[] = "https://";
	if (path.len >= SOURCE_NAME_MAX || !(find_in_srcsrv(s, path, out) || find_in_links(s, path, out)))
		return false;
	if (strncasecmp(out, scheme, strlen(scheme)) != 0)
		return false;
	struct str url = str_from(out + strlen(scheme));
	return name_of_mercurial(out, url) || name_of_github(out, url) || name_of_generated(out, url);
}

enum err pdb_sources_read(struct pdb_sources *s, struct str srcsrv, struct str link, struct error *e)
{
	*s = (struct pdb_sources){.link_count = 0};
	read_link(s, link);
	return read_srcsrv(s, srcsrv) ? ERR_OK : no_memory(e);
}

void pdb_sources_release(struct pdb_sources *s)
{
	map64_release(&s->lines);
}
