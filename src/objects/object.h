/* SPDX-License-Identifier: Apache-2.0 */
/* What transfers, buckets and the store of symbfiles share: where the bytes of an object go, within which limits, and
 * the outcome. */
#ifndef OBJECTS_OBJECT_H
#define OBJECTS_OBJECT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/config.h"
#include "base/str.h"

/* Where the text goes: space() returns room for at least one byte, commit() says how many bytes were put there.
 * Returning NULL or false aborts the transfer. The sink cannot tell packed objects from plain ones. */
struct bucket_sink {
	uint8_t *(*space)(void *arg, size_t *room);
	bool (*commit)(void *arg, size_t n);
	/* Instead of both takes a plain file of a directory where it is, by a descriptor of its own. False: its text is
	 * wanted. May be NULL. */
	bool (*file)(void *arg, int fd);
	void *arg;
};

/* What a source says of an object before its bytes come. */
enum { BUCKET_ETAG = 128 };
struct bucket_head {
	bool sized;
	uint64_t length;        /* if it is sized: bytes as they are stored */
	char etag[BUCKET_ETAG]; /* as the source sends it, with its quotes; empty: none */
	bool page;              /* HTML, as its Content-Type says */
};
/* Where an object goes as it is stored: begin (may be NULL) once, then add for each piece. Returning false aborts the
 * transfer. How long add takes counts towards no limit: it may wait for somebody who reads slowly. */
struct bucket_raw_sink {
	bool (*begin)(void *arg, const struct bucket_head *head);
	bool (*add)(void *arg, const uint8_t *data, size_t len);
	void *arg;
};

enum bucket_outcome {
	BUCKET_OK,
	BUCKET_MISSING,   /* 404, 410, 400, 414, 451, 403 without credentials; fewer for S3 (s3.h); no such file */
	BUCKET_FAILED,    /* timeout, refused, TLS, 5xx, 429, other 4xx, short or broken transfer: temporary */
	BUCKET_BROKEN,    /* completely received, but its gzip or zstd is bad or ends early: counts as corrupt */
	BUCKET_TOO_LARGE, /* above bucket_max_size inflated: counts as corrupt */
	BUCKET_ABORTED,   /* by the sink or *cancel */
};

struct bucket_result {
	enum bucket_outcome outcome;
	int status; /* HTTP status, or 0 */
	uint64_t wire_bytes, text_bytes;
	int64_t elapsed;   /* nanoseconds */
	bool length_known; /* Content-Length, the last chunk, the end of its gzip or zstd, or the file's size told where
	                      the object ends */
	bool begun;        /* a raw sink has the head */
	char text[200];    /* about a failure, without secrets */
};

/* Sets outcome and text, and returns the outcome. */
enum bucket_outcome bucket_result_set(struct bucket_result *r, enum bucket_outcome outcome, const char *format, ...)
        __attribute__((format(printf, 3, 4)));

/* The settings that matter for a transfer, copied from the configuration. Times are nanoseconds, sizes bytes. */
struct bucket_limits {
	int64_t connect_timeout, stall_timeout, total_timeout;
	uint64_t max_size;
	bool allow_local_redirects;
};

struct bucket_limits bucket_limits_of(const struct config *c);

/* What a listing reports: an object's path below the listed one, its size, and the time when it was stored, in
 * nanoseconds since 1970, in whole seconds if the store has no finer time. False to stop. */
typedef bool store_found(void *arg, struct str path, uint64_t size, int64_t time);
/* Waits before another try: 150 to 250 ms, at random, so that tries of several hosts do not coincide; twice as long
 * for each try that has already been made again, up to four times. */
void bucket_pause(uint64_t again);

#endif
