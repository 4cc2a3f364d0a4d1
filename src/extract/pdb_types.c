/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/pdb_types.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "base/varint.h"
#include "extract/demangle.h"
#include "extract/dwarf_bytes.h"

enum {
	STREAM_TYPES = 2,
	STREAM_IDS = 4,
	HEADER = 56, /* bytes of a stream of types */
	HASH_BYTES = 4,
	BUCKETS_MAX = 1 << 20,
	BUCKET_MAX = 64,           /* records of one that are looked at */
	FIRST_INDEX = 0x1000,      /* smaller ones are types by themselves */
	PLACE_GAP_MAX = 256 << 10, /* bytes from one place to the next; linkers write one every 8 KiB */
	PLACE_EVERY = 64,          /* records, where we make them */
	RECORD_MIN = 2,            /* bytes of one: its length */
	DEPTH_MAX = 24,            /* of types in types */
	STEPS_MAX = 2000,          /* types looked up for one name */
	NAME_MAX_BYTES = 16 << 10,
	SAME_NAME_MAX = 4096, /* modules whose names end alike */
	MODULE_SHIFT = 20,
	ENTRY_MASK = (1 << MODULE_SHIFT) - 1,
	MODULE_MASK = 0x7ff,
};
static const uint32_t imported_index = 1U << 31;

/* Kinds of records. */
enum {
	LF_MODIFIER = 0x1001,
	LF_POINTER = 0x1002,
	LF_PROCEDURE = 0x1008,
	LF_MFUNCTION = 0x1009,
	LF_ARGLIST = 0x1201,
	LF_ARRAY = 0x1503,
	LF_CLASS = 0x1504,
	LF_STRUCTURE = 0x1505,
	LF_UNION = 0x1506,
	LF_ENUM = 0x1507,
	LF_INTERFACE = 0x1519,
	LF_FUNC_ID = 0x1601,
	LF_MFUNC_ID = 0x1602,
	LF_STRING_ID = 0x1605,
	LF_CLASS_19 = 0x1608,
	LF_STRUCTURE_19 = 0x1609,
	LF_NUMERIC = 0x8000, /* smaller numbers are themselves */
	FORWARD = 0x80,      /* of a class: it is described elsewhere */
	SCOPED = 0x100,      /* it is in a function */
	MODE_MEMBER = 2,     /* of a pointer */
	MODE_METHOD = 3,
};

/* ---- streams of types ---- */

static bool take_places(struct pdb_types *t, struct str pairs)
{
	size_t count = pairs.len / 8;
	t->places = count ? calloc(count, sizeof *t->places) : NULL;
	if (!t->places)
		return false;
	for (size_t i = 0; i < count; i++) {
		const uint8_t *p = (const uint8_t *)pairs.data + 8 * i;
		struct pdb_place *to = &t->places[i];
		*to = (struct pdb_place){get_u32(p), get_u32(p + 4)};
		uint32_t from = i > 0 ? to[-1].offset : 0;
		if (to->offset < from || to->offset - from > PLACE_GAP_MAX || (i > 0 && to->index <= to[-1].index))
			return false;
	}
	t->place_count = count;
	return t->places[0].index == t->first && t->records.len - t->places[count - 1].offset <= PLACE_GAP_MAX;
}

static enum err make_places(struct pdb_types *t, struct error *e)
{
	struct reader r = reader_at(t->records, 0);
	free(t->places);
	t->places = NULL;
	t->place_count = t->place_cap = 0;
	for (uint32_t index = t->first; r.end - r.at >= 4 && index < t->end; index++) {
		const struct pdb_place place = {index, (uint32_t)(r.at - (const uint8_t *)t->records.data)};
		if ((index - t->first) % PLACE_EVERY == 0 &&
		        !array_append(&t->places, &t->place_cap, &t->place_count, &place, sizeof place))
			return no_memory(e);
		read_skip(&r, read_fixed(&r, 2, false));
	}
	return ERR_OK;
}

static struct str part_of(struct str s, uint32_t offset, uint32_t len)
{
	struct reader r = reader_at(s, offset);
	return str_first((struct str){(const char *)r.at, (size_t)(r.end - r.at)}, len);
}

