#include <config.h>

#include "extract/dwarf_source.h"

#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum {
	FORGET_AFTER = 8 << 20, /* bytes of units */
	BUILD_ID_MAX = 64,
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
	if (elf_file_open_any(&f, path, NULL) != ERR_OK)
		return false;
	ssize_t len = dwelf_elf_gnu_build_id(f.elf, &id);
	bool ok = len == (ssize_t)link->id_len && memcmp(id, link->id, link->id_len) == 0 &&
	          section_file_open(s, &f, NULL) == ERR_OK;
	elf_file_close(&f);
	return ok;
}

/* A relative name is relative to the file that has it. */
static bool beside(struct section_file *s, const struct alternate_link *link, const char *path)
{
	char found[PATH_MAX], *real = link->name[0] == '/' ? NULL : realpath(path, NULL);
	char *slash = real ? strrchr(real, '/') : NULL;
	int n = snprintf(
	        found, sizeof found, "%.*s%s", slash ? (int)(slash + 1 - real) : 0, real ? real : "", link->name);
	free(real);
	return n < PATH_MAX && open_if_it(s, found, link);
}

static bool by_build_id(struct section_file *s, const struct alternate_link *link, const char *debug_dir)
{
	char found[PATH_MAX], hex[2 * BUILD_ID_MAX + 1];
	for (size_t i = 0; i < link->id_len; i++)
		snprintf(hex + 2 * i, 3, "%02x", link->id[i]);
	int n = snprintf(found, sizeof found, "%s/.build-id/%.2s/%s.debug", debug_dir, hex, hex + 2);
	return n < PATH_MAX && open_if_it(s, found, link);
}

static enum err open_alternate(struct dwarf_source *s, const char *path, const char *debug_dir, struct error *e)
{
	struct alternate_link link;
	Elf *elf;
	enum err err = section_file_elf(&s->main, &elf, e);
	if (err != ERR_OK)
		return err;
	if (read_link(elf, &link) && !beside(&s->alternate, &link, path))
		by_build_id(&s->alternate, &link, debug_dir);
	elf_end(elf);
	return ERR_OK;
}

/* ---- sources and handles ---- */

static enum err open_main(struct dwarf_source *s, const char *path, struct error *e)
{
	struct elf_file f;
	struct error inner;
	enum err err = elf_file_open(&f, path, e);
	if (err != ERR_OK)
		return err;
	err = section_file_open(&s->main, &f, &inner);
	elf_file_close(&f);
	return err == ERR_OK ? ERR_OK : error_set(e, err, "%.120s: %s", path, inner.text);
}

enum err dwarf_source_open(struct dwarf_source *s, const char *path, const char *debug_dir, struct error *e)
{
	*s = (struct dwarf_source){0};
	enum err err = open_main(s, path, e);
	return err == ERR_OK ? open_alternate(s, path, debug_dir, e) : err;
}

void dwarf_source_close(struct dwarf_source *s)
{
	section_file_close(&s->main);
	section_file_close(&s->alternate);
}

static enum err open_dwarf(const struct section_file *s, Elf **elf, Dwarf **dwarf, struct error *e)
{
	enum err err = section_file_elf(s, elf, e);
	if (err != ERR_OK)
		return err;
	*dwarf = dwarf_begin_elf(*elf, DWARF_C_READ, NULL);
	return *dwarf ? ERR_OK : error_set(e, ERR_CORRUPT, "%s", dwarf_errmsg(-1));
}

enum err dwarf_handle_open(struct dwarf_handle *h, const struct dwarf_source *s, struct error *e)
{
	*h = (struct dwarf_handle){0};
	enum err err = open_dwarf(&s->main, &h->elf, &h->dwarf, e);
	if (err == ERR_OK && s->alternate.bytes)
		err = open_dwarf(&s->alternate, &h->alternate_elf, &h->alternate, e);
	if (err == ERR_OK && h->alternate)
		dwarf_setalt(h->dwarf, h->alternate);
	if (err != ERR_OK)
		dwarf_handle_close(h);
	return err;
}

void dwarf_handle_close(struct dwarf_handle *h)
{
	dwarf_end(h->dwarf);
	dwarf_end(h->alternate);
	elf_end(h->elf);
	elf_end(h->alternate_elf);
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
