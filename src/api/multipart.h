/* SPDX-License-Identifier: Apache-2.0 */
/* Reads a body of multipart/form-data while it arrives. */
#ifndef API_MULTIPART_H
#define API_MULTIPART_H

#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* What is done with the parts; any result other than ERR_OK ends the reading and is returned. */
struct multipart_visitor {
	/* filename.data is NULL for a field that is no file. Strings are valid during the call. */
	enum err (*begin)(void *arg, struct str name, struct str filename, struct error *e);
	enum err (*add)(void *arg, const uint8_t *data, size_t len, struct error *e);
	void *arg;
};

/* NULL, with ERR_BAD_REQUEST or ERR_NO_MEMORY: the type is not multipart/form-data with a boundary. */
struct multipart;
struct multipart *multipart_new(const char *content_type, const struct multipart_visitor *v, struct error *e);
void multipart_free(struct multipart *m); /* NULL is fine */
/* arg is the multipart. ERR_BAD_REQUEST. */
enum err multipart_add(void *arg, const uint8_t *data, size_t len, struct error *e);
/* That was all: ERR_BAD_REQUEST if the last part has no end. */
enum err multipart_end(const struct multipart *m, struct error *e);

#endif