static enum err open_stream(struct pdb *p, uint32_t stream, struct pdb_types *t, struct error *e)
{
	enum err err = msf_read(&p->msf, stream, &t->stream, e);
	struct str s = t->stream.bytes;
	if (err || s.len < HEADER)
		return err;
	const uint8_t *h = (const uint8_t *)s.data;
	uint32_t size = get_u32(h + 4);
	if (size < HEADER || size > s.len)
		return error_set(e, ERR_CORRUPT, "PDB: the stream of types %u is cut off", stream);
	t->first = get_u32(h + 8);
	t->end = get_u32(h + 12);
	t->records = str_first((struct str){s.data + size, s.len - size}, get_u32(h + 16));
	err = msf_read(&p->msf, get_u16(h + 20), &t->hash_stream, e);
	if (err)
		return err;
	t->buckets = get_u32(h + 24) == HASH_BYTES ? get_u32(h + 28) : 0;
	t->hashes = part_of(t->hash_stream.bytes, get_u32(h + 32), get_u32(h + 36));
	return take_places(t, part_of(t->hash_stream.bytes, get_u32(h + 40), get_u32(h + 44))) ? ERR_OK
	                                                                                       : make_places(t, e);
}

/* The last part of a module's name, in lower case. */
static uint64_t hash_of_name(struct str name)
{
	uint64_t hash = 14695981039346656037U;
	for (size_t i = name.len; i > 0 && name.data[i - 1] != '\\' && name.data[i - 1] != '/'; i--)
		hash = (hash ^ (uint64_t)tolower((unsigned char)name.data[i - 1])) * 1099511628211U;
	return hash;
}

static enum err list_modules(struct pdb *p, struct error *e)
{
	p->exports = calloc(p->module_count + 1, sizeof *p->exports);
	p->next_of_name = calloc(p->module_count + 1, sizeof *p->next_of_name);
	if (!p->exports || !p->next_of_name)
		return no_memory(e);
	pthread_mutex_init(&p->lock, NULL);
	p->has_lock = true;
	for (uint32_t i = 0; i < p->module_count; i++) {
		uint64_t hash = hash_of_name(p->modules[i].object), first = map64_get(&p->modules_by_name, hash);
		if (first == 0 && !map64_put(&p->modules_by_name, hash, i + 1))
			return no_memory(e);
		if (first > 0) {
			p->next_of_name[i] = p->next_of_name[first - 1];
			p->next_of_name[first - 1] = i + 1;
		}
	}
	return ERR_OK;
}

enum err pdb_types_open(struct pdb *p, struct error *e)
{
	enum err err = open_stream(p, STREAM_TYPES, &p->types, e);
	if (!err)
		err = open_stream(p, STREAM_IDS, &p->ids, e);
	return err ? err : list_modules(p, e);
}

static bool is_up_to(const void *places, size_t i, uint64_t index)
{
	return ((const struct pdb_place *)places)[i].index <= index;
}

/* The last place whose index is not above this one; NULL: none. */
static const struct pdb_place *place_before(const struct pdb_types *t, uint32_t index)
{
	size_t count =
	        index >= t->first && index < t->end ? search_before(t->place_count, is_up_to, t->places, index) : 0;
	return count ? &t->places[count - 1] : NULL;
}

/* Steps from a place to where the next one is, however far its index is. NULL if out of memory. */
static const struct pdb_near *look_near(struct pdb_namer *n, const struct pdb_types *t, const struct pdb_place *place)
{
	struct pdb_near *near = &n->near[(size_t)(place - t->places) % PDB_NEAR];
	if (near->place == place)
		return near;
	const bool last = place + 1 == t->places + t->place_count;
	const struct str before = last ? t->records : str_first(t->records, place[1].offset);
	struct reader r = reader_at(before, place->offset);
	size_t room = (size_t)(r.end - r.at) / RECORD_MIN + 1, said = (last ? t->end : place[1].index) - place->index;
	room = said < room ? said : room;
	uint32_t *offsets = realloc(near->offsets, (room + 1) * sizeof *offsets);
	near->place = NULL;
	if (!offsets)
		return NULL;
	*near = (struct pdb_near){place, offsets, 0};
	while (near->count < room && r.end - r.at >= RECORD_MIN) {
		offsets[near->count++] = (uint32_t)(r.at - (const uint8_t *)t->records.data);
		read_skip(&r, read_fixed(&r, 2, false));
	}
	return near;
}

/* The record of an index: its kind, and the rest. False: there is none. */
static bool find_record(
        struct pdb_namer *n, const struct pdb_types *t, uint32_t index, uint16_t *kind, struct reader *record)
{
	const struct pdb_place *place = place_before(t, index);
	const struct pdb_near *near = place ? look_near(n, t, place) : NULL;
	if (!near || index - place->index >= near->count)
		return false;
	struct reader r = reader_at(t->records, near->offsets[index - place->index]);
	uint64_t len = read_fixed(&r, 2, false);
	if (r.bad || len < 2 || len > (uint64_t)(r.end - r.at))
		return false;
	*record = (struct reader){.at = r.at, .end = r.at + len};
	*kind = (uint16_t)read_fixed(record, 2, false);
	return true;
}

