/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "cache/mc_connection.h"

#include <errno.h>
#include <limits.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	ROOM = 256 << 10,      /* some thirty pages; what is larger grows it until the connection is closed */
	ROOM_LEAST = 32 << 10, /* behind what has arrived, before that is moved to the front */
	LINE_MAX_BYTES = 2048,
	VALUE_MAX = 1 << 30, /* the largest that memcached takes (-I) */
};

static bool failed(struct mc_connection *c, int error)
{
	c->error = error;
	return false;
}

static bool set_timeout(int fd, int which, long ms)
{
	struct timeval t = {.tv_sec = ms / 1000, .tv_usec = ms % 1000 * 1000};
	return setsockopt(fd, SOL_SOCKET, which, &t, sizeof t) == 0;
}

/* The kernel's words for a wait that was over. */
static int reason_of(int error)
{
	return error == EAGAIN || error == EWOULDBLOCK || error == EINPROGRESS ? ETIMEDOUT : error;
}

static bool dial(struct mc_connection *c, const struct mc_address *address, long connect_ms, long wait_ms)
{
	const int on = 1;
	c->fd = socket(address->to.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0)
		return failed(c, errno);
	bool ok = set_timeout(c->fd, SO_SNDTIMEO, connect_ms) &&
	          connect(c->fd, (const struct sockaddr *)&address->to, address->len) == 0 &&
	          set_timeout(c->fd, SO_SNDTIMEO, wait_ms) && set_timeout(c->fd, SO_RCVTIMEO, wait_ms);
	if (!ok) {
		c->error = reason_of(errno);
		close(c->fd);
		return false;
	}
	if (address->to.ss_family != AF_UNIX) {
		setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
		setsockopt(c->fd, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
	}
	return true;
}

bool mc_connection_open(struct mc_connection *c, const struct mc_address *address, long connect_ms, long wait_ms)
{
	if (c->is_open)
		return true;
	*c = (struct mc_connection){.data = malloc(ROOM), .cap = ROOM, .until = INT64_MAX};
	if (!c->data)
		return failed(c, ENOMEM);
	c->is_open = dial(c, address, connect_ms, wait_ms);
	if (!c->is_open) {
		free(c->data);
		c->data = NULL;
	}
	return c->is_open;
}

void mc_connection_close(struct mc_connection *c)
{
	if (!c->is_open)
		return;
	close(c->fd);
	free(c->data);
	*c = (struct mc_connection){.error = c->error};
}

/* Takes n bytes off the parts. */
static void advance(struct iovec **parts, size_t *count, size_t n)
{
	for (; *count && n >= (*parts)->iov_len; (*count)--)
		n -= (*parts)++->iov_len;
	if (*count) {
		(*parts)->iov_base = (uint8_t *)(*parts)->iov_base + n;
		(*parts)->iov_len -= n;
	}
}

bool mc_connection_send(struct mc_connection *c, struct iovec *parts, size_t count)
{
	if (c->from != c->to)
		return failed(c, EPROTO);
	while (count) {
		struct msghdr m = {.msg_iov = parts, .msg_iovlen = count < IOV_MAX ? count : IOV_MAX};
		ssize_t n = sendmsg(c->fd, &m, MSG_NOSIGNAL);
		if (n < 0 && errno != EINTR)
			return failed(c, reason_of(errno));
		if (n > 0)
			advance(&parts, &count, (size_t)n);
		if (count && clock_now() > c->until)
			return failed(c, ETIMEDOUT);
	}
	return true;
}

/* Room for `want` bytes from `from` on, and behind what is there. */
static bool make_room(struct mc_connection *c, size_t want)
{
	if (c->from == c->to)
		c->from = c->to = 0;
	if (c->cap - c->from >= want && c->cap - c->to >= ROOM_LEAST)
		return true;
	memmove(c->data, c->data + c->from, c->to - c->from);
	c->to -= c->from;
	c->from = 0;
	if (c->cap >= want && c->cap > c->to)
		return true;
	uint8_t *bigger = want <= VALUE_MAX ? realloc(c->data, want + ROOM) : NULL;
	if (!bigger)
		return failed(c, ENOMEM);
	c->data = bigger;
	c->cap = want + ROOM;
	return true;
}

/* Receives something; want: how much must fit in all, from `from` on. */
static bool receive(struct mc_connection *c, size_t want)
{
	ssize_t n;
	if (!make_room(c, want))
		return false;
	do {
		if (clock_now() > c->until)
			return failed(c, ETIMEDOUT);
		n = recv(c->fd, c->data + c->to, c->cap - c->to, 0);
	} while (n < 0 && errno == EINTR);
	if (n <= 0)
		return failed(c, n ? reason_of(errno) : ECONNRESET);
	c->to += (size_t)n;
	return true;
}

bool mc_connection_line(struct mc_connection *c, struct str *line)
{
	const uint8_t *end;
	for (size_t seen = 0;
	        !(end = c->from + seen < c->to ? memchr(c->data + c->from + seen, '\n', c->to - c->from - seen)
	                                       : NULL);) {
		seen = c->to - c->from;
		if (seen > LINE_MAX_BYTES)
			return failed(c, EPROTO);
		if (!receive(c, seen + 1))
			return false;
	}
	*line = (struct str){(const char *)c->data + c->from, (size_t)(end - c->data) - c->from};
	c->from += line->len + 1;
	if (!line->len || line->data[line->len - 1] != '\r')
		return failed(c, EPROTO);
	line->len--;
	/* what it says to those above its limit (-c), before it closes */
	return !str_equal(*line, str_from("ERROR Too many open connections")) || failed(c, EUSERS);
}

bool mc_connection_bytes(struct mc_connection *c, size_t len, const uint8_t **bytes)
{
	if (len > VALUE_MAX - 2)
		return failed(c, EPROTO);
	while (c->to - c->from < len + 2)
		if (!receive(c, len + 2))
			return false;
	*bytes = c->data + c->from;
	c->from += len + 2;
	return memcmp(*bytes + len, "\r\n", 2) == 0 || failed(c, EPROTO);
}
