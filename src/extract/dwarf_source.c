/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/dwarf_source.h"

#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <string.h>

#include "extract/elf_write.h"
#include "extract/places.h"

enum {
	FORGET_AFTER = 8 << 20, /* bytes of units */
};

/* ---- the alternate ---- */

/* .gnu_debugaltlink: the name of a file, and its build id. */
struct alternate_link {
	const char *name;
	const uint8_t *id;
	size_t id_len;
};

static bool read_link(Elf *elf, struct alternate_link *link)
{
	struct str s = elf_section_bytes(elf, ".gnu_debugaltlink");
	const char *nul = s.len > 0 ? memchr(s.data, 0, s.len) : NULL;
	if (!nul || nul == s.data)
		return false;
	*link = (struct alternate_link){s.data, (const uint8_t *)nul + 1, s.len - (size_t)(nul + 1 - s.data)};
	return link->id_len > 0 && link->id_len <= BUILD_ID_MAX;
}

static bool open_if_it(struct section_file *s, const char *path, const struct alternate_link *link)
{
	struct elf_file f;
	const void *id;
	if (elf_file_open_any(&f, path, NULL))
		return false;
	ssize_t len = dwelf_elf_gnu_build_id(f.elf, &id);
	bool ok = len == (ssize_t)link->id_len && memcmp(id, link->id, link->id_len) == 0 &&
	          !section_file_open(s, &f, NULL);
	elf_file_close(&f);
	return ok;
}

/* A relative name is relative to the file that has it. Debian's are in DIR/.dwz, whatever DIR was when the link was
 * made. A whole tree may also have moved. */
static bool by_name(struct section_file *s, const struct alternate_link *link, const char *path, const char *debug_dir)
{
	char found[PATH_MAX], directory[PATH_MAX] = "";
	bool absolute = link->name[0] == '/';
	const char *dwz = strstr(link->name, "/.dwz/");
	if (!absolute)
		place_directory(directory, path);
	const char *const forms[][3] = {{directory, "", link->name}, {debug_dir, "", dwz},
	        {debug_dir, "/.dwz/", basename(link->name)}, {debug_dir, "", absolute ? link->name : NULL}};
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		const char *const *f = forms[i];
		if (f[2] && snprintf(found, sizeof found, "%s%s%s", f[0], f[1], f[2]) < PATH_MAX &&
		        open_if_it(s, found, link))
			return true;
	}
	return false;
}

static bool by_build_id(struct section_file *s, const struct alternate_link *link, const char *debug_dir)
{
	char found[PATH_MAX];
	return place_by_build_id(found, debug_dir, link->id, link->id_len) && open_if_it(s, found, link);
}

static enum err open_alternate(struct dwarf_source *s, const char *path, const char *debug_dir, struct error *e)
{
	struct alternate_link link;
	Elf *elf;
	enum err err = section_file_elf(&s->main, &elf, e);
	if (err)
		return err;
	if (read_link(elf, &link) && !by_build_id(&s->alternate, &link, debug_dir) &&
	        !by_name(&s->alternate, &link, path, debug_dir)) {
		snprintf(s->missing, sizeof s->missing, "%s", link.name);
		memcpy(s->missing_id, link.id, link.id_len);
		s->missing_id_len = link.id_len;
	}
	elf_end(elf);
	return ERR_OK;
}

/* ---- sources and handles ---- */

static enum err open_main(struct dwarf_source *s, const char *path, const struct view_wanted *wanted, struct error *e)
{
	struct elf_file f;
	struct error inner;
	struct view_wanted alone = *wanted;
	alone.no_symbols = true;
	enum err err = elf_file_open_as(&f, path, &alone, e);
	if (err)
		return err;
	err = section_file_open(&s->main, &f, &inner);
	elf_file_close(&f);
	return !err ? ERR_OK : error_set(e, err, "%.120s: %s", path, inner.text);
}

enum err dwarf_source_open(struct dwarf_source *s, const char *path, const struct view_wanted *wanted,
        const char *debug_dir, struct error *e)
{
	*s = (struct dwarf_source){0};
	enum err err = open_main(s, path, wanted, e);
	return err ? err : open_alternate(s, path, debug_dir, e);
}

void dwarf_source_complete(struct dwarf_source *s, const char *path)
{
	struct alternate_link link = {s->missing, s->missing_id, s->missing_id_len};
	if (open_if_it(&s->alternate, path, &link))
		s->missing[0] = 0;
}

void dwarf_source_close(struct dwarf_source *s)
{
	split_source_close(&s->split);
	section_file_close(&s->main);
	section_file_close(&s->alternate);
}

static enum err open_dwarf(const struct section_file *s, Elf **elf, Dwarf **dwarf, struct error *e)
{
	enum err err = section_file_elf(s, elf, e);
	if (err)
		return err;
	*dwarf = dwarf_begin_elf(*elf, DWARF_C_READ, NULL);
	return *dwarf ? ERR_OK : error_set(e, ERR_CORRUPT, "%s", dwarf_errmsg(-1));
}

/* If the alternate is not found, libdw would take any file in its place. So we give it an ELF file without debug
 * entries. */
static enum err open_nothing(struct dwarf_handle *h, struct error *e)
{
	const GElf_Ehdr like = {.e_ident = ELFMAG "\2\1\1"};
	const struct elf_part part = {".debug_line", 0, 1};
	buffer_init(&h->nothing, ELF_WRITE_MAX);
	elf_write_headers(&h->nothing, &like, &part, 1);
	if (h->nothing.failed)
		return no_memory(e);
	h->alternate_elf = elf_memory((char *)h->nothing.data, h->nothing.len);
	h->alternate = h->alternate_elf ? dwarf_begin_elf(h->alternate_elf, DWARF_C_READ, NULL) : NULL;
	return h->alternate ? ERR_OK : error_set(e, ERR_INTERNAL, "an empty ELF file: %s", dwarf_errmsg(-1));
}

enum err dwarf_handle_open(struct dwarf_handle *h, const struct dwarf_source *s, struct error *e)
{
	*h = (struct dwarf_handle){0};
	enum err err = open_dwarf(&s->main, &h->elf, &h->dwarf, e);
	if (!err && s->alternate.bytes)
		err = open_dwarf(&s->alternate, &h->alternate_elf, &h->alternate, e);
	else if (!err && s->missing[0])
		err = open_nothing(h, e);
	if (!err && h->alternate)
		dwarf_setalt(h->dwarf, h->alternate);
	if (err)
		dwarf_handle_close(h);
	return err;
}

void dwarf_handle_close(struct dwarf_handle *h)
{
	dwarf_end(h->dwarf);
	dwarf_end(h->alternate);
	elf_end(h->elf);
	elf_end(h->alternate_elf);
	buffer_release(&h->nothing);
	*h = (struct dwarf_handle){0};
}

void dwarf_source_done(struct dwarf_source *s, size_t bytes)
{
	if (atomic_fetch_add(&s->read, bytes) + bytes < FORGET_AFTER)
		return;
	atomic_store(&s->read, 0);
	section_file_forget(&s->main);
	section_file_forget(&s->alternate);
}
