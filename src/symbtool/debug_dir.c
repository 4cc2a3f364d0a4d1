/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/debug_dir.h"

#include <fcntl.h>
#include <fts.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "extract/elf_file.h"
#include "extract/ids.h"
#include "symbtool/cli.h"

enum { FILES_MAX = 50000, DEPTH_MAX = 32 };

struct debug_copy {
	struct build_id id;
	char *path;
};

/* One for the process, as there is one option; it lives as long. */
static struct {
	const char *dir;
	pthread_once_t once;
	struct debug_copy *items;
	size_t count;
	uint32_t cap;
} all = {.once = PTHREAD_ONCE_INIT};

/* A copy that was stripped as well helps nobody. */
static bool has_symbols(Elf *elf)
{
	return elf_has_dwarf(elf) || elf_find_section(elf, ".symtab");
}

static void take_slice(const char *path, const struct build_id *slice)
{
	struct elf_file f;
	struct ids ids = {0};
	const struct view_wanted wanted = {.id = *slice};
	if (elf_file_open_as(&f, path, &wanted, NULL))
		return;
	if (has_symbols(f.elf))
		ids_read(&ids, f.elf);
	elf_file_close(&f);
	if (!ids.build_id.len || !array_reserve(&all.items, &all.cap, all.count + 1, sizeof *all.items))
		return;
	char *copy = strdup(path);
	if (copy)
		all.items[all.count++] = (struct debug_copy){ids.build_id, copy};
}

static void take_file(const char *path)
{
	struct build_id slices[VIEW_SLICES_MAX] = {{.len = 0}};
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	size_t count = fd < 0 ? 0 : view_slices(slices, fd), i = 0;
	if (fd >= 0)
		close(fd);
	do
		take_slice(path, &slices[i]);
	while (++i < count);
}

static void read_dir(void)
{
	char *copy = strdup(all.dir), *paths[] = {copy, NULL};
	FTS *walk = copy ? fts_open(paths, FTS_PHYSICAL | FTS_COMFOLLOW | FTS_NOCHDIR, NULL) : NULL;
	unsigned files = 0;
	for (FTSENT *entry; walk && (entry = fts_read(walk));) {
		if (entry->fts_info == FTS_D && entry->fts_level >= DEPTH_MAX)
			fts_set(walk, entry, FTS_SKIP);
		if (entry->fts_info != FTS_F)
			continue;
		if (files++ == FILES_MAX) {
			complain(all.dir, "more than %d files: the rest are ignored", FILES_MAX);
			break;
		}
		take_file(entry->fts_path);
	}
	if (walk)
		fts_close(walk);
	free(copy);
}

bool debug_dir_find(const uint8_t *id, size_t len, char found[PATH_MAX])
{
	if (!all.dir || !len)
		return false;
	pthread_once(&all.once, read_dir);
	for (size_t i = 0; i < all.count; i++)
		if (all.items[i].id.len == len && memcmp(all.items[i].id.bytes, id, len) == 0)
			return snprintf(found, PATH_MAX, "%s", all.items[i].path) < PATH_MAX;
	return false;
}

void debug_dir_use(const char *dir)
{
	all.dir = dir;
}
