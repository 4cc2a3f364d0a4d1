/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "fcgi_client.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

enum { BEGIN = 1, END = 3, PARAMS = 4, IN = 5, OUT = 6, HEAD = 8, RECORD = 32000, WAIT = 60 };

int client_connect(const char *path)
{
	struct sockaddr_un address = {.sun_family = AF_UNIX};
	struct timeval wait = {.tv_sec = WAIT};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (fd < 0)
		return -1;
	setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &wait, sizeof wait);
	setsockopt(fd, SOL_SOCKET, SO_SNDTIMEO, &wait, sizeof wait);
	snprintf(address.sun_path, sizeof address.sun_path, "%s", path);
	if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
		return fd;
	close(fd);
	return -1;
}

bool client_send_raw(int fd, const void *data, size_t n)
{
	const char *at = data;
	while (n) {
		ssize_t done = send(fd, at, n, MSG_NOSIGNAL);
		if (done < 0 && errno == EINTR)
			continue;
		if (done <= 0)
			return false;
		at += done;
		n -= (size_t)done;
	}
	return true;
}

static void put_head(uint8_t *h, unsigned type, unsigned id, size_t length)
{
	h[0] = 1;
	h[1] = (uint8_t)type;
	h[2] = (uint8_t)(id >> 8);
	h[3] = (uint8_t)id;
	h[4] = (uint8_t)(length >> 8);
	h[5] = (uint8_t)length;
	h[6] = h[7] = 0;
}

static size_t put_length(uint8_t *to, size_t n)
{
	if (n < 128) {
		to[0] = (uint8_t)n;
		return 1;
	}
	to[0] = (uint8_t)(n >> 24 | 0x80);
	to[1] = (uint8_t)(n >> 16);
	to[2] = (uint8_t)(n >> 8);
	to[3] = (uint8_t)n;
	return 4;
}

static size_t put_param(uint8_t *to, const char *name, const char *value)
{
	size_t a = strlen(name), b = strlen(value), n = put_length(to, a);
	n += put_length(to + n, b);
	memcpy(to + n, name, a);
	memcpy(to + n + a, value, b);
	return n + a + b;
}

/* BEGIN and all PARAMS, in one piece. */
static size_t put_start(uint8_t *to, const struct client_request *q, unsigned id)
{
	char length[32];
	uint8_t *params = to + HEAD + 8 + HEAD;
	size_t n = 0;
	put_head(to, BEGIN, id, 8);
	memcpy(to + HEAD, "\0\1\0\0\0\0\0\0", 8);
	to[HEAD + 2] = !q->close;
	snprintf(length, sizeof length, "%zu", q->body_len);
	n += put_param(params + n, "REQUEST_METHOD", q->method);
	n += put_param(params + n, "REQUEST_URI", q->uri);
	n += put_param(params + n, "CONTENT_LENGTH", q->length ? q->length : length);
	for (unsigned i = 0; i < CLIENT_PARAMS && q->params[i][0]; i++)
		n += put_param(params + n, q->params[i][0], q->params[i][1]);
	put_head(to + HEAD + 8, PARAMS, id, n);
	put_head(params + n, PARAMS, id, 0);
	return HEAD + 8 + HEAD + n + HEAD;
}

bool client_send(int fd, const struct client_request *q)
{
	static _Thread_local uint8_t start[RECORD];
	uint8_t head[HEAD];
	unsigned id = q->id ? q->id : 1;
	bool good = client_send_raw(fd, start, put_start(start, q, id));
	for (size_t at = 0; good && at < q->body_len;) {
		size_t n = q->body_len - at < RECORD ? q->body_len - at : RECORD;
		put_head(head, IN, id, n);
		good = client_send_raw(fd, head, HEAD) && client_send_raw(fd, (const char *)q->body + at, n);
		at += n;
	}
	put_head(head, IN, id, 0);
	return good && (q->no_end || client_send_raw(fd, head, HEAD));
}

static bool read_all(int fd, void *to, size_t n, unsigned pause)
{
	char *at = to;
	while (n) {
		if (pause)
			usleep(pause);
		ssize_t got = recv(fd, at, n, 0);
		if (got < 0 && errno == EINTR) /* a socket with a timeout is not read on by itself */
			continue;
		if (got <= 0)
			return false;
		at += got;
		n -= (size_t)got;
	}
	return true;
}

static bool make_room(struct client_reply *r, size_t n)
{
	if (r->len + n + 1 <= r->cap)
		return true;
	size_t cap = 2 * (r->len + n + 1);
	char *data = realloc(r->data, cap);
	if (!data)
		return false;
	r->data = data;
	r->cap = cap;
	return true;
}

static void take_apart(struct client_reply *r)
{
	char *end = r->data ? memmem(r->data, r->len, "\r\n\r\n", 4) : NULL;
	if (!end || sscanf(r->data, "Status: %d ", &r->status) != 1) {
		r->status = 0;
		return;
	}
	r->body = end + 4;
	r->body_len = r->len - (size_t)(end + 4 - r->data);
}

void client_read(int fd, struct client_reply *r, unsigned id, unsigned pause)
{
	uint8_t head[HEAD], scrap[256];
	*r = (struct client_reply){.sound = true};
	while (!r->ended && read_all(fd, head, HEAD, 0)) {
		size_t n = (size_t)head[4] << 8 | head[5];
		if (head[0] != 1 || (head[1] != OUT && head[1] != END) || (head[2] << 8 | head[3]) != (int)id)
			r->sound = false;
		if (!make_room(r, n) || !read_all(fd, r->data + r->len, n, pause) || !read_all(fd, scrap, head[6], 0))
			break;
		r->ended = head[1] == END;
		r->len += r->ended ? 0 : n;
		r->data[r->len] = 0;
	}
	take_apart(r);
}

bool client_header(const struct client_reply *r, const char *name, char *out, size_t size)
{
	size_t len = strlen(name);
	for (const char *line = r->data; line && r->body && line < r->body;) {
		const char *end = strstr(line, "\r\n");
		if (strncasecmp(line, name, len) == 0 && line[len] == ':') {
			snprintf(out, size, "%.*s", (int)(end - line - (ptrdiff_t)len - 2), line + len + 2);
			return true;
		}
		line = end ? end + 2 : NULL;
	}
	return false;
}

void client_reply_release(struct client_reply *r)
{
	free(r->data);
	*r = (struct client_reply){.data = NULL};
}

bool client_is_closed(int fd)
{
	char c;
	ssize_t n = recv(fd, &c, 1, 0);
	return n == 0 || (n < 0 && errno == ECONNRESET);
}
