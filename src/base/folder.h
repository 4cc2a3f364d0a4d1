/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a file that is to be made. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include "base/error.h"

/* Whether this process may make a file at the path: its folder is there and lets it. ERR_CONFIG; the text begins with
 * `what`, the setting that has the path. */
enum err folder_check(const char *path, const char *what, struct error *e);

#endif
