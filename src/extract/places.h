/* SPDX-License-Identifier: Apache-2.0 */
/* The places of files that belong to another file. */
#ifndef EXTRACT_PLACES_H
#define EXTRACT_PLACES_H

#include <limits.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* The debug file of a build id below dir. False: the path is too long. */
bool place_by_build_id(char out[PATH_MAX], const char *dir, const uint8_t *id, size_t len);
/* The directory of an existing file, without symbolic links, with a slash at its end; empty if it cannot be found out.
 */
void place_directory(char out[PATH_MAX], const char *path);

#endif
