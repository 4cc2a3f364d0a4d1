/* SPDX-License-Identifier: Apache-2.0 */
/* Objects in a directory that must exist: only what is below it is created here. An object is written to a file in
 * symbfiles/.tmp, synced, and renamed to its place; then the directories above it are synced, up to the store's own,
 * even those that another process created. A file that a killed process leaves in .tmp is no object, and is removed
 * when it is a day old. */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "objects/percent.h"
#include "objects/store_backend.h"

#define DIRECTORY STORE_FOLDER
#define TEMPORARY STORE_TEMPORARY

enum {
	BLOCK = 256 * 1024,
	LEFTOVER_AGE = 24 * 3600, /* seconds; far longer than an upload may take */
	CLEANING_PERIOD = 3600,   /* seconds */
	ENTRIES_MAX = 4000000,    /* of one walk */
	LEVELS = 6,               /* levels of directories and files below a listed one */
	TEMPORARY_MAX = 64,
};

struct file_store {
	char *directory;
	int64_t total_timeout;
	atomic_llong cleaned; /* clock_now() of the last look at leftovers; 0: none yet */
};

struct file_client {
	struct file_store *store; /* not owned */
	uint8_t block[BLOCK];
};

struct file_put {
	struct file_client *client;    /* not owned */
	int base, fd;                  /* the store's directory, the temporary file */
	char temporary[TEMPORARY_MAX]; /* its path; empty when it is gone */
};

static enum err io_error(struct error *e, const char *what)
{
	return error_set(e, ERR_UNAVAILABLE, "%s: %s", what, strerror(errno));
}

static void file_store_free(void *store)
{
	struct file_store *s = store;
	free(s->directory);
	free(s);
}

static void *file_store_new(const char *url, const char *what, const struct config *c, struct error *e)
{
	const char *path = url + strlen(store_file.scheme);
	if (*path != '/' || strpbrk(path, "?#")) {
		error_set(e, ERR_CONFIG, "%s: file:// needs an absolute path and nothing after it", what);
		return NULL;
	}
	struct file_store *s = calloc(1, sizeof *s);
	char *directory = malloc(strlen(path) + 1);
	if (!s || !directory || !percent_decode(directory, str_from(path))) {
		error_set(e, s && directory ? ERR_CONFIG : ERR_NO_MEMORY, "%s: cannot take %.150s", what, url);
		free(directory);
		free(s);
		return NULL;
	}
	s->directory = directory;
	s->total_timeout = c->bucket_total_timeout;
	return s;
}

static void *file_client_new(void *store)
{
	struct file_client *c = malloc(sizeof *c);
	if (c)
		c->store = store;
	return c;
}

static void file_client_free(void *client)
{
	free(client);
}

