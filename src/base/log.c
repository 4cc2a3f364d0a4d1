/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/log.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/metrics.h"
#include "base/put.h"
#include "base/utf8.h"

/* Always kept free for the end of the line. */
static const char end_whole[] = "}\n", end_cut[] = ",\"cut\":true}\n";
enum { LINE_ROOM = sizeof((struct log_line *)0)->text - (sizeof end_cut - 1) };

static const char *const levels[] = {"error", "warning", "info", "debug"};
/* The priorities of syslog. */
static const char *const priorities[] = {"<3>", "<4>", "<6>", "<7>"};

/* All log files have one descriptor number for the life of the process, so there is no need to wait for threads that
 * are about to write. */
static int file_fd = -1;
static atomic_int log_fd = STDERR_FILENO; /* or file_fd */
static atomic_int log_level = LOG_LEVEL_INFO;

/* Lines that wait to be written together. No more than a pipe takes at once, so that they do not mix with those of
 * other processes. */
static const int64_t delay = 100 * MS;
static struct {
	pthread_mutex_t lock; /* guards what follows, except for thread */
	pthread_cond_t changed;
	pthread_t thread; /* writes them when `delay` has passed */
	bool runs, rests; /* rests: it waits for a first line */
	size_t len;
	char text[PIPE_BUF];
} waiting = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* A full disk loses lines but never stops the service. What is written of a line is followed by the rest of it as soon
 * as there is room, and that by a line that says how many were lost. */
static struct {
	pthread_mutex_t lock; /* guards what follows, except for is_set; nobody waits for it */
	atomic_bool is_set;   /* the last write failed */
	int error;
	unsigned long lost;                            /* lines, of which the log does not tell yet */
	size_t rest_at, rest_len;                      /* what of the rest is not written */
	char rest[sizeof((struct log_line *)0)->text]; /* of the line that was written last */
} trouble = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* Returns how many bytes were written; errno tells why it is not all. */
static size_t write_some(int fd, const char *text, size_t len)
{
	size_t done = 0;
	for (int tries = 0; done < len && tries < 10; tries++) {
		ssize_t n = write(fd, text + done, len - done);
		if (n < 0 && errno != EINTR)
			break;
		done += n > 0 ? (size_t)n : 0;
	}
	return done;
}

static void count_lost(const char *text, size_t len, unsigned long *lost)
{
	unsigned long lines = 0;
	for (size_t i = 0; i < len; i++)
		lines += text[i] == '\n';
	metric_add(M_LOG_LINES_LOST, (int64_t)lines);
	if (lost)
		*lost += lines;
}

/* With trouble.lock held, after `done` bytes of text were written. */
static void keep_rest(const char *text, size_t len, size_t done)
{
	const char *end = done && text[done - 1] != '\n' ? memchr(text + done, '\n', len - done) : NULL;
	size_t rest = end ? (size_t)(end + 1 - text) - done : 0;
	if (rest && !trouble.rest_len && rest <= sizeof trouble.rest) {
		memcpy(trouble.rest, text + done, rest);
		trouble.rest_at = 0;
		trouble.rest_len = rest;
		done += rest;
	}
	count_lost(text + done, len - done, &trouble.lost);
}

static size_t lost_line(char *out, int fd, enum log_level level, const char *format, ...)
        __attribute__((format(printf, 4, 5)));

/* With trouble.lock held: true if all that was left of before is written. */
static bool write_rest(int fd)
{
	struct log_line l;
	size_t done = write_some(fd, trouble.rest + trouble.rest_at, trouble.rest_len);
	trouble.rest_at += done;
	trouble.rest_len -= done;
	if (trouble.rest_len)
		return false;
	if (!trouble.lost)
		return true;
	size_t len = lost_line(l.text, fd, LOG_LEVEL_WARNING, "%lu lines before this one were lost: %s", trouble.lost,
	        strerror(trouble.error));
	done = write_some(fd, l.text, len);
	if (len && done == 0)
		return false;
	trouble.lost = 0;
	keep_rest(l.text, len, done);
	return !trouble.rest_len;
}

