/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the separate debug file of an executable, by build id and by debug link, and checks that it belongs to it. */
#include <config.h>

#include "extract/elf_file.h"

#include <elfutils/libdwelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "extract/ids.h"
#include "extract/places.h"

/* What the debug file must be like. */
struct wanted {
	const uint8_t *build_id; /* NULL: none */
	size_t build_id_len;
	const char *link; /* NULL: none */
	uint32_t link_crc;
	struct stat itself;   /* the executable, which a link of its own name finds beside it */
	char other[PATH_MAX]; /* a file that was in the place of the right one; empty: none */
};

static struct wanted wanted_of(const struct elf_file *f)
{
	struct wanted w = {0};
	const void *id;
	ssize_t len = dwelf_elf_gnu_build_id(f->elf, &id);
	if (len > 1 && len <= BUILD_ID_MAX) {
		w.build_id = id;
		w.build_id_len = (size_t)len;
	}
	w.link = dwelf_elf_gnu_debuglink(f->elf, &w.link_crc);
	if (w.link && (!*w.link || strchr(w.link, '/')))
		w.link = NULL;
	if (fstat(f->fd, &w.itself) != 0)
		w.itself = (struct stat){0};
	return w;
}

static bool crc_matches(int fd, uint32_t want)
{
	unsigned char block[64 << 10];
	uLong crc = crc32(0, NULL, 0);
	off_t at = 0;
	ssize_t n;
	while ((n = pread(fd, block, sizeof block, at)) > 0) {
		crc = crc32(crc, block, (uInt)n);
		at += n;
	}
	return n == 0 && crc == want;
}

static bool is_wanted(const struct elf_file *f, const struct wanted *w)
{
	const void *id;
	ssize_t len = dwelf_elf_gnu_build_id(f->elf, &id);
	if (w->build_id && len > 0)
		return (size_t)len == w->build_id_len && memcmp(id, w->build_id, w->build_id_len) == 0;
	return w->link && crc_matches(f->fd, w->link_crc);
}

static bool is_itself(const struct elf_file *f, const struct wanted *w)
{
	struct stat st;
	return fstat(f->fd, &st) == 0 && st.st_dev == w->itself.st_dev && st.st_ino == w->itself.st_ino;
}

static bool is_debug_file(const char *path, struct wanted *w)
{
	struct elf_file f;
	struct view_wanted wanted = {.id = {.len = w->build_id_len}};
	if (w->build_id)
		memcpy(wanted.id.bytes, w->build_id, w->build_id_len);
	if (elf_file_open_as(&f, path, &wanted, NULL))
		return false;
	bool has = !is_itself(&f, w) && (elf_has_dwarf(f.elf) || elf_find_section(f.elf, ".symtab"));
	bool ok = has && is_wanted(&f, w);
	if (has && !ok)
		snprintf(w->other, sizeof w->other, "%s", path);
	elf_file_close(&f);
	return ok;
}

static bool by_link(struct wanted *w, const char *path, const char *debug_dir, char found[PATH_MAX])
{
	char directory[PATH_MAX];
	place_directory(directory, path);
	const char *forms[][3] = {{"", directory, ""}, {"", directory, ".debug/"}, {debug_dir, directory, ""}};
	for (size_t i = 0; i < sizeof forms / sizeof *forms && directory[0]; i++) {
		int n = snprintf(found, PATH_MAX, "%s%s%s%s", forms[i][0], forms[i][1], forms[i][2], w->link);
		if (n < PATH_MAX && is_debug_file(found, w))
			return true;
	}
	return false;
}

/* Beside a program of macOS. */
static bool by_bundle(struct wanted *w, const char *path, char found[PATH_MAX])
{
	char directory[PATH_MAX];
	const char *name = strrchr(path, '/') ? strrchr(path, '/') + 1 : path;
	place_directory(directory, path);
	int n = snprintf(found, PATH_MAX, "%s%s.dSYM/Contents/Resources/DWARF/%s", directory, name, name);
	return directory[0] && n < PATH_MAX && is_debug_file(found, w);
}

bool debug_file_find(const struct elf_file *f, const char *path, const char *debug_dir, char found[PATH_MAX])
{
	struct wanted w = wanted_of(f);
	if (w.build_id && place_by_build_id(found, debug_dir, w.build_id, w.build_id_len) && is_debug_file(found, &w))
		return true;
	if (w.link && by_link(&w, path, debug_dir, found))
		return true;
	if (elf_view_kind(f->elf) == VIEW_MACHO && by_bundle(&w, path, found))
		return true;
	memcpy(found, w.other, sizeof w.other);
	return false;
}

bool debug_file_fits(const struct elf_file *f, const struct elf_file *debug)
{
	const void *id;
	struct wanted w = wanted_of(f);
	ssize_t len = dwelf_elf_gnu_build_id(debug->elf, &id);
	return !w.build_id || len <= 0 ||
	       ((size_t)len == w.build_id_len && memcmp(id, w.build_id, w.build_id_len) == 0);
}
