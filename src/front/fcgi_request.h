/* SPDX-License-Identifier: Apache-2.0 */
/* libfcgi, one request at a time, on connections that somebody else accepts and polls. Nothing else knows libfcgi. */
#ifndef FRONT_FCGI_REQUEST_H
#define FRONT_FCGI_REQUEST_H

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fcgi_request;

/* Call once, before there are threads. libfcgi installs signal handlers; the process installs its own afterwards. */
bool fcgi_library_init(void);

/* NULL if out of memory. Can be reused for one request after another. */
struct fcgi_request *fcgi_request_new(void);
/* It must not carry a request. */
void fcgi_request_free(struct fcgi_request *r);

/* Reads a request up to its parameters from a readable connection. False: the peer went away or sent nonsense, and the
 * connection is closed. Only one thread at a time may use a request, but not always the same one. */
bool fcgi_request_accept(struct fcgi_request *r, int fd);
/* The connection. */
int fcgi_request_fd(const struct fcgi_request *r);
/* NULL if there is none. Valid until the request is finished. */
const char *fcgi_request_param(const struct fcgi_request *r, const char *name);
/* Reads some of the body, waiting for at least a byte. 0 at its end; -1 on failure: the peer went away, or was silent
 * for the connection's SO_RCVTIMEO. */
ssize_t fcgi_request_read(struct fcgi_request *r, void *to, size_t n);
/* Waits until a connection takes more; `taken`: the bytes that it took since the reply began. False: gives it up. */
struct fcgi_waiter {
	bool (*wait)(void *arg, uint64_t taken);
	void *arg;
};
/* Sends a piece of the reply: `head`, which begins it and ends in an empty line, or nothing, then more of its body.
 * With `last` the reply ends here; one that is cut short has none. False: the peer has gone or was given up, nothing
 * more may be written, and the connection will be closed. */
bool fcgi_request_write(
        struct fcgi_request *r, struct iovec head, struct iovec body, bool last, const struct fcgi_waiter *w);

/* Nothing more is sent or received. */
void fcgi_request_shut(struct fcgi_request *r);

/* Lets go of the request. Returns the connection if it can carry another one, else -1: it is closed. Unless keep is
 * false, the body has been read to its end and the last piece of the reply is written. */
int fcgi_request_finish(struct fcgi_request *r, bool keep);

#endif
