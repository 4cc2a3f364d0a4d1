/* SPDX-License-Identifier: Apache-2.0 */
/* The first line must be MODULE; of the rest only FUNC, PUBLIC and INFO CODE_ID matter. Of a line that comes in pieces
 * only the beginning is kept. */
#include <config.h>

#include "symfiles/check.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "sym/symbol_scan.h"
#include "sym/line.h"

enum { UNPACKED_SIZE = 64 << 10, KEPT_MAX = 4096 };

struct symfile_check {
	char *id;
	uint64_t max;
	struct packing_head head;
	struct unpacker *unpacker;
	uint8_t *unpacked;
	struct text_hash *hash;
	symbol_scan *scan;
	bool seen_module;
	size_t kept_len;
	uint8_t kept[KEPT_MAX]; /* the beginning of the current line */
	struct symfile_facts facts;
};

struct symfile_check *symfile_check_new(struct str id, uint64_t max)
{
	struct symfile_check *k = calloc(1, sizeof *k);
	if (!k)
		return NULL;
	k->max = max;
	k->scan = symbol_scan_best();
	k->id = str_dup(id);
	k->hash = text_hash_new();
	if (k->id && k->hash)
		return k;
	symfile_check_free(k);
	return NULL;
}

void symfile_check_free(struct symfile_check *k)
{
	if (!k)
		return;
	unpacker_free(k->unpacker);
	free(k->unpacked);
	text_hash_free(k->hash);
	free(k->id);
	free(k);
}

const struct symfile_facts *symfile_check_facts(const struct symfile_check *k)
{
	return &k->facts;
}

/* ---- lines ---- */

static enum err no_module(const uint8_t *at, const uint8_t *end, struct error *e)
{
	return error_set(e, ERR_BAD_REQUEST, "line 1 is not a MODULE line%s", line_foreign(at, end));
}

static enum err check_module(struct symfile_check *k, struct line l, struct error *e)
{
	struct str id;
	if (!line_read_module(l, &id))
		return no_module(l.at, l.end, e);
	if (!line_is_module_id(id, str_from(k->id)))
		return error_set(e, ERR_BAD_REQUEST, "line 1: the id is %.*s instead of %.80s",
		        STR_FMT(str_first(id, 80)), k->id);
	return ERR_OK;
}

/* A line without its line feed; of a long one the beginning. */
static enum err take_line(struct symfile_check *k, const uint8_t *at, const uint8_t *end, struct error *e)
{
	struct line l = line_content(at, end);
	uint64_t addr, size;
	struct str id, name;
	if (!k->seen_module) {
		k->seen_module = true;
		return check_module(k, l, e);
	}
	enum line_kind kind = line_take_kind(&l);
	k->facts.functions += kind == LINE_FUNC && line_read_symbol(l, false, &addr, &size, &name);
	k->facts.stacks |= kind == LINE_STACK && l.at < l.end;
	k->facts.publics += kind == LINE_PUBLIC && line_read_symbol(l, true, &addr, &size, &name);
	if (kind == LINE_INFO && line_read_code_file(l, &id, &name) && name.len) {
		snprintf(k->facts.code_id, CHECK_WORD, "%.*s", STR_FMT(id));
		snprintf(k->facts.code_file, CHECK_WORD, "%.*s", STR_FMT(name));
	}
	return ERR_OK;
}

static void keep(struct symfile_check *k, const uint8_t *at, size_t len)
{
	size_t room = KEPT_MAX - k->kept_len, n = len < room ? len : room;
	memcpy(k->kept + k->kept_len, at, n);
	k->kept_len += n;
}

/* The scan passes over STACK records. at: the start of a line. */
static bool has_stacks(const uint8_t *at, const uint8_t *end)
{
	static const char word[] = "\nSTACK ";
	size_t len = (size_t)(end - at), n = sizeof word - 1;
	return (len >= n && memcmp(at, word + 1, n - 1) == 0) || memmem(at, len, word, n);
}

