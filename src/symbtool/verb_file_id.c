/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool file-id: prints the ids of executables. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <jansson.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/json_text.h"
#include "extract/ids.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

static const char usage[] =
        "Usage: symbtool file-id [--json] FILE...\n"
        "\n"
        "Prints the FileID of each executable in hex and base64, and its path. The next lines have its build id,\n"
        "Go build id, and debug id (as in Breakpad symbol files), if there are any; of a universal Mach-O file those "
        "of\n"
        "each slice.\n";

struct known_as {
	char hex[FILE_ID_HEX + 1], base64[FILE_ID_BASE64 + 1];
	char build_id[BUILD_ID_HEX + 1]; /* empty: none */
	struct ids own;                  /* empty: no executable that is known */
};

/* slice: of a universal file; NULL: it is none. */
static enum err read_known_ids(struct known_as *k, int fd, const struct build_id *slice, struct error *e)
{
	struct view_wanted wanted = {.base = 0};
	struct error not_readable;
	struct file_id id;
	*k = (struct known_as){0};
	if (slice)
		wanted.id = *slice;
	enum err err = file_id_of_fd(&id, fd, slice, e);
	if (err)
		return err;
	ids_of_fd(&k->own, fd, &wanted, &not_readable);
	file_id_hex(k->hex, &id);
	file_id_base64(k->base64, &id);
	build_id_hex(k->build_id, k->own.build_id.bytes, k->own.build_id.len);
	return ERR_OK;
}

static const char *unless_empty(const char *text)
{
	return text[0] ? text : NULL;
}

static void print_ids_json(const struct known_as *k, const char *path)
{
	json_t *o = json_pack("{s:s, s:s}", "hex", k->hex, "base64", k->base64);
	bool ok = json_set_text(o, "build_id", unless_empty(k->build_id)) &&
	          json_set_text(o, "go_build_id", unless_empty(k->own.go_build_id)) &&
	          json_set_text(o, "debug_id", unless_empty(k->own.debug_id)) &&
	          json_object_set_new(o, "path", json_of_bytes(path)) == 0;
	print_json_line(ok ? o : NULL);
	json_decref(o);
}

static void print_id(const char *name, const char *id)
{
	if (!id[0])
		return;
	printf("  %-11s  ", name);
	print_visible(stdout, id);
	putchar('\n');
}

static void print_ids_text(const struct known_as *k, const char *path)
{
	printf("%s %s ", k->hex, k->base64);
	print_visible(stdout, path);
	putchar('\n');
	print_id("build id", k->build_id);
	print_id("Go build id", k->own.go_build_id);
	print_id("debug id", k->own.debug_id);
}

static bool print_ids(void *arg, const char *path, bool json, struct error *e)
{
	(void)arg;
	struct known_as k;
	struct build_id slices[VIEW_SLICES_MAX];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return !error_set(e, ERR_IO, "%s", strerror(errno));
	size_t count = view_slices(slices, fd), i = 0;
	enum err err = ERR_OK;
	do {
		err = read_known_ids(&k, fd, count ? &slices[i] : NULL, e);
		if (!err)
			(json ? print_ids_json : print_ids_text)(&k, path);
	} while (!err && ++i < count);
	close(fd);
	return !err;
}

static int run_file_id(const struct verb *v, int argc, char **argv)
{
	return each_file(v, argc, argv, print_ids, NULL);
}

const struct verb verb_file_id = {
        "file-id", "print FileIDs, build ids and debug ids of executables", usage, run_file_id, NULL};
