/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "map/read.h"

#include <stdlib.h>
#ifdef __SSE2__
#include <emmintrin.h>
#endif

/* No module is as large: beyond it are addresses in memory. */
#define MODULE_MAX (UINT64_C(1) << 32)

uint32_t code_page_pieces(const struct page *p)
{
	if (p->kind != PAGE_CODE || p->codec != CODEC_RAW || p->len < CODE_HEADER)
		return 0;
	uint32_t pieces = get_u32(p->bytes + 8);
	uint32_t codes = get_u32(p->bytes + 16), far = get_u32(p->bytes + 20), strings = get_u32(p->bytes + 12);
	if (pieces > (p->len - CODE_HEADER) / CODE_ENTRY || codes < CODE_HEADER || codes > far || far > p->len ||
	        strings > far - codes)
		return 0;
	return pieces;
}

static uint64_t piece_address(const struct page *p, uint32_t index)
{
	return get_u64(p->bytes) + get_u32(p->bytes + CODE_HEADER + (size_t)CODE_ENTRY * index);
}

/* The last piece at or below an offset. There must be pieces, the first at or below it. Not search_before, which would
 * also compare the first piece. */
static uint32_t find_piece(const struct page *p, uint32_t pieces, uint64_t offset)
{
	uint32_t low = 0, high = pieces;
	while (high - low > 1) {
		uint32_t mid = low + (high - low) / 2;
		if (piece_address(p, mid) <= offset)
			low = mid;
		else
			high = mid;
	}
	return low;
}

static uint32_t read_u32(struct reader *r)
{
	uint64_t v = reader_varint(r);
	if (v > UINT32_MAX)
		r->bad = true;
	return (uint32_t)v;
}

bool piece_read(const struct page *p, uint32_t index, struct piece *out)
{
	uint32_t entry = get_u32(p->bytes + CODE_HEADER + (size_t)CODE_ENTRY * index + 4),
	         codes = get_u32(p->bytes + 16);
	uint32_t body = entry & ~PIECE_HAS_LINES;
	if (body >= codes)
		return false;
	struct reader r = {p->bytes + body, p->bytes + codes, false};
	uint64_t head = reader_varint(&r);
	*out = (struct piece){.address = piece_address(p, index),
	        .is_public = head & PIECE_PUBLIC,
	        .has_lines = entry & PIECE_HAS_LINES};
	out->size = reader_varint(&r);
	out->from = head & PIECE_CONTINUED ? reader_varint(&r) : 0;
	out->name = read_u32(&r);
	out->covered = head & PIECE_WHOLE ? out->size - out->from : reader_varint(&r);
	out->segments = head >> 3 > UINT32_MAX ? UINT32_MAX : (uint32_t)(head >> 3);
	if (head & PIECE_WHOLE && out->from >= out->size)
		return false;
	if (out->segments) {
		out->root_file = read_u32(&r);
		out->root_line = read_u32(&r);
		out->node_count = read_u32(&r);
		if (out->node_count) {
			uint64_t length = reader_varint(&r);
			if (r.bad || length > (uint64_t)(r.end - r.at) || out->node_count > length)
				return false;
			out->nodes = (struct reader){r.at, r.at + length, false};
			r.at += length;
		}
	}
	out->rest = r;
	return !r.bad;
}

/* An inlined call; node 0 is the function itself, with only file and line. */
struct node {
	uint32_t parent, origin, call_file, call_line, file, line;
};

/* Reads node `index`, from 1, in order. */
static inline bool read_node(struct reader *r, struct node *nodes, uint32_t index)
{
	uint64_t up = reader_varint(r);
	if (r->bad || up >> 1 == 0 || up >> 1 > index)
		return false;
	struct node *n = &nodes[index];
	n->parent = index - (uint32_t)(up >> 1);
	n->origin = read_u32(r);
	n->call_line = nodes[n->parent].line + (uint32_t)unzigzag(reader_varint(r));
	n->call_file = up & 1 ? read_u32(r) : nodes[n->parent].file;
	n->file = read_u32(r);
	n->line = read_u32(r);
	return !r->bad;
}

