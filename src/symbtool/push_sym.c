/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/push_sym.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/gzip.h"
#include "base/unpack.h"
#include "objects/bucket.h"
#include "sym/line.h"
#include "symbtool/file_kind.h"
#include "symbtool/input.h"
#include "symfiles/zip.h"

enum { BLOCK = 256 << 10, REPLY_MAX = 1 << 20, MODULE_MAX = 4096, GZIP_GUESS = 1 << 20 };

static bool ends_in(const char *path, const char *end)
{
	size_t n = strlen(path), k = strlen(end);
	return n > k && strcmp(path + n - k, end) == 0;
}

enum push_sym_kind push_sym_kind_of(const char *path)
{
	if (ends_in(path, ".sym") || ends_in(path, ".sym.gz") || ends_in(path, ".sym.zst"))
		return PUSH_SYM_FILE;
	return ends_in(path, ".zip") ? PUSH_SYM_ZIP : PUSH_SYM_NONE;
}

struct pushing {
	struct server_connection *connection;
	struct push_sym_counts *counts;
	bool to_try;
	char *name, *id;   /* of the member of a ZIP that is being read */
	struct gzip *gzip; /* what has come of it */
};

static enum err send_sym(
        struct pushing *p, struct str name, struct str id, const uint8_t *data, size_t len, struct error *e)
{
	char object[BUCKET_PATH_MAX];
	struct buffer reply;
	if (!bucket_can_hold(name, id))
		return error_set(e, ERR_BAD_REQUEST, "no bucket can hold a file with this name or id");
	bucket_object_path(object, name, id);
	char *path = text_printf("/api/sym/%s%s", p->to_try ? BUCKET_TRY "/" : "", object);
	if (!path)
		return no_memory(e);
	struct server_request request = {.path = path, .method = "PUT", .data = data, .len = len};
	buffer_init(&reply, REPLY_MAX);
	enum err err = connection_send(p->connection, &request, &reply, e);
	buffer_release(&reply);
	free(path);
	p->counts->files += !err;
	p->counts->bytes += err ? 0 : len;
	return err;
}

/* Ends what was packed, and sends it. */
static enum err send_gzip(struct pushing *p, struct str name, struct str id, struct error *e)
{
	uint8_t *data = NULL;
	size_t len = 0;
	enum err err = gzip_finish(p->gzip, &data, &len) ? no_memory(e) : send_sym(p, name, id, data, len, e);
	free(data);
	return err;
}

static enum err add_gzip(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return gzip_add(((struct pushing *)arg)->gzip, data, len) ? ERR_OK : no_memory(e);
}

/* ---- a file ---- */

static bool is_packed(enum packing packing)
{
	return packing == PACKING_GZIP || packing == PACKING_ZSTD;
}

/* "MODULE os arch id name" at the beginning of a file, unpacked. */
struct module_line {
	uint8_t text[MODULE_MAX];
	struct str id, name;
};

static enum err read_module_line(
        struct module_line *m, const char *path, struct str file, enum packing packing, struct error *e)
{
	const uint8_t *text = (const uint8_t *)file.data;
	size_t len = file.len < MODULE_MAX ? file.len : MODULE_MAX;
	if (is_packed(packing)) {
		enum err err = input_head(path, m->text, sizeof m->text, &len, e);
		if (err)
			return err;
		text = m->text;
	}
	const uint8_t *end = len ? memchr(text, '\n', len) : NULL;
	struct line l = line_content(text, end ? end : text + len);
	if (!line_read_module(l, &m->id))
		return file_kind_explain(
		        path, TAKES_SYM | TAKES_LINES, error_set(e, ERR_CORRUPT, "no MODULE line at the start"), e);
	m->name = (struct str){m->id.data + m->id.len, (size_t)((const char *)l.end - m->id.data) - m->id.len};
	while (m->name.len && (m->name.data[0] == ' ' || m->name.data[0] == '\t'))
		m->name = (struct str){m->name.data + 1, m->name.len - 1};
	return m->name.len ? ERR_OK : error_set(e, ERR_CORRUPT, "the MODULE line has no name");
}

/* All of a file, in place of what the buffer has. */
static enum err read_all(struct buffer *all, const char *path, struct error *e)
{
	struct stat st;
	size_t n = 1;
	FILE *f = fopen(path, "rbe");
	buffer_reset(all);
	/* with room for a read that finds the end */
	bool good = f && fstat(fileno(f), &st) == 0;
	good = good && buffer_reserve(all, (size_t)st.st_size + 2 * BLOCK);
	while (good && n > 0 && buffer_reserve(all, BLOCK)) {
		n = fread(all->data + all->len, 1, BLOCK, f);
		all->len += n;
		good = !ferror(f);
	}
	enum err err = all->failed ? no_memory(e) : good ? ERR_OK : error_set(e, ERR_IO, "%s", strerror(errno));
	if (f)
		fclose(f);
	return err;
}

static enum err send_plain(struct pushing *p, const struct module_line *m, struct str file, struct error *e)
{
	p->gzip = gzip_new(GZIP_GUESS);
	enum err err = p->gzip ? add_gzip(p, (const uint8_t *)file.data, file.len, e) : no_memory(e);
	if (!err)
		err = send_gzip(p, m->name, m->id, e);
	gzip_free(p->gzip);
	return err;
}

static enum err push_file(struct pushing *p, const char *path, struct buffer *all, struct error *e)
{
	struct module_line m;
	enum err err = read_all(all, path, e);
	if (err)
		return err;
	struct str file = {(const char *)all->data, all->len};
	enum packing packing = packing_of(all->data, all->len);
	err = read_module_line(&m, path, file, packing, e);
	if (err)
		return err;
	return is_packed(packing) ? send_sym(p, m.name, m.id, all->data, all->len, e) : send_plain(p, &m, file, e);
}

/* ---- a ZIP ---- */

static enum err begin_member(void *arg, struct str name, struct str id, struct error *e)
{
	struct pushing *p = arg;
	p->name = str_dup(name);
	p->id = str_dup(id);
	p->gzip = gzip_new(GZIP_GUESS);
	return p->name && p->id && p->gzip ? ERR_OK : no_memory(e);
}

static void release_member(struct pushing *p)
{
	free(p->name);
	free(p->id);
	gzip_free(p->gzip);
	p->name = p->id = NULL;
	p->gzip = NULL;
}

static enum err end_member(void *arg, struct error *e)
{
	struct pushing *p = arg;
	enum err err = send_gzip(p, str_from(p->name), str_from(p->id), e);
	release_member(p);
	return err;
}

static enum err push_zip(struct pushing *p, const char *path, struct error *e)
{
	struct zip_visitor visitor = {begin_member, add_gzip, end_member, NULL, NULL, p};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	enum err err = zip_read(fd, &visitor, e);
	release_member(p);
	close(fd);
	return err;
}

enum err push_sym(struct server_connection *c, const char *path, bool to_try, struct buffer *all,
        struct push_sym_counts *n, struct error *e)
{
	struct pushing p = {.connection = c, .counts = n, .to_try = to_try};
	*n = (struct push_sym_counts){0};
	return push_sym_kind_of(path) == PUSH_SYM_ZIP ? push_zip(&p, path, e) : push_file(&p, path, all, e);
}
