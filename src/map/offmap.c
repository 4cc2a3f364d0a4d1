/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "map/offmap.h"

#include <stdlib.h>
#include <string.h>

#include "base/account.h"
#include "base/search.h"
#include "base/varint.h"

struct page *page_new(enum page_kind kind, uint32_t len)
{
	if (!account_take_small(ACCOUNT_PAGES, sizeof(struct page) + (uint64_t)len))
		return NULL;
	struct page *p = malloc(sizeof *p + len);
	if (!p) {
		account_add(ACCOUNT_PAGES, -(int64_t)(sizeof *p + len));
		return NULL;
	}
	atomic_init(&p->refs, 1);
	atomic_init(&p->used, 1);
	atomic_init(&p->index, NULL);
	p->len = p->raw_len = len;
	p->kind = (uint8_t)kind;
	p->codec = CODEC_RAW;
	return p;
}

void page_ref(struct page *p)
{
	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
}

void page_unref(struct page *p)
{
	if (!p || atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
		return;
	free(atomic_load_explicit(&p->index, memory_order_relaxed));
	account_add(ACCOUNT_PAGES, -(int64_t)(sizeof *p + p->len));
	free(p);
}

struct offmap *offmap_new(uint32_t code_count, uint32_t string_count, size_t code_file_room)
{
	struct offmap *m = calloc(1, sizeof *m);
	if (!m)
		return NULL;
	m->code_count = code_count;
	m->string_count = string_count;
	m->code = calloc(code_count + (size_t)1, sizeof *m->code);
	m->strings = calloc(string_count + (size_t)1, sizeof *m->strings);
	m->code_first = malloc((code_count + (size_t)1) * sizeof *m->code_first);
	m->string_first = malloc((string_count + (size_t)1) * sizeof *m->string_first);
	m->code_file = malloc(code_file_room + 1);
	if (m->code && m->strings && m->code_first && m->string_first && m->code_file)
		return m;
	offmap_free(m);
	return NULL;
}

void offmap_free(struct offmap *m)
{
	if (!m)
		return;
	for (uint32_t i = 0; m->code && i < m->code_count; i++)
		page_unref(m->code[i]);
	for (uint32_t i = 0; m->strings && i < m->string_count; i++)
		page_unref(m->strings[i]);
	free(m->code);
	free(m->strings);
	free(m->code_first);
	free(m->string_first);
	free(m->code_file);
	free(m);
}

/* The root: generation u64, marker u64, then varints: the counts, the code file, its id, where the file is loaded, and
 * the first address or id of each page as differences. */
struct page *offmap_root_encode(const struct offmap *m)
{
	size_t id_len = strlen(m->code_id);
	const uint64_t counts[] = {m->code_count, m->string_count, m->funcs, m->publics, m->lines, m->inlines,
	        m->damaged, m->text_bytes, m->raw_bytes, m->code_file_len, id_len, m->file.count, m->lacking};
	size_t room = 16 +
	              VARINT_MAX * (sizeof counts / sizeof *counts + 3 * (size_t)m->file.count + (size_t)m->code_count +
	                                   m->string_count) +
	              m->code_file_len + id_len;
	uint8_t *bytes = room <= UINT32_MAX ? malloc(room) : NULL;
	if (!bytes)
		return NULL;
	uint8_t *at = put_u64(put_u64(bytes, m->generation), m->marker);
	for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
		at = varint_put(at, counts[i]);
	if (m->code_file_len) {
		memcpy(at, m->code_file, m->code_file_len);
		at += m->code_file_len;
	}
	memcpy(at, m->code_id, id_len);
	at += id_len;
	for (unsigned i = 0; i < m->file.count; i++)
		at = varint_put(varint_put(varint_put(at, m->file.items[i].offset), m->file.items[i].size),
		        m->file.items[i].address);
	uint64_t last = 0;
	for (uint32_t i = 0; i < m->code_count; last = m->code_first[i++])
		at = varint_put(at, m->code_first[i] - last);
	last = 0;
	for (uint32_t i = 0; i < m->string_count; last = m->string_first[i++])
		at = varint_put(at, m->string_first[i] - last);
	struct page *p = page_new(PAGE_ROOT, (uint32_t)(at - bytes));
	if (p)
		memcpy(p->bytes, bytes, p->len);
	free(bytes);
	return p;
}

/* Reads the lists of firsts, which must ascend. */
static bool read_firsts(struct reader *r, struct offmap *m)
{
	uint64_t last = 0;
	for (uint32_t i = 0; i < m->code_count; i++) {
		uint64_t step = reader_varint(r);
		if ((i && !step) || last + step < last)
			return false;
		m->code_first[i] = last += step;
	}
	last = 0;
	for (uint32_t i = 0; i < m->string_count; i++) {
		uint64_t step = reader_varint(r);
		if (!step || step > UINT32_MAX || last + step > UINT32_MAX)
			return false;
		m->string_first[i] = (uint32_t)(last += step);
	}
	return !r->bad && r->at == r->end;
}

enum err offmap_root_decode(const uint8_t *bytes, size_t len, struct offmap **out)
{
	uint64_t counts[13];
	*out = NULL;
	if (len < 16)
		return ERR_CORRUPT;
	struct reader r = {bytes + 16, bytes + len, false};
	for (unsigned i = 0; i < sizeof counts / sizeof *counts; i++)
		counts[i] = reader_varint(&r);
	uint64_t left = (uint64_t)(r.end - r.at);
	/* each number takes at least one byte */
	if (r.bad || counts[0] > left || counts[1] > left || counts[9] > left || counts[10] >= OFFMAP_CODE_ID_SIZE ||
	        counts[11] > FILE_MAP_MAX || counts[0] + counts[1] + counts[9] + counts[10] + 3 * counts[11] > left)
		return ERR_CORRUPT;
	struct offmap *m = offmap_new((uint32_t)counts[0], (uint32_t)counts[1], (size_t)counts[9]);
	if (!m)
		return ERR_NO_MEMORY;
	m->generation = get_u64(bytes);
	m->marker = get_u64(bytes + 8);
	m->funcs = counts[2];
	m->publics = counts[3];
	m->lines = counts[4];
	m->inlines = counts[5];
	m->damaged = counts[6];
	m->text_bytes = counts[7];
	m->raw_bytes = counts[8];
	m->code_file_len = (uint32_t)counts[9];
	m->file.count = (unsigned)counts[11];
	m->lacking = counts[12];
	memcpy(m->code_file, r.at, m->code_file_len);
	r.at += m->code_file_len;
	memcpy(m->code_id, r.at, (size_t)counts[10]);
	r.at += counts[10];
	for (unsigned i = 0; i < m->file.count; i++) {
		m->file.items[i].offset = reader_varint(&r);
		m->file.items[i].size = reader_varint(&r);
		m->file.items[i].address = reader_varint(&r);
	}
	if (!read_firsts(&r, m)) {
		offmap_free(m);
		return ERR_CORRUPT;
	}
	*out = m;
	return ERR_OK;
}

int64_t offmap_code_page(const struct offmap *m, uint64_t offset)
{
	return (int64_t)search_up_to(m->code_first, m->code_count, sizeof *m->code_first, 0, offset) - 1;
}

static bool is_page_up_to(const void *string_first, size_t i, uint64_t id)
{
	return ((const uint32_t *)string_first)[i] <= id;
}

int64_t offmap_string_page(const struct offmap *m, uint32_t id)
{
	return (int64_t)search_before(m->string_count, is_page_up_to, m->string_first, id) - 1;
}

bool offmap_is_page(const struct offmap *m, const struct page *p, uint32_t number)
{
	if (p->codec != CODEC_RAW || p->len < sizeof(uint64_t))
		return false;
	if (p->kind == PAGE_CODE)
		return number < m->code_count && get_u64(p->bytes) == m->code_first[number];
	return p->kind == PAGE_STRINGS && number < m->string_count && get_u32(p->bytes) == m->string_first[number];
}
