/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/around.h"

#include "text/prefix.h"
#include "text/unescape.h"

/* A string whose opening quote has been passed. False: it has no end. */
static bool take_string(struct rest *r, struct str *out)
{
	const char *end = text_string_end(r->at, r->end);
	if (!end)
		return false;
	*out = between(r->at, end);
	r->at = end + 1;
	return true;
}

static bool is_logged(struct str key)
{
	return str_equal(key, str_from("log")) || str_equal(key, str_from("message")) ||
	       str_equal(key, str_from("msg")) || str_equal(key, str_from("MESSAGE"));
}

/* {"log":"#0 0x…\n","stream":"stderr"}. False: the line is no object, or has no such string. */
static bool find_logged(struct rest line, struct str *logged)
{
	struct str key, value;
	blanks(&line);
	if (!take_literal(&line, "{"))
		return false;
	while ((line.at = memchr(line.at, '"', (size_t)(line.end - line.at)))) {
		line.at++;
		if (!take_string(&line, &key))
			return false;
		blanks(&line);
		if (!take_literal(&line, ":"))
			continue;
		blanks(&line);
		if (!take_literal(&line, "\""))
			continue;
		if (!take_string(&line, &value))
			return false;
		if (is_logged(key)) {
			*logged = value;
			return true;
		}
	}
	return false;
}

struct text_around text_around_line(struct str line)
{
	struct rest r = {line.data, line.data + line.len};
	struct str source, logged;
	take_colours(&r);
	r = text_without_prefix(r, true, &source);
	take_colours(&r);
	if (find_logged(r, &logged))
		return (struct text_around){
		        (size_t)(logged.data - line.data), (size_t)(r.end - logged.data) - logged.len};
	return (struct text_around){(size_t)(r.at - line.data), 0};
}