/* ---- types of other modules ---- */

bool pdb_next_subsection(struct reader *r, uint32_t *kind, struct str *data)
{
	if (r->end - r->at < 8)
		return false;
	*kind = (uint32_t)read_fixed(r, 4, false);
	uint64_t len = read_fixed(r, 4, false);
	*data = (struct str){(const char *)r->at, (size_t)len};
	read_skip(r, len);
	if (!r->bad)
		r->at += -len % 4 < (size_t)(r->end - r->at) ? -len % 4 : (size_t)(r->end - r->at);
	return !r->bad;
}

struct str pdb_subsection(struct str c13, uint32_t wanted)
{
	struct reader r = reader_at(c13, 0);
	uint32_t kind;
	for (struct str data; pdb_next_subsection(&r, &kind, &data);)
		if (kind == wanted)
			return data;
	return (struct str){"", 0};
}

static bool is_separator(char c)
{
	return c == '\\' || c == '/';
}

/* Whether a module's own name is the end of the one that another has for it, with folders; cases and doubled separators
 * do not count. */
static bool ends_with(struct str whole, struct str end)
{
	size_t i = whole.len, k = end.len;
	while (i > 0 && k > 0) {
		char a = whole.data[i - 1], b = end.data[k - 1];
		if (is_separator(a) != is_separator(b) ||
		        (!is_separator(a) && tolower((unsigned char)a) != tolower((unsigned char)b)))
			return false;
		if (is_separator(a)) {
			while (i > 0 && is_separator(whole.data[i - 1]))
				i--;
			while (k > 0 && is_separator(end.data[k - 1]))
				k--;
		} else {
			i--;
			k--;
		}
	}
	return k == 0 && (i == 0 || is_separator(whole.data[i - 1]) || (end.len > 0 && is_separator(end.data[0])));
}

/* The module that a name in the table of strings means; 0: none, else its number + 1. The longest name counts. */
static uint32_t module_of_name(struct pdb *p, uint32_t offset)
{
	uint64_t known = map64_get(&p->imported, (uint64_t)offset + 1);
	struct str name = text_at(p->strings, offset);
	uint32_t found = 0;
	if (known)
		return (uint32_t)(known - 1);
	uint32_t at = (uint32_t)map64_get(&p->modules_by_name, hash_of_name(name));
	for (unsigned n = 0; at && n < SAME_NAME_MAX; n++, at = p->next_of_name[at - 1]) {
		struct str own = p->modules[at - 1].object;
		if (ends_with(name, own) && (!found || own.len > p->modules[found - 1].object.len))
			found = at;
	}
	map64_put(&p->imported, (uint64_t)offset + 1, (uint64_t)found + 1);
	return found;
}

static int by_local(const void *a, const void *b)
{
	const struct pdb_export *x = a, *y = b;
	return (x->local > y->local) - (x->local < y->local);
}

static void read_exports(struct pdb *p, uint32_t module)
{
	struct pdb_exports *x = &p->exports[module];
	const struct pdb_module *m = &p->modules[module];
	struct msf_bytes stream;
	if (x->read || msf_read(&p->msf, m->stream, &stream, NULL))
		return;
	x->read = true;
	struct reader r = reader_at(stream.bytes, (uint64_t)m->symbols + m->c11);
	struct str part = pdb_subsection(
	        str_first((struct str){(const char *)r.at, (size_t)(r.end - r.at)}, m->c13), PDB_EXPORTS);
	x->items = calloc(part.len / 8 + 1, sizeof *x->items);
	for (size_t i = 0; x->items && i < part.len / 8; i++) {
		const uint8_t *pair = (const uint8_t *)part.data + 8 * i;
		x->items[x->count++] = (struct pdb_export){get_u32(pair), get_u32(pair + 4)};
	}
	if (x->count > 0)
		qsort(x->items, x->count, sizeof *x->items, by_local);
	msf_bytes_release(&p->msf, &stream);
}

