/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/temp_file.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "base/files.h"

static bool in_memory;

void temp_file_in_memory(void)
{
	in_memory = true;
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
		return *fd < 0 ? no_memory(e) : ERR_OK;
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
