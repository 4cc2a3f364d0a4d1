/* SPDX-License-Identifier: Apache-2.0 */
/* Structured log: one line of JSON for each event, on standard error or in a file. Safe from any thread. When standard
 * error is the journal (JOURNAL_STREAM), each line starts with its priority "<N>", which journald strips. */
#ifndef BASE_LOG_H
#define BASE_LOG_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum log_level { LOG_LEVEL_ERROR, LOG_LEVEL_WARNING, LOG_LEVEL_INFO, LOG_LEVEL_DEBUG };

/* path NULL or empty: standard error. Called again (SIGHUP) it reopens the file. */
enum err log_open(const char *path, enum log_level level, struct error *e);

/* Checks that log_open could open this file now, without creating it. ERR_CONFIG. */
enum err log_check(const char *path, struct error *e);

/* An event that belongs to no request: {"time":"2026-11-21T12:00:00.123Z","level":"warning","event":EVENT,"text":"..."}
 */
void log_event(enum log_level level, const char *event, const char *format, ...) __attribute__((format(printf, 3, 4)));

/* What a process says when it fails to start or only checks its settings: on standard error, as plain text if that is a
 * terminal or log_plainly was called, and in the log if that is a file. */
void log_outcome(enum log_level level, const char *event, const char *text);
/* A person reads it. */
void log_plainly(void);

/* A line built field by field on the caller's stack. Values are escaped. */
struct log_line {
	char text[2048];
	unsigned len; /* 0: the level is not logged */
	int fd;
	bool cut; /* something did not fit; the line ends with "cut":true */
};
void log_begin(struct log_line *l, enum log_level level, const char *event);
void log_str(struct log_line *l, const char *key, struct str value);
void log_int(struct log_line *l, const char *key, int64_t value);
void log_seconds(struct log_line *l, const char *key, int64_t nanoseconds);
/* Writes it, behind those that wait. */
void log_end(struct log_line *l);
/* The same, but together with others, at most a tenth of a second later. */
void log_end_later(struct log_line *l);
/* From now on lines may wait; the process must call log_gather_end, and before _exit log_flush. */
void log_gather(void);
void log_gather_end(void);
/* Writes the lines that wait. */
void log_flush(void);
/* For the handler of a signal that ends the process: writes the lines that wait, unless a thread is at them; returns
 * the log's descriptor, and how the line of an error begins there. */
int log_in_crash(const char **priority);

#endif
