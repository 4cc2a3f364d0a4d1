/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/local_symbols.h"

#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>

#include "base/search.h"
#include "extract/elf_file.h"
#include "symbtool/cli.h"
#include "symbtool/debug_dir.h"
#include "symbtool/local_map.h"
#include "text/module_table.h"

enum {
	FILES_KEPT = 32,
	MAPPING_ALIGNMENT = 4096, /* of segments in memory */
	COMPLAINTS_MAX = 20,      /* about files, in all */
};

struct local_file {
	struct local_file *next;
	char *path;
	struct offmap *map; /* NULL: see why */
	enum reason why;
	bool whole; /* more than what some addresses needed was read, or cannot be */
	bool used;  /* since settle */
};

struct local_symbols {
	const struct extract_options *extract;
	const char *const *files;
	size_t file_count;
	struct local_file *open;
	size_t open_count;
	unsigned complaints;
};

struct local_symbols *local_symbols_new(
        const struct extract_options *extract, const char *const *files, size_t file_count)
{
	struct local_symbols *s = calloc(1, sizeof *s);
	if (s)
		*s = (struct local_symbols){.extract = extract, .files = files, .file_count = file_count};
	return s;
}

static void file_free(struct local_file *f)
{
	offmap_free(f->map);
	free(f->path);
	free(f);
}

void local_symbols_free(struct local_symbols *s)
{
	while (s && s->open) {
		struct local_file *f = s->open;
		s->open = f->next;
		file_free(f);
	}
	free(s);
}

/* ---- which file ---- */

static const char *named_file(const struct local_symbols *s, struct str path)
{
	struct str name = text_base_name(path);
	for (size_t i = 0; i < s->file_count; i++) {
		const char *equals = strchr(s->files[i], '=');
		struct str wanted = {s->files[i], (size_t)(equals - s->files[i])};
		if (str_equal(wanted, path) || str_equal(wanted, name))
			return equals + 1;
	}
	return NULL;
}

static bool has_file_id(const struct elf_file *f, struct str text)
{
	struct file_id wanted, id;
	return file_id_parse(&wanted, text) && !file_id_of_fd(&id, f->fd, NULL, NULL) &&
	       memcmp(id.bytes, wanted.bytes, sizeof id.bytes) == 0;
}

/* Whether the file is the build that the text names by a build id, a debug id or a FileID, or the text names none. The
 * age behind the 32 digits of a debug id is always 0. */
static bool is_build(const struct elf_file *f, const struct ids *ids, const struct text_module *m)
{
	char hex[BUILD_ID_HEX + 1];
	build_id_hex(hex, ids->build_id.bytes, ids->build_id.len);
	if (m->build_id.len)
		return str_equal(m->build_id, str_from(hex));
	if (!m->id.len || (m->id.len >= DEBUG_ID_GUID && !strncasecmp(m->id.data, ids->debug_id, DEBUG_ID_GUID)))
		return true;
	return has_file_id(f, m->id);
}

static enum local_why check_elf(const char *path, const struct text_module *m)
{
	struct elf_file f;
	struct ids ids;
	struct stat st;
	if (stat(path, &st) != 0 || !S_ISREG(st.st_mode) ||
	        elf_file_open_as(&f, path, &(struct view_wanted){.no_symbols = true}, NULL))
		return LOCAL_NOWHERE;
	ids_read(&ids, f.elf);
	bool is = is_build(&f, &ids, m);
	elf_file_close(&f);
	return is ? LOCAL_FOUND : LOCAL_OTHER_BUILD;
}

static bool copy_path(char path[PATH_MAX], struct str from)
{
	if (!from.len || from.len >= PATH_MAX || memchr(from.data, 0, from.len))
		return false;
	memcpy(path, from.data, from.len);
	path[from.len] = 0;
	return true;
}

