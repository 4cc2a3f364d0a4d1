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
	uint64_t taken; /* bytes of the reply */
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
	r->taken = 0;
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
	/* a header and some content for each record; one has more of the head and of the body; the end */
	PIECES = 2 * RECORDS + 2,
};

/* The pieces of one writev. */
struct batch {
	unsigned char headers[RECORDS][FCGI_HEADER_LEN], end[2 * FCGI_HEADER_LEN + sizeof(FCGI_EndRequestBody)];
	struct iovec pieces[PIECES];
	unsigned records, count;
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

/* Adds one record of what is left of the head and the body; false: nothing is. */
static bool take_record(struct batch *b, struct iovec left[2], int id)
{
	unsigned char *header = b->headers[b->records];
	unsigned count = b->count + 1;
	size_t length = 0;
	for (unsigned i = 0; i < 2; i++) {
		size_t room = RECORD_MAX - length, n = left[i].iov_len < room ? left[i].iov_len : room;
		if (n == 0)
			continue;
		b->pieces[count++] = (struct iovec){left[i].iov_base, n};
		left[i] = (struct iovec){(char *)left[i].iov_base + n, left[i].iov_len - n};
		length += n;
	}
	if (length == 0)
		return false;
	put_header(header, FCGI_STDOUT, id, length);
	b->pieces[b->count] = (struct iovec){header, FCGI_HEADER_LEN};
	b->count = count;
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

static bool write_batch(struct fcgi_request *r, struct batch *b, const struct fcgi_waiter *w)
{
	struct iovec *piece = b->pieces;
	unsigned count = b->count;
	while (count) {
		ssize_t n = send_some(r->lib.ipcFd, piece, count);
		if (n < 0)
			return false;
		r->taken += (size_t)n;
		skip_written(&piece, &count, (size_t)n);
		if (count && !w->wait(w->arg, r->taken))
			return false;
	}
	return true;
}

bool fcgi_request_write(
        struct fcgi_request *r, struct iovec head, struct iovec body, bool last, const struct fcgi_waiter *w)
{
	struct iovec left[2] = {head, body};
	struct batch b;
	bool more = true, good = true;
	while (more && good) {
		b.records = b.count = 0;
		while (more && b.records < RECORDS)
			more = take_record(&b, left, r->lib.requestId);
		if (!more && last)
			take_end(&b, r->lib.requestId);
		good = write_batch(r, &b, w);
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