/* Adds up the lengths of the data, which are the low seven bits of each code: a page has about a hundred codes, and
 * every string needs their sum. At least 16 bytes of the page come before the first code. */
#ifdef __SSE2__
static uint32_t sum_lengths(const uint8_t *code, uint32_t count)
{
	static const uint8_t last[32] = {
	        [16] = 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127, 127};
	__m128i low = _mm_set1_epi8(127), none = _mm_setzero_si128();
	/* the last few codes, as the end of sixteen bytes */
	__m128i mask = _mm_loadu_si128((const __m128i *)(const void *)(last + count % 16));
	__m128i few = _mm_loadu_si128((const __m128i *)(const void *)(code + count - 16));
	__m128i both = _mm_sad_epu8(_mm_and_si128(few, mask), none);
	for (const uint8_t *end = code + count / 16 * 16; code < end; code += 16) {
		__m128i lengths = _mm_and_si128(_mm_loadu_si128((const __m128i *)(const void *)code), low);
		both = _mm_add_epi64(both, _mm_sad_epu8(lengths, none));
	}
	return (uint32_t)(_mm_cvtsi128_si64(both) + _mm_cvtsi128_si64(_mm_unpackhi_epi64(both, both)));
}
#else
static uint32_t sum_lengths(const uint8_t *code, uint32_t count)
{
	uint32_t sum = 0;
	for (uint32_t i = 0; i < count; i++)
		sum += code[i] & 127;
	return sum;
}
#endif

/* The strings of a code page, found once for all those of a lookup. */
struct code_strings {
	const struct page *page;
	const uint8_t *codes, *data;
	uint32_t count, far;
	uint32_t bytes; /* of data */
};

/* code_page_pieces(p) is not 0. */
static struct code_strings strings_of(const struct page *p)
{
	uint32_t count = get_u32(p->bytes + 12), codes = get_u32(p->bytes + 16), far = get_u32(p->bytes + 20);
	const uint8_t *at = p->bytes + codes;
	return (struct code_strings){p, at, at + count, count, far, far - codes - count};
}

static inline bool find_string(const struct code_strings *s, uint32_t index, struct offmap_string *out)
{
	*out = (struct offmap_string){0};
	if (!index)
		return true;
	if (index > s->count)
		return false;
	uint32_t at = sum_lengths(s->codes, index - 1), code = s->codes[index - 1], len = code & 127;
	const uint8_t *data = s->data + at;
	if (at > s->bytes || len > s->bytes - at)
		return false;
	if (code <= STRING_INLINE_MAX) {
		out->data = data;
		out->len = len;
		return true;
	}
	if (code == STRING_EXTERNAL) {
		out->external = get_u32(data);
		return out->external != 0;
	}
	if (code != STRING_FAR)
		return false;
	uint64_t start = (uint64_t)s->far + get_u32(data);
	len = get_u16(data + 4);
	if (start + len > s->page->len)
		return false;
	*out = (struct offmap_string){.data = s->page->bytes + start, .len = len};
	return true;
}

/* The state of a walk over segments. line = base line of the node + line_delta; file = own_file if has_file, else the
 * node's base file. */
struct segment_walk {
	uint32_t node, highest, own_file;
	bool has_file;
	uint32_t line_delta; /* modulo 2^32, as all lines */
};

