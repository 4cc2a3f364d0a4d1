/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/source_code.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "objects/percent.h"

static const char debuginfod[] = "debuginfod";

enum err source_code_check(const struct config *c, struct error *e)
{
	for (unsigned i = 0; i < c->source_code.count; i++) {
		const char *item = c->source_code.items[i], *equals = strchr(item, '=');
		if (strcmp(item, debuginfod) != 0 && !(equals && equals[1] == '/'))
			return error_set(e, ERR_CONFIG,
			        "source_code: \"%.100s\" is neither debuginfod nor PREFIX=/directory", item);
	}
	return ERR_OK;
}

/* ---- paths ---- */

/* Drops the last component; false: there is none. */
static bool go_up(char *path, size_t *len, size_t root)
{
	if (*len <= root)
		return false;
	while (*len > root && path[*len - 1] != '/')
		--*len;
	if (*len > root)
		--*len; /* the slash */
	return true;
}

static bool add_component(char *path, size_t *len, size_t root, struct str component)
{
	if (component.len == 0 || str_equal(component, str_from(".")))
		return true;
	if (str_equal(component, str_from("..")))
		return go_up(path, len, root);
	if (*len > root)
		path[(*len)++] = '/';
	memcpy(path + *len, component.data, component.len);
	*len += component.len;
	return true;
}

/* Without "." and "..", which debug data are full of: "/a/./b/../c" is "/a/c". False: it is none, or leads above its
 * root. */
static bool canonical(char path[SOURCE_PATH_MAX + 1], struct str file)
{
	size_t root = file.len > 0 && file.data[0] == '/' ? 1 : 0, len = root;
	if (file.len > SOURCE_PATH_MAX)
		return false;
	for (size_t i = 0; i < file.len; i++)
		if ((unsigned char)file.data[i] < 0x20 || file.data[i] == 0x7f)
			return false;
	path[0] = '/';
	for (size_t at = root; at < file.len;) {
		const char *slash = memchr(file.data + at, '/', file.len - at);
		size_t n = slash ? (size_t)(slash - (file.data + at)) : file.len - at;
		if (!add_component(path, &len, root, (struct str){file.data + at, n}))
			return false;
		at += n + 1;
	}
	path[len] = 0;
	return len > root;
}

/* What of the path is below the prefix; NULL: it is not. */
static const char *below(const char *path, struct str prefix)
{
	if (strncmp(path, prefix.data, prefix.len) != 0)
		return NULL;
	const char *rest = path + prefix.len;
	if (prefix.len > 0 && prefix.data[prefix.len - 1] != '/') {
		if (*rest != '/')
			return NULL;
		rest++;
	}
	return *rest && *rest != '/' ? rest : NULL;
}

/* ---- folders ---- */

/* Links lead nowhere outside the folder. */
static int open_below(const char *folder, const char *path)
{
	struct open_how how = {.flags = O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY,
	        .resolve = RESOLVE_BENEATH | RESOLVE_NO_MAGICLINKS};
	int fd = -1, directory = open(folder, O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (directory >= 0) {
		fd = (int)syscall(SYS_openat2, directory, path, &how, sizeof how);
		close(directory);
	}
	return fd;
}

static enum err read_file(int fd, struct buffer *out, struct error *e)
{
	struct stat st;
	ssize_t n = 1;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode))
		return error_set(e, ERR_MISSING, "no such file of source code");
	if (st.st_size > SOURCE_CODE_MAX)
		return error_set(e, ERR_TOO_LARGE, "the file is larger than 4 MiB");
	while (n > 0 && buffer_reserve(out, (size_t)st.st_size - out->len + 1)) {
		n = read(fd, out->data + out->len, (size_t)st.st_size - out->len);
		out->len += n > 0 ? (size_t)n : 0;
	}
	if (n < 0)
		return error_set(e, ERR_UNAVAILABLE, "the file cannot be read at present; try again");
	return n == 0 ? ERR_OK : no_memory(e);
}

static enum err from_folder(const char *item, const char *path, struct buffer *out, struct error *e)
{
	const char *equals = strchr(item, '=');
	const char *rest = below(path, (struct str){item, (size_t)(equals - item)});
	int fd = rest ? open_below(equals + 1, rest) : -1;
	if (fd < 0)
		return error_set(e, ERR_MISSING, "no such file of source code");
	enum err err = read_file(fd, out, e);
	close(fd);
	return err;
}

/* ---- debuginfod ---- */

static uint8_t *text_space(void *arg, size_t *room)
{
	struct buffer *out = arg;
	if (!buffer_reserve(out, 1))
		return NULL;
	*room = out->cap - out->len;
	return out->data + out->len;
}

static bool text_commit(void *arg, size_t n)
{
	struct buffer *out = arg;
	out->len += n;
	return true;
}

static enum err judge(const struct bucket_result *r, struct error *e)
{
	switch (r->outcome) {
	case BUCKET_OK:
		return ERR_OK;
	case BUCKET_MISSING:
		return error_set(e, ERR_MISSING, "no such file of source code");
	case BUCKET_TOO_LARGE:
		return error_set(e, ERR_TOO_LARGE, "the file is larger than 4 MiB");
	default:
		return error_set(e, ERR_UNAVAILABLE, "the file cannot be fetched right now; try again");
	}
}

static enum err from_debuginfod(const struct bucket_sources *buckets, struct bucket_client *client,
        const struct build_id *id, const char *path, struct buffer *out, struct error *e)
{
	static const char before[] = "buildid/", after[] = "/source";
	char url[3 * SOURCE_PATH_MAX + BUILD_ID_HEX + sizeof before + sizeof after], hex[BUILD_ID_HEX + 1];
	enum err err = error_set(e, ERR_MISSING, "no such file of source code");
	if (!id->len || path[0] != '/')
		return err;
	build_id_hex(hex, id->bytes, id->len);
	int n = snprintf(url, sizeof url, "%s%s%s", before, hex, after);
	*percent_encode(url + n, str_from(path), true) = 0;
	for (unsigned i = 0; i < bucket_sources_count(buckets) && err == ERR_MISSING; i++) {
		struct bucket_sink sink = {text_space, text_commit, out};
		struct bucket_result result;
		if (bucket_source_kind(buckets, i) != BUCKET_DEBUGINFOD)
			continue;
		buffer_reset(out);
		bucket_fetch_path(client, i, url, SOURCE_CODE_MAX, &sink, NULL, &result);
		err = judge(&result, e);
	}
	return err;
}

enum err source_code_get(const struct config *c, const struct bucket_sources *buckets, struct bucket_client *client,
        const struct build_id *id, struct str file, struct buffer *out, struct error *e)
{
	char path[SOURCE_PATH_MAX + 1];
	enum err err = error_set(e, ERR_MISSING, "no such file of source code");
	if (!canonical(path, file))
		return err;
	for (unsigned i = 0; i < c->source_code.count && err == ERR_MISSING; i++) {
		const char *item = c->source_code.items[i];
		err = strcmp(item, debuginfod) == 0 ? from_debuginfod(buckets, client, id, path, out, e)
		                                    : from_folder(item, path, out, e);
	}
	if (!err && memchr(out->data ? (const char *)out->data : "", 0, out->len))
		err = error_set(e, ERR_CORRUPT, "the file is no text");
	return err;
}
