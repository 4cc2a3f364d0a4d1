/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool file-id: prints the ids of executables. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "extract/ids.h"
#include "symbtool/verbs.h"
#include "symbtool/visible.h"

static const char usage[] =
        "Usage: symbtool file-id [--json] FILE...\n"
        "\n"
        "Prints the FileID of each executable in hex and base64, and its path. The next lines have its build id,\n"
        "Go build id, and debug id (as in Breakpad symbol files), if there are any.\n";

enum { LINE_BYTES = 1 << 20 };

struct known_as {
	struct file_id file;
	struct ids own; /* empty: not an ELF file */
};

static enum err read_ids(struct known_as *k, const char *path, struct error *e)
{
	struct error not_elf;
	*k = (struct known_as){0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	enum err err = file_id_of_fd(&k->file, fd, e);
	if (!err)
		ids_of_fd(&k->own, fd, &not_elf);
	close(fd);
	return err;
}

static void append_text(struct buffer *line, const char *name, const char *text)
{
	if (!text[0])
		return;
	buffer_printf(line, ",\"%s\":", name);
	buffer_append_json(line, str_from(text));
}

static void print_json(const struct known_as *k, const char *path)
{
	char hex[FILE_ID_HEX + 1], base64[FILE_ID_BASE64 + 1], build_id[BUILD_ID_HEX + 1];
	file_id_hex(hex, &k->file);
	file_id_base64(base64, &k->file);
	build_id_hex(build_id, k->own.build_id.bytes, k->own.build_id.len);
	struct buffer line;
	buffer_init(&line, LINE_BYTES);
	buffer_printf(&line, "{\"hex\":\"%s\",\"base64\":\"%s\"", hex, base64);
	append_text(&line, "build_id", build_id);
	append_text(&line, "go_build_id", k->own.go_build_id);
	append_text(&line, "debug_id", k->own.debug_id);
	append_text(&line, "path", path);
	buffer_append(&line, "}\n", 2);
	print_json_text(stdout, (struct str){(const char *)line.data, line.len});
	buffer_release(&line);
}

static void print_id(const char *name, const char *id)
{
	if (!id[0])
		return;
	printf("  %-11s  ", name);
	print_visible(stdout, id);
	putchar('\n');
}

static void print_text(const struct known_as *k, const char *path)
{
	char hex[FILE_ID_HEX + 1], base64[FILE_ID_BASE64 + 1], build_id[BUILD_ID_HEX + 1];
	file_id_hex(hex, &k->file);
	file_id_base64(base64, &k->file);
	build_id_hex(build_id, k->own.build_id.bytes, k->own.build_id.len);
	printf("%s %s ", hex, base64);
	print_visible(stdout, path);
	putchar('\n');
	print_id("build id", build_id);
	print_id("Go build id", k->own.go_build_id);
	print_id("debug id", k->own.debug_id);
}

static bool print_ids(void *arg, const char *path, bool json, struct error *e)
{
	(void)arg;
	struct known_as k;
	if (read_ids(&k, path, e))
		return false;
	if (json)
		print_json(&k, path);
	else
		print_text(&k, path);
	return true;
}

static int run_file_id(const struct verb *v, int argc, char **argv)
{
	return each_file(v, argc, argv, print_ids, NULL);
}

const struct verb verb_file_id = {
        "file-id", "print FileIDs, build ids and debug ids of executables", usage, run_file_id};
