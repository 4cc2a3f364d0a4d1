/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/spool.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "extract/temp_file.h"

/* What a record takes at most besides its strings, and each of its lines or frames. */
enum { RECORD_MAX = 64, ROW_MAX = 32 };
enum { BLOCK = 256 << 10 };

enum err spool_init(struct spool *s, uint64_t part_max, bool discard, struct error *e)
{
	*s = (struct spool){.fd = -1, .part_max = part_max, .hash = sha256_new()};
	if (!s->hash)
		return no_memory(e);
	if (!discard)
		return temp_file_open(&s->fd, e);
	s->fd = open("/dev/null", O_RDWR | O_CLOEXEC);
	return s->fd < 0 ? error_set(e, ERR_IO, "/dev/null: %s", strerror(errno)) : ERR_OK;
}

void spool_release(struct spool *s)
{
	symbfile_writer_free(s->writer);
	sha256_free(s->hash);
	free(s->parts);
	if (s->fd >= 0)
		close(s->fd);
	*s = (struct spool){.fd = -1};
}

static enum err take_bytes(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct spool *s = arg;
	if (!sha256_add(s->hash, data, len))
		return no_memory(e);
	s->len += len;
	return temp_file_write(s->fd, data, len, e);
}

static enum err begin_part(struct spool *s, struct error *e)
{
	if (!array_reserve(&s->parts, &s->cap, s->count + 1, sizeof *s->parts))
		return no_memory(e);
	s->writer = symbfile_writer_new(take_bytes, s);
	if (!s->writer)
		return no_memory(e);
	s->parts[s->count++] = (struct spool_part){.at = s->len};
	s->empty = true;
	return ERR_OK;
}

static enum err end_part(struct spool *s, struct error *e)
{
	enum err err = symbfile_writer_finish(s->writer, e);
	symbfile_writer_free(s->writer);
	s->writer = NULL;
	s->parts[s->count - 1].len = s->len - s->parts[s->count - 1].at;
	return err;
}

/* Makes sure that the current part has room for a record of at most this many bytes. */
static enum err room_for_record(struct spool *s, uint64_t record, struct error *e)
{
	enum err err = ERR_OK;
	if (s->writer && !s->empty && symbfile_writer_bound(s->writer) + record > s->part_max)
		err = end_part(s, e);
	return err || s->writer ? err : begin_part(s, e);
}

/* A record that cannot be written must not cost the whole file. */
static enum err written(struct spool *s, enum err err)
{
	if (err == ERR_TOO_LARGE)
		s->left_out++;
	else
		s->empty = false;
	return err == ERR_TOO_LARGE ? ERR_OK : err;
}

enum err spool_range(struct spool *s, const struct symbfile_range *r, struct error *e)
{
	uint64_t size = RECORD_MAX + r->func.len + r->line_count * ROW_MAX;
	size += (r->has_file ? r->file.len : 0) + (r->has_call_file ? r->call_file.len : 0);
	enum err err = room_for_record(s, size, e);
	return err ? err : written(s, symbfile_write_range(s->writer, r, e));
}

enum err spool_pad(struct spool *s, const struct symbfile_pad *p, struct error *e)
{
	uint64_t size = RECORD_MAX + p->count * ROW_MAX;
	for (size_t i = 0; i < p->count; i++)
		size += p->frames[i].func.len + p->frames[i].file.len;
	enum err err = room_for_record(s, size, e);
	return err ? err : written(s, symbfile_write_pad(s->writer, p, e));
}

/* Includes the lengths, so that the same bytes cut differently are another set. */
static enum err name_set(struct spool *s, struct error *e)
{
	char hex[SHA256_HEX + 1], line[32];
	bool ok = true;
	for (size_t i = 0; i < s->count; i++) {
		int n = snprintf(line, sizeof line, "%llu\n", (unsigned long long)s->parts[i].len);
		ok = ok && sha256_add(s->hash, line, (size_t)n);
	}
	if (!ok || !sha256_end(s->hash, hex))
		return no_memory(e);
	memcpy(s->set, hex, SPOOL_SET);
	return ERR_OK;
}

enum err spool_finish(struct spool *s, struct error *e)
{
	enum err err = s->writer ? ERR_OK : begin_part(s, e);
	if (!err)
		err = end_part(s, e);
	return err ? err : name_set(s, e);
}

enum err spool_read(const struct spool *s, size_t part,
        enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e), void *arg, struct error *e)
{
	uint8_t *block = malloc(BLOCK);
	enum err err = block ? ERR_OK : no_memory(e);
	uint64_t at = s->parts[part].at, end = at + s->parts[part].len;
	while (at < end && !err) {
		ssize_t n = pread(s->fd, block, end - at < BLOCK ? (size_t)(end - at) : BLOCK, (off_t)at);
		if (n <= 0)
			err = error_set(e, ERR_IO, "temporary file: %s",
			        n < 0 ? strerror(errno) : "it is shorter than what was written");
		else
			err = take(arg, block, (size_t)n, e);
		at += n > 0 ? (uint64_t)n : 0;
	}
	free(block);
	return err;
}
