/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "keys/keys_command.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <openssl/crypto.h>
#include <openssl/evp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/files.h"
#include "keys/auth.h"

static const char usage[] =
        "Usage: %1$s add ID --rights RIGHT,... FILE\n"
        "       %1$s revoke ID FILE\n"
        "       %1$s list FILE\n"
        "\n"
        "The rights are upload, invalidate, read and remove. add prints the new key, ready as the value of an\n"
        "Authorization header; it is not kept and cannot be printed again. symbolicated reads the file anew on\n"
        "SIGHUP.\n";

enum { FILE_MAX = 4 * 1024 * 1024 };

/* The file while it is edited: its folder is locked, so that two commands do not lose each other's change. */
struct keys_file {
	const char *path;
	char folder[4096];
	int folder_fd;
	bool exists;
	struct stat st; /* when it exists */
	struct buffer text;
};

static enum err read_keys(struct keys_file *f, struct error *e)
{
	FILE *in = fopen(f->path, "re");
	if (!in && errno == ENOENT)
		return ERR_OK;
	if (!in || fstat(fileno(in), &f->st) != 0) {
		enum err err = error_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
		if (in)
			fclose(in);
		return err;
	}
	f->exists = true;
	size_t n = 1;
	while (n && buffer_reserve(&f->text, 4096)) {
		n = fread(f->text.data + f->text.len, 1, 4096, in);
		f->text.len += n;
	}
	bool bad = ferror(in) || f->text.failed;
	fclose(in);
	return bad ? error_set(e, ERR_IO, "%s: cannot be read, or larger than %d bytes", f->path, FILE_MAX) : ERR_OK;
}

/* Locks the folder, checks the file as the server would, and reads it. */
static enum err open_file(struct keys_file *f, const char *path, struct error *e)
{
	char copy[sizeof f->folder];
	*f = (struct keys_file){.path = path, .folder_fd = -1};
	buffer_init(&f->text, FILE_MAX);
	if (strlen(path) >= sizeof copy - 16)
		return error_set(e, ERR_IO, "the file's path is too long");
	strcpy(copy, path);
	strcpy(f->folder, dirname(copy));
	f->folder_fd = open(f->folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (f->folder_fd < 0 || flock(f->folder_fd, LOCK_EX) != 0)
		return error_set(e, ERR_IO, "%s: %s", f->folder, strerror(errno));
	enum err err = read_keys(f, e);
	return err || !f->exists ? err : auth_load(path, e);
}

static void close_file(struct keys_file *f)
{
	buffer_release(&f->text);
	if (f->folder_fd >= 0)
		close(f->folder_fd);
	auth_use(NULL);
}

/* Replaces the file atomically, so that the server sees the old one or the new one, even after a crash. */
static enum err replace_file(struct keys_file *f, const struct buffer *text, struct error *e)
{
	char temp[sizeof f->folder + 16];
	snprintf(temp, sizeof temp, "%s.XXXXXX", f->path);
	int fd = mkostemp(temp, O_CLOEXEC); /* mode 0600; the server may read it as one of its group */
	if (fd < 0)
		return error_set(e, ERR_IO, "%s: %s", temp, strerror(errno));
	/* Keeps it readable by the server when another user runs the command. */
	bool ok = !f->exists || (f->st.st_uid == geteuid() && f->st.st_gid == getegid()) ||
	          fchown(fd, f->st.st_uid, f->st.st_gid) == 0;
	ok = ok && (!f->exists || fchmod(fd, 0600 | (f->st.st_mode & S_IRGRP)) == 0);
	ok = ok && write_all(fd, text->data, text->len) && fsync(fd) == 0;
	ok = close(fd) == 0 && ok;
	ok = ok && rename(temp, f->path) == 0 && fsync(f->folder_fd) == 0;
	if (ok)
		return ERR_OK;
	enum err err = error_set(e, ERR_IO, "%s: %s", f->path, strerror(errno));
	unlink(temp);
	return err;
}

static struct str text_of(const struct keys_file *f)
{
	return (struct str){(const char *)f->text.data, f->text.len};
}

/* The first two fields; false for a comment or an empty line. */
static bool split_line(struct str line, struct str *id, struct str *rights)
{
	if (!line.len || line.data[0] == '#')
		return false;
	*id = str_cut(&line, ':');
	*rights = str_cut(&line, ':');
	return true;
}

/* Appends all lines except those of this id; says whether there was one. */
static bool copy_without(struct buffer *out, struct str text, const char *id)
{
	struct str name, rights;
	bool found = false;
	while (text.len) {
		struct str line = str_cut(&text, '\n');
		if (split_line(line, &name, &rights) && str_equal(name, str_from(id))) {
			found = true;
			continue;
		}
		buffer_append_str(out, line);
		buffer_append(out, "\n", 1);
	}
	return found;
}

static enum err print_header(const char *id, const char *key, struct error *e)
{
	char pair[256], encoded[400];
	int n = snprintf(pair, sizeof pair, "%s:%s", id, key);
	EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)pair, n);
	bool ok = printf("APIKey %s\n", encoded) > 0 && fflush(stdout) == 0;
	OPENSSL_cleanse(pair, sizeof pair);
	OPENSSL_cleanse(encoded, sizeof encoded);
	return ok ? ERR_OK : error_set(e, ERR_IO, "the key could not be printed: revoke it");
}

