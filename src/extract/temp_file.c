/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/temp_file.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/files.h"

/* Set: files are in memory. */
static bool (*in_memory)(void *arg, int file);
static void *in_memory_arg;

void temp_file_in_memory(bool (*told)(void *arg, int file), void *arg)
{
	in_memory = told;
	in_memory_arg = arg;
}

static const char *folder(void)
{
	struct stat st;
	const char *dir = getenv("TMPDIR");
	return dir && stat(dir, &st) == 0 && S_ISDIR(st.st_mode) ? dir : "/tmp";
}

enum err temp_file_open(int *fd, struct error *e)
{
	if (in_memory) {
		*fd = memfd_create("symbolicated-extract", MFD_CLOEXEC);
		if (*fd >= 0 && in_memory(in_memory_arg, *fd))
			return ERR_OK;
		if (*fd >= 0)
			close(*fd);
		*fd = -1;
		return no_memory(e);
	}
	*fd = file_open_unnamed(folder());
	return *fd < 0 ? error_set(e, ERR_IO, "temporary folder %.150s: %s", folder(), strerror(errno)) : ERR_OK;
}

enum err temp_file_write(int fd, const void *data, size_t len, struct error *e)
{
	if (write_all(fd, data, len))
		return ERR_OK;
	if (in_memory)
		return no_memory(e);
	return error_set(e, ERR_IO, "temporary folder %.120s: %s%s", folder(), strerror(errno),
	        errno == ENOSPC || errno == EDQUOT ? ": choose a larger one with TMPDIR" : "");
}
