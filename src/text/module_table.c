/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/module_table.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/hex.h"
#include "base/process.h"

enum {
	NONE = -1,
	MEMORY_MAX = 64 << 20, /* bytes of names and ids */
};

struct text_entry {
	struct text_module module;
	struct str path, id; /* its keys; no id: the text gave none, and none was known */
	uint32_t report;
	int32_t next_open; /* of the same name, without an id so far */
};

struct text_known {
	struct str name;                /* the last segment of the path */
	const struct text_module *told; /* NULL: nothing */
	bool user;
	bool named; /* by the user, who gave no id */
	uint32_t report;
	int32_t open; /* modules that were named before this was known */
};

bool text_modules_init(struct text_modules *t, uint32_t max)
{
	*t = (struct text_modules){.max = max, .report = 1};
	arena_init(&t->arena, MEMORY_MAX);
	t->seed = random_u64();
	t->entries = calloc(max, sizeof *t->entries);
	t->known = calloc(max, sizeof *t->known);
	return t->entries && t->known;
}

void text_modules_release(struct text_modules *t)
{
	free(t->entries);
	free(t->known);
	map64_release(&t->by_path);
	map64_release(&t->known_by_name);
	arena_release(&t->arena);
}

size_t text_modules_memory(const struct text_modules *t)
{
	return t->arena.used + t->count * sizeof *t->entries + t->known_count * sizeof *t->known +
	       (t->by_path.cap + t->known_by_name.cap) * sizeof *t->by_path.slots;
}

static struct str copy_text(struct text_modules *t, struct str s)
{
	char *c = s.len < SIZE_MAX ? arena_alloc(&t->arena, s.len + 1) : NULL;
	if (!c)
		return (struct str){NULL, 0};
	if (s.len)
		memcpy(c, s.data, s.len);
	return (struct str){c, s.len};
}

/* ---- names and ids ---- */

struct str text_base_name(struct str path)
{
	size_t at = path.len;
	while (at && path.data[at - 1] != '/' && path.data[at - 1] != '\\' && path.data[at - 1] != '!')
		at--;
	return (struct str){path.data + at, path.len - at};
}

bool text_debug_id(char out[34], struct str build_id)
{
	if (build_id.len < 2 || build_id.len % 2 || !hex_only(build_id))
		return false;
	for (size_t i = 0; i < 2 * GUID_BYTES; i++) {
		size_t from = 2U * guid_order[i / 2] + i % 2;
		out[i] = from < build_id.len ? (char)toupper(build_id.data[from]) : '0';
	}
	memcpy(out + 32, "0", 2);
	return true;
}

/* The UUID without dashes, with an age of 0. False if it is not a UUID. */
static bool uuid_debug_id(char out[34], struct str uuid)
{
	size_t n = 0;
	for (size_t i = 0; i < uuid.len; i++) {
		if (uuid.data[i] == '-')
			continue;
		if (n == 32 || hex_value(uuid.data[i]) < 0)
			return false;
		out[n++] = (char)toupper(uuid.data[i]);
	}
	memcpy(out + n, "0", 2);
	return n == 32;
}

/* An id in the form in which servers know it: written to out, or as given. Empty: not an id. */
static struct str asked_id(char out[34], struct str id, enum text_id *kind)
{
	/* 40 digits are a build id, whatever the text says: no debug id has an age of eight digits */
	if (*kind == TEXT_ID_GIVEN && id.len == 40)
		*kind = TEXT_ID_BUILD;
	if (*kind == TEXT_ID_GIVEN && id.len && memchr(id.data, '-', id.len) && uuid_debug_id(out, id))
		return str_from(out);
	if (*kind == TEXT_ID_GIVEN)
		return id;
	if (*kind == TEXT_ID_BUILD ? text_debug_id(out, id) : uuid_debug_id(out, id))
		return str_from(out);
	return NOTHING;
}

/* False if there is no room. A malformed id is ignored. */
static bool set_id(struct text_modules *t, struct text_module *m, struct str id, enum text_id kind)
{
	char out[34];
	struct str asked = asked_id(out, id, &kind);
	m->id = copy_text(t, asked);
	if (!m->id.data || !asked.len || kind != TEXT_ID_BUILD)
		return m->id.data;
	m->build_id = copy_text(t, id);
	for (size_t i = 0; i < m->build_id.len; i++)
		((char *)m->build_id.data)[i] |= 0x20; /* digits have the bit too */
	return m->build_id.data;
}

/* ---- names of Windows ---- */

static const char *const program_endings[] = {".exe", ".dll", ".sys", ".ocx", ".drv", ".pyd", ".node", ".cpl", ".scr"};

struct str text_windows_stem(struct str name)
{
	for (size_t i = 0; i < sizeof program_endings / sizeof *program_endings; i++) {
		size_t n = strlen(program_endings[i]);
		if (name.len > n && strncasecmp(name.data + name.len - n, program_endings[i], n) == 0)
			return (struct str){name.data, name.len - n};
	}
	return NOTHING;
}

