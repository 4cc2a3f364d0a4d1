/* SPDX-License-Identifier: Apache-2.0 */
/* Asks formats of a line, behind the prefixes that logs put before it. */
#ifndef TEXT_CUT_H
#define TEXT_CUT_H

#include "text/formats.h"

/* Where the line goes on behind known prefixes and the unknown one that the line before had. *begin: behind the known
 * ones. */
const char *text_behind_prefixes(struct text_reader *r, struct rest line, unsigned signs, const char **begin);
/* Whether a format recognises the line, which may have other prefixes behind `begin`. Sets line->at to behind them. */
bool text_read_formats(struct text_reader *r, const char *begin, struct rest *line, unsigned signs);
/* The same of a line that has no prefix. */
bool text_ask_formats(struct text_reader *r, struct rest line, unsigned signs);
/* The text in memory ends; the next line may be compared with its last one. */
void text_keep_line(struct text_reader *r);

#endif