static enum err add_key(const char *id, const char *rights_text, const char *path, struct error *e)
{
	char key[AUTH_KEY_SIZE], line[AUTH_LINE_SIZE];
	struct keys_file f;
	struct buffer text;
	unsigned rights;
	buffer_init(&text, FILE_MAX);
	enum err err = open_file(&f, path, e);
	if (!err)
		err = auth_parse_rights(str_from(rights_text), &rights, e);
	if (!err && copy_without(&text, text_of(&f), id))
		err = error_set(e, ERR_CONFIG, "there is a key with the id \"%s\"; revoke it first", id);
	if (!err)
		err = auth_make(id, rights, key, line, e);
	if (!err && !buffer_printf(&text, "%s\n", line))
		err = error_set(e, ERR_NO_MEMORY, "the file would be too large");
	if (!err)
		err = replace_file(&f, &text, e);
	if (!err)
		err = print_header(id, key, e);
	OPENSSL_cleanse(key, sizeof key);
	buffer_release(&text);
	close_file(&f);
	return err;
}

static enum err revoke_key(const char *id, const char *path, struct error *e)
{
	struct keys_file f;
	struct buffer text;
	buffer_init(&text, FILE_MAX);
	enum err err = open_file(&f, path, e);
	if (!err && !copy_without(&text, text_of(&f), id))
		err = error_set(e, ERR_CONFIG, "%s: no key with the id \"%.64s\"", path, id);
	if (!err && text.failed)
		err = no_memory(e);
	if (!err)
		err = replace_file(&f, &text, e);
	buffer_release(&text);
	close_file(&f);
	return err;
}

static enum err list_keys(const char *path, struct error *e)
{
	struct keys_file f;
	struct str id, rights;
	enum err err = open_file(&f, path, e);
	if (!err && !f.exists)
		err = error_set(e, ERR_IO, "%s: %s", path, strerror(ENOENT));
	for (struct str text = text_of(&f); !err && text.len;)
		if (split_line(str_cut(&text, '\n'), &id, &rights))
			printf("%.*s %.*s\n", STR_FMT(id), STR_FMT(rights));
	close_file(&f);
	return err;
}

int keys_command(const char *program, int argc, char **argv)
{
	struct error e = {0};
	enum err err;
	const char *command = argc > 0 ? argv[0] : "";
	if (argc == 5 && strcmp(command, "add") == 0 && strcmp(argv[2], "--rights") == 0)
		err = add_key(argv[1], argv[3], argv[4], &e);
	else if (argc == 3 && strcmp(command, "revoke") == 0)
		err = revoke_key(argv[1], argv[2], &e);
	else if (argc == 2 && strcmp(command, "list") == 0)
		err = list_keys(argv[1], &e);
	else {
		bool asked = argc == 1 && strcmp(command, "--help") == 0;
		fprintf(asked ? stdout : stderr, usage, program);
		return asked ? 0 : 2;
	}
	if (err)
		fprintf(stderr, "%.*s: %s\n", (int)strcspn(program, " "), program, e.text);
	return err ? 1 : 0;
}
