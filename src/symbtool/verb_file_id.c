#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buffer.h"
#include "format/file_id.h"
#include "symbtool/verbs.h"

static const char usage[] = "Usage: symbtool file-id [--json] FILE...\n"
                            "\n"
                            "Prints the FileID of executables, in hex and in base64, and their paths.\n"
                            "\n"
                            "  --json  an object a file, each on a line\n";

enum { LINE_BYTES = 1 << 20 };

static enum err read_id(struct file_id *id, const char *path, struct error *e)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	enum err err = file_id_of_fd(id, fd, e);
	close(fd);
	return err;
}

static void print_json(const char *hex, const char *base64, const char *path)
{
	struct buffer line;
	buffer_init(&line, LINE_BYTES);
	buffer_printf(&line, "{\"hex\":\"%s\",\"base64\":\"%s\",\"path\":", hex, base64);
	buffer_append_json(&line, str_from(path));
	buffer_append(&line, "}\n", 2);
	fwrite(line.data, 1, line.len, stdout);
	buffer_release(&line);
}

static bool print_id(void *arg, const char *path, bool json, struct error *e)
{
	(void)arg;
	struct file_id id;
	char hex[FILE_ID_HEX + 1], base64[FILE_ID_BASE64 + 1];
	if (read_id(&id, path, e))
		return false;
	file_id_hex(hex, &id);
	file_id_base64(base64, &id);
	if (json)
		print_json(hex, base64, path);
	else
		printf("%s %s %s\n", hex, base64, path);
	return true;
}

static int run(const struct verb *v, int argc, char **argv)
{
	return each_file(v, argc, argv, print_id, NULL);
}

const struct verb verb_file_id = {"file-id", "print the FileIDs of executables", usage, run};
