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

#include "base/clock.h"

struct fcgi_request {
	/* ipcFd and keepConnection are marked as internal. There is no other way to hand libfcgi a connection; they
	 * have kept their meaning for twenty years, and test_front fails if that changes. */
	FCGX_Request lib;
	bool large; /* the body of the reply bypasses libfcgi */
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
	fcgi_request_drop(r);
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

/* Large bodies bypass libfcgi, which makes a record and a system call of every 8 KiB. */
enum {
	LARGE = 64 * 1024,
	RECORD_MAX = 65528, /* of content; a multiple of 8, so no padding */
	RECORDS = 16,       /* in one call */
	PIECES = 256,       /* headers included */
};

/* The pieces of one writev. */
struct batch {
	unsigned char headers[RECORDS][FCGI_HEADER_LEN];
	struct iovec pieces[PIECES];
	unsigned records, count;
};

/* Where in the body the next record begins. */
struct cursor {
	const struct iovec *part, *end;
	size_t at; /* in *part */
};

static void put_header(unsigned char h[FCGI_HEADER_LEN], int id, size_t length)
{
	h[0] = FCGI_VERSION_1;
	h[1] = FCGI_STDOUT;
	h[2] = (unsigned char)(id >> 8);
	h[3] = (unsigned char)id;
	h[4] = (unsigned char)(length >> 8);
	h[5] = (unsigned char)length;
	h[6] = h[7] = 0; /* padding, reserved */
}

/* The next bytes of the body, at most max; 0 at its end. */
static size_t take_piece(struct cursor *c, size_t max, struct iovec *piece)
{
	while (c->part < c->end && c->at == c->part->iov_len) {
		c->part++;
		c->at = 0;
	}
	if (c->part == c->end)
		return 0;
	size_t n = c->part->iov_len - c->at;
	n = n < max ? n : max;
	*piece = (struct iovec){(char *)c->part->iov_base + c->at, n};
	c->at += n;
	return n;
}

/* Adds one record; false at the end of the body. */
static bool take_record(struct batch *b, struct cursor *c, int id)
{
	unsigned char *header = b->headers[b->records];
	unsigned first = b->count;
	size_t length = 0, n;
	b->pieces[b->count++] = (struct iovec){header, FCGI_HEADER_LEN};
	while (length < RECORD_MAX && b->count < PIECES) {
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
	put_header(header, id, length);
	b->records++;
	return true;
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

/* The descriptor blocks for SO_SNDTIMEO at most; the deadline is for a peer that accepts a little now and then. */
static bool write_batch(int fd, struct batch *b, int64_t deadline)
{
	struct iovec *piece = b->pieces;
	unsigned count = b->count;
	while (count) {
		ssize_t n = writev(fd, piece, (int)count);
		if (n < 0 && errno != EINTR)
			return false;
		skip_written(&piece, &count, n > 0 ? (size_t)n : 0);
		if (count && clock_now() > deadline)
			return false;
	}
	return true;
}

static bool write_large(struct fcgi_request *r, const struct iovec *body, unsigned parts, int64_t deadline)
{
	struct cursor c = {body, body + parts, 0};
	struct batch b;
	do {
		b.records = b.count = 0;
		/* A record needs one entry for its header and one for its content. */
		while (b.records < RECORDS && b.count < PIECES - 1 && take_record(&b, &c, r->lib.requestId))
			;
		if (!write_batch(r->lib.ipcFd, &b, deadline))
			return false;
	} while (b.records);
	return true;
}

static bool put_bytes(struct fcgi_request *r, const void *data, size_t n)
{
	return n == 0 || FCGX_PutStr(data, (int)n, r->lib.out) == (int)n;
}

/* Half a record may have been sent: nothing that libfcgi writes now may follow it. */
static bool written(struct fcgi_request *r, bool good)
{
	if (!good)
		shutdown(r->lib.ipcFd, SHUT_RDWR);
	return good;
}

bool fcgi_request_write_head(struct fcgi_request *r, const void *head, size_t head_len, uint64_t length)
{
	r->large = length > LARGE;
	return written(r, put_bytes(r, head, head_len) && (!r->large || FCGX_FFlush(r->lib.out) == 0));
}

bool fcgi_request_write_body(struct fcgi_request *r, const struct iovec *body, unsigned parts, int64_t deadline)
{
	bool good = true;
	if (r->large)
		return written(r, write_large(r, body, parts, deadline));
	for (unsigned i = 0; i < parts && good; i++)
		good = put_bytes(r, body[i].iov_base, body[i].iov_len);
	return written(r, good);
}

int fcgi_request_finish(struct fcgi_request *r, bool keep)
{
	keep = keep && r->lib.keepConnection;
	r->lib.keepConnection = 1;
	FCGX_Finish_r(&r->lib);
	/* -1 if one of the streams has already seen an error. */
	int fd = r->lib.ipcFd;
	r->lib.ipcFd = -1;
	if (fd >= 0 && !keep) {
		close(fd);
		fd = -1;
	}
	return fd;
}

void fcgi_request_drop(struct fcgi_request *r)
{
	shutdown(r->lib.ipcFd, SHUT_RDWR);
	fcgi_request_finish(r, false);
}