/* Opened for each call, so that a file system mounted later is seen. Without the directory nothing is known. */
static int open_base(const struct file_store *s, struct error *e)
{
	int fd = open(s->directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
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
	int fd = openat(base, TEMPORARY, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *directory = fd >= 0 ? fdopendir(fd) : NULL;
	if (!directory) {
		if (fd >= 0)
			close(fd);
		return;
	}
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	const struct dirent *entry;
	for (unsigned n = 0; n < ENTRIES_MAX && (entry = readdir(directory)); n++) {
		struct stat st;
		if (fstatat(fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISREG(st.st_mode) &&
		        st.st_mtime < now.tv_sec - LEFTOVER_AGE)
			unlinkat(fd, entry->d_name, 0);
	}
	closedir(directory);
}

/* At the process's first upload, and now and then afterwards. */
static void clean(struct file_store *s, int base)
{
	long long now = clock_now(), last = atomic_load(&s->cleaned);
	bool due = !last || now - last > CLEANING_PERIOD * SECOND;
	if (due && atomic_compare_exchange_strong(&s->cleaned, &last, now))
		remove_leftovers(base);
}

/* A new file in TEMPORARY. */
static enum err open_temporary(struct file_put *p, struct error *e)
{
	uint64_t random;
	if (!each_directory(p->base, TEMPORARY "/", make_directory))
		return io_error(e, TEMPORARY);
	if (getrandom(&random, sizeof random, 0) != sizeof random)
		return io_error(e, "getrandom");
	snprintf(p->temporary, sizeof p->temporary, TEMPORARY "/%016" PRIx64, random);
	p->fd = openat(p->base, p->temporary, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0666);
	if (p->fd < 0)
		p->temporary[0] = 0;
	return p->fd < 0 ? io_error(e, TEMPORARY) : ERR_OK;
}

static void file_put_free(void *put)
{
	struct file_put *p = put;
	if (p->fd >= 0)
		close(p->fd);
	if (*p->temporary)
		unlinkat(p->base, p->temporary, 0);
	if (p->base >= 0)
		close(p->base);
	free(p);
}

static void *file_put_begin(void *client, const atomic_bool *cancel, struct error *e)
{
	struct file_put *p = calloc(1, sizeof *p);
	(void)cancel;
	if (!p) {
		no_memory(e);
		return NULL;
	}
	p->client = client;
	p->fd = -1;
	p->base = open_base(p->client->store, e);
	if (p->base >= 0)
		clean(p->client->store, p->base);
	if (p->base >= 0 && !open_temporary(p, e))
		return p;
	file_put_free(p);
	return NULL;
}

static enum err file_put_write(void *put, const uint8_t *data, size_t len, struct error *e)
{
	struct file_put *p = put;
	if (!write_all(p->fd, data, len))
		return io_error(e, "write");
	return ERR_OK;
}

static bool move_to_place(const struct file_put *p, const char *path)
{
	return each_directory(p->base, path, make_directory) && renameat(p->base, p->temporary, p->base, path) == 0;
}

/* A file server has a clock of its own: it sets the file's time. Without it this machine's clock counts. */
static int64_t clock_ahead(int fd)
{
	struct stat st;
	if (futimens(fd, NULL) != 0 || fstat(fd, &st) != 0)
		return 0;
	int64_t ahead = st.st_mtim.tv_sec * SECOND + st.st_mtim.tv_nsec - store_clock();
	return llabs(ahead) > SECOND ? ahead : 0;
}

static enum err file_put_commit(void *put, const char *path, int64_t *ahead, struct error *e)
{
	struct file_put *p = put;
	*ahead = clock_ahead(p->fd);
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

/* Reads a whole block, or less at the end of the file; -1 on failure. */
static ssize_t read_block(int fd, uint8_t block[BLOCK], off_t at)
{
	size_t have = 0;
	ssize_t n = 1;
	while (n > 0 && have < BLOCK) {
		n = pread(fd, block + have, BLOCK - have, at + (off_t)have);
		have += n > 0 ? (size_t)n : 0;
	}
	return n < 0 ? -1 : (ssize_t)have;
}

/* A walk through directories. */
struct walk {
	const struct store_listing *listing;
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
	if (name[0] == '.' || len + name_len + 1 >= sizeof w->path)
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
	int64_t time = st.st_mtim.tv_sec * SECOND + st.st_mtim.tv_nsec;
	w->stopped = S_ISREG(st.st_mode) && !w->listing->found(w->listing->arg, path, (uint64_t)st.st_size, time);
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
		bool over = ++w->entries > ENTRIES_MAX || clock_now() > w->deadline;
		if (over || (w->cancel && atomic_load(w->cancel)))
			err = error_set(w->e, ERR_UNAVAILABLE, "listing %s", over ? "takes too long" : "was cancelled");
		else
			err = walk_entry(w, fd, entry->d_name, len, level);
	}
	if (!err && !w->stopped && errno)
		err = io_error(w->e, "listing");
	closedir(directory);
	return err;
}

static enum err file_list(
        void *client, const char *path, const struct store_listing *listing, const atomic_bool *cancel, struct error *e)
{
	const struct file_client *c = client;
	struct walk w = {.listing = listing, .cancel = cancel, .e = e};
	w.deadline = clock_now() + c->store->total_timeout;
	int base = open_base(c->store, e);
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
	int base = open_base(c->store, e);
	if (base < 0)
		return ERR_UNAVAILABLE;
	bool gone = unlinkat(base, path, 0) == 0 || errno == ENOENT;
	enum err err = gone ? ERR_OK : io_error(e, "removing");
	snprintf(above, sizeof above, "%s", path);
	for (char *slash = strrchr(above, '/'); !err && slash; slash = strrchr(above, '/')) {
		*slash = 0;
		if (strcmp(above, DIRECTORY) == 0 || strcmp(above, TEMPORARY) == 0 ||
		        unlinkat(base, above, AT_REMOVEDIR) != 0)
			break;
	}
	close(base);
	return err;
}

static void read_object(struct file_client *c, int fd, struct store_read *read)
{
	struct bucket_result *result = read->result;
	int64_t deadline = clock_now() + c->store->total_timeout;
	struct stat st;
	off_t at = 0;
	ssize_t n = BLOCK;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) {
		bucket_result_set(result, BUCKET_MISSING, "not a regular file");
		return;
	}
	while (n == BLOCK && (n = read_block(fd, c->block, at)) > 0) {
		at += n;
		if (!store_read_add(read, c->block, (size_t)n))
			return;
		if (clock_now() > deadline) {
			bucket_result_set(result, BUCKET_FAILED, "not read within bucket_total_timeout");
			return;
		}
	}
	result->length_known = true;
	if (n < 0)
		bucket_result_set(result, BUCKET_FAILED, "%s", strerror(errno));
	else if (at != st.st_size)
		bucket_result_set(result, BUCKET_FAILED, "the file changed while it was read");
	else
		result->outcome = BUCKET_OK;
}

static void file_get(void *client, const char *path, struct store_read *read)
{
	struct file_client *c = client;
	struct error e = {0};
	int base = open_base(c->store, &e);
	if (base < 0) {
		bucket_result_set(read->result, BUCKET_FAILED, "%.190s", e.text);
		return;
	}
	int fd = openat(base, path, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
	if (fd < 0)
		bucket_result_set(read->result,
		        errno == ENOENT || errno == ENOTDIR || errno == ELOOP ? BUCKET_MISSING : BUCKET_FAILED, "%s",
		        strerror(errno));
	else
		read_object(c, fd, read);
	if (fd >= 0)
		close(fd);
	close(base);
}

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
static enum err file_probe(void *client, struct error *e)
{
	const struct file_client *c = client;
	int base = open_base(c->store, e);
	if (base < 0)
		return ERR_UNAVAILABLE;
	bool good = can_write(base, TEMPORARY) || errno == ENOENT;
	good = good && (can_write(base, DIRECTORY) || (errno == ENOENT && can_write(base, ".")));
	enum err err = good ? ERR_OK : io_error(e, c->store->directory);
	close(base);
	return err;
}

const struct store_backend store_file = {
        .scheme = "file://",
        .store_new = file_store_new,
        .store_free = file_store_free,
        .client_new = file_client_new,
        .client_free = file_client_free,
        .put_begin = file_put_begin,
        .put_write = file_put_write,
        .put_commit = file_put_commit,
        .put_free = file_put_free,
        .list = file_list,
        .remove = file_remove,
        .get = file_get,
        .probe = file_probe,
};
