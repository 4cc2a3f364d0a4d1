/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/lines.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { BLOCK = 64 << 10 };

void lines_release(struct line_input *l)
{
	text_input_free(l->in);
	free(l->text);
}

static char *line_end(const struct line_input *l)
{
	return l->at < l->len ? memchr(l->text + l->at, '\n', l->len - l->at) : NULL;
}

/* Makes room for a block and a NUL after it. */
static enum err line_room(struct line_input *l, struct error *e)
{
	if (l->at) {
		memmove(l->text, l->text + l->at, l->len - l->at);
		l->len -= l->at;
		l->at = 0;
	}
	if (l->cap - l->len > BLOCK)
		return ERR_OK;
	if (l->len > LINES_MAX)
		return error_set(e, ERR_TOO_LARGE, "standard input: a line is longer than %d bytes", LINES_MAX);
	size_t cap = l->cap ? 2 * l->cap : 2 * BLOCK;
	char *grown = realloc(l->text, cap);
	if (!grown)
		return no_memory(e);
	l->text = grown;
	l->cap = cap;
	return ERR_OK;
}

static enum err read_more(struct line_input *l, struct error *e)
{
	size_t n = 0;
	struct error why;
	if (!l->in && !(l->in = text_input_new(STDIN_FILENO)))
		return no_memory(e);
	enum err err = line_room(l, e);
	if (err)
		return err;
	err = text_input_read(l->in, l->text + l->len, l->cap - l->len - 1, &n, &why);
	if (err && err != ERR_BUSY) /* a signal */
		return error_set(e, err, "standard input: %s", why.text);
	l->ended = !err && !n;
	l->len += n;
	return ERR_OK;
}

enum err lines_next(struct line_input *l, char **line, struct error *e)
{
	char *end;
	*line = NULL;
	while (!(end = line_end(l)) && !l->ended) {
		enum err err = read_more(l, e);
		if (err)
			return err;
	}
	if (l->at == l->len)
		return ERR_OK;
	*line = l->text + l->at;
	if (!end)
		end = l->text + l->len;
	*end = 0;
	l->at = (size_t)(end - l->text) + (end < l->text + l->len);
	l->number++;
	return ERR_OK;
}

bool lines_wait(const struct line_input *l)
{
	return !line_end(l) && !l->ended && !text_input_wait(l->in, 0);
}