/* Bytes that end with a line feed. */
static enum err take_lines(struct symfile_check *k, const uint8_t *at, const uint8_t *end, struct error *e)
{
	enum err err = ERR_OK;
	if (!k->facts.stacks && !k->facts.functions && !k->facts.publics && at < end)
		k->facts.stacks = has_stacks(at, end);
	while (!err && at < end) {
		if (k->seen_module && !k->kept_len && (at = k->scan(at, end)) == end)
			break;
		const uint8_t *feed = memchr(at, '\n', (size_t)(end - at));
		if (k->kept_len)
			keep(k, at, (size_t)(feed - at));
		err = k->kept_len ? take_line(k, k->kept, k->kept + k->kept_len, e) : take_line(k, at, feed, e);
		k->kept_len = 0;
		at = feed + 1;
	}
	return err;
}

static enum err take_text(struct symfile_check *k, const uint8_t *data, size_t len, struct error *e)
{
	const uint8_t *last = len ? memrchr(data, '\n', len) : NULL, *rest = last ? last + 1 : data;
	k->facts.text += len;
	text_hash_add(k->hash, data, len);
	if (k->facts.text > k->max)
		return error_set(e, ERR_TOO_LARGE, "the file unpacks to more than bucket_max_size");
	enum err err = take_lines(k, data, rest, e);
	if (!err)
		keep(k, rest, (size_t)(data + len - rest));
	/* what begins otherwise need not be read to its end */
	if (!err && !k->seen_module && k->kept_len >= 6 && memcmp(k->kept, "MODULE", 6) != 0 &&
	        memcmp(k->kept, "\xef\xbb\xbf", 3) != 0)
		err = no_module(k->kept, k->kept + k->kept_len, e);
	return err;
}

/* ---- bytes ---- */

static enum err begin(struct symfile_check *k, struct error *e)
{
	if (k->facts.packing == PACKING_NONE)
		return ERR_OK;
	k->unpacker = unpacker_new();
	k->unpacked = malloc(UNPACKED_SIZE);
	return k->unpacker && k->unpacked && unpacker_start(k->unpacker, k->facts.packing) ? ERR_OK : no_memory(e);
}

static enum err take_bytes(struct symfile_check *k, const uint8_t *data, size_t len, struct error *e)
{
	size_t got;
	enum err err = ERR_OK;
	if (k->facts.packing == PACKING_NONE)
		return take_text(k, data, len, e);
	do {
		err = unpacker_step(k->unpacker, &data, &len, k->unpacked, UNPACKED_SIZE, &got);
		if (err == ERR_CORRUPT)
			return error_set(e, ERR_BAD_REQUEST, "%s, after %llu bytes of text", unpacker_bad(k->unpacker),
			        (unsigned long long)k->facts.text);
		err = err ? no_memory(e) : take_text(k, k->unpacked, got, e);
	} while (!err && (len > 0 || got == UNPACKED_SIZE));
	return err;
}

enum err symfile_check_add(struct symfile_check *k, const uint8_t *data, size_t len, struct error *e)
{
	enum err err = ERR_OK;
	if (k->facts.packing == PACKING_UNKNOWN) {
		if (!packing_look(&k->head, &data, &len))
			return ERR_OK;
		k->facts.packing = k->head.packing;
		err = begin(k, e);
		if (!err)
			err = take_bytes(k, k->head.bytes, k->head.len, e);
	}
	return err || !len ? err : take_bytes(k, data, len, e);
}

enum err symfile_check_end(struct symfile_check *k, struct error *e)
{
	enum err err = ERR_OK;
	k->facts.hash = text_hash_value(k->hash);
	if (k->unpacker && !unpacker_complete(k->unpacker))
		return error_set(e, ERR_BAD_REQUEST, "%s, after %llu bytes of text", unpacker_cut(k->unpacker),
		        (unsigned long long)k->facts.text);
	if (k->kept_len || !k->seen_module)
		err = take_line(k, k->kept, k->kept + k->kept_len, e);
	if (!err && !k->facts.functions && !k->facts.publics && !k->facts.stacks)
		err = error_set(e, ERR_BAD_REQUEST, "the file has neither a readable FUNC nor a readable PUBLIC");
	return err;
}
