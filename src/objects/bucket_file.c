/* SPDX-License-Identifier: Apache-2.0 */
/* A directory that must exist: objects are files below it, with names as they are (not percent-encoded). Links inside
 * are followed: that is up to whoever fills it. Names come from clients, but a name that could lead out of its place
 * never gets here (bucket_can_hold).
 *
 * An object is written to a file in symbfiles/.tmp, synced, and renamed to its place; then the directories above it are
 * synced, up to the place's own, even those that another process created. A file that a killed process leaves in .tmp
 * is no object, and is removed when it is a day old. */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/process.h"
#include "objects/bucket_backend.h"
#include "objects/percent.h"
#include "objects/store.h"

enum {
	READ_SIZE = 256 * 1024,
	POLL_MS = 50,
	LEFTOVER_AGE = 24 * 3600, /* seconds; far longer than an upload may take */
	CLEANING_PERIOD = 3600,   /* seconds */
	ENTRIES_MAX = 4000000,    /* of one walk */
	LEVELS = 6,               /* levels of directories and files below a listed one */
	TEMPORARY_MAX = 64,
	LOOKS = 4, /* at the clock, one after the other */
};

static const int64_t settled_after = SECOND; /* a file that has not changed for this long is not being written */
static const int64_t tick = 10 * MS;         /* times of files lag behind the clock by at most this */

struct file_source {
	struct bucket_place place; /* each put looks at its clock */
	int64_t total_timeout;
	char *directory;
	atomic_llong cleaned; /* clock_now() of the last look at leftovers; 0: none yet */
	char url[];
};

struct file_client {
	struct file_source *source; /* not owned */
	uint8_t buffer[READ_SIZE];
};

struct folder_put {
	struct store_put put;
	struct file_client *client;    /* not owned */
	int base, fd;                  /* the store's directory, the temporary file */
	char temporary[TEMPORARY_MAX]; /* its path; empty when it is gone */
};

static enum err io_error(struct error *e, const char *what)
{
	return error_set(e, ERR_UNAVAILABLE, "%s: %s", what, strerror(errno));
}

static int64_t modified(const struct stat *st)
{
	return st->st_mtim.tv_sec * SECOND + st->st_mtim.tv_nsec;
}

static void file_source_free(void *source)
{
	struct file_source *s = source;
	free(s->directory);
	free(s);
}

static void *file_source_new(const char *url, const char *what, const struct config *config, struct error *e)
{
	what = what ? what : "source";
	const char *path = url + strlen(bucket_file.scheme);
	if (strncasecmp(path, "localhost/", 10) == 0)
		path += strlen("localhost");
	if (*path != '/' || strpbrk(path, "?#")) {
		error_set(e, ERR_CONFIG, "%s: file:// needs an absolute path and nothing after it: %.150s", what, url);
		return NULL;
	}
	struct file_source *s = calloc(1, sizeof *s + strlen(url) + 1);
	char *directory = malloc(strlen(path) + 1);
	if (!s || !directory || !percent_decode(directory, str_from(path))) {
		error_set(e, s && directory ? ERR_CONFIG : ERR_NO_MEMORY, "%s: cannot take %.150s", what, url);
		free(directory);
		free(s);
		return NULL;
	}
	s->total_timeout = config->bucket_total_timeout;
	s->directory = directory;
	s->place.name = strcpy(s->url, url);
	return s;
}

static void *file_client_new(void *source)
{
	struct file_client *c = malloc(sizeof *c);
	if (c)
		c->source = source;
	return c;
}