/* A library without a path, where the dynamic loader would look. */
static enum local_why find_library(char path[PATH_MAX], const struct text_module *m)
{
	struct str name = m->path;
	static const char *const dirs =
	        "/usr/local/lib:/lib/x86_64-linux-gnu:/usr/lib/x86_64-linux-gnu:"
	        "/lib/aarch64-linux-gnu:/usr/lib/aarch64-linux-gnu:/lib64:/usr/lib64:/lib:/usr/lib";
	const char *own = getenv("LD_LIBRARY_PATH");
	struct str lists[] = {str_from(own ? own : ""), str_from(dirs)};
	bool library = name.len > 3 && memmem(name.data, name.len, ".so", 3) && !memchr(name.data, '/', name.len);
	enum local_why why = LOCAL_NOWHERE;
	for (unsigned i = 0; i < 2 && library && why == LOCAL_NOWHERE; i++)
		while (lists[i].len && why == LOCAL_NOWHERE) {
			struct str dir = str_cut(&lists[i], ':');
			int n = snprintf(path, PATH_MAX, "%.*s/%.*s", STR_FMT(dir), STR_FMT(name));
			why = dir.len && n < PATH_MAX ? check_elf(path, m) : LOCAL_NOWHERE;
		}
	return why;
}

enum local_why local_symbols_find(const struct local_symbols *s, const struct text_module *m, char path[PATH_MAX])
{
	const char *named = named_file(s, m->path), *dir = s->extract->debug_dir;
	enum local_why why = LOCAL_NOWHERE;
	if (named && copy_path(path, str_from(named)))
		return check_elf(path, m) == LOCAL_OTHER_BUILD ? LOCAL_OTHER_BUILD : LOCAL_FOUND;
	if (copy_path(path, m->path))
		why = check_elf(path, m);
	if (why == LOCAL_NOWHERE)
		why = find_library(path, m);
	if (why == LOCAL_FOUND || m->build_id.len < 3 || m->build_id.len > BUILD_ID_HEX)
		return why;
	int n = snprintf(path, PATH_MAX, "%s/.build-id/%.2s/%.*s.debug", dir ? dir : "/usr/lib/debug", m->build_id.data,
	        (int)m->build_id.len - 2, m->build_id.data + 2);
	struct build_id id;
	if (n < PATH_MAX && check_elf(path, m) == LOCAL_FOUND)
		return LOCAL_FOUND;
	return build_id_parse(&id, m->build_id) && debug_dir_find(id.bytes, id.len, path) ? LOCAL_FOUND : why;
}

/* ---- what is in it ---- */

static uint64_t address_of_text(Elf *elf)
{
	GElf_Shdr header;
	Elf_Scn *text = elf_find_section(elf, ".text");
	return text && gelf_getshdr(text, &header) ? header.sh_addr : 0;
}

struct local_place *local_place_read(const char *path)
{
	struct elf_file elf;
	struct ids ids;
	size_t count = 0;
	struct local_place *place = calloc(1, sizeof *place);
	if (!place || elf_file_open_as(&elf, path, &(struct view_wanted){.no_symbols = true}, NULL))
		return place;
	ids_read(&ids, elf.elf);
	place->found_by = ids.found_by;
	place->image_base = ids.image_base;
	memcpy(place->debug_id, ids.debug_id, sizeof ids.debug_id);
	place->code = address_of_text(elf.elf);
	GElf_Ehdr header;
	place->fixed = gelf_getehdr(elf.elf, &header) && header.e_type == ET_EXEC;
	elf_getphdrnum(elf.elf, &count);
	for (size_t i = 0; i < count && place->segment_count < LOCAL_SEGMENTS_MAX; i++) {
		GElf_Phdr p;
		if (!gelf_getphdr(elf.elf, (int)i, &p) || p.p_type != PT_LOAD || !(p.p_flags & PF_X))
			continue;
		if (!place->segment_count)
			place->exec = p.p_vaddr - p.p_vaddr % MAPPING_ALIGNMENT;
		place->segments[place->segment_count++] = (struct code_segment){p.p_vaddr, p.p_memsz};
	}
	segments_read(&place->file, elf.elf);
	elf_file_close(&elf);
	return place;
}