static void write_out(int fd, const char *text, size_t len)
{
	size_t done = 0;
	if (!atomic_load(&trouble.is_set) && (done = write_some(fd, text, len)) == len)
		return;
	int failed = errno;
	if (pthread_mutex_trylock(&trouble.lock) != 0) {
		count_lost(text + done, len - done, NULL);
		return;
	}
	bool first = !atomic_exchange(&trouble.is_set, true);
	if (first) {
		trouble.error = failed;
	} else if (write_rest(fd)) {
		done += write_some(fd, text + done, len - done);
		trouble.error = done < len ? errno : 0;
		atomic_store(&trouble.is_set, done < len);
	}
	if (done < len)
		keep_rest(text, len, done);
	if (first && fd != STDERR_FILENO) {
		struct log_line l;
		size_t n = lost_line(
		        l.text, STDERR_FILENO, LOG_LEVEL_ERROR, "lines of log_file are lost: %s", strerror(failed));
		write_some(STDERR_FILENO, l.text, n);
	}
	pthread_mutex_unlock(&trouble.lock);
}

/* The log is another file now. */
static void forget_trouble(void)
{
	pthread_mutex_lock(&trouble.lock);
	count_lost(trouble.rest + trouble.rest_at, trouble.rest_len, &trouble.lost);
	trouble.rest_len = 0;
	pthread_mutex_unlock(&trouble.lock);
}

/* With waiting.lock held. */
static void write_waiting(void)
{
	if (waiting.len)
		write_out(atomic_load(&log_fd), waiting.text, waiting.len);
	waiting.len = 0;
}

void log_flush(void)
{
	pthread_mutex_lock(&waiting.lock);
	write_waiting();
	pthread_mutex_unlock(&waiting.lock);
}

static bool stderr_is_journal;

int log_in_crash(const char **priority)
{
	if (pthread_mutex_trylock(&waiting.lock) == 0) {
		write_waiting();
		pthread_mutex_unlock(&waiting.lock);
	}
	int fd = atomic_load(&log_fd);
	*priority = fd == STDERR_FILENO && stderr_is_journal ? priorities[LOG_LEVEL_ERROR] : "";
	return fd;
}

static void *write_in_time(void *arg)
{
	(void)arg;
	pthread_mutex_lock(&waiting.lock);
	while (waiting.runs) {
		waiting.rests = !waiting.len;
		while (waiting.runs && !waiting.len)
			pthread_cond_wait(&waiting.changed, &waiting.lock);
		waiting.rests = false;
		for (int64_t until = clock_now() + delay;
		        waiting.runs && clock_wait(&waiting.changed, &waiting.lock, until);)
			;
		write_waiting();
	}
	pthread_mutex_unlock(&waiting.lock);
	return NULL;
}

void log_gather(void)
{
	pthread_mutex_lock(&waiting.lock);
	clock_condition_init(&waiting.changed);
	waiting.runs = pthread_create(&waiting.thread, NULL, write_in_time, NULL) == 0;
	if (waiting.runs)
		pthread_setname_np(waiting.thread, "log");
	pthread_mutex_unlock(&waiting.lock);
}

void log_gather_end(void)
{
	pthread_mutex_lock(&waiting.lock);
	bool ran = waiting.runs;
	waiting.runs = false;
	pthread_cond_signal(&waiting.changed);
	pthread_mutex_unlock(&waiting.lock);
	if (ran)
		pthread_join(waiting.thread, NULL);
}

enum err log_open(const char *path, enum log_level level, struct error *e)
{
	bool file = path && *path;
	int fd = file ? open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC | O_NOCTTY, 0640) : STDERR_FILENO;
	if (fd < 0)
		return error_set(e, errno == ENOSPC ? ERR_IO : ERR_CONFIG, "%s: %s", path, strerror(errno));
	log_flush();
	int failed = file_fd >= 0 && dup3(fd, file_fd, O_CLOEXEC) < 0 ? errno : 0;
	if (file && file_fd >= 0)
		close(fd);
	else if (file)
		file_fd = fd;
	if (failed)
		return error_set(e, ERR_IO, "log: dup3: %s", strerror(failed));
	forget_trouble();
	atomic_store(&log_fd, file ? file_fd : STDERR_FILENO);
	atomic_store(&log_level, level);
	return ERR_OK;
}

enum err log_check(const char *path, struct error *e)
{
	struct stat st;
	if (!path || !*path)
		return ERR_OK;
	if (stat(path, &st) < 0)
		return folder_check(path, "log_file", e);
	int failed = S_ISDIR(st.st_mode) ? EISDIR : access(path, W_OK) < 0 ? errno : 0;
	return failed ? error_set(e, ERR_CONFIG, "log_file: %.150s: %s", path, strerror(failed)) : ERR_OK;
}