bool text_other_name(struct str name, unsigned number, char room[TEXT_NAME_MAX], struct str *out)
{
	static const char *const of_program[] = {".pdb", ""}, *const of_stem[] = {".pdb", ".exe", ".dll"};
	struct str stem = text_windows_stem(name);
	bool program = stem.len > 0;
	stem = program ? stem : name;
	if (number >= (program ? 2 : 3) || !stem.len || (!program && memchr(name.data, '.', name.len)))
		return false;
	const char *ending = (program ? of_program : of_stem)[number];
	*out = (struct str){room, stem.len + strlen(ending)};
	if (out->len > TEXT_NAME_MAX)
		return false;
	memcpy(room, stem.data, stem.len);
	memcpy(room + stem.len, ending, strlen(ending));
	return true;
}

bool text_is_windows_id(struct str id)
{
	if (!hex_only(id))
		return false;
	return (id.len > 32 && id.len < 40 && !(id.len == 33 && id.data[32] == '0')) || (id.len > 8 && id.len <= 16);
}

static bool is_of_windows(struct str name)
{
	return text_windows_stem(name).len || (name.len > 4 && strncasecmp(name.data + name.len - 4, ".pdb", 4) == 0);
}

/* ---- what is known of names ---- */

/* NULL if unknown; *key is where it would be. */
static struct text_known *look_up_known(const struct text_modules *t, struct str name, uint64_t *key)
{
	uint64_t at;
	*key = name_hash_seeded(name, NOTHING, t->seed);
	while ((at = map64_get(&t->known_by_name, *key)) && !str_equal(t->known[at - 1].name, name))
		++*key;
	return at ? &t->known[at - 1] : NULL;
}

/* NULL: no room. */
static struct text_known *make_known(struct text_modules *t, struct str name)
{
	uint64_t key;
	struct text_known *k = look_up_known(t, name, &key);
	if (!k) {
		if (t->known_count == t->max)
			return NULL;
		k = &t->known[t->known_count];
		*k = (struct text_known){.name = copy_text(t, name), .report = t->report, .open = NONE};
		if (!k->name.data || !map64_put(&t->known_by_name, key, t->known_count + 1))
			return NULL;
		t->known_count++;
		t->windows = t->windows || is_of_windows(name);
	}
	if (k->report != t->report && !k->user)
		*k = (struct text_known){.name = k->name, .named = k->named, .report = t->report, .open = NONE};
	return k;
}

/* NULL if nothing is known that applies here. */
static const struct text_known *find_exactly(const struct text_modules *t, struct str name)
{
	uint64_t ignored;
	const struct text_known *k = look_up_known(t, name, &ignored);
	return k && k->told && (k->user || k->report == t->report) ? k : NULL;
}

/* A program of Windows may be known by the name of its PDB file, or without its ending. */
static const struct text_known *find_known(const struct text_modules *t, struct str name)
{
	char room[TEXT_NAME_MAX];
	struct str other;
	const struct text_known *k = find_exactly(t, name);
	bool may_be = !k && (t->windows || text_windows_stem(name).len);
	for (unsigned i = 0; !k && may_be && text_other_name(name, i, room, &other); i++)
		k = find_exactly(t, other);
	return k;
}

bool text_modules_is_known(const struct text_modules *t, struct str path)
{
	uint64_t ignored;
	const struct text_known *k = look_up_known(t, text_base_name(path), &ignored);
	return (k && k->named) || find_known(t, text_base_name(path));
}

bool text_modules_know_name(struct text_modules *t, struct str name)
{
	struct text_known *k = make_known(t, name);
	if (k)
		k->named = true;
	return k != NULL;
}

static void apply_told(struct text_module *m, const struct text_module *told)
{
	m->id = told->id;
	m->build_id = told->build_id;
	m->name = told->name;
	if (!memchr(m->path.data, '/', m->path.len) && !memchr(m->path.data, '\\', m->path.len))
		m->path = told->path;
}

bool text_modules_know(struct text_modules *t, struct str path, struct str symbols, struct str id, enum text_id kind,
        bool user, const struct text_module **told)
{
	char out[34];
	enum text_id as = kind;
	struct str asked = asked_id(out, id, &as), name = text_base_name(symbols.len ? symbols : path);
	*told = NULL;
	if (!asked.len || !name.len || path.len > TEXT_NAME_MAX || symbols.len > TEXT_NAME_MAX ||
	        id.len > TEXT_NAME_MAX)
		return true;
	struct text_known *k = make_known(t, text_base_name(path));
	if (!k)
		return false;
	if (k->user && !user)
		return true;
	if (!k->told || !str_equal(k->told->path, path) || !str_equal(k->told->id, asked)) {
		struct text_module *m = arena_alloc(&t->arena, sizeof *m);
		if (!m)
			return false;
		*m = (struct text_module){.path = copy_text(t, path), .name = copy_text(t, name)};
		if (!m->path.data || !m->name.data || !set_id(t, m, id, kind))
			return false;
		k->told = m;
		k->user = user;
		for (int32_t i = k->open; i >= 0; i = t->entries[i].next_open)
			apply_told(&t->entries[i].module, m);
		k->open = NONE;
	}
	*told = k->told;
	return true;
}

