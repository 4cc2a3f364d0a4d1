/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/files.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum err folder_check(const char *path, const char *what, struct error *e)
{
	char folder[PATH_MAX];
	struct stat st;
	const char *slash = strrchr(path, '/');
	size_t len = slash ? (size_t)(slash - path) : 0;
	if (len >= sizeof folder)
		return error_set(e, ERR_CONFIG, "%s: the path is too long", what);
	snprintf(folder, sizeof folder, "%.*s", (int)len, path);
	if (!len)
		snprintf(folder, sizeof folder, "%s", slash ? "/" : ".");
	int failed = stat(folder, &st) < 0 ? errno : !S_ISDIR(st.st_mode) ? ENOTDIR : 0;
	if (!failed && access(folder, W_OK | X_OK) < 0)
		failed = errno;
	return failed ? error_set(e, ERR_CONFIG, "%s: %.150s: %s", what, folder, strerror(failed)) : ERR_OK;
}
