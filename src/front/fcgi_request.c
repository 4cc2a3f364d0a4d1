/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "front/fcgi_request.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fastcgi.h>
#include <fcgiapp.h>

struct fcgi_request {
	/* ipcFd and keepConnection are marked as internal. There is no other way to hand libfcgi a connection; they
	 * have kept their meaning for twenty years, and test_front fails if that changes. */
	FCGX_Request lib;
};

bool fcgi_library_init(void)
{
	return FCGX_Init() == 0;
}

struct fcgi_request *fcgi_request_new(void)
{
	struct fcgi_request *r = calloc(1, sizeof *r);
	if (!r)
		return NULL;
	/* No listener: libfcgi accepts nothing by itself. */
	if (FCGX_InitRequest(&r->lib, -1, 0) == 0)
		return r;
	free(r);
	return NULL;
}

void fcgi_request_free(struct fcgi_request *r)
{
	free(r);
}

bool fcgi_request_accept(struct fcgi_request *r, int fd)
{
	r->lib.ipcFd = fd;
	/* Otherwise the connection would be closed as that of the previous request. */
	r->lib.keepConnection = 1;
	/* When libfcgi closes it, it does so at once, without waiting for the peer to do the same. */
	FCGX_Detach(&r->lib);
	if (FCGX_Accept_r(&r->lib) < 0)
		return false;
	/* libfcgi takes an error between two parameters for their end. */
	if (r->lib.role == FCGI_RESPONDER && FCGX_GetError(r->lib.in) == 0)
		return true;
	fcgi_request_shut(r);
	fcgi_request_finish(r, false);
	return false;
}

int fcgi_request_fd(const struct fcgi_request *r)
{
	return r->lib.ipcFd;
}

const char *fcgi_request_param(const struct fcgi_request *r, const char *name)
{
	return FCGX_GetParam(name, r->lib.envp);
}

ssize_t fcgi_request_read(struct fcgi_request *r, void *to, size_t n)
{
	FCGX_Stream *in = r->lib.in;
	char *out = to;
	if (n == 0)
		return 0;
	int c = FCGX_GetChar(in);
	if (c < 0)
		return FCGX_GetError(in) ? -1 : 0;
	out[0] = (char)c;
	/* Only what is in libfcgi's buffer: nobody should wait for a full buffer from a peer that sends byte by byte.
	 */
	size_t more = (size_t)(in->stop - in->rdNext);
	more = more < n - 1 ? more : n - 1;
	return 1 + FCGX_GetStr(out + 1, (int)more, in);
}

/* The reply bypasses libfcgi, which makes a system call of every 8 KiB, and one more of the end. */
enum {
	RECORD_MAX = 65528, /* of content; a multiple of 8, so no padding */
	RECORDS = 16,       /* in one call */
	PIECES = 256,       /* headers included */
};

/* The pieces of one writev. */
struct batch {
	unsigned char headers[RECORDS][FCGI_HEADER_LEN], end[2 * FCGI_HEADER_LEN + sizeof(FCGI_EndRequestBody)];
	struct iovec pieces[PIECES];
	unsigned records, count;
};

/* What is still to be sent: the rest of one part, then further parts. */
struct cursor {
	struct iovec rest;
	const struct iovec *next;
	unsigned parts;
};

static void put_header(unsigned char h[FCGI_HEADER_LEN], unsigned char type, int id, size_t length)
{
	h[0] = FCGI_VERSION_1;
	h[1] = type;
	h[2] = (unsigned char)(id >> 8);
	h[3] = (unsigned char)id;
	h[4] = (unsigned char)(length >> 8);
	h[5] = (unsigned char)length;
	h[6] = h[7] = 0; /* padding, reserved */
}

/* The next bytes, at most max; 0: all are taken. */
static size_t take_piece(struct cursor *c, size_t max, struct iovec *piece)
{
	for (; c->rest.iov_len == 0 && c->parts; c->parts--)
		c->rest = *c->next++;
	size_t n = c->rest.iov_len < max ? c->rest.iov_len : max;
	if (n == 0)
		return 0;
	*piece = (struct iovec){c->rest.iov_base, n};
	c->rest.iov_base = (char *)c->rest.iov_base + n;
	c->rest.iov_len -= n;
	return n;
}

