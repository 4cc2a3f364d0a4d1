/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/cut.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extract/ids.h"
#include "symbtool/cli.h"
#include "symbtool/file_kind.h"
#include "symbtool/progress.h"

struct cutting {
	struct cut *cut;
	struct progress progress;
};

static enum err cut_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct cutting *c = arg;
	progress_add(&c->progress, 1);
	return spool_range(&c->cut->kinds[SYMBFILE_RANGES], r, e);
}

static enum err cut_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct cutting *c = arg;
	progress_add(&c->progress, 1);
	return spool_pad(&c->cut->kinds[SYMBFILE_RETURNPADS], p, e);
}

/* st: of the file that has these ids. */
static enum err read_own_ids(
        struct cut *c, const char *path, const struct build_id *slice, struct stat *st, struct error *e)
{
	const struct view_wanted wanted = {.id = *slice};
	struct error none;
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0 || fstat(fd, st) != 0) {
		error_set(e, ERR_IO, "%s: %s", path, strerror(errno));
		if (fd >= 0)
			close(fd);
		return ERR_IO;
	}
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;
	snprintf(c->name, sizeof c->name, "%s", strlen(name) < sizeof c->name ? name : "");
	enum err err = file_id_of_fd(&c->id, fd, slice, e);
	if (!err)
		ids_of_fd(&c->own, fd, &wanted, &none); /* extraction says what is wrong with the file */
	if (!err)
		segments_of_fd(&c->segments, fd, &wanted);
	close(fd);
	return err;
}

static enum err extract(struct cut *c, const char *path, const struct cut_options *options, struct error *e)
{
	struct cutting cutting = {.cut = c};
	struct symbfile_sink sink = {cut_range, cut_pad, &cutting};
	progress_begin(&cutting.progress, path, "records", 0);
	enum err err = extract_executable(path, &options->extract, &sink, &c->stats, e);
	progress_end(&cutting.progress);
	return err;
}

/* Extraction opens the path again: the records of another build must not get these ids. */
static enum err check_same(const char *path, const struct stat *before, struct error *e)
{
	struct stat now;
	if (stat(path, &now) == 0 && now.st_dev == before->st_dev && now.st_ino == before->st_ino &&
	        now.st_size == before->st_size && now.st_mtim.tv_sec == before->st_mtim.tv_sec &&
	        now.st_mtim.tv_nsec == before->st_mtim.tv_nsec)
		return ERR_OK;
	return error_set(e, ERR_IO, "%s: it changed while it was read", path);
}

enum err cut_executable(struct cut *c, const char *path, const struct cut_options *options, struct error *e)
{
	struct stat before;
	*c = (struct cut){0};
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++)
		c->kinds[i].fd = -1;
	enum err err = read_own_ids(c, path, &options->extract.slice, &before, e);
	for (unsigned i = 0; i < SYMBFILE_KINDS && !err; i++)
		err = spool_init(&c->kinds[i], options->part_size, options->discard, e);
	if (!err)
		err = extract(c, path, options, e);
	if (!err)
		err = check_same(path, &before, e);
	for (unsigned i = 0; i < SYMBFILE_KINDS && !err; i++)
		err = spool_finish(&c->kinds[i], e);
	if (err)
		cut_release(c);
	return file_kind_explain(path, TAKES_ELF, err, e);
}

void cut_release(struct cut *c)
{
	for (unsigned i = 0; i < SYMBFILE_KINDS; i++)
		spool_release(&c->kinds[i]);
}

void cut_warn(const struct cut *c, const char *path)
{
	uint64_t left_out = c->kinds[SYMBFILE_RANGES].left_out + c->kinds[SYMBFILE_RETURNPADS].left_out;
	if (!c->stats.pads_known)
		complain(path, "no return pads: they are made for x86-64 and AArch64 only");
	for (unsigned i = 0; i < c->stats.note_count; i++)
		complain(path, "%s", c->stats.notes[i]);
	if (left_out)
		complain(path, "%" PRIu64 " records are too large for a symbfile and were left out", left_out);
}
