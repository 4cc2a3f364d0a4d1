/* SPDX-License-Identifier: Apache-2.0 */
/* A directory as a bucket: DIR/name/id/name.sym, with names as they are (not percent-encoded).
 * Links inside are followed: that is up to whoever fills the bucket. Names come from clients, but a name that could
 * lead out of its place never gets here (bucket_can_hold). */
#include <config.h>

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/clock.h"
#include "objects/bucket_backend.h"
#include "objects/percent.h"

enum { READ_SIZE = 256 * 1024, POLL_MS = 50 };
static const int64_t settled_after = SECOND; /* a file that has not changed for this long is not being written */

struct file_source {
	struct bucket_limits limits;
	char *directory;
	char name[]; /* the URL */
};

struct file_client {
	const struct file_source *source; /* not owned */
	uint8_t buffer[READ_SIZE];
};

static void file_source_free(void *source)
{
	struct file_source *s = source;
	free(s->directory);
	free(s);
}

static void *file_source_new(
        const char *url, const struct config *config, const struct bucket_limits *limits, struct error *e)
{
	(void)config;
	const char *path = url + strlen(bucket_file.scheme);
	if (strncasecmp(path, "localhost/", 10) == 0)
		path += strlen("localhost");
	if (*path != '/' || strpbrk(path, "?#")) {
		error_set(e, ERR_CONFIG, "source: file:// needs an absolute path and nothing after it: %.150s", url);
		return NULL;
	}
	struct file_source *s = malloc(sizeof *s + strlen(url) + 1);
	char *directory = malloc(strlen(path) + 1);
	if (!s || !directory || !percent_decode(directory, str_from(path))) {
		error_set(e, s && directory ? ERR_CONFIG : ERR_NO_MEMORY, "source: cannot take %.150s", url);
		free(directory);
		free(s);
		return NULL;
	}
	s->limits = *limits;
	s->directory = directory;
	memcpy(s->name, url, strlen(url) + 1);
	return s;
}

static const char *file_source_name(const void *source)
{
	return ((const struct file_source *)source)->name;
}

static void *file_client_new(void *source)
{
	struct file_client *c = malloc(sizeof *c);
	if (c)
		c->source = source;
	return c;
}

static void file_client_free(void *client)
{
	free(client);
}

/* Opened for each fetch, so that a file system mounted later is seen. */
static int open_directory(const struct file_source *s, struct bucket_result *result)
{
	int fd = open(s->directory, O_PATH | O_DIRECTORY | O_CLOEXEC);
	/* If the directory itself does not exist, we cannot say that an object is missing. */
	if (fd < 0)
		bucket_result_set(result, BUCKET_FAILED, "%.120s: %s", s->directory, strerror(errno));
	return fd;
}

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
	struct timespec now;
	const struct timespec pause = {.tv_nsec = POLL_MS * MS};
	while (!(cancel && atomic_load(cancel))) {
		if (fstat(fd, &st) != 0 || st.st_size != before->st_size ||
		        st.st_mtim.tv_sec != before->st_mtim.tv_sec || st.st_mtim.tv_nsec != before->st_mtim.tv_nsec)
			return false;
		clock_gettime(CLOCK_REALTIME, &now);
		int64_t age = (now.tv_sec - st.st_mtim.tv_sec) * SECOND + now.tv_nsec - st.st_mtim.tv_nsec;
		if (age >= settled_after || age < 0)
			return true;
		nanosleep(&pause, NULL);
	}
	return false;
}

static enum bucket_outcome read_object(struct file_client *c, int fd, const struct stat *st, struct bucket_body *body,
        const atomic_bool *cancel, struct bucket_result *result)
{
	int64_t deadline = clock_now() + c->source->limits.total_timeout;
	struct bucket_head head = {.sized = true, .length = (uint64_t)st->st_size};
	off_t at = 0;
	ssize_t n;
	/* like nginx's */
	snprintf(head.etag, sizeof head.etag, "\"%llx-%llx\"",
	        (unsigned long long)st->st_mtim.tv_sec * SECOND + (unsigned long long)st->st_mtim.tv_nsec,
	        (unsigned long long)st->st_size);
	if (bucket_body_begin(body, &head) != BUCKET_OK)
		return bucket_result_set(result, BUCKET_ABORTED, "%s", bucket_body_problem(body));
	while ((n = read(fd, c->buffer, sizeof c->buffer)) > 0) {
		at += n;
		if (bucket_body_add(body, c->buffer, (size_t)n) != BUCKET_OK)
			break;
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
		return bucket_result_set(result, outcome, "%s", bucket_body_problem(body));
	if (at != st->st_size)
		return bucket_result_set(result, BUCKET_FAILED, "the file changed while it was read");
	result->length_known = true;
	return BUCKET_OK;
}

static void file_fetch(void *client, const struct bucket_path *path, struct bucket_body *body,
        const atomic_bool *cancel, struct bucket_result *result)
{
	struct file_client *c = client;
	struct stat st;
	int directory = open_directory(c->source, result);
	if (directory < 0)
		return;
	int fd = open_object(directory, path->plain, &st, result);
	if (fd >= 0) {
		read_object(c, fd, &st, body, cancel, result);
		close(fd);
	}
	close(directory);
}

static void file_list(void *client, const char *folder, bool (*each)(void *arg, const char *name), void *arg,
        struct bucket_result *result)
{
	const struct file_client *c = client;
	int directory = open_directory(c->source, result);
	if (directory < 0)
		return;
	int fd = openat(directory, folder, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *dir = fd >= 0 ? fdopendir(fd) : NULL;
	result->outcome = BUCKET_OK;
	if (!dir) {
		bool absent = errno == ENOENT || errno == ENOTDIR;
		bucket_result_set(result, absent ? BUCKET_MISSING : BUCKET_FAILED, "%s", strerror(errno));
	}
	for (struct dirent *entry; dir && (entry = readdir(dir)) && each(arg, entry->d_name);)
		;
	if (dir)
		closedir(dir);
	else if (fd >= 0)
		close(fd);
	close(directory);
}

/* It answers if the directory can be searched for a name. */
static void file_probe(void *client, struct bucket_body *body, struct bucket_result *result)
{
	const struct file_client *c = client;
	struct stat st;
	(void)body;
	int directory = open_directory(c->source, result);
	if (directory < 0)
		return;
	int fd = open_object(directory, "__heartbeat__", &st, result);
	if (fd >= 0)
		close(fd);
	close(directory);
}

const struct bucket_backend bucket_file = {
        .scheme = "file://",
        .source_new = file_source_new,
        .source_free = file_source_free,
        .source_name = file_source_name,
        .client_new = file_client_new,
        .client_free = file_client_free,
        .fetch = file_fetch,
        .list = file_list,
        .probe = file_probe,
};