static uint32_t exported(struct pdb *p, uint32_t name, uint32_t local)
{
	const struct pdb_export key = {local, 0}, *found = NULL;
	pthread_mutex_lock(&p->lock);
	uint32_t module = module_of_name(p, name);
	if (module > 0)
		read_exports(p, module - 1);
	const struct pdb_exports *x = module > 0 ? &p->exports[module - 1] : NULL;
	if (x && x->count > 0)
		found = bsearch(&key, x->items, x->count, sizeof key, by_local);
	pthread_mutex_unlock(&p->lock);
	return found ? found->global : 0;
}

/* The index that is the same in all modules; 0: there is none. An imported one has the number of an import, that is a
 * module, in bits 20 to 30, and below that the number of the index among those imported from there. */
static uint32_t resolve(struct pdb_namer *n, uint32_t index)
{
	if (!(index & imported_index))
		return index;
	struct reader r = reader_at(n->imports, 0);
	uint32_t skip = index >> MODULE_SHIFT & MODULE_MASK, entry = index & ENTRY_MASK;
	while (skip-- > 0) {
		read_skip(&r, 4);
		read_skip(&r, read_fixed(&r, 4, false) * 4);
	}
	uint32_t name = (uint32_t)read_fixed(&r, 4, false), count = (uint32_t)read_fixed(&r, 4, false);
	if (r.bad || entry >= count)
		return 0;
	read_skip(&r, entry * 4ULL);
	uint32_t local = (uint32_t)read_fixed(&r, 4, false);
	return r.bad ? 0 : exported(n->p, name, local);
}

/* ---- types as text ---- */

static void put(struct pdb_namer *n, const char *text)
{
	buffer_append(&n->text, text, strlen(text));
}

static void put_str(struct pdb_namer *n, struct str s)
{
	buffer_append_str(&n->text, s);
}

static const char *basic_name(uint32_t index)
{
	static const struct {
		uint8_t kind;
		const char *name;
	} names[] = {{0x03, "void"}, {0x08, "HRESULT"}, {0x10, "signed char"}, {0x20, "unsigned char"}, {0x70, "char"},
	        {0x71, "wchar_t"}, {0x7a, "char16_t"}, {0x7b, "char32_t"}, {0x7c, "char8_t"}, {0x68, "int8_t"},
	        {0x69, "uint8_t"}, {0x11, "short"}, {0x21, "unsigned short"}, {0x72, "short"}, {0x73, "unsigned short"},
	        {0x12, "long"}, {0x22, "unsigned long"}, {0x74, "int"}, {0x75, "unsigned int"}, {0x13, "long long"},
	        {0x23, "unsigned long long"}, {0x76, "long long"}, {0x77, "unsigned long long"}, {0x14, "int128_t"},
	        {0x24, "uint128_t"}, {0x78, "int128_t"}, {0x79, "uint128_t"}, {0x46, "float16_t"}, {0x40, "float"},
	        {0x45, "float"}, {0x44, "float48_t"}, {0x41, "double"}, {0x42, "long double"}, {0x43, "long double"},
	        {0x50, "complex<float>"}, {0x51, "complex<double>"}, {0x52, "complex<long double>"},
	        {0x53, "complex<long double>"}, {0x30, "bool"}, {0x31, "bool16_t"}, {0x32, "bool32_t"},
	        {0x33, "bool64_t"}};
	if (index == 0x103)
		return "std::nullptr_t";
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (names[i].kind == (index & 0xff))
			return names[i].name;
	return (index & 0xff) == 0 ? "..." : "?";
}

static unsigned basic_size(uint32_t index)
{
	static const uint8_t integers[] = {1, 2, 4, 8, 16};
	uint32_t kind = index & 0xff, mode = index >> 8 & 0xf;
	if (mode)
		return mode == 6 ? 8 : 4;
	if (kind >= 0x10 && kind < 0x38 && (kind & 7) < sizeof integers)
		return integers[kind & 7];
	if (kind >= 0x68 && kind < 0x7a)
		return kind < 0x70 ? 1 : kind == 0x70 ? 1 : kind < 0x74 ? 2 : kind < 0x76 ? 4 : kind < 0x78 ? 8 : 16;
	return kind == 0x7a                   ? 2
	       : kind == 0x7b || kind == 0x40 ? 4
	       : kind == 0x7c                 ? 1
	       : kind == 0x41                 ? 8
	       : kind == 0x42                 ? 10
	                                      : 0;
}

/* A number of a record, and how large it may be. */
static uint64_t read_number(struct reader *r)
{
	static const uint8_t sizes[] = {1, 2, 2, 4, 4};
	uint64_t first = read_fixed(r, 2, false);
	if (first < LF_NUMERIC)
		return first;
	first -= LF_NUMERIC;
	if (first < sizeof sizes)
		return read_fixed(r, sizes[first], false);
	if (first == 9 || first == 10)
		return read_fixed(r, 8, false);
	r->bad = true;
	return 0;
}

