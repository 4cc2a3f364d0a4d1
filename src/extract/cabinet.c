/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/cabinet.h"

#include <archive.h>
#include <archive_entry.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "extract/temp_file.h"

enum { BLOCK = 128 << 10 };

struct cabinet {
	int fd;
	off_t at;
	uint8_t block[BLOCK], out[BLOCK];
};

bool cabinet_is(int fd)
{
	char magic[4];
	return pread(fd, magic, sizeof magic, 0) == sizeof magic && memcmp(magic, "MSCF", 4) == 0;
}

static la_ssize_t read_block(struct archive *a, void *arg, const void **bytes)
{
	struct cabinet *c = arg;
	ssize_t n = pread(c->fd, c->block, BLOCK, c->at);
	(void)a;
	*bytes = c->block;
	c->at += n > 0 ? n : 0;
	return n;
}

static enum err copy(struct archive *a, struct cabinet *c, uint64_t max, int to, struct error *e)
{
	enum err err = ERR_OK;
	la_ssize_t n = 0;
	for (uint64_t size = 0; !err && (n = archive_read_data(a, c->out, BLOCK)) > 0; size += (uint64_t)n)
		err = (uint64_t)n > max - size ? error_set(e, ERR_CORRUPT, "cabinet: its file is too large")
		                               : temp_file_write(to, c->out, (size_t)n, e);
	if (!err && n < 0)
		err = error_set(e, ERR_CORRUPT, "cabinet: %.200s", archive_error_string(a));
	return err;
}

enum err cabinet_unpack(int from, uint64_t max, int to, struct error *e)
{
	struct cabinet *c = malloc(sizeof *c);
	struct archive *a = archive_read_new();
	struct archive_entry *entry;
	enum err err = ERR_OK;
	if (!c || !a || archive_read_support_format_cab(a) != ARCHIVE_OK) {
		err = no_memory(e);
	} else {
		c->fd = from;
		c->at = 0;
		/* names that are no text of this locale are only warned of */
		if (archive_read_open(a, c, NULL, read_block, NULL) != ARCHIVE_OK ||
		        archive_read_next_header(a, &entry) < ARCHIVE_WARN)
			err = error_set(e, ERR_CORRUPT, "cabinet: %.200s", archive_error_string(a));
		else
			err = copy(a, c, max, to, e);
	}
	archive_read_free(a);
	free(c);
	return err;
}
