/* SPDX-License-Identifier: Apache-2.0 */
/* The body is taken to begin after an end of line, so that every delimiter is the same: an end of line, two dashes and
 * the boundary. What may be the beginning of one is kept until more bytes have come. */
#include <config.h>

#include "api/multipart.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/buffer.h"

enum { BOUNDARY_MAX = 70 /* says RFC 2046 */, HEADERS_MAX = 8192, PENDING_MAX = 8 << 20 };

enum where { PREAMBLE, AFTER_DELIMITER, HEADERS, DATA, EPILOGUE };

struct multipart {
	struct multipart_visitor visitor;
	char delimiter[BOUNDARY_MAX + 5];
	size_t delimiter_len;
	enum where where;
	struct buffer pending; /* not passed on yet */
};

/* The value of a parameter, quoted or not: `; name="value"`. A NULL pointer: there is none. */
static struct str parameter(struct str line, const char *name)
{
	size_t n = strlen(name);
	for (size_t at = 1; at + n + 1 <= line.len; at++) {
		const char *p = line.data + at;
		bool starts = p[-1] == ';' || p[-1] == ' ' || p[-1] == '\t';
		if (!starts || strncasecmp(p, name, n) != 0 || p[n] != '=')
			continue;
		struct str value = {p + n + 1, line.len - at - n - 1};
		if (value.len && value.data[0] == '"') {
			value = (struct str){value.data + 1, value.len - 1};
			return str_cut(&value, '"');
		}
		size_t end = 0;
		while (end < value.len && !strchr("; \t", value.data[end]))
			end++;
		return (struct str){value.data, end};
	}
	return (struct str){NULL, 0};
}

struct multipart *multipart_new(const char *content_type, const struct multipart_visitor *v, struct error *e)
{
	static const char type[] = "multipart/form-data";
	struct str boundary = {NULL, 0};
	if (content_type && strncasecmp(content_type, type, strlen(type)) == 0)
		boundary = parameter(str_from(content_type), "boundary");
	if (!boundary.len || boundary.len > BOUNDARY_MAX) {
		error_set(e, ERR_BAD_REQUEST, "must be multipart form data with at least one file");
		return NULL;
	}
	struct multipart *m = calloc(1, sizeof *m);
	if (!m) {
		no_memory(e);
		return NULL;
	}
	m->visitor = *v;
	m->delimiter_len =
	        (size_t)snprintf(m->delimiter, sizeof m->delimiter, "\r\n--%.*s", (int)boundary.len, boundary.data);
	buffer_init(&m->pending, PENDING_MAX);
	buffer_append(&m->pending, "\r\n", 2);
	return m;
}

void multipart_free(struct multipart *m)
{
	if (!m)
		return;
	buffer_release(&m->pending);
	free(m);
}

/* Removes bytes at the beginning. */
static void consume(struct multipart *m, size_t n)
{
	memmove(m->pending.data, m->pending.data + n, m->pending.len - n);
	m->pending.len -= n;
}

/* Each step returns whether there may be more to do with what is pending. */

static bool skip_or_pass(struct multipart *m, enum err *err, struct error *e)
{
	struct buffer *b = &m->pending;
	const uint8_t *found = b->len ? memmem(b->data, b->len, m->delimiter, m->delimiter_len) : NULL;
	size_t kept = m->delimiter_len - 1;
	size_t n = found ? (size_t)(found - b->data) : b->len > kept ? b->len - kept : 0;
	if (m->where == DATA && n)
		*err = m->visitor.add(m->visitor.arg, b->data, n, e);
	consume(m, found ? n + m->delimiter_len : n);
	if (found)
		m->where = AFTER_DELIMITER;
	return found;
}

static bool look_behind(struct multipart *m, enum err *err, struct error *e)
{
	const struct buffer *b = &m->pending;
	size_t at = 0;
	while (at < b->len && (b->data[at] == ' ' || b->data[at] == '\t'))
		at++;
	if (b->len - at < 2)
		return false;
	if (memcmp(b->data + at, "--", 2) == 0)
		m->where = EPILOGUE;
	else if (memcmp(b->data + at, "\r\n", 2) == 0)
		m->where = HEADERS;
	else
		*err = error_set(e, ERR_BAD_REQUEST, "junk after a boundary of the form data");
	consume(m, m->where == HEADERS ? at : at + 2); /* headers begin with an end of line */
	return true;
}

static bool read_headers(struct multipart *m, enum err *err, struct error *e)
{
	static const char disposition[] = "\r\ncontent-disposition:";
	const struct buffer *b = &m->pending;
	struct str name = {"", 0}, filename = {NULL, 0};
	const uint8_t *end = memmem(b->data, b->len, "\r\n\r\n", 4);
	if (!end && b->len <= HEADERS_MAX)
		return false;
	if (!end || end - b->data > HEADERS_MAX) {
		*err = error_set(e, ERR_BAD_REQUEST, "the headers of a part of the form data are too long");
		return true;
	}
	for (const uint8_t *at = b->data; at + strlen(disposition) <= end; at++) {
		if (strncasecmp((const char *)at, disposition, strlen(disposition)) != 0)
			continue;
		const char *line = (const char *)at + 2;
		const char *stop = memmem(line, (size_t)((const char *)end + 2 - line), "\r\n", 2);
		struct str all = {line, (size_t)(stop - line)};
		name = parameter(all, "name");
		filename = parameter(all, "filename");
	}
	*err = m->visitor.begin(m->visitor.arg, name, filename, e);
	consume(m, (size_t)(end - b->data) + 4);
	m->where = DATA;
	return true;
}

static bool step(struct multipart *m, enum err *err, struct error *e)
{
	switch (m->where) {
	case PREAMBLE:
	case DATA:
		return skip_or_pass(m, err, e);
	case AFTER_DELIMITER:
		return look_behind(m, err, e);
	case HEADERS:
		return read_headers(m, err, e);
	case EPILOGUE:
		break;
	}
	m->pending.len = 0;
	return false;
}

enum err multipart_add(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct multipart *m = arg;
	enum err err = ERR_OK;
	if (!buffer_append(&m->pending, data, len))
		return no_memory(e);
	while (!err && step(m, &err, e))
		;
	return err;
}

enum err multipart_end(const struct multipart *m, struct error *e)
{
	return m->where == EPILOGUE ? ERR_OK : error_set(e, ERR_BAD_REQUEST, "the form data ends early");
}