/* Walks to the segment that holds `within` bytes from the start of the piece. */
static bool find_segment(const struct piece *p, uint64_t within, struct segment_walk *out)
{
	struct segment_walk w = {0};
	struct reader r = p->rest;
	for (uint32_t i = 0; i < p->segments && !r.bad; i++) {
		uint64_t head = reader_varint(&r), size = head >> 2; /* 0: up to the end of the piece */
		switch (head & 3) {
		case SEGMENT_SAME_NODE:
			w.line_delta += (uint32_t)unzigzag(reader_varint(&r));
			break;
		case SEGMENT_NEW_NODE:
			w.node = w.highest += read_u32(&r);
			w.line_delta = 0;
			w.has_file = false;
			break;
		default:
			w.node += (uint32_t)unzigzag(reader_varint(&r));
			w.highest = w.node > w.highest ? w.node : w.highest;
			w.line_delta = (uint32_t)unzigzag(reader_varint(&r));
			w.has_file = (head & 3) == SEGMENT_NODE_FILE;
			if (w.has_file)
				w.own_file = read_u32(&r);
		}
		if (!size || within < size) {
			*out = w;
			return !r.bad;
		}
		within -= size;
	}
	return false;
}

/* Follows the chain of inlined calls outwards from `node`. Fills answer->inlines, and leaves the call site within the
 * function itself in answer->frame. */
static enum err read_chain(const struct code_strings *s, const struct node *nodes, uint32_t node, struct arena *arena,
        struct offmap_answer *answer)
{
	uint32_t count = 0, i = 0;
	for (uint32_t n = node; n; n = nodes[n].parent)
		count++;
	answer->inlines = arena_alloc(arena, count * sizeof *answer->inlines);
	if (!answer->inlines)
		return ERR_NO_MEMORY;
	answer->inline_count = count;
	struct offmap_call *site = &answer->frame; /* first the innermost file and line */
	for (uint32_t n = node; n; n = nodes[n].parent, i++) {
		struct offmap_call *call = &answer->inlines[i];
		if (!find_string(s, nodes[n].origin, &call->function))
			return ERR_CORRUPT;
		call->file = site->file;
		call->line = site->line;
		if (!find_string(s, nodes[n].call_file, &site->file))
			return ERR_CORRUPT;
		site->line = nodes[n].call_line;
	}
	return ERR_OK;
}

static enum err read_place(const struct code_strings *s, const struct piece *p, uint64_t within, struct arena *arena,
        struct offmap_answer *answer)
{
	struct node few[128], *nodes = few, *many = NULL;
	struct segment_walk w;
	enum err err = ERR_CORRUPT;
	if (!find_segment(p, within, &w) || w.node > p->node_count)
		return ERR_CORRUPT;
	if (w.node >= sizeof few / sizeof *few && !(nodes = many = malloc((w.node + 1) * sizeof *nodes)))
		return ERR_NO_MEMORY;
	nodes[0] = (struct node){.file = p->root_file, .line = p->root_line};
	struct reader r = p->nodes; /* of its own, so that it stays in registers */
	for (uint32_t i = 1; i <= w.node; i++)
		if (!read_node(&r, nodes, i))
			goto out;
	if (!find_string(s, w.has_file ? w.own_file : nodes[w.node].file, &answer->frame.file))
		goto out;
	answer->frame.line = nodes[w.node].line + w.line_delta;
	err = w.node ? read_chain(s, nodes, w.node, arena, answer) : ERR_OK;
out:
	free(many);
	return err;
}

/* Finds the function at an offset. If one answers, p is its piece and *within the offset from the start of that piece.
 */
static enum err find_function(const struct page *code, uint64_t offset, struct piece *p, uint64_t *within,
        struct code_strings *s, struct offmap_answer *answer)
{
	uint32_t pieces = code_page_pieces(code);
	*answer = (struct offmap_answer){0};
	if (!pieces)
		return ERR_CORRUPT;
	if (offset < piece_address(code, 0))
		return ERR_OK;
	uint32_t index = find_piece(code, pieces, offset);
	if (!piece_read(code, index, p))
		return ERR_CORRUPT;
	*within = offset - p->address;
	if (p->covered && *within >= p->covered) {
		answer->between = index + 1 < pieces;
		return ERR_OK;
	}
	*s = strings_of(code);
	if (!find_string(s, p->name, &answer->frame.function))
		return ERR_CORRUPT;
	answer->found = true;
	answer->function_offset = p->from + *within;
	answer->function_size = p->size;
	answer->has_size = p->size || !p->is_public;
	return ERR_OK;
}