static size_t room(const struct log_line *l)
{
	return LINE_ROOM - l->len;
}

/* Appends the bytes unchanged, all or none. */
static bool put_bytes(struct log_line *l, const void *text, size_t n)
{
	if (n > room(l)) {
		l->cut = true;
		return false;
	}
	memcpy(l->text + l->len, text, n);
	l->len += (unsigned)n;
	return true;
}

/* How many bytes of value, in whole characters, fit into `space` bytes when they are escaped. */
static size_t fitting(struct str value, size_t space)
{
	const uint8_t *p = (const uint8_t *)value.data;
	size_t n = 0, used = 0;
	while (n < value.len) {
		unsigned step = utf8_sequence(p + n, value.len - n);
		step = step ? step : 1;
		used += json_escaped_length(p + n, step);
		if (used > space)
			break;
		n += step;
	}
	return n;
}

static bool put_key(struct log_line *l, const char *key)
{
	return put_bytes(l, ",\"", 2) && put_bytes(l, key, strlen(key)) && put_bytes(l, "\":", 2);
}

/* value / whole as ".123", where whole is 1000 for three digits. */
static uint8_t *put_fraction(uint8_t *at, uint64_t value, uint64_t whole)
{
	uint8_t *end = put_decimal(at, whole + value);
	*at = '.'; /* in place of the leading 1 */
	return end;
}

/* systemd tells us the journal's device and inode; standard error may have been redirected since. */
static void look_for_journal(void)
{
	unsigned long long device, inode;
	struct stat st;
	const char *stream = getenv("JOURNAL_STREAM");
	stderr_is_journal = stream && sscanf(stream, "%llu:%llu", &device, &inode) == 2 &&
	                    fstat(STDERR_FILENO, &st) == 0 && st.st_dev == device && st.st_ino == inode;
}

static const char *priority_of(int fd, enum log_level level)
{
	static pthread_once_t looked = PTHREAD_ONCE_INIT;
	pthread_once(&looked, look_for_journal);
	return fd == STDERR_FILENO && stderr_is_journal ? priorities[level] : "";
}

static void begin_line(struct log_line *l, int fd, enum log_level level, const char *event)
{
	l->len = 0;
	l->fd = fd;
	l->cut = false;
	if ((int)level > atomic_load_explicit(&log_level, memory_order_relaxed))
		return;
	struct timespec now;
	struct tm utc;
	clock_gettime(CLOCK_REALTIME, &now);
	gmtime_r(&now.tv_sec, &utc);
	const char *priority = priority_of(fd, level);
	uint8_t *at = put_text((uint8_t *)l->text, priority, strlen(priority));
	at += strftime((char *)at, 64, "{\"time\":\"%Y-%m-%dT%H:%M:%S", &utc);
	at = PUT(put_fraction(at, (uint64_t)now.tv_nsec / MS, 1000), "Z\",\"level\":\"");
	at = PUT(put_text(at, levels[level], strlen(levels[level])), "\"");
	l->len = (unsigned)(at - (uint8_t *)l->text);
	log_str(l, "event", str_from(event));
}

void log_begin(struct log_line *l, enum log_level level, const char *event)
{
	begin_line(l, atomic_load_explicit(&log_fd, memory_order_relaxed), level, event);
}

/* DEL and the control characters U+0080 to U+009F become question marks: JSON allows them, but a terminal may act on
 * them. */
static void make_harmless(char *text, size_t n)
{
	uint8_t *p = (uint8_t *)text;
	for (size_t i = 0; i < n; i++) {
		bool control = p[i] == 0xc2 && i + 1 < n && p[i + 1] < 0xa0;
		if (control || p[i] == 0x7f)
			p[i] = '?';
		if (control)
			p[++i] = '?';
	}
}

void log_str(struct log_line *l, const char *key, struct str value)
{
	unsigned before = l->len;
	if (!l->len)
		return;
	if (!put_key(l, key) || room(l) < 2) {
		/* A key without a value would spoil the line. */
		l->len = before;
		l->cut = true;
		return;
	}
	size_t space = room(l) - 2;
	size_t n = value.len <= space / 6 ? value.len : fitting(value, space);
	l->cut |= n < value.len;
	l->text[l->len++] = '"';
	size_t written = json_escape((uint8_t *)l->text + l->len, (const uint8_t *)value.data, n);
	make_harmless(l->text + l->len, written);
	l->len += (unsigned)written;
	l->text[l->len++] = '"';
}

