/* SPDX-License-Identifier: Apache-2.0 */
/* The folder of a file that is to be created. */
#ifndef BASE_FOLDER_H
#define BASE_FOLDER_H

#include "base/error.h"

/* Checks that this process may create a file at the path: the folder exists and is writable. ERR_CONFIG; the text
 * begins with `what`, the setting that holds the path. */
enum err folder_check(const char *path, const char *what, struct error *e);

#endif
