/* SPDX-License-Identifier: Apache-2.0 */
/* Turns files with symbols, of any kind, into an offset map: what a server would answer from. */
#ifndef SYMBTOOL_LOCAL_MAP_H
#define SYMBTOOL_LOCAL_MAP_H

#include "extract/extract.h"
#include "map/read.h"

/* Takes executables and symbfiles, all about one executable, together; or one Breakpad symbol file. The error's text
 * names the file. ERR_IO, ERR_CORRUPT, ERR_MISSING, ERR_NO_MEMORY. */
enum err local_map_new(
        char *const *paths, size_t count, const struct extract_options *options, struct offmap **out, struct error *e);

/* What an address is, with all strings, which may lie in the map. ERR_CORRUPT, ERR_NO_MEMORY. */
enum err local_map_look_up(const struct offmap *m, uint64_t address, struct arena *arena, struct offmap_answer *a);

#endif