static bool has_code_at(const struct local_place *place, uint64_t address)
{
	for (size_t i = 0; i < place->segment_count; i++) {
		const struct code_segment *s = &place->segments[i];
		if (address >= s->address && address - s->address < s->size)
			return true;
	}
	return false;
}

static bool address_in_file(const struct local_place *place, uint64_t offset, uint64_t *address)
{
	for (size_t i = 0; i < place->file.count; i++) {
		const struct load_segment *s = &place->file.items[i];
		if (offset < s->offset || offset - s->offset >= s->file_size)
			continue;
		*address = s->address + (offset - s->offset);
		return true;
	}
	return false;
}

bool local_place_knows(const struct local_place *place, uint64_t address, enum text_base base)
{
	uint64_t ignored;
	if (base == TEXT_FIXED)
		return place->fixed && has_code_at(place, address);
	if (base == TEXT_FILE)
		return !place->file.count || address_in_file(place, address, &ignored);
	if (base == TEXT_FUNCTION) /* its address is not known so far */
		return false;
	return base == TEXT_CODE ? place->code != 0 : base == TEXT_EXEC ? place->segment_count > 0 : true;
}

uint64_t local_place_address(const struct local_place *place, uint64_t address, enum text_base base)
{
	if (base == TEXT_IMAGE)
		return address + place->image_base;
	if (base == TEXT_CODE || base == TEXT_EXEC)
		return address + (base == TEXT_CODE ? place->code : place->exec);
	if (base == TEXT_FILE)
		address_in_file(place, address, &address);
	return address;
}

/* ---- what is kept ---- */

static struct local_file *file_of(struct local_symbols *s, const char *path)
{
	struct local_file *f = s->open;
	while (f && strcmp(f->path, path) != 0)
		f = f->next;
	if (f || !(f = calloc(1, sizeof *f)))
		return f;
	*f = (struct local_file){.next = s->open, .path = strdup(path)};
	if (!f->path) {
		free(f);
		return NULL;
	}
	s->open_count++;
	return s->open = f;
}

/* Once for some addresses, then whole. */
static enum err file_read(struct local_symbols *s, struct local_file *f, char *const *paths, size_t count,
        uint64_t *asked, size_t asked_count, struct error *e)
{
	struct extract_options extract = *s->extract;
	bool partly = asked && !f->map;
	if (partly) {
		qsort(asked, asked_count, sizeof *asked, search_order);
		extract.asked = asked;
		extract.asked_count = asked_count;
	}
	offmap_free(f->map);
	f->map = NULL;
	enum err err = local_map_new(paths, count, &extract, &f->map, e);
	if (err == ERR_NO_MEMORY)
		return err;
	f->whole = err || !partly;
	f->why = err == ERR_MISSING ? REASON_STRIPPED : err ? REASON_CORRUPT : REASON_NONE;
	if (err && (asked || s->complaints++ < COMPLAINTS_MAX))
		complain(f->path, "%s", e->text);
	return ERR_OK;
}

enum err local_symbols_open(struct local_symbols *s, char *const *paths, size_t count, uint64_t *asked,
        size_t asked_count, const struct offmap **map, enum reason *why, struct error *e)
{
	struct local_file *f = file_of(s, paths[0]);
	if (!f)
		return no_memory(e);
	enum err err = f->whole ? ERR_OK : file_read(s, f, paths, count, asked, asked_count, e);
	f->used = true;
	*map = f->map;
	*why = f->why;
	return err;
}

void local_symbols_settle(struct local_symbols *s)
{
	for (struct local_file **link = &s->open; *link;) {
		struct local_file *f = *link;
		if (s->open_count > FILES_KEPT && !f->used) {
			*link = f->next;
			s->open_count--;
			file_free(f);
			continue;
		}
		f->used = false;
		link = &f->next;
	}
}
