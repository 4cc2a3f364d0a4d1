/* SPDX-License-Identifier: Apache-2.0 */
/* By libarchive, with its reader that goes by the ZIP's directory, and nothing else of it: no other formats, no
 * filters, and no file is ever made. */
#include <config.h>

#include "symfiles/zip.h"

#include <errno.h>
#include <locale.h>
#include <search.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include <archive.h>
#include <archive_entry.h>

#include "objects/bucket.h"

enum {
	BLOCK = 256 << 10,
	PATH_SHOWN = 150,
	PATH_LONGEST = 600, /* bytes */
	SEGMENTS = 3,
};

struct reading {
	struct archive *archive;
	const struct zip_visitor *visitor;
	struct error *e;
	uint64_t unpacked, unpacked_max;
	void *names;               /* of the members so far, ids in upper case: a tree */
	char path[PATH_SHOWN + 1]; /* of the current one, as it may be shown */
};

/* ---- refusals ---- */

/* Puts the member's name before what is wrong. */
static enum err blame(struct reading *r, enum err err)
{
	struct error inner = *r->e;
	return error_set(r->e, err, "%s: %.*s", r->path, (int)(sizeof inner.text - PATH_SHOWN - 4), inner.text);
}

static enum err refuse(struct reading *r, const char *why)
{
	error_set(r->e, ERR_BAD_REQUEST, "%s", why);
	return blame(r, ERR_BAD_REQUEST);
}

/* What libarchive says of the ZIP. */
static enum err refuse_archive(struct reading *r, int result)
{
	const char *why = archive_error_string(r->archive);
	if (result == ARCHIVE_FATAL && archive_errno(r->archive) == ENOMEM)
		return no_memory(r->e);
	error_set(r->e, ERR_BAD_REQUEST, "not a valid ZIP: %.100s", why ? why : "it ends early");
	return *r->path ? blame(r, ERR_BAD_REQUEST) : ERR_BAD_REQUEST;
}

static void show_path(struct reading *r, const char *path)
{
	size_t n = strnlen(path, PATH_SHOWN);
	for (size_t i = 0; i < n; i++)
		r->path[i] = (unsigned char)path[i] < ' ' || path[i] == 0x7f ? '?' : path[i];
	r->path[n] = 0;
}

/* ---- names ---- */

struct member {
	struct str path, segments[SEGMENTS];
	unsigned count; /* of segments; SEGMENTS + 1: more */
};

static struct member split(struct str path)
{
	struct member m = {.path = path};
	for (bool more = true; more && m.count <= SEGMENTS; m.count++) {
		more = memchr(path.data, '/', path.len);
		struct str segment = str_cut(&path, '/');
		if (m.count < SEGMENTS)
			m.segments[m.count] = segment;
	}
	return m;
}

static bool ends_in(struct str s, const char *end)
{
	size_t n = strlen(end);
	return s.len > n && memcmp(s.data + s.len - n, end, n) == 0;
}

/* Whether a path leads nowhere else, whatever its member is for. */
static bool is_harmless(struct str path)
{
	if (!path.len || path.len > PATH_LONGEST || path.data[0] == '/' || memchr(path.data, '\\', path.len))
		return false;
	while (path.len) {
		struct str segment = str_cut(&path, '/');
		if (str_equal(segment, str_from("..")) || str_equal(segment, str_from(".")))
			return false;
	}
	return true;
}

enum member_kind { MEMBER_SYM, MEMBER_FILE, MEMBER_IGNORED, MEMBER_BAD };

/* Whether the last segment is the first one, or that with '_' for its last letter. */
static bool is_file(const struct member *m, bool *packed)
{
	struct str first = m->segments[0], last = m->segments[2];
	*packed = !str_equal(first, last);
	return first.len == last.len && memcmp(first.data, last.data, first.len - 1) == 0 &&
	       (!*packed || last.data[last.len - 1] == '_');
}

static enum member_kind kind_of(const struct member *m)
{
	struct str last = m->segments[(m->count < SEGMENTS ? m->count : SEGMENTS) - 1];
	if (m->count == 1 && ends_in(last, "-symbols.txt"))
		return MEMBER_IGNORED;
	if (m->count <= SEGMENTS && str_equal(last, str_from(".DS_Store")))
		return MEMBER_IGNORED;
	if (m->count != SEGMENTS || !bucket_can_hold(m->segments[0], m->segments[1]) || !last.len)
		return MEMBER_BAD;
	bool packed;
	if (ends_in(last, ".sym"))
		return MEMBER_SYM;
	return is_file(m, &packed) ? MEMBER_FILE : MEMBER_IGNORED;
}

static int by_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* Refuses a twin. Whatever symbol files are called, their folders tell them apart. */
static enum err remember(struct reading *r, const struct member *m, enum member_kind kind)
{
	struct str path = m->path;
	if (kind == MEMBER_SYM)
		path.len = (size_t)(m->segments[2].data - path.data);
	char *copy = str_dup(path);
	if (copy && m->count == SEGMENTS)
		str_upper(copy + (m->segments[1].data - path.data), m->segments[1]);
	char **kept = copy ? tsearch(copy, &r->names, by_text) : NULL;
	if (kept && *kept == copy)
		return ERR_OK;
	free(copy);
	return kept ? refuse(r, "the ZIP has it twice") : no_memory(r->e);
}