/* A number is written whole or not at all. */
static void put_number(struct log_line *l, const char *key, const uint8_t *digits, const uint8_t *end)
{
	unsigned before = l->len;
	if (!put_key(l, key) || !put_bytes(l, digits, (size_t)(end - digits)))
		l->len = before;
}

static uint64_t amount_of(int64_t value)
{
	return value < 0 ? -(uint64_t)value : (uint64_t)value;
}

static uint8_t *put_sign(uint8_t *at, int64_t value)
{
	return value < 0 ? PUT(at, "-") : at;
}

void log_int(struct log_line *l, const char *key, int64_t value)
{
	uint8_t digits[24];
	if (l->len)
		put_number(l, key, digits, put_decimal(put_sign(digits, value), amount_of(value)));
}

void log_seconds(struct log_line *l, const char *key, int64_t nanoseconds)
{
	uint8_t digits[32];
	uint64_t us = amount_of(nanoseconds) / 1000;
	if (!l->len)
		return;
	uint8_t *point = put_decimal(put_sign(digits, nanoseconds), us / 1000000);
	put_number(l, key, digits, put_fraction(point, us % 1000000, 1000000));
}

/* Returns the length of the whole line; 0: the level is not logged. */
static size_t end_line(struct log_line *l)
{
	const char *end = l->cut ? end_cut : end_whole;
	size_t n = strlen(end), len = l->len;
	memcpy(l->text + l->len, end, n);
	l->len = 0;
	return len ? len + n : 0;
}

/* A line into out, which has room for one; returns its length. */
static size_t lost_line(char *out, int fd, enum log_level level, const char *format, ...)
{
	char text[200];
	struct log_line l;
	va_list args;
	va_start(args, format);
	vsnprintf(text, sizeof text, format, args);
	va_end(args);
	begin_line(&l, fd, level, "log");
	log_str(&l, "text", str_from(text));
	size_t len = end_line(&l);
	memcpy(out, l.text, len);
	return len;
}

/* One write, so that lines of several threads and processes do not mix. */
void log_end(struct log_line *l)
{
	size_t len = end_line(l);
	if (!len)
		return;
	pthread_mutex_lock(&waiting.lock);
	write_waiting();
	write_out(l->fd, l->text, len);
	pthread_mutex_unlock(&waiting.lock);
}

void log_end_later(struct log_line *l)
{
	size_t len = end_line(l);
	if (!len)
		return;
	char full[sizeof waiting.text];
	size_t full_len = 0;
	pthread_mutex_lock(&waiting.lock);
	if (waiting.len + len > sizeof waiting.text) {
		memcpy(full, waiting.text, full_len = waiting.len);
		waiting.len = 0;
	}
	memcpy(waiting.text + waiting.len, l->text, len);
	waiting.len += len;
	bool runs = waiting.runs, rests = waiting.rests;
	if (!runs)
		write_waiting();
	pthread_mutex_unlock(&waiting.lock);
	/* Not with the lock: other requests would wait for the file. */
	if (full_len)
		write_out(atomic_load(&log_fd), full, full_len);
	if (runs && rests)
		pthread_cond_signal(&waiting.changed);
}

void log_event(enum log_level level, const char *event, const char *format, ...)
{
	char text[1024];
	struct log_line l;
	va_list args;
	log_begin(&l, level, event);
	if (!l.len)
		return;
	va_start(args, format);
	int n = vsnprintf(text, sizeof text, format, args);
	va_end(args);
	l.cut = n >= (int)sizeof text;
	log_str(&l, "text", str_from(n < 0 ? "" : text));
	log_end(&l);
}

static void write_text(int fd, enum log_level level, const char *event, const char *text)
{
	struct log_line l;
	begin_line(&l, fd, level, event);
	log_str(&l, "text", str_from(text));
	log_end(&l);
}

static bool plainly;

void log_plainly(void)
{
	plainly = true;
}

void log_outcome(enum log_level level, const char *event, const char *text)
{
	int fd = atomic_load(&log_fd);
	if (plainly || isatty(STDERR_FILENO))
		fprintf(stderr, "symbolicated: %s%s\n", level == LOG_LEVEL_WARNING ? "warning: " : "", text);
	else
		write_text(STDERR_FILENO, level, event, text);
	if (fd != STDERR_FILENO)
		write_text(fd, level, event, text);
}