struct type {
	uint16_t kind;
	struct reader r;
};

/* False: a type by itself, or none. */
static bool get_type(struct pdb_namer *n, uint32_t *index, struct type *t)
{
	*index = resolve(n, *index);
	return n->steps++ < STEPS_MAX && !n->text.failed && *index >= FIRST_INDEX &&
	       find_record(n, &n->p->types, *index, &t->kind, &t->r);
}

/* A class, union or enumeration. */
struct class
{
	struct str name, unique; /* unique: the decorated name */
	uint64_t size, properties;
};

/* Empty of other types. */
static struct class read_class(struct type t)
{
	struct class c = {.name = {"", 0}, .unique = {"", 0}};
	switch (t.kind) {
	case LF_CLASS:
	case LF_STRUCTURE:
	case LF_INTERFACE:
	case LF_UNION:
		read_skip(&t.r, 2);
		c.properties = read_fixed(&t.r, 2, false);
		read_skip(&t.r, t.kind == LF_UNION ? 4 : 12);
		c.size = read_number(&t.r);
		break;
	case LF_CLASS_19:
	case LF_STRUCTURE_19:
		c.properties = read_fixed(&t.r, 4, false);
		read_skip(&t.r, 14);
		c.size = read_number(&t.r);
		break;
	case LF_ENUM:
		read_skip(&t.r, 12);
		break;
	default:
		return c;
	}
	c.name = read_text(&t.r);
	c.unique = read_text(&t.r);
	return c;
}

/* Of the name by which linkers list a class. */
static uint32_t hash_of_class(struct str s)
{
	uint32_t hash = 0;
	struct reader r = reader_at(s, 0);
	for (unsigned n = 4; n > 0; n /= 2)
		while ((size_t)(r.end - r.at) >= n)
			hash ^= (uint32_t)read_fixed(&r, n, false);
	hash |= 0x20202020;
	hash ^= hash >> 11;
	return hash ^ hash >> 16;
}

/* False: there is nothing to look in. */
static bool list_buckets(struct pdb *p)
{
	struct pdb_types *t = &p->types;
	size_t count = t->hashes.len / HASH_BYTES;
	pthread_mutex_lock(&p->lock);
	if (!t->by_bucket && t->buckets && t->buckets <= BUCKETS_MAX) {
		t->by_bucket = calloc(t->buckets + count, sizeof *t->by_bucket);
		for (size_t i = count; i > 0 && t->by_bucket; i--) {
			uint32_t bucket = get_u32((const uint8_t *)t->hashes.data + HASH_BYTES * (i - 1)) % t->buckets;
			t->by_bucket[t->buckets + i - 1] = t->by_bucket[bucket];
			t->by_bucket[bucket] = (uint32_t)i;
		}
	}
	bool ok = t->by_bucket;
	pthread_mutex_unlock(&p->lock);
	return ok;
}

/* The size that another record of the same class says; 0: none does. */
static uint64_t size_elsewhere(struct pdb_namer *n, uint32_t index, const struct type *t, const struct class *c)
{
	const struct pdb_types *types = &n->p->types;
	const bool scoped = c->properties & SCOPED;
	const struct str key = scoped ? c->unique : c->name;
	uint64_t size = map64_get(&n->sizes, index);
	if (size || !list_buckets(n->p))
		return size ? size - 1 : 0;
	uint32_t at = types->by_bucket[hash_of_class(key) % types->buckets];
	for (unsigned looked = 0; at && !size && looked < BUCKET_MAX;
	        looked++, at = types->by_bucket[types->buckets + at - 1]) {
		struct type other;
		if (!find_record(n, types, types->first + at - 1, &other.kind, &other.r) || other.kind != t->kind)
			continue;
		const struct class found = read_class(other);
		const bool same = !(found.properties & FORWARD) && str_equal(scoped ? found.unique : found.name, key);
		size = same && found.size < UINT64_MAX ? found.size : 0;
	}
	map64_put(&n->sizes, index, size + 1);
	return size;
}

