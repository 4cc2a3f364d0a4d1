/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/debuginfod.h"

#include <dirent.h>
#include <elfutils/debuginfod.h>
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extract/ids.h"
#include "symbtool/debug_dir.h"
#include "symbtool/progress.h"

static volatile sig_atomic_t interrupted; /* the signal, 0: none */

static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
enum { SIGNALS = sizeof signals / sizeof *signals };

bool debuginfod_wanted(void)
{
	const char *urls = getenv(DEBUGINFOD_URLS_ENV_VAR);
	return urls && urls[strspn(urls, " ")];
}

/* ---- an interrupt ---- */

static void on_signal(int number)
{
	interrupted = number;
}

static void catch_signals(struct sigaction before[SIGNALS])
{
	struct sigaction action = {.sa_handler = on_signal};
	sigemptyset(&action.sa_mask);
	interrupted = 0;
	for (size_t i = 0; i < SIGNALS; i++) {
		sigaction(signals[i], NULL, &before[i]);
		if (before[i].sa_handler != SIG_IGN)
			sigaction(signals[i], &action, NULL);
	}
}

/* A signal that arrived meanwhile now does what it would have done. */
static void release_signals(const struct sigaction before[SIGNALS])
{
	for (size_t i = 0; i < SIGNALS; i++)
		sigaction(signals[i], &before[i], NULL);
	if (interrupted)
		raise(interrupted);
}

/* ---- fetching ---- */

struct debuginfod_transfer {
	struct progress progress;
	long done;
};

static int on_progress(debuginfod_client *client, long done, long total)
{
	struct debuginfod_transfer *t = debuginfod_get_user_data(client);
	if (total > 0) { /* otherwise it only reports how often it has asked */
		t->progress.total = (uint64_t)total;
		progress_add(&t->progress, done - t->done);
		t->done = done;
	}
	return interrupted != 0;
}

static bool has_id(int fd, const uint8_t *id, size_t len)
{
	struct ids ids;
	struct error e;
	return !ids_of_fd(&ids, fd, NULL, &e) && ids.build_id.len == len && memcmp(ids.build_id.bytes, id, len) == 0;
}

/* libdebuginfod's progress messages. Its result is "no such file" for most failures, which it then remembers as if the
 * server did not have the file. */
struct account {
	FILE *file;
	char cache[PATH_MAX]; /* the directory */
	char reason[160];     /* a server's failure, other than not having the file; empty: none */
};

static void copy_line(char *to, size_t room, const char *from)
{
	snprintf(to, room, "%.*s", (int)strcspn(from, "\n"), from);
}

/* "url 0 The requested URL returned error: 404"; "url 0 http://..." when it begins. */
static void read_account_line(struct account *a, const char *line)
{
	static const char cache[] = "checking cache dir ";
	int at = 0;
	if (strncmp(line, cache, strlen(cache)) == 0)
		copy_line(a->cache, sizeof a->cache, line + strlen(cache));
	else if (sscanf(line, "url %*d %n", &at) == 0 && at > 0 && strncmp(line + at, "http", 4) != 0 &&
	         !strstr(line + at, "error: 404"))
		copy_line(a->reason, sizeof a->reason, line + at);
}

static void read_account(struct account *a)
{
	char line[PATH_MAX + 64];
	rewind(a->file);
	while (fgets(line, sizeof line, a->file))
		read_account_line(a, line);
}

/* Removes empty files: the memory of a failure, which says nothing about the next time, and downloads that were begun.
 */
static void tidy(const struct account *a, const char *hex, const char *name)
{
	char path[PATH_MAX];
	struct stat st;
	DIR *dir = snprintf(path, sizeof path, "%s/%s", a->cache, hex) < PATH_MAX && a->cache[0] ? opendir(path) : NULL;
	for (struct dirent *d; dir && (d = readdir(dir));)
		if (strncmp(d->d_name, name, strlen(name)) == 0 && fstatat(dirfd(dir), d->d_name, &st, 0) == 0 &&
		        S_ISREG(st.st_mode) && st.st_size == 0)
			unlinkat(dirfd(dir), d->d_name, 0);
	if (dir) {
		closedir(dir);
		rmdir(path);
	}
}

static enum err why_not_fetched(int status, struct account *a, const char *hex, const char *name, struct error *e)
{
	read_account(a);
	if (status == -ENOENT && !a->reason[0] && !interrupted)
		return error_set(e, ERR_MISSING, "no debuginfod server has build id %s", hex);
	tidy(a, hex, name);
	return error_set(e, ERR_IO, "build id %s from debuginfod: %.120s", hex,
	        interrupted    ? "interrupted"
	        : a->reason[0] ? a->reason
	                       : strerror(-status));
}

static enum err fetch_file(debuginfod_client *client, enum debuginfod_kind kind, const uint8_t *id, size_t len,
        char found[PATH_MAX], struct error *e)
{
	char hex[BUILD_ID_HEX + 1], *path = NULL;
	struct account account = {.file = tmpfile()};
	build_id_hex(hex, id, len);
	if (!account.file)
		return error_set(e, ERR_IO, "cannot make a temporary file: %s", strerror(errno));
	debuginfod_set_verbose_fd(client, fileno(account.file));
	int fd = kind == DEBUGINFOD_DEBUG ? debuginfod_find_debuginfo(client, id, (int)len, &path)
	                                  : debuginfod_find_executable(client, id, (int)len, &path);
	enum err err =
	        fd < 0 ? why_not_fetched(fd, &account, hex, kind == DEBUGINFOD_DEBUG ? "debuginfo" : "executable", e)
	               : ERR_OK;
	fclose(account.file);
	if (err)
		return err;
	err = snprintf(found, PATH_MAX, "%s", path) < PATH_MAX ? ERR_OK : error_set(e, ERR_IO, "the path is too long");
	if (!err && !has_id(fd, id, len)) {
		unlink(path);
		err = error_set(e, ERR_CORRUPT, "debuginfod sent the wrong file for build id %s", hex);
	}
	close(fd);
	free(path);
	return err;
}

enum err debuginfod_fetch(
        enum debuginfod_kind kind, const uint8_t *id, size_t len, char found[PATH_MAX], struct error *e)
{
	struct sigaction before[SIGNALS];
	struct debuginfod_transfer t = {.done = 0};
	debuginfod_client *client = debuginfod_begin();
	if (!client)
		return no_memory(e);
	progress_begin(&t.progress, kind == DEBUGINFOD_DEBUG ? "debug file" : "executable", "bytes", 0);
	debuginfod_set_user_data(client, &t);
	debuginfod_set_progressfn(client, on_progress);
	catch_signals(before);
	enum err err = fetch_file(client, kind, id, len, found, e);
	debuginfod_end(client);
	progress_end(&t.progress);
	release_signals(before);
	return err;
}

static enum err find_debug(
        void *arg, const uint8_t *id, size_t len, const char *name, char found[PATH_MAX], struct error *e)
{
	(void)arg;
	(void)name;
	if (debug_dir_find(id, len, found))
		return ERR_OK;
	return debuginfod_wanted() ? debuginfod_fetch(DEBUGINFOD_DEBUG, id, len, found, e) : ERR_MISSING;
}

void debug_files_serve(struct extract_options *options, const char *urls)
{
	if (urls)
		setenv(DEBUGINFOD_URLS_ENV_VAR, urls, 1);
	debug_dir_use(options->debug_dir);
	if (options->debug_dir || debuginfod_wanted())
		options->fetch = find_debug;
}
