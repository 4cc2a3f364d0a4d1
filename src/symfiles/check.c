/* SPDX-License-Identifier: Apache-2.0 */
/* Lines are looked at one by one: the first must be MODULE, and of the rest only FUNC, PUBLIC and INFO CODE_ID matter.
 * Of a line that comes in pieces only the beginning is kept. */
#include <config.h>

#include "symfiles/check.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "sym/line.h"

enum { UNPACKED_SIZE = 64 << 10, KEPT_MAX = 4096 };

struct symfile_check {
	struct str id; /* owned */
	uint64_t max;
	enum packing packing;
	uint8_t head[PACKING_HEAD]; /* until the packing is known */
	size_t head_len;
	struct unpacker *unpacker;
	uint8_t *unpacked;
	uint64_t line; /* number of the current one, from 1 */
	size_t kept_len;
	uint8_t kept[KEPT_MAX]; /* the beginning of the current line */
	struct symfile_facts facts;
};

struct symfile_check *symfile_check_new(struct str id, uint64_t max)
{
	struct symfile_check *k = calloc(1, sizeof *k);
	char *copy = malloc(id.len + 1);
	if (!k || !copy) {
		free(k);
		free(copy);
		return NULL;
	}
	memcpy(copy, id.data, id.len);
	k->id = (struct str){copy, id.len};
	k->max = max;
	k->line = 1;
	return k;
}

void symfile_check_free(struct symfile_check *k)
{
	if (!k)
		return;
	unpacker_free(k->unpacker);
	free(k->unpacked);
	free((char *)(uintptr_t)k->id.data);
	free(k);
}

enum packing symfile_check_packing(const struct symfile_check *k)
{
	return k->packing;
}

const struct symfile_facts *symfile_check_facts(const struct symfile_check *k)
{
	return &k->facts;
}

/* ---- lines ---- */

static enum err check_module(struct symfile_check *k, struct line l, struct error *e)
{
	struct str id;
	if (!line_read_module(l, &id))
		return error_set(e, ERR_BAD_REQUEST, "line 1 is no MODULE line");
	if (id.len != k->id.len || strncasecmp(id.data, k->id.data, id.len) != 0)
		return error_set(e, ERR_BAD_REQUEST, "line 1: the id is %.*s instead of %.*s",
		        (int)(id.len < 80 ? id.len : 80), id.data, (int)(k->id.len < 80 ? k->id.len : 80), k->id.data);
	return ERR_OK;
}

static void copy_word(char to[CHECK_WORD], struct str word)
{
	word = str_first(word, CHECK_WORD - 1);
	memcpy(to, word.data, word.len);
	to[word.len] = 0;
}

/* "CODE_ID id file" */
static void take_info(struct symfile_check *k, struct line l)
{
	struct str id, file;
	if (!line_read_code_file(l, &id, &file))
		return;
	copy_word(k->facts.code_id, id);
	copy_word(k->facts.code_file, file);
}

static void take_symbol(struct symfile_check *k, struct line l, enum line_kind kind)
{
	uint64_t addr, size;
	struct str name;
	if (kind == LINE_FUNC)
		k->facts.functions += line_read_func(l, &addr, &size, &name);
	else
		k->facts.publics += line_read_public(l, &addr, &name);
}

/* A line without its line feed; of a long one the beginning. */
static enum err take_line(struct symfile_check *k, const uint8_t *at, const uint8_t *end, struct error *e)
{
	struct line l = line_content(at, end);
	if (k->line++ == 1)
		return check_module(k, l, e);
	if (l.at == l.end || (*l.at != 'F' && *l.at != 'P' && *l.at != 'I' && *l.at != ' ' && *l.at != '\t'))
		return ERR_OK;
	enum line_kind kind = line_take_kind(&l);
	if (kind == LINE_INFO)
		take_info(k, l);
	else if (kind == LINE_FUNC || kind == LINE_PUBLIC)
		take_symbol(k, l, kind);
	return ERR_OK;
}

static void keep(struct symfile_check *k, const uint8_t *at, size_t len)
{
	size_t room = KEPT_MAX - k->kept_len, n = len < room ? len : room;
	memcpy(k->kept + k->kept_len, at, n);
	k->kept_len += n;
}

static enum err take_text(struct symfile_check *k, const uint8_t *data, size_t len, struct error *e)
{
	const uint8_t *end = data + len, *feed;
	enum err err = ERR_OK;
	k->facts.text += len;
	if (k->facts.text > k->max)
		return error_set(e, ERR_TOO_LARGE, "the file unpacks to more than bucket_max_size");
	while (!err && data < end && (feed = memchr(data, '\n', (size_t)(end - data)))) {
		if (k->kept_len) {
			keep(k, data, (size_t)(feed - data));
			err = take_line(k, k->kept, k->kept + k->kept_len, e);
			k->kept_len = 0;
		} else {
			err = take_line(k, data, feed, e);
		}
		data = feed + 1;
	}
	if (!err)
		keep(k, data, (size_t)(end - data));
	/* what begins otherwise need not be read to its end */
	if (!err && k->line == 1 && k->kept_len >= 6 && memcmp(k->kept, "MODULE", 6) != 0)
		err = error_set(e, ERR_BAD_REQUEST, "line 1 is no MODULE line");
	return err;
}

/* ---- bytes ---- */

static enum err begin(struct symfile_check *k, struct error *e)
{
	if (k->packing == PACKING_NONE)
		return ERR_OK;
	k->unpacker = unpacker_new();
	k->unpacked = malloc(UNPACKED_SIZE);
	return k->unpacker && k->unpacked && unpacker_start(k->unpacker, k->packing) ? ERR_OK : no_memory(e);
}

static enum err take_bytes(struct symfile_check *k, const uint8_t *data, size_t len, struct error *e)
{
	size_t got;
	enum err err = ERR_OK;
	if (k->packing == PACKING_NONE)
		return take_text(k, data, len, e);
	do {
		err = unpacker_step(k->unpacker, &data, &len, k->unpacked, UNPACKED_SIZE, &got);
		if (err == ERR_CORRUPT)
			return error_set(e, ERR_BAD_REQUEST, "%s, after line %llu", unpacker_bad(k->unpacker),
			        (unsigned long long)k->line - 1);
		err = err ? no_memory(e) : take_text(k, k->unpacked, got, e);
	} while (!err && (len > 0 || got == UNPACKED_SIZE));
	return err;
}

enum err symfile_check_add(struct symfile_check *k, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	if (k->packing == PACKING_UNKNOWN) {
		while (len > 0 && k->packing == PACKING_UNKNOWN) {
			k->head[k->head_len++] = *data++;
			len--;
			k->packing = packing_of(k->head, k->head_len);
		}
		if (k->packing == PACKING_UNKNOWN)
			return ERR_OK;
		err = begin(k, e);
		if (!err)
			err = take_bytes(k, k->head, k->head_len, e);
	}
	return err || !len ? err : take_bytes(k, data, len, e);
}

enum err symfile_check_end(struct symfile_check *k, struct error *e)
{
	enum err err = ERR_OK;
	if (k->unpacker && !unpacker_complete(k->unpacker))
		return error_set(e, ERR_BAD_REQUEST, "%s, after line %llu", unpacker_cut(k->unpacker),
		        (unsigned long long)k->line - 1);
	if (k->kept_len || k->line == 1)
		err = take_line(k, k->kept, k->kept + k->kept_len, e);
	if (!err && !k->facts.functions && !k->facts.publics)
		err = error_set(e, ERR_BAD_REQUEST, "the file has neither a readable FUNC nor a readable PUBLIC");
	return err;
}
