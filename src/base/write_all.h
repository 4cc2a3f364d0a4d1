/* SPDX-License-Identifier: Apache-2.0 */
/* Writing all bytes to a file, which write alone may do in part. */
#ifndef BASE_WRITE_ALL_H
#define BASE_WRITE_ALL_H

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <unistd.h>

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
