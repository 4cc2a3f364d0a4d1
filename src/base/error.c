/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/error.h"

#include <stdio.h>

static const struct {
	enum err code;
	int status;
} statuses[] = {
        {ERR_NO_MEMORY, 503},
        {ERR_BAD_REQUEST, 400},
        {ERR_UNAUTHORIZED, 401},
        {ERR_FORBIDDEN, 403},
        {ERR_NOT_FOUND, 404},
        {ERR_BAD_METHOD, 405},
        {ERR_TOO_LARGE, 413},
        {ERR_GONE, 499},
        {ERR_UNAVAILABLE, 503},
        {ERR_BUSY, 503},
};

static const struct {
	int status;
	const char *phrase;
} phrases[] = {
        {200, "OK"},
        {201, "Created"},
        {206, "Partial Content"},
        {302, "Found"},
        {304, "Not Modified"},
        {400, "Bad Request"},
        {401, "Unauthorized"},
        {403, "Forbidden"},
        {404, "Not Found"},
        {405, "Method Not Allowed"},
        {413, "Payload Too Large"},
        {416, "Range Not Satisfiable"},
        {499, "Client Closed Request"},
        {500, "Internal Server Error"},
        {503, "Service Unavailable"},
};

enum err error_set(struct error *e, enum err code, const char *format, ...)
{
	if (e) {
		va_list args;
		e->code = code;
		e->place[0] = 0;
		va_start(args, format);
		vsnprintf(e->text, sizeof e->text, format, args);
		va_end(args);
	}
	return code;
}

enum err no_memory(struct error *e)
{
	return error_set(e, ERR_NO_MEMORY, "out of memory");
}

int error_http_status(enum err code)
{
	for (unsigned i = 0; i < sizeof statuses / sizeof statuses[0]; i++)
		if (statuses[i].code == code)
			return statuses[i].status;
	return 500;
}

const char *http_status_phrase(int status)
{
	for (unsigned i = 0; i < sizeof phrases / sizeof phrases[0]; i++)
		if (phrases[i].status == status)
			return phrases[i].phrase;
	return "Unknown";
}
