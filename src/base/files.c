/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

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
