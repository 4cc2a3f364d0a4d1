/* SPDX-License-Identifier: Apache-2.0 */
/* Files that are written: their folders, all of their bytes, and files without a name. */
#ifndef BASE_FILES_H
#define BASE_FILES_H

#include <errno.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/error.h"

/* Checks that this process may create a file at the path: the folder exists and is writable. ERR_CONFIG; the text
 * begins with `what`, the setting that holds the path. */
enum err folder_check(const char *path, const char *what, struct error *e);

/* Opens a file that has no name, and so vanishes with the process, to write and read; where the file system has no such
 * files, it has a name for a moment. -1: errno says why. */
int file_open_unnamed(const char *folder);

/* False: errno says why; part of the bytes may be there. */
static inline bool write_all(int fd, const void *data, size_t len)
{
	for (const char *at = data; len > 0;) {
		ssize_t n = write(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

#endif
