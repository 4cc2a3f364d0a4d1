/* SPDX-License-Identifier: Apache-2.0 */
/* Standard input as an operand that can be read more than once. */
#include <config.h>

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extract/temp_file.h"
#include "symbtool/cli.h"

enum { BLOCK = 64 << 10, PATH_SIZE = 40 };

static enum err copy_all(int fd, struct error *e)
{
	static char block[BLOCK];
	enum err err = ERR_OK;
	for (size_t n; !err && (n = fread(block, 1, sizeof block, stdin)) > 0;)
		err = temp_file_write(fd, block, n, e);
	return err || !ferror(stdin) ? err : error_set(e, ERR_IO, "%s", strerror(errno));
}

/* A path under which standard input can be read repeatedly: its own, or that of a copy. */
static enum err path_of_input(char path[PATH_SIZE], struct error *e)
{
	struct stat st;
	int fd = STDIN_FILENO;
	enum err err = ERR_OK;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		err = temp_file_open(&fd, e);
		if (!err)
			err = copy_all(fd, e);
	}
	snprintf(path, PATH_SIZE, "/proc/self/fd/%d", fd);
	return err;
}

int options_read_files(const struct verb *v, const struct option_row *rows, size_t row_count, int argc, char **argv,
        struct operands *o)
{
	static char path[PATH_SIZE];
	struct error e = {0};
	int code = options_read(v, rows, row_count, argc, argv, o);
	if (code != OPTIONS_GO_ON)
		return code;
	for (size_t i = 0; i < o->count; i++) {
		if (strcmp(o->items[i], "-") != 0)
			continue;
		if (!*path && path_of_input(path, &e)) {
			complain("standard input", "%s", e.text);
			return EXIT_FAILED;
		}
		o->items[i] = path;
	}
	return OPTIONS_GO_ON;
}
