/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/executables.h"

#include <errno.h>
#include <fts.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/array.h"
#include "extract/elf_file.h"
#include "symbtool/push_sym.h"

void executables_release(struct executables *x)
{
	for (size_t i = 0; i < x->count; i++)
		free(x->items[i].path);
	free(x->items);
	*x = (struct executables){0};
}

static bool is_sym(const char *path)
{
	return push_sym_kind_of(path) != PUSH_SYM_NONE;
}

static enum err add_executable(
        struct executables *x, const char *path, const struct stat *st, bool found, struct error *e)
{
	if (!array_reserve(&x->items, &x->cap, x->count + 1, sizeof *x->items))
		return no_memory(e);
	char *copy = strdup(path);
	if (!copy)
		return no_memory(e);
	x->items[x->count++] = (struct executable){copy, is_sym(path), found, st->st_dev, st->st_ino};
	return ERR_OK;
}

/* A debug file has the sections of an executable, but they are empty. */
static bool has_code(Elf *elf)
{
	GElf_Shdr header;
	Elf_Scn *text = elf_find_section(elf, ".text");
	return !text || !gelf_getshdr(text, &header) || header.sh_type != SHT_NOBITS;
}

static bool is_executable(const char *path)
{
	struct elf_file f;
	struct error e;
	if (elf_file_open(&f, path, &e))
		return false;
	bool ok = has_code(f.elf);
	elf_file_close(&f);
	return ok;
}

static int name_order(const FTSENT **a, const FTSENT **b)
{
	return strcmp((*a)->fts_name, (*b)->fts_name);
}

/* Of several hard links the first name counts. Only files with more than one are looked for. */
static bool is_known(const struct executables *x, const struct stat *st)
{
	for (size_t i = 0; st->st_nlink > 1 && i < x->count; i++)
		if (x->items[i].device == st->st_dev && x->items[i].node == st->st_ino)
			return true;
	return false;
}

static enum err take_entry(struct executables *x, const FTSENT *entry, struct error *e)
{
	if (entry->fts_info == FTS_D || entry->fts_info == FTS_DP)
		return ERR_OK;
	if (entry->fts_info != FTS_F || is_known(x, entry->fts_statp) ||
	        (!is_sym(entry->fts_path) && !is_executable(entry->fts_path))) {
		x->others++;
		return ERR_OK;
	}
	return add_executable(x, entry->fts_path, entry->fts_statp, true, e);
}

static enum err add_directory(struct executables *x, const char *path, struct error *e)
{
	char *copy = strdup(path), *paths[] = {copy, NULL};
	FTS *walk = copy ? fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, name_order) : NULL;
	enum err err = walk ? ERR_OK : error_set(e, ERR_IO, "%.150s: %s", path, strerror(errno));
	for (FTSENT *entry; !err && (entry = fts_read(walk));)
		err = take_entry(x, entry, e);
	if (walk)
		fts_close(walk);
	free(copy);
	return err;
}

enum err executables_add(struct executables *x, const char *path, bool recursive, struct error *e)
{
	struct stat st;
	if (stat(path, &st) != 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	if (!S_ISDIR(st.st_mode))
		return add_executable(x, path, &st, false, e);
	return recursive ? add_directory(x, path, e)
	                 : error_set(e, ERR_BAD_REQUEST, "it is a directory: give --recursive");
}