static uint64_t size_of(struct pdb_namer *n, uint32_t index, unsigned depth)
{
	struct type t;
	if (!get_type(n, &index, &t))
		return index < FIRST_INDEX ? basic_size(index) : 0;
	if (depth >= DEPTH_MAX)
		return 0;
	if (t.kind == LF_MODIFIER)
		return size_of(n, (uint32_t)read_fixed(&t.r, 4, false), depth + 1);
	if (t.kind == LF_POINTER) {
		read_skip(&t.r, 4);
		return read_fixed(&t.r, 4, false) >> 13 & 0x3f;
	}
	if (t.kind == LF_ARRAY) {
		read_skip(&t.r, 8);
		return read_number(&t.r);
	}
	if (t.kind == LF_ENUM) {
		read_skip(&t.r, 4);
		return size_of(n, (uint32_t)read_fixed(&t.r, 4, false), depth + 1);
	}
	const struct class c = read_class(t);
	return c.properties & FORWARD ? size_elsewhere(n, index, &t, &c) : c.size;
}

/* What a declaration has before the name, and behind it. */
static void put_before(struct pdb_namer *n, uint32_t index, unsigned depth);
static void put_after(struct pdb_namer *n, uint32_t index, unsigned depth);

static void put_type(struct pdb_namer *n, uint32_t index, unsigned depth)
{
	put_before(n, index, depth);
	put_after(n, index, depth);
}

static void put_arguments(struct pdb_namer *n, uint32_t list, uint32_t first, unsigned depth)
{
	struct type t;
	put(n, "(");
	if (first)
		put_type(n, first, depth + 1);
	if (get_type(n, &list, &t) && t.kind == LF_ARGLIST) {
		uint64_t count = read_fixed(&t.r, 4, false);
		for (uint64_t i = 0; i < count && t.r.end - t.r.at >= 4 && !n->text.failed && n->steps < STEPS_MAX;
		        i++) {
			if (i > 0 || first)
				put(n, ", ");
			put_type(n, (uint32_t)read_fixed(&t.r, 4, false), depth + 1);
		}
	}
	put(n, ")");
}

/* A function's or method's type. */
struct function_type {
	uint32_t result, class, this, arguments;
};

static bool read_function_type(struct type t, struct function_type *f)
{
	*f = (struct function_type){0};
	if (t.kind != LF_PROCEDURE && t.kind != LF_MFUNCTION)
		return false;
	f->result = (uint32_t)read_fixed(&t.r, 4, false);
	if (t.kind == LF_MFUNCTION) {
		f->class = (uint32_t)read_fixed(&t.r, 4, false);
		f->this = (uint32_t)read_fixed(&t.r, 4, false);
	}
	read_skip(&t.r, 4);
	f->arguments = (uint32_t)read_fixed(&t.r, 4, false);
	return !t.r.bad;
}

/* The type that a pointer leads to, behind its modifiers, and whether its declaration goes on behind the pointer. */
static bool goes_on(struct pdb_namer *n, uint32_t index)
{
	struct type t;
	for (unsigned i = 0; i < DEPTH_MAX && get_type(n, &index, &t); i++) {
		if (t.kind != LF_MODIFIER)
			return t.kind == LF_PROCEDURE || t.kind == LF_MFUNCTION || t.kind == LF_ARRAY;
		index = (uint32_t)read_fixed(&t.r, 4, false);
	}
	return false;
}

static void put_space(struct pdb_namer *n)
{
	char last = n->text.len ? (char)n->text.data[n->text.len - 1] : ' ';
	if (last != '*' && last != '&' && last != '(')
		put(n, " ");
}

static bool is_pointer(struct pdb_namer *n, uint32_t index)
{
	struct type t;
	return get_type(n, &index, &t) && t.kind == LF_POINTER;
}

/* "const" stands behind what a pointer leads to, and before other types. */
static void put_pointee(struct pdb_namer *n, uint32_t index, unsigned depth)
{
	struct type t;
	bool modified = depth <= DEPTH_MAX && get_type(n, &index, &t) && t.kind == LF_MODIFIER;
	put_before(n, modified ? (uint32_t)read_fixed(&t.r, 4, false) : index, depth);
	put(n, modified && (read_fixed(&t.r, 2, false) & 1) ? " const" : "");
}

static void put_pointer(struct pdb_namer *n, struct type t, unsigned depth)
{
	static const char *const sigils[8] = {"*", "&", "::*", "::*", "&&", "*", "*", "*"};
	uint32_t to = (uint32_t)read_fixed(&t.r, 4, false), attributes = (uint32_t)read_fixed(&t.r, 4, false);
	uint32_t mode = attributes >> 5 & 7;
	put_pointee(n, to, depth + 1);
	bool inner = goes_on(n, to);
	put(n, inner ? " (" : "");
	if (mode == MODE_MEMBER || mode == MODE_METHOD) {
		put_space(n);
		put_type(n, (uint32_t)read_fixed(&t.r, 4, false), depth + 1);
	} else {
		put_space(n);
	}
	put(n, sigils[mode]);
	put(n, attributes & 0x400 ? " const" : "");
}