enum err offmap_lookup_function(const struct page *code, uint64_t offset, struct offmap_answer *answer)
{
	struct code_strings s;
	struct piece p;
	uint64_t within;
	return find_function(code, offset, &p, &within, &s, answer);
}

enum err offmap_lookup(const struct page *code, uint64_t offset, struct arena *arena, struct offmap_answer *answer)
{
	struct code_strings s;
	struct piece p;
	uint64_t within;
	enum err err = find_function(code, offset, &p, &within, &s, answer);
	return !err && answer->found && p.segments ? read_place(&s, &p, within, arena, answer) : err;
}

enum reason offmap_reason(const struct offmap *m, uint64_t offset, const struct offmap_answer *answer)
{
	if (answer->found)
		return REASON_NONE;
	/* nothing, or only what a program exports whose debug data are in a file that is not there */
	if (!m->code_count || (m->lacking && !m->lines))
		return REASON_STRIPPED;
	if (offset < m->code_first[0])
		return REASON_BELOW_FIRST;
	if (answer->between || offset < m->code_first[m->code_count - 1])
		return REASON_BETWEEN;
	return offset < MODULE_MAX ? REASON_ABOVE_LAST : REASON_WRONG_OFFSET;
}

/* Strings follow one another, each after its length. Walking them costs a cache miss per string, so it is done once per
 * page. */
static struct string_index *make_index(const struct page *strings, uint32_t count)
{
	struct reader r = {strings->bytes + STRINGS_HEADER, strings->bytes + strings->len, false};
	struct string_index *index = malloc(sizeof *index + count * sizeof *index->strings);
	if (!index)
		return NULL;
	for (index->count = 0; index->count < count; index->count++) {
		uint64_t len = reader_varint(&r);
		if (r.bad || len > (uint64_t)(r.end - r.at))
			break;
		index->strings[index->count].at = (uint32_t)(r.at - strings->bytes);
		index->strings[index->count].len = (uint32_t)len;
		r.at += len;
	}
	return index;
}

/* The page's index, made if it does not exist; NULL if out of memory. If two threads make it, one of them wins. */
static const struct string_index *index_of(const struct page *strings, uint32_t count)
{
	/* The index is the only part of a page that changes; no page object is defined const. */
	_Atomic(struct string_index *) *slot = &((struct page *)(uintptr_t)strings)->index;
	struct string_index *index = atomic_load_explicit(slot, memory_order_acquire), *mine = NULL;
	if (index || !(mine = make_index(strings, count)))
		return index;
	if (atomic_compare_exchange_strong_explicit(slot, &index, mine, memory_order_acq_rel, memory_order_acquire))
		return mine;
	free(mine);
	return index;
}

enum err offmap_string_lookup(const struct page *strings, uint32_t id, struct offmap_string *out)
{
	if (strings->kind != PAGE_STRINGS || strings->codec != CODEC_RAW || strings->len < STRINGS_HEADER)
		return ERR_CORRUPT;
	uint32_t first = get_u32(strings->bytes), count = get_u32(strings->bytes + 4);
	/* each string takes at least one byte */
	if (count > strings->len - STRINGS_HEADER || id < first || id - first >= count)
		return ERR_CORRUPT;
	const struct string_index *index = index_of(strings, count);
	if (!index)
		return ERR_NO_MEMORY;
	if (id - first >= index->count)
		return ERR_CORRUPT;
	uint32_t at = index->strings[id - first].at, len = index->strings[id - first].len;
	if (at > strings->len || len > strings->len - at)
		return ERR_CORRUPT;
	*out = (struct offmap_string){.data = strings->bytes + at, .len = len};
	return ERR_OK;
}
