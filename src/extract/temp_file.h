/* SPDX-License-Identifier: Apache-2.0 */
/* Temporary files without a name, which vanish with the process, however it ends. */
#ifndef EXTRACT_TEMP_FILE_H
#define EXTRACT_TEMP_FILE_H

#include <stdbool.h>
#include <stddef.h>

#include "base/error.h"

/* From now on, all of this process are in memory: for the server's helper, which may open no file. Each is shown to
 * told(arg, file), on any thread, before it is used. ERR_NO_MEMORY then says that they do not fit, or that told failed.
 */
void temp_file_in_memory(bool (*told)(void *arg, int file), void *arg);

/* In $TMPDIR, or in /tmp if that is not a directory. *fd is -1 after a failure. */
enum err temp_file_open(int *fd, struct error *e);
/* Writes all bytes at the end of the file. ERR_IO: the text names the folder, and what helps if it is full. */
enum err temp_file_write(int fd, const void *data, size_t len, struct error *e);

#endif