void text_modules_begin_report(struct text_modules *t)
{
	t->report++;
}

void text_modules_forget(struct text_modules *t)
{
	struct text_modules old = *t;
	struct text_known *known = t->known;
	t->count = t->known_count = 0;
	t->report = 1;
	map64_reset(&t->by_path);
	map64_reset(&t->known_by_name);
	arena_init(&t->arena, MEMORY_MAX);
	/* what the user said comes first in the table, and is kept */
	for (uint32_t i = 0; i < old.known_count && (known[i].user || known[i].named); i++) {
		struct text_known k = known[i];
		const struct text_module *ignored;
		known[i] = (struct text_known){.open = NONE};
		if (k.named)
			text_modules_know_name(t, k.name);
		if (!k.user)
			continue;
		text_modules_know(t, k.told->path, k.told->name, k.told->build_id.len ? k.told->build_id : k.told->id,
		        k.told->build_id.len ? TEXT_ID_BUILD : TEXT_ID_GIVEN, true, &ignored);
	}
	arena_release(&old.arena);
}

bool text_modules_crowded(const struct text_modules *t)
{
	return t->count > t->max / 2 || t->known_count > t->max / 2 || t->arena.used > MEMORY_MAX / 2;
}

bool text_modules_full(const struct text_modules *t)
{
	return t->count == t->max || t->known_count == t->max || t->arena.used > MEMORY_MAX - 4 * TEXT_NAME_MAX;
}

/* ---- modules ---- */

/* Its index; NONE if it is not there, and *key is where it would be. */
static int32_t look_up_module(const struct text_modules *t, struct str path, struct str id, uint64_t *key)
{
	uint64_t at;
	for (*key = name_hash_seeded(path, id, t->seed + (id.len ? 0 : t->report)); (at = map64_get(&t->by_path, *key));
	        ++*key) {
		const struct text_entry *e = &t->entries[at - 1];
		if (str_equal(e->path, path) && str_equal(e->id, id) && (id.len || e->report == t->report))
			break;
	}
	return (int32_t)at - 1;
}

/* Adds a module, whose key must be free. told: NULL, or what gives its id. */
static bool add_module(struct text_modules *t, uint64_t key, struct str path, struct str id, enum text_id kind,
        const struct text_module *told)
{
	struct text_entry *e = &t->entries[t->count];
	struct text_known *k = NULL;
	if (t->count == t->max)
		return false;
	*e = (struct text_entry){
	        .path = copy_text(t, path), .id = copy_text(t, id), .report = t->report, .next_open = NONE};
	if (!e->path.data || !e->id.data)
		return false;
	e->module.path = e->path;
	e->module.name = text_base_name(e->path);
	if (told)
		apply_told(&e->module, told);
	else if (id.len ? !set_id(t, &e->module, id, kind) : !(k = make_known(t, e->module.name)))
		return false;
	if (!map64_put(&t->by_path, key, t->count + 1))
		return false;
	if (k) {
		e->next_open = k->open;
		k->open = (int32_t)t->count;
	}
	t->count++;
	return true;
}

static int32_t find_module(
        struct text_modules *t, struct str path, struct str id, enum text_id kind, const struct text_module *told)
{
	uint64_t key;
	int32_t found = look_up_module(t, path, id, &key);
	if (found == NONE && add_module(t, key, path, id, kind, told))
		found = (int32_t)t->count - 1;
	return found;
}

int32_t text_modules_find(struct text_modules *t, struct str path, struct str id, enum text_id kind)
{
	return id.len ? find_module(t, path, id, kind, NULL) : text_modules_find_told(t, path, NULL);
}

int32_t text_modules_find_told(struct text_modules *t, struct str path, const struct text_module *told)
{
	const struct text_known *known = find_known(t, text_base_name(path));
	if (known && (!told || known->user))
		told = known->told;
	return find_module(t, path, told ? told->id : NOTHING, TEXT_ID_GIVEN, told);
}

const struct text_module *text_modules_at(const struct text_modules *t, uint32_t index)
{
	return &t->entries[index].module;
}

int32_t text_modules_find_at(struct text_modules *t, uint32_t index, struct str path)
{
	const struct text_module *m = &t->entries[index].module;
	return m->id.len ? find_module(t, path, m->id, TEXT_ID_GIVEN, m) : text_modules_find_told(t, path, NULL);
}
