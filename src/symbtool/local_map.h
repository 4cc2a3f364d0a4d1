/* SPDX-License-Identifier: Apache-2.0 */
/* Files with symbols, of whatever kind, as an offset map: what a server would answer from, without one. */
#ifndef SYMBTOOL_LOCAL_MAP_H
#define SYMBTOOL_LOCAL_MAP_H

#include "format/offmap.h"
#include "extract/extract.h"

/* Executables and symbfiles, all about one executable, together; or one Breakpad symbol file. Text of an error: with
 * the file's path. ERR_IO, ERR_CORRUPT, ERR_MISSING, ERR_NO_MEMORY. */
enum err local_map_new(
        char *const *paths, size_t count, const struct extract_options *options, struct offmap **out, struct error *e);

#endif
