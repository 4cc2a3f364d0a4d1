/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/files.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum err folder_check(const char *path, const char *what, struct error *e)
{
	char folder[PATH_MAX] = "./";
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) + 1 : 0;
	if (len >= sizeof folder)
		return error_set(e, ERR_CONFIG, "%s: the path is too long", what);
	if (len)
		snprintf(folder, sizeof folder, "%.*s", (int)len, path);
	/* The slash at its end makes a file an error. */
	if (access(folder, W_OK | X_OK) < 0)
		return error_set(e, ERR_CONFIG, "%s: %.150s: %s", what, folder, strerror(errno));
	return ERR_OK;
}

int file_open_unnamed(const char *folder)
{
	char path[PATH_MAX];
	int fd = open(folder, O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (fd >= 0 || (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL))
		return fd;
	if (snprintf(path, sizeof path, "%s/symbolicated-XXXXXX", folder) >= (int)sizeof path) {
		errno = ENAMETOOLONG;
		return -1;
	}
	fd = mkostemp(path, O_CLOEXEC);
	if (fd >= 0)
		unlink(path);
	return fd;
}