static void put_before(struct pdb_namer *n, uint32_t index, unsigned depth)
{
	struct type t;
	struct function_type f;
	if (depth > DEPTH_MAX || !get_type(n, &index, &t)) {
		put(n, index < FIRST_INDEX && depth <= DEPTH_MAX ? basic_name(index) : "?");
		put(n, index < FIRST_INDEX && (index & 0xf00) && index != 0x103 ? " *" : "");
		return;
	}
	switch (t.kind) {
	case LF_MODIFIER: {
		uint32_t of = (uint32_t)read_fixed(&t.r, 4, false);
		bool constant = read_fixed(&t.r, 2, false) & 1, pointer = is_pointer(n, of);
		put(n, constant && !pointer ? "const " : "");
		put_before(n, of, depth + 1);
		put(n, constant && pointer ? " const" : "");
		break;
	}
	case LF_POINTER:
		put_pointer(n, t, depth);
		break;
	case LF_ARRAY:
		put_before(n, (uint32_t)read_fixed(&t.r, 4, false), depth + 1);
		break;
	case LF_PROCEDURE:
	case LF_MFUNCTION:
		if (read_function_type(t, &f))
			put_before(n, f.result, depth + 1);
		break;
	default:
		put_str(n, read_class(t).name);
	}
}

static void put_after(struct pdb_namer *n, uint32_t index, unsigned depth)
{
	struct type t;
	struct function_type f;
	if (depth > DEPTH_MAX || !get_type(n, &index, &t))
		return;
	uint32_t inner = (uint32_t)read_fixed(&(struct reader){.at = t.r.at, .end = t.r.end}, 4, false);
	switch (t.kind) {
	case LF_MODIFIER:
		put_after(n, inner, depth + 1);
		break;
	case LF_POINTER:
		put(n, goes_on(n, inner) ? ")" : "");
		put_after(n, inner, depth + 1);
		break;
	case LF_ARRAY: {
		read_skip(&t.r, 8);
		uint64_t size = read_number(&t.r), one = size_of(n, inner, depth + 1);
		if (one)
			buffer_printf(&n->text, "[%llu]", (unsigned long long)(size / one));
		else
			put(n, "[]");
		put_after(n, inner, depth + 1);
		break;
	}
	case LF_PROCEDURE:
	case LF_MFUNCTION:
		if (read_function_type(t, &f)) {
			put_arguments(n, f.arguments, 0, depth + 1);
			put_after(n, f.result, depth + 1);
		}
		break;
	default:
		break;
	}
}

/* Whether "this" points to the function's own class, and that is constant. Rust's functions that belong to a type have
 * their first argument in that place. */
static bool points_to_class(struct pdb_namer *n, const struct function_type *f, bool *constant)
{
	struct type t;
	uint32_t this = f->this, class = resolve(n, f->class);
	*constant = false;
	if (!get_type(n, &this, &t) || t.kind != LF_POINTER)
		return false;
	uint32_t to = resolve(n, (uint32_t)read_fixed(&t.r, 4, false));
	if (to == class)
		return true;
	if (!get_type(n, &to, &t) || t.kind != LF_MODIFIER)
		return false;
	to = resolve(n, (uint32_t)read_fixed(&t.r, 4, false));
	*constant = read_fixed(&t.r, 2, false) & 1;
	return to == class;
}

static void put_function_arguments(struct pdb_namer *n, uint32_t index)
{
	struct type t;
	struct function_type f;
	bool constant = false;
	if (!get_type(n, &index, &t) || !read_function_type(t, &f))
		return;
	bool own = f.this == 0 || points_to_class(n, &f, &constant);
	put_arguments(n, f.arguments, own ? 0 : f.this, 0);
	put(n, own && constant ? " const" : "");
}

/* ---- functions ---- */

static bool get_id(struct pdb_namer *n, uint32_t *index, struct type *t)
{
	*index = resolve(n, *index);
	return n->steps++ < STEPS_MAX && find_record(n, &n->p->ids, *index, &t->kind, &t->r);
}