/* Opened for each call, so that a file system mounted later is seen. Without the directory nothing is known. */
static int open_base(const struct file_source *s, int access, struct error *e)
{
	int fd = open(s->directory, access | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		io_error(e, s->directory);
	return fd;
}

/* ---- storing ---- */

/* Calls step for the directories of a path, outermost first: for "a/b/c" with "a" and "a/b". */
static bool each_directory(int base, const char *path, bool (*step)(int base, const char *directory))
{
	char part[STORE_PATH_MAX];
	for (const char *slash = strchr(path, '/'); slash; slash = strchr(slash + 1, '/')) {
		size_t len = (size_t)(slash - path);
		if (len >= sizeof part)
			return false;
		memcpy(part, path, len);
		part[len] = 0;
		if (!step(base, part))
			return false;
	}
	return true;
}

static bool make_directory(int base, const char *directory)
{
	return mkdirat(base, directory, 0777) == 0 || errno == EEXIST;
}

static bool sync_directory(int base, const char *directory)
{
	int fd = openat(base, directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool good = fd >= 0 && fsync(fd) == 0;
	if (fd >= 0)
		close(fd);
	return good;
}

/* Makes sure that the object's name, and those of the directories above it, survive a crash. Another process may have
 * created them and not synced them yet, so all of them are synced. */
static bool sync_names(int base, const char *path)
{
	return each_directory(base, path, sync_directory) && fsync(base) == 0;
}

static void remove_leftovers(int base)
{
	int fd = openat(base, STORE_TEMPORARY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	if (!directory) {
		if (fd >= 0)
			close(fd);
		return;
	}
	int64_t now = machine_now() / SECOND;
	const struct dirent *entry;
	for (unsigned n = 0; n < ENTRIES_MAX && (entry = readdir(directory)); n++) {
		struct stat st;
		if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		        st.st_mtime < now - LEFTOVER_AGE)
			unlinkat(fd, entry->d_name, 0);
	}
	closedir(directory);
}

/* At the process's first upload, and now and then afterwards. */
static void clean(struct file_source *s, int base)
{
	long long now = clock_now(), last = atomic_load(&s->cleaned);
	bool due = !last || now - last > CLEANING_PERIOD * SECOND;
	if (due && atomic_compare_exchange_strong(&s->cleaned, &last, now))
		remove_leftovers(base);
}

/* A file server sets the time of a file by its own clock. What it says while this thread waits for a core is worth
 * little, so it is asked again. */
static void look_at_clock(struct place_clock *c, int fd)
{
	struct stat st;
	int64_t sent, now;
	unsigned looks = 0;
	do {
		sent = machine_now();
		if (futimens(fd, NULL) != 0 || fstat(fd, &st) != 0)
			return;
		now = machine_now();
	} while (now - sent > tick && ++looks < LOOKS);
	place_clock_hear(c, sent, now, modified(&st), st.st_mtim.tv_nsec ? tick : SECOND, 0);
}

/* A new file in STORE_TEMPORARY. */
static enum err open_temporary(struct folder_put *p, struct error *e)
{
	if (!each_directory(p->base, STORE_TEMPORARY "/", make_directory))
		return io_error(e, STORE_TEMPORARY);
	snprintf(p->temporary, sizeof p->temporary, STORE_TEMPORARY "/%016" PRIx64, random_u64());
	p->fd = openat(p->base, p->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (p->fd < 0) {
		p->temporary[0] = 0;
		return io_error(e, STORE_TEMPORARY);
	}
	look_at_clock(&p->client->source->place.clock, p->fd);
	return ERR_OK;
}

static void file_put_free(void *put)
{
	struct folder_put *p = put;
	if (p->fd >= 0)
		close(p->fd);
	if (*p->temporary)
		unlinkat(p->base, p->temporary, 0);
	if (p->base >= 0)
		close(p->base);
	free(p);
}

static void *file_put_begin(void *client, struct error *e)
{
	struct folder_put *p = calloc(1, sizeof *p);
	if (!p) {
		no_memory(e);
		return NULL;
	}
	p->client = client;
	p->fd = -1;
	p->base = open_base(p->client->source, O_RDONLY, e);
	if (p->base >= 0)
		clean(p->client->source, p->base);
	if (p->base >= 0 && !open_temporary(p, e))
		return p;
	file_put_free(p);
	return NULL;
}

static enum err file_put_write(void *put, const uint8_t *data, size_t len, struct error *e)
{
	struct folder_put *p = put;
	if (!write_all(p->fd, data, len))
		return io_error(e, "write");
	return ERR_OK;
}

static bool move_to_place(const struct folder_put *p, const char *path)
{
	return each_directory(p->base, path, make_directory) && renameat(p->base, p->temporary, p->base, path) == 0;
}

static enum err file_put_commit(void *put, const char *path, struct error *e)
{
	struct folder_put *p = put;
	/* Before the rename, so that no name appears without its content. */
	if (fsync(p->fd) != 0)
		return io_error(e, "fsync");
	/* pruning may have removed a directory in between */
	if (!move_to_place(p, path) && (errno != ENOENT || !move_to_place(p, path)))
		return io_error(e, "rename");
	p->temporary[0] = 0;
	return sync_names(p->base, path) ? ERR_OK : io_error(e, "fsync of a directory");
}

/* ---- reading ---- */

/* The descriptor of a regular file, and its state when it was opened; or -1, with the result set. */
static int open_object(int directory, const char *path, struct stat *st, struct bucket_result *result)
{
	int fd = openat(directory, path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
	if (fd < 0) {
		bool absent = errno == ENOENT || errno == ENOTDIR || errno == ENAMETOOLONG || errno == ENXIO;
		bucket_result_set(result, absent ? BUCKET_MISSING : BUCKET_FAILED, "%s", strerror(errno));
		return -1;
	}
	if (fstat(fd, st) == 0 && S_ISREG(st->st_mode))
		return fd;
	bucket_result_set(result, BUCKET_MISSING, "not a regular file");
	close(fd);
	return -1;
}

/* For a broken file: is it unchanged since it was opened, and for some time before? Otherwise somebody is writing it.
 */
static bool is_settled(int fd, const struct stat *before, const atomic_bool *cancel)
{
	struct stat st;
	const struct timespec pause = {.tv_nsec = POLL_MS * MS};
	while (!(cancel && atomic_load(cancel))) {
		if (fstat(fd, &st) != 0 || st.st_size != before->st_size || modified(&st) != modified(before))
			return false;
		int64_t age = machine_now() - modified(&st);
		if (age >= settled_after || age < 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

/* One that is stored as it is need not be copied. */
static bool hand_over(int fd, const struct stat *st, struct bucket_body *body)
{
	uint8_t head[PACKING_HEAD];
	const uint64_t size = (uint64_t)st->st_size;
	ssize_t n = body->sink && body->sink->file ? pread(fd, head, sizeof head, 0) : -1;
	if (n != sizeof head || size > body->max || packing_of(head, sizeof head) != PACKING_NONE ||
	        !body->sink->file(body->sink->arg, fd))
		return false;
	body->text = body->layers[0].bytes = size;
	return true;
}

static enum bucket_outcome read_object(struct file_client *c, int fd, const struct stat *st, struct bucket_body *body,
        const atomic_bool *cancel, struct bucket_result *result)
{
	int64_t deadline = clock_now() + c->source->total_timeout;
	struct bucket_head head = {.sized = true, .length = (uint64_t)st->st_size};
	off_t at = 0;
	ssize_t n;
	/* like nginx's */
	snprintf(head.etag, sizeof head.etag, "\"%llx-%llx\"", (unsigned long long)modified(st),
	        (unsigned long long)st->st_size);
	if (bucket_body_begin(body, &head) != BUCKET_OK)
		return bucket_result_set(result, BUCKET_ABORTED, "%s", body->problem);
	while ((n = read(fd, c->buffer, sizeof c->buffer)) > 0) {
		int64_t began = clock_now();
		at += n;
		if (bucket_body_add(body, c->buffer, (size_t)n) != BUCKET_OK)
			break;
		deadline += body->raw ? clock_now() - began : 0;
		if (cancel && atomic_load(cancel))
			return bucket_result_set(result, BUCKET_ABORTED, "cancelled");
		if (clock_now() > deadline)
			return bucket_result_set(result, BUCKET_FAILED, "not read within bucket_total_timeout");
	}
	if (n < 0)
		return bucket_result_set(result, BUCKET_FAILED, "%s", strerror(errno));
	enum bucket_outcome outcome = bucket_body_end(body);
	if (outcome == BUCKET_BROKEN && !is_settled(fd, st, cancel))
		outcome = BUCKET_FAILED;
	if (outcome != BUCKET_OK)
		return bucket_result_set(result, outcome, "%s", body->problem);
	if (at != st->st_size)
		return bucket_result_set(result, BUCKET_FAILED, "the file changed while it was read");
	result->length_known = true;
	return BUCKET_OK;
}

static void file_fetch(void *client, const char *path, struct bucket_body *body, const atomic_bool *cancel,
        struct bucket_result *result)
{
	struct file_client *c = client;
	struct stat st;
	struct error e;
	char name[BUCKET_PATH_MAX];
	/* for one object, the directory need not be readable itself */
	int directory = open_base(c->source, O_PATH, &e);
	if (directory < 0) {
		bucket_result_set(result, BUCKET_FAILED, "%.190s", e.text);
		return;
	}
	int fd = open_object(directory, percent_decode(name, str_from(path)) ? name : "", &st, result);
	if (fd >= 0 && hand_over(fd, &st, body))
		bucket_result_set(result, BUCKET_OK, "%s", "");
	else if (fd >= 0)
		read_object(c, fd, &st, body, cancel, result);
	if (fd >= 0)
		close(fd);
	close(directory);
}

/* ---- listing ---- */

/* A walk through directories. */
struct walk {
	const struct bucket_listing *listing;
	const atomic_bool *cancel;
	struct error *e;
	int64_t deadline;
	unsigned entries;
	bool stopped;
	char path[LEVELS * (NAME_MAX + 1)]; /* of the directory being read; with a slash, or empty */
};

static enum err walk_into(struct walk *w, int directory, size_t len, unsigned level);

static enum err walk_entry(struct walk *w, int directory, const char *name, size_t len, unsigned level)
{
	struct stat st;
	size_t name_len = strlen(name);
	if (w->listing->flat) {
		w->stopped = name[0] != '.' && !w->listing->found(w->listing->arg, (struct str){name, name_len}, 0, 0);
		return ERR_OK;
	}
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || len + name_len + 1 >= sizeof w->path)
		return ERR_OK;
	/* What disappears meanwhile counts as not there. */
	if (fstatat(directory, name, &st, AT_SYMLINK_NOFOLLOW) != 0)
		return errno == ENOENT ? ERR_OK : io_error(w->e, "listing");
	memcpy(w->path + len, name, name_len);
	if (S_ISDIR(st.st_mode) && level + 1 < LEVELS) {
		int below = openat(directory, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC | O_NOFOLLOW);
		w->path[len + name_len] = '/';
		if (below < 0)
			return errno == ENOENT ? ERR_OK : io_error(w->e, "listing");
		return walk_into(w, below, len + name_len + 1, level + 1);
	}
	struct str path = {w->path, len + name_len};
	w->stopped =
	        S_ISREG(st.st_mode) && !w->listing->found(w->listing->arg, path, (uint64_t)st.st_size, modified(&st));
	return ERR_OK;
}

/* Closes the descriptor. At most LEVELS deep. */
static enum err walk_into(struct walk *w, int fd, size_t len, unsigned level)
{
	enum err err = ERR_OK;
	const struct dirent *entry;
	DIR *directory = fdopendir(fd);
	if (!directory) {
		close(fd);
		return io_error(w->e, "listing");
	}
	while (!err && !w->stopped && (errno = 0, entry = readdir(directory))) {
		if (++w->entries > ENTRIES_MAX)
			err = error_set(w->e, ERR_UNAVAILABLE, "listing: more than %d files", ENTRIES_MAX);
		else if (clock_now() > w->deadline)
			err = error_set(w->e, ERR_UNAVAILABLE, "listing takes longer than bucket_total_timeout");
		else if (w->cancel && atomic_load(w->cancel))
			err = error_set(w->e, ERR_UNAVAILABLE, "listing was cancelled");
		else
			err = walk_entry(w, fd, entry->d_name, len, level);
	}
	if (!err && !w->stopped && errno)
		err = io_error(w->e, "listing");
	closedir(directory);
	return err;
}

static enum err file_list(void *client, const char *path, const struct bucket_listing *listing,
        const atomic_bool *cancel, struct error *e)
{
	const struct file_client *c = client;
	struct walk w = {.listing = listing, .cancel = cancel, .e = e};
	w.deadline = clock_now() + c->source->total_timeout;
	int base = open_base(c->source, O_RDONLY, e);
	if (base < 0)
		return ERR_UNAVAILABLE;
	int fd = openat(base, path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	bool absent = fd < 0 && errno == ENOENT;
	enum err err = ERR_OK;
	if (fd >= 0)
		err = walk_into(&w, fd, 0, 0);
	else if (!absent)
		err = io_error(e, "listing");
	close(base);
	return err;
}

/* Also removes the directories above it that become empty. */
static enum err file_remove(void *client, const char *path, struct error *e)
{
	const struct file_client *c = client;
	char above[STORE_PATH_MAX];
	int base = open_base(c->source, O_RDONLY, e);
	if (base < 0)
		return ERR_UNAVAILABLE;
	bool gone = unlinkat(base, path, 0) == 0 || errno == ENOENT;
	enum err err = gone ? ERR_OK : io_error(e, "removing");
	snprintf(above, sizeof above, "%s", path);
	for (char *slash = strrchr(above, '/'); !err && slash; slash = strrchr(above, '/')) {
		*slash = 0;
		if (strcmp(above, STORE_FOLDER) == 0 || strcmp(above, STORE_TEMPORARY) == 0 ||
		        unlinkat(base, above, AT_REMOVEDIR) != 0)
			break;
	}
	close(base);
	return err;
}

/* ---- a probe ---- */

/* Writes an unnamed file, which disappears with its descriptor. If the file system cannot do that, checks the
 * permissions instead. */
static bool can_write(int base, const char *directory)
{
	static const uint8_t bytes[512];
	int fd = openat(base, directory, O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
	if (fd < 0 && (errno == EOPNOTSUPP || errno == EISDIR))
		return faccessat(base, directory, W_OK | X_OK, AT_EACCESS) == 0;
	if (fd < 0)
		return false;
	ssize_t n = write(fd, bytes, sizeof bytes);
	int failed = n < 0 ? errno : n < (ssize_t)sizeof bytes ? ENOSPC : 0;
	close(fd);
	errno = failed;
	return !failed;
}

/* Checks what an upload needs; it creates missing directories itself. */
static enum err file_probe_writing(void *client, struct error *e)
{
	const struct file_client *c = client;
	int base = open_base(c->source, O_RDONLY, e);
	if (base < 0)
		return ERR_UNAVAILABLE;
	bool good = can_write(base, STORE_TEMPORARY) || errno == ENOENT;
	good = good && (can_write(base, STORE_FOLDER) || (errno == ENOENT && can_write(base, ".")));
	enum err err = good ? ERR_OK : io_error(e, c->source->directory);
	close(base);
	return err;
}

const struct bucket_backend bucket_file = {
        .scheme = "file://",
        .source_new = file_source_new,
        .source_free = file_source_free,
        .client_new = file_client_new,
        .client_free = free,
        .fetch = file_fetch,
        .list = file_list,
        .remove = file_remove,
        .put_begin = file_put_begin,
        .put_write = file_put_write,
        .put_commit = file_put_commit,
        .put_free = file_put_free,
        .probe_writing = file_probe_writing,
};
