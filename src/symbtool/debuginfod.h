/* SPDX-License-Identifier: Apache-2.0 */
/* Files by build id from debuginfod servers: those of --debuginfod, else of DEBUGINFOD_URLS. They stay in the cache of
 * libdebuginfod. */
#ifndef SYMBTOOL_DEBUGINFOD_H
#define SYMBTOOL_DEBUGINFOD_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "extract/extract.h"

enum debuginfod_kind { DEBUGINFOD_DEBUG, DEBUGINFOD_EXECUTABLE };

/* Whether there are servers to ask. */
bool debuginfod_wanted(void);
/* Fetches the file with this build id and returns its path. Shows progress on a terminal. An interrupt (SIGINT,
 * SIGTERM, SIGHUP) first removes what was fetched in part. ERR_MISSING: no server has it; ERR_IO: the download failed;
 * ERR_CORRUPT: it is another file, which was removed from the cache. */
enum err debuginfod_fetch(
        enum debuginfod_kind kind, const uint8_t *id, size_t len, char found[PATH_MAX], struct error *e);
/* Lets extraction find debug files in the directory of the options, else fetch them from servers: urls, separated by
 * blanks; NULL: those of the environment. Call before threads are started. */
void debug_files_serve(struct extract_options *options, const char *urls);

#endif