/* ---- members ---- */

static enum err read_data(struct reading *r)
{
	const void *data;
	size_t len;
	la_int64_t at, next = 0;
	enum err err = ERR_OK;
	for (;;) {
		int result = archive_read_data_block(r->archive, &data, &len, &at);
		if (result == ARCHIVE_EOF)
			return ERR_OK;
		if (result != ARCHIVE_OK)
			return refuse_archive(r, result);
		if (at != next)
			return refuse(r, "its data has gaps");
		next += (la_int64_t)len;
		r->unpacked += len;
		if (r->unpacked > r->unpacked_max)
			return refuse(r, "the ZIP unpacks to far more than symbol files do");
		err = len ? r->visitor->add(r->visitor->arg, data, len, r->e) : ERR_OK;
		if (err)
			return blame(r, err);
	}
}

static enum err read_sym(struct reading *r, const struct member *m, enum member_kind kind)
{
	const struct zip_visitor *v = r->visitor;
	bool packed;
	enum err err = kind == MEMBER_FILE && is_file(m, &packed)
	                       ? v->begin_file(v->arg, m->segments[0], m->segments[1], packed, r->e)
	                       : v->begin(v->arg, m->segments[0], m->segments[1], r->e);
	if (err)
		return blame(r, err);
	err = read_data(r);
	if (err)
		return err;
	err = v->end(v->arg, r->e);
	return err ? blame(r, err) : ERR_OK;
}

static enum err read_member(struct reading *r, struct archive_entry *entry)
{
	bool folder = archive_entry_filetype(entry) == AE_IFDIR;
	const char *path = archive_entry_pathname_utf8(entry);
	if (!path)
		path = archive_entry_pathname(entry);
	show_path(r, path ? path : "a member without a readable name");
	while (path && strncmp(path, "./", 2) == 0) /* as bsdtar names them */
		path += 2;
	if (!path || (!is_harmless(str_from(path)) && !(folder && !*path)))
		return refuse(r, "a ZIP may not have a member of this name");
	if (folder)
		return ERR_OK;
	if (archive_entry_filetype(entry) != AE_IFREG || archive_entry_symlink(entry) || archive_entry_hardlink(entry))
		return refuse(r, "it is not a regular file");
	if (archive_entry_is_encrypted(entry))
		return refuse(r, "it is encrypted");
	struct member m = split(str_from(path));
	enum member_kind kind = kind_of(&m);
	if (kind == MEMBER_BAD)
		return refuse(r, "not of the form <debug_filename>/<debug_id>/<name>.sym");
	enum err err = remember(r, &m, kind);
	if (err)
		return err;
	if (kind == MEMBER_SYM || (kind == MEMBER_FILE && r->visitor->begin_file))
		return read_sym(r, &m, kind);
	return r->visitor->ignored ? r->visitor->ignored(r->visitor->arg, m.path, r->e) : ERR_OK;
}

static enum err read_members(struct reading *r)
{
	struct archive_entry *entry;
	enum err err = ERR_OK;
	for (unsigned members = 0; !err; members++) {
		int result = archive_read_next_header(r->archive, &entry);
		if (result == ARCHIVE_EOF)
			return ERR_OK;
		if (result != ARCHIVE_OK)
			return refuse_archive(r, result);
		if (members == ZIP_MEMBERS_MAX)
			return error_set(r->e, ERR_BAD_REQUEST, "the ZIP has more than %d members", ZIP_MEMBERS_MAX);
		err = read_member(r, entry);
	}
	return err;
}

static enum err read_zip(int fd, const struct zip_visitor *v, struct error *e)
{
	struct reading r = {.archive = archive_read_new(), .visitor = v, .e = e};
	struct stat st;
	enum err err = ERR_OK;
	if (!r.archive || fstat(fd, &st) != 0 || lseek(fd, 0, SEEK_SET) != 0)
		err = no_memory(e);
	else
		r.unpacked_max = (uint64_t)st.st_size * ZIP_RATIO_MAX + ZIP_SPARE;
	if (!err && (archive_read_support_format_zip_seekable(r.archive) != ARCHIVE_OK ||
	                    archive_read_set_options(r.archive, "hdrcharset=UTF-8") != ARCHIVE_OK))
		err = no_memory(e);
	if (!err && archive_read_open_fd(r.archive, fd, BLOCK) != ARCHIVE_OK)
		err = refuse_archive(&r, ARCHIVE_FATAL);
	if (!err)
		err = read_members(&r);
	tdestroy(r.names, free);
	archive_read_free(r.archive);
	return err;
}

/* libarchive takes names only that the thread's locale can write: by itself, in a server, nothing but ASCII. */
enum err zip_read(int fd, const struct zip_visitor *v, struct error *e)
{
	locale_t utf8 = newlocale(LC_CTYPE_MASK, "C.UTF-8", (locale_t)0);
	locale_t before = utf8 ? uselocale(utf8) : (locale_t)0;
	enum err err = read_zip(fd, v, e);
	if (utf8) {
		uselocale(before);
		freelocale(utf8);
	}
	return err;
}
