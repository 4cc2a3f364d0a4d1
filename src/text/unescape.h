/* SPDX-License-Identifier: Apache-2.0 */
/* A line of text inside a string of JSON, as logs have it: "stack":"Error\n    at …\n"; in a message of syslog, where
 * #012 stands for a line feed; of HTML: "&lt;unknown&gt;"; or with colours. */
#ifndef TEXT_UNESCAPE_H
#define TEXT_UNESCAPE_H

#include "text/reader.h"
#include "text/scan.h"

enum { UNESCAPED_MAX = 16 << 10, ESCAPE = 033 };
#define TEXT_JSON_FEED "\\n"
#define TEXT_SYSLOG_FEED "#012"

struct text_unescaped {
	char text[UNESCAPED_MAX];
	uint32_t at[UNESCAPED_MAX + 1]; /* where each byte of it, and its end, stand behind `start` */
	const char *start;              /* of the line outside */
	size_t len;
};

/* The closing quote of a string whose opening one has been passed; NULL: there is none. */
const char *text_string_end(const char *from, const char *end);
/* Takes the next line of the string, up to the line feed (one of those above) or its end. False: it has none, or a line
 * is too long; then nothing more of the string is to be read. */
bool text_unescape_line(struct text_unescaped *u, struct rest *string, const char *line_feed);
/* False: the line is too long. */
bool text_unescape_colours(struct text_unescaped *u, struct rest line);

/* Whether the line has an entity of HTML that stands for what frames are written with. */
bool text_is_html(const char *at, const char *end);
/* False: the line is too long. */
bool text_unescape_html(struct text_unescaped *u, struct rest line);

/* A part of a text without its escapes, in u where it has some; whole is that text. */
struct str text_span_read(struct text_unescaped *u, struct str whole, const struct text_span *span);

#endif