/* "?A0x1234abcd" is the name of an anonymous namespace. */
static void put_scope(struct pdb_namer *n, uint32_t index, unsigned depth)
{
	struct type t;
	if (!index || depth > DEPTH_MAX || !get_id(n, &index, &t) || t.kind != LF_STRING_ID)
		return;
	uint32_t before = (uint32_t)read_fixed(&t.r, 4, false);
	struct str name = read_text(&t.r);
	put_scope(n, before, depth + 1);
	if (name.len > 4 && memcmp(name.data, "?A0x", 4) == 0)
		put(n, "`anonymous namespace'");
	else
		put_str(n, name);
	put(n, "::");
}

static void begin(struct pdb_namer *n)
{
	buffer_reset(&n->text);
	n->steps = 0;
}

/* What was put together; a name that became too long is plain. */
static struct str finish(struct pdb_namer *n, struct str plain)
{
	if (n->text.failed)
		return intern_add(n->strings, str_first(plain, NAME_MAX_BYTES));
	return intern_add(n->strings, (struct str){(const char *)n->text.data, n->text.len});
}

struct str pdb_name_function(struct pdb_namer *n, struct str name, uint32_t type, bool is_id)
{
	struct type t;
	begin(n);
	if (is_id && type) {
		if (get_id(n, &type, &t) && (t.kind == LF_FUNC_ID || t.kind == LF_MFUNC_ID)) {
			read_skip(&t.r, 4);
			type = (uint32_t)read_fixed(&t.r, 4, false);
		} else {
			type = 0;
		}
	}
	if (type == 0 && demangle_wanted(name) && demangle(&n->text, name))
		return finish(n, name);
	put_str(n, name);
	put_function_arguments(n, type);
	return finish(n, name);
}

/* Its place among those of the whole file; NULL: it is of one module only, or there is no memory for them. */
static uint64_t *place_of_name(struct pdb_namer *n, uint32_t id)
{
	const struct pdb_types *ids = &n->p->ids;
	const uint64_t count = ids->end > ids->first ? ids->end - ids->first : 0;
	if (id & imported_index || id < ids->first || id - ids->first >= count || count > ids->records.len / RECORD_MIN)
		return NULL;
	if (!n->by_id)
		n->by_id = calloc(count, sizeof *n->by_id);
	return n->by_id ? &n->by_id[id - ids->first] : NULL;
}

/* The address of the name of an inlined function; 1: it has none; 0: that is not known yet. */
static uint64_t known_name(struct pdb_namer *n, uint32_t id)
{
	const uint64_t *place = place_of_name(n, id);
	return place ? *place : map64_get(&n->by_import, (uint64_t)id + 1);
}

static bool keep_name(struct pdb_namer *n, uint32_t id, uint64_t name)
{
	uint64_t *place = place_of_name(n, id);
	if (place)
		*place = name;
	return place || map64_put(&n->by_import, (uint64_t)id + 1, name);
}

struct str pdb_name_inlinee(struct pdb_namer *n, uint32_t id)
{
	struct type t;
	uint32_t index = id;
	const uint64_t at = known_name(n, id);
	if (at)
		return at > 1 ? intern_at(at) : (struct str){"", 0};
	begin(n);
	struct str name = {"", 0}, plain = name;
	if (get_id(n, &index, &t) && (t.kind == LF_FUNC_ID || t.kind == LF_MFUNC_ID)) {
		uint32_t scope = (uint32_t)read_fixed(&t.r, 4, false), type = (uint32_t)read_fixed(&t.r, 4, false);
		plain = read_text(&t.r);
		if (t.kind == LF_MFUNC_ID) {
			put_type(n, scope, 0);
			put(n, "::");
		} else {
			put_scope(n, scope, 0);
		}
		put_str(n, plain);
		put_function_arguments(n, type);
	}
	name = finish(n, plain);
	if (name.data && !keep_name(n, id, name.len ? (uintptr_t)name.data : 1))
		name.data = NULL;
	return name;
}

void pdb_namer_init(struct pdb_namer *n, struct pdb *p, struct intern *strings)
{
	*n = (struct pdb_namer){.p = p, .strings = strings, .imports = {"", 0}};
	buffer_init(&n->text, NAME_MAX_BYTES);
}

void pdb_namer_release(struct pdb_namer *n)
{
	free(n->by_id);
	for (size_t i = 0; i < PDB_NEAR; i++)
		free(n->near[i].offsets);
	map64_release(&n->by_import);
	map64_release(&n->sizes);
	buffer_release(&n->text);
}

void pdb_namer_module(struct pdb_namer *n, struct str imports)
{
	map64_reset(&n->by_import);
	n->imports = imports;
}
