/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a configuration file, keys file and list of arguments of any bytes. What is taken survives a copy, and a
 * reload of itself changes nothing. The first byte chooses. */
#include <config.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/config.h"
#include "fuzz.h"
#include "keys/auth.h"
#include "objects/bucket.h"
#include "objects/store.h"

enum { FILE_, KEYS, ARGUMENTS, KINDS, ARGUMENTS_MAX = 16, PATH_SIZE = 64 };

/* A file in memory with these bytes, at a path. */
static int memory_file(char path[PATH_SIZE], const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_check(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, data, size) == (ssize_t)size, "no file");
	snprintf(path, PATH_SIZE, "/proc/self/fd/%d", fd);
	return fd;
}

static void check_copy(struct config *c)
{
	struct config copy, again;
	struct error e, e_copy;
	char names[512] = "";
	fuzz_check(config_copy(&copy, c) == ERR_OK && config_copy(&again, c) == ERR_OK, "no memory");
	enum err err = config_check(c, &e), err_copy = config_check(&copy, &e_copy);
	fuzz_check(err == err_copy && (!err || strcmp(e.text, e_copy.text) == 0), "a copy is checked differently");
	fuzz_check(config_reload(&copy, &again, names, sizeof names) == 0 && !*names, "a reload changes something");
	for (unsigned i = 0; i < c->sources.count; i++)
		bucket_check_url(c, c->sources.items[i], &e);
	store_check(c->symbfile_store, "symbfile_store", false, c, &e);
	config_release(&copy);
	config_release(&again);
}

static void new_config(struct config *c)
{
	struct error e;
	fuzz_check(config_init(c, &e) == ERR_OK, "no memory");
}

static void read_file(const uint8_t *data, size_t size)
{
	char path[PATH_SIZE];
	struct config c;
	struct error e = {0};
	int fd = memory_file(path, data, size);
	new_config(&c);
	enum err err = config_read_file(&c, path, &e);
	fuzz_check(!err || (err == ERR_CONFIG && *e.text), "another error");
	if (!err)
		check_copy(&c);
	config_release(&c);
	close(fd);
}

static void read_keys(const uint8_t *data, size_t size)
{
	char path[PATH_SIZE], id[64];
	struct error e = {0};
	int fd = memory_file(path, data, size);
	enum err err = auth_load(path, &e);
	fuzz_check(!err || (err == ERR_CONFIG && *e.text), "another error");
	fuzz_check(auth_check("APIKey YTpi", RIGHT_UPLOAD, id, &e) != ERR_OK, "a wrong key");
	close(fd);
}

/* One a line; none leads to a file. */
static void read_arguments(const uint8_t *data, size_t size)
{
	char *text = malloc(size + 1), *at = text, program[] = "symbolicated";
	char *argv[ARGUMENTS_MAX + 2] = {program};
	int argc = 1;
	unsigned actions;
	struct config c;
	struct error e = {0};
	fuzz_check(text, "no memory");
	memcpy(text, data, size);
	text[size] = 0;
	for (char *line; argc <= ARGUMENTS_MAX && (line = strsep(&at, "\n"));)
		argv[argc++] = line;
	new_config(&c);
	if (!memmem(text, size, "config", 6)) {
		enum err err = config_parse_args(&c, argc, argv, &actions, &e);
		fuzz_check(!err || (err == ERR_CONFIG && *e.text), "another error");
		if (!err)
			check_copy(&c);
	}
	config_release(&c);
	free(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	if (!size)
		return 0;
	switch (data[0] % KINDS) {
	case FILE_:
		read_file(data + 1, size - 1);
		break;
	case KEYS:
		read_keys(data + 1, size - 1);
		break;
	default:
		read_arguments(data + 1, size - 1);
	}
	return 0;
}
