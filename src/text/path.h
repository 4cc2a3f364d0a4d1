/* SPDX-License-Identifier: Apache-2.0 */
/* Where a path begins that ends at a known place in a line. Paths may have blanks, parentheses, brackets and quotes. */
#ifndef TEXT_PATH_H
#define TEXT_PATH_H

#include <stdbool.h>

/* Whether a path with a root begins here: "/", "./", "../", "C:\", "C:/" or "\\". */
bool text_is_rooted(const char *at, const char *end);
/* The ( or [ that belongs to the ) or ] at close. NULL: there is none, or further than TEXT_NAME_MAX. */
const char *text_opening(const char *from, const char *close);
/* The same of brackets around a path, in which others need not be in pairs. */
const char *text_path_opening(const char *from, const char *close);
/* The beginning of a path that ends at `end`, with blanks, brackets or nothing before it; end if there is none. Blanks
 * are taken for its own if a root stands before them, and either a slash is behind them or the root is at `from`. */
const char *text_path_start(const char *from, const char *end);

#endif
