/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/executables.h"

#include <errno.h>
#include <fcntl.h>
#include <fts.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "extract/elf_file.h"
#include "extract/ids.h"
#include "symbtool/push_sym.h"

void executables_release(struct executables *x)
{
	for (size_t i = 0; i < x->count; i++) {
		free(x->items[i].path);
		free(x->items[i].debug_file);
	}
	free(x->items);
	*x = (struct executables){0};
}

static bool is_sym(const char *path)
{
	return push_sym_kind_of(path) != PUSH_SYM_NONE;
}

static enum err add_executable(struct executables *x, const char *path, struct executable file, struct error *e)
{
	if (!array_reserve(&x->items, &x->cap, x->count + 1, sizeof *x->items))
		return no_memory(e);
	file.path = strdup(path);
	if (!file.path)
		return no_memory(e);
	x->items[x->count++] = file;
	return ERR_OK;
}

/* A debug file has the sections of an executable, but they are empty. */
static bool has_code(const struct elf_file *f)
{
	GElf_Shdr header;
	Elf_Scn *text = elf_find_section(f->elf, ".text");
	for (Elf_Scn *s = NULL; f->view.bytes && !text && (s = elf_nextscn(f->elf, s));)
		text = gelf_getshdr(s, &header) && (header.sh_flags & SHF_EXECINSTR) ? s : NULL;
	return !text || !gelf_getshdr(text, &header) || header.sh_type != SHT_NOBITS;
}

/* ---- what is left out ---- */

static void note_other(struct executables *x, enum other_kind kind)
{
	x->others++;
	x->other_kinds[kind]++;
}

void executables_others(char out[OTHERS_TEXT], const struct executables *x)
{
	static const char *const names[OTHER_KINDS][2] = {
	        [OTHER_DEBUG] = {"ELF debug file without its program", "ELF debug files without their programs"},
	        [OTHER_OBJECT] = {"object file or archive", "object files or archives"},
	        [OTHER_REFUSED] = {"program or debug file that cannot be read",
	                "programs or debug files that cannot be read"},
	        [OTHER_PACKED] = {"packed file", "packed files"},
	        [OTHER_TEXT] = {"text", "texts"},
	        [OTHER_EMPTY] = {"empty file", "empty files"},
	        [OTHER_LINK] = {"link or unreadable file", "links or unreadable files"},
	        [OTHER_UNKNOWN] = {"file of another kind", "files of other kinds"},
	};
	size_t len = 0;
	out[0] = 0;
	for (unsigned i = 0; i < OTHER_KINDS && len < OTHERS_TEXT; i++)
		if (x->other_kinds[i])
			len += (size_t)snprintf(out + len, OTHERS_TEXT - len, "%s%zu %s", len ? ", " : "",
			        x->other_kinds[i], names[i][x->other_kinds[i] > 1]);
}

/* ---- what is taken ---- */

/* Adds the file, or a slice of it. One that was found must be readable, and an ELF file must have code. */
static enum err add_slice(struct executables *x, const char *path, struct executable file, struct error *e)
{
	struct elf_file f;
	struct ids ids;
	const struct view_wanted wanted = {.id = file.slice, .no_symbols = true};
	bool readable = !elf_file_open_as(&f, path, &wanted, NULL), code = false;
	if (readable) {
		code = has_code(&f);
		ids_read(&ids, f.elf);
		file.debug = ids.view_kind && !code;
		if (ids.view_kind)
			file.id = ids.build_id;
		elf_file_close(&f);
	}
	if (file.found && !code && !file.debug) {
		note_other(x, readable ? OTHER_DEBUG : file_kind_other(path));
		return ERR_OK;
	}
	return add_executable(x, path, file, e);
}

static enum err add_named_file(
        struct executables *x, const char *path, const struct stat *st, bool found, struct error *e)
{
	struct executable file = {.sym = is_sym(path), .found = found, .device = st->st_dev, .node = st->st_ino};
	struct build_id slices[VIEW_SLICES_MAX];
	if (file.sym)
		return add_executable(x, path, file, e);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t count = fd < 0 ? 0 : view_slices(slices, fd);
	if (fd >= 0)
		close(fd);
	if (count == 0)
		return add_slice(x, path, file, e);
	enum err err = ERR_OK;
	for (size_t i = 0; i < count && !err; i++) {
		file.slice = slices[i];
		err = add_slice(x, path, file, e);
	}
	return err;
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
	if (entry->fts_info != FTS_F || is_known(x, entry->fts_statp)) {
		note_other(x, OTHER_LINK);
		return ERR_OK;
	}
	return add_named_file(x, entry->fts_path, entry->fts_statp, true, e);
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
		return add_named_file(x, path, &st, false, e);
	return recursive ? add_directory(x, path, e)
	                 : error_set(e, ERR_BAD_REQUEST, "it is a directory: give --recursive");
}

/* By id, a debug file behind its programs; those without an id first. */
static int by_id(const void *a, const void *b)
{
	const struct executable *x = *(struct executable *const *)a, *y = *(struct executable *const *)b;
	if (x->id.len != y->id.len)
		return x->id.len < y->id.len ? -1 : 1;
	int order = memcmp(x->id.bytes, y->id.bytes, x->id.len);
	return order ? order : (int)x->debug - (int)y->debug;
}

static bool same_id(const struct executable *a, const struct executable *b)
{
	return a->id.len && a->id.len == b->id.len && memcmp(a->id.bytes, b->id.bytes, a->id.len) == 0;
}

void executables_pair(struct executables *x)
{
	struct executable **sorted = calloc(x->count + 1, sizeof *sorted);
	if (!sorted)
		return;
	for (size_t i = 0; i < x->count; i++)
		sorted[i] = &x->items[i];
	qsort(sorted, x->count, sizeof *sorted, by_id);
	for (size_t i = 1; i < x->count; i++) {
		struct executable *program = sorted[i - 1], *debug = sorted[i];
		if (debug->debug && !program->debug && same_id(program, debug) && !program->debug_file) {
			program->debug_file = debug->path;
			debug->path = NULL;
		}
	}
	free(sorted);
	size_t kept = 0;
	for (size_t i = 0; i < x->count; i++)
		if (x->items[i].path)
			x->items[kept++] = x->items[i];
	x->count = kept;
}
