/* SPDX-License-Identifier: Apache-2.0 */
/* What symbfiles say as JSON, and symbfiles as bytes, for tests. */
#ifndef SYMBFILE_DUMP_H
#define SYMBFILE_DUMP_H

#include <jansson.h>

#include "base/buffer.h"
#include "symbfile/symbfile.h"

/* A file, or NULL when there is none; the caller frees. */
char *load_file(const char *path, size_t *len);
/* The lines of a file of JSON; fails the test when it cannot be read. */
json_t *load_json_lines(const char *path);
/* A path below the source tree's tests/data/symbfile. */
const char *data_path(char out[512], const char *name);

json_t *range_to_json(const struct symbfile_range *r);
json_t *pad_to_json(const struct symbfile_pad *p);
/* Feeds a file to a reader in chunks, each in memory of its own, so that a read past its end is seen. */
enum err feed_chunks(struct symbfile_reader *r, const void *data, size_t len, size_t chunk, struct error *e);
/* The records of a file (new), up to its end or first error. */
json_t *symbfile_to_json(const void *data, size_t len, size_t chunk, enum err *err, struct error *e);
/* Writes the records that it gets. */
struct symbfile_sink sink_to_writer(struct symbfile_writer *w);
/* A symbfile of the records of another, which is sound. */
void symbfile_rewrite(const void *data, size_t len, struct buffer *out);
/* A writer's `write`, for a struct buffer. */
enum err write_to_buffer(void *arg, const uint8_t *data, size_t len, struct error *e);

#endif