/* Adds one record; false: all is taken. */
static bool take_record(struct batch *b, struct cursor *c, int id)
{
	unsigned char *header = b->headers[b->records];
	unsigned first = b->count;
	size_t length = 0, n;
	b->pieces[b->count++] = (struct iovec){header, FCGI_HEADER_LEN};
	while (length < RECORD_MAX && b->count < PIECES - 1) {
		n = take_piece(c, RECORD_MAX - length, &b->pieces[b->count]);
		if (n == 0)
			break;
		length += n;
		b->count++;
	}
	if (length == 0) {
		b->count = first;
		return false;
	}
	put_header(header, FCGI_STDOUT, id, length);
	b->records++;
	return true;
}

/* Adds the end of the reply: an empty record of its stream, and that of the request, whose status is 0. */
static void take_end(struct batch *b, int id)
{
	put_header(b->end, FCGI_STDOUT, id, 0);
	put_header(b->end + FCGI_HEADER_LEN, FCGI_END_REQUEST, id, sizeof(FCGI_EndRequestBody));
	memset(b->end + 2 * FCGI_HEADER_LEN, 0, sizeof(FCGI_EndRequestBody));
	b->pieces[b->count++] = (struct iovec){b->end, sizeof b->end};
}

/* Skips the first `done` bytes of what is left. */
static void skip_written(struct iovec **piece, unsigned *count, size_t done)
{
	while (*count && done >= (*piece)->iov_len) {
		done -= (*piece)->iov_len;
		++*piece;
		--*count;
	}
	if (*count) {
		(*piece)->iov_base = (char *)(*piece)->iov_base + done;
		(*piece)->iov_len -= done;
	}
}

/* The bytes that the socket takes at once; -1: the peer has gone. On its own because of errno, as fiber.h says. */
static __attribute__((noinline)) ssize_t send_some(int fd, struct iovec *piece, unsigned count)
{
	struct msghdr m = {.msg_iov = piece, .msg_iovlen = count};
	ssize_t n = sendmsg(fd, &m, MSG_DONTWAIT | MSG_NOSIGNAL);
	return n < 0 && (errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR) ? 0 : n;
}

static bool write_batch(int fd, struct batch *b, const struct fcgi_waiter *w)
{
	struct iovec *piece = b->pieces;
	unsigned count = b->count;
	while (count) {
		ssize_t n = send_some(fd, piece, count);
		if (n < 0)
			return false;
		skip_written(&piece, &count, (size_t)n);
		if (count && !w->wait(w->arg, (size_t)n))
			return false;
	}
	return true;
}

bool fcgi_request_write(struct fcgi_request *r, struct iovec head, const struct iovec *body, unsigned parts, bool last,
        const struct fcgi_waiter *w)
{
	struct cursor c = {head, body, parts};
	struct batch b;
	bool more = true, good = true;
	while (more && good) {
		b.records = b.count = 0;
		/* A record needs one piece for its header and one for its content; the end needs one. */
		while (more && b.records < RECORDS && b.count < PIECES - 2)
			more = take_record(&b, &c, r->lib.requestId);
		if (!more && last)
			take_end(&b, r->lib.requestId);
		good = write_batch(r->lib.ipcFd, &b, w);
	}
	/* Half a record may have been sent. */
	if (!good)
		fcgi_request_shut(r);
	return good;
}

void fcgi_request_shut(struct fcgi_request *r)
{
	shutdown(r->lib.ipcFd, SHUT_RDWR);
}

int fcgi_request_finish(struct fcgi_request *r, bool keep)
{
	int fd = r->lib.ipcFd;
	keep = keep && r->lib.keepConnection && FCGX_GetError(r->lib.in) == 0;
	/* Not FCGX_Finish_r, which would write the end of the reply. */
	FCGX_Free(&r->lib, 0);
	r->lib.ipcFd = -1;
	if (!keep) {
		close(fd);
		fd = -1;
	}
	return fd;
}
