/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/build_id.h"

#include <string.h>

#include "base/hex.h"

bool build_id_parse(struct build_id *id, struct str hex)
{
	*id = (struct build_id){.len = hex.len / 2};
	return id->len > 0 && id->len <= BUILD_ID_MAX && hex_read(id->bytes, id->len, hex);
}

void build_id_hex(char out[BUILD_ID_HEX + 1], const uint8_t *id, size_t len)
{
	hex_write(out, id, len);
}

enum { GUID_DIGITS = 2 * GUID_BYTES, AGE_DIGITS = 8 };

static void reorder(uint8_t out[GUID_BYTES], const uint8_t in[GUID_BYTES])
{
	for (unsigned i = 0; i < GUID_BYTES; i++)
		out[i] = in[guid_order[i]];
}

static bool parse_windows(struct build_id_question *q, struct str id)
{
	struct build_id guid;
	uint64_t age;
	if (!build_id_parse(&guid, (struct str){id.data, GUID_DIGITS}) ||
	        !hex_read_number((struct str){id.data + GUID_DIGITS, id.len - GUID_DIGITS}, &age))
		return false;
	q->windows = true;
	q->whole.len = WINDOWS_ID_BYTES;
	reorder(q->whole.bytes, guid.bytes);
	for (unsigned i = 0; i < WINDOWS_ID_BYTES - GUID_BYTES; i++)
		q->whole.bytes[GUID_BYTES + i] = (uint8_t)(age >> 8 * (3 - i));
	return true;
}

bool build_id_question_parse(struct build_id_question *q, struct str id)
{
	struct build_id guid;
	*q = (struct build_id_question){0};
	bool has_age = id.len == GUID_DIGITS + 1;
	if (id.len > GUID_DIGITS && id.len < GUID_DIGITS + AGE_DIGITS && id.data[GUID_DIGITS] != '0')
		return parse_windows(q, id);
	if (id.len > GUID_DIGITS + 1 && id.len < GUID_DIGITS + AGE_DIGITS)
		return false;
	if (has_age || id.len == GUID_DIGITS) {
		q->has_first = build_id_parse(&guid, (struct str){id.data, GUID_DIGITS});
		reorder(q->first, guid.bytes);
	}
	return has_age ? q->has_first : build_id_parse(&q->whole, id);
}

void build_id_questions(struct build_id_question out[BUILD_ID_QUESTIONS], const struct build_id *id)
{
	uint8_t orders[2][GUID_BYTES];
	memcpy(orders[0], id->bytes, GUID_BYTES);
	reorder(orders[1], id->bytes);
	/* as a debug id in both byte orders, with and without an age; then as the build id itself */
	for (unsigned i = 0; i < 2; i++) {
		struct build_id_question *with_age = &out[2 * i], *without = &out[2 * i + 1];
		*with_age = (struct build_id_question){.has_first = true};
		memcpy(with_age->first, orders[i], GUID_BYTES);
		*without = *with_age;
		without->whole.len = GUID_BYTES;
		memcpy(without->whole.bytes, orders[!i], GUID_BYTES);
	}
	out[4] = (struct build_id_question){.whole = *id, .has_first = id->len == GUID_BYTES};
	memcpy(out[4].first, orders[1], GUID_BYTES);
}

bool build_id_answers(const struct build_id *id, const struct build_id_question *q)
{
	uint8_t reordered[GUID_BYTES];
	reorder(reordered, q->first);
	bool whole = q->whole.len && q->whole.len == id->len && memcmp(q->whole.bytes, id->bytes, id->len) == 0;
	return whole || (q->has_first && (memcmp(q->first, id->bytes, GUID_BYTES) == 0 ||
	                                         memcmp(reordered, id->bytes, GUID_BYTES) == 0));
}

/* The smaller of the bytes as they are and in GUID order, so that it does not matter which of the two the 32 digits
 * mean. */
static void print_key(char out[BUILD_ID_KEY + 1], const uint8_t first[GUID_BYTES])
{
	uint8_t reordered[GUID_BYTES];
	reorder(reordered, first);
	hex_write(out, memcmp(first, reordered, GUID_BYTES) < 0 ? first : reordered, GUID_BYTES);
}

void build_id_key(char out[BUILD_ID_KEY + 1], const struct build_id *id)
{
	print_key(out, id->bytes);
}

void build_id_question_key(char out[BUILD_ID_KEY + 1], const struct build_id_question *q)
{
	print_key(out, q->whole.len ? q->whole.bytes : q->first);
}

bool build_id_question_read(struct build_id_question *q, struct str text)
{
	struct str whole = str_cut(&text, '/');
	*q = (struct build_id_question){.has_first = text.len > 0};
	return (!whole.len || build_id_parse(&q->whole, whole)) && (!text.len || hex_read(q->first, GUID_BYTES, text));
}

void build_id_question_text(char out[BUILD_ID_QUESTION_TEXT + 1], const struct build_id_question *q)
{
	build_id_hex(out, q->whole.bytes, q->whole.len);
	char *end = out + 2 * q->whole.len;
	*end++ = '/';
	hex_write(end, q->first, q->has_first ? GUID_BYTES : 0);
}
