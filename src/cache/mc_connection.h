/* SPDX-License-Identifier: Apache-2.0 */
/* A connection to a memcached server: bytes out, lines and values in, in large pieces. Every wait is bounded. After
 * anything unclean it is closed, for a later call would read the answer to an earlier one. */
#ifndef CACHE_MC_CONNECTION_H
#define CACHE_MC_CONNECTION_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include "base/str.h"

struct mc_connection {
	int fd;
	bool is_open;
	bool proven;   /* a call over it has succeeded */
	int error;     /* errno of what went wrong last; ETIMEDOUT: there was no answer in time */
	int64_t until; /* clock_now(): nothing is waited for after that; set by the caller */
	uint8_t *data; /* received; what was not yet read is from `from` to `to` */
	size_t cap, from, to;
};

/* The address of a server. */
struct mc_address {
	struct sockaddr_storage to;
	socklen_t len;
};

/* Times in milliseconds; wait_ms bounds each single wait. */
bool mc_connection_open(struct mc_connection *c, const struct mc_address *address, long connect_ms, long wait_ms);
/* Keeps error. */
void mc_connection_close(struct mc_connection *c);

/* Sends all parts, which it changes. Refuses if something has arrived that nobody asked for. */
bool mc_connection_send(struct mc_connection *c, struct iovec *parts, size_t count);
/* The next line, without its end; valid until the next call. */
bool mc_connection_line(struct mc_connection *c, struct str *line);
/* The next len bytes, after which a line must end; valid until the next call. */
bool mc_connection_bytes(struct mc_connection *c, size_t len, const uint8_t **bytes);

#endif
