/* SPDX-License-Identifier: Apache-2.0 */
/* Files with debug data below --debug-dir, wherever they lie there: found by build id. */
#ifndef SYMBTOOL_DEBUG_DIR_H
#define SYMBTOOL_DEBUG_DIR_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* From now on files are found there; NULL: nowhere. */
void debug_dir_use(const char *dir);
/* The path of a file with this build id and with debug data or symbols. The directory is read at the first call; of
 * more than 50,000 files the rest is left out, which is reported. */
bool debug_dir_find(const uint8_t *id, size_t len, char found[PATH_MAX]);

#endif
