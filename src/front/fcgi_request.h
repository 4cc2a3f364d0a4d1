/* SPDX-License-Identifier: Apache-2.0 */
/* libfcgi, one request at a time, on connections that somebody else accepts and polls. Nothing else knows libfcgi. */
#ifndef FRONT_FCGI_REQUEST_H
#define FRONT_FCGI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
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
/* NULL if there is none. Valid until the request is finished or dropped. */
const char *fcgi_request_param(const struct fcgi_request *r, const char *name);
/* Reads some of the body, waiting for at least a byte. 0 at its end; -1 on failure: the peer went away, or was silent
 * for the connection's SO_RCVTIMEO. */
ssize_t fcgi_request_read(struct fcgi_request *r, void *to, size_t n);
/* Sends the reply: its head, ending in an empty line, then its body of `length` bytes, piece by piece. Everything is
 * sent at the latest when the request is finished. False: the peer does not accept it, nothing more may be written, and
 * the connection will be closed. A body that is still being sent at the deadline is cut off. */
bool fcgi_request_write_head(struct fcgi_request *r, const void *head, size_t head_len, uint64_t length);
bool fcgi_request_write_body(struct fcgi_request *r, const struct iovec *body, unsigned parts, int64_t deadline);

/* Ends the reply. Returns the connection if it can carry another request, else -1: it is closed. Unless keep is false
 * the body has been read to its end. */
int fcgi_request_finish(struct fcgi_request *r, bool keep);
/* Closes the connection without a reply, or in the middle of one. */
void fcgi_request_drop(struct fcgi_request *r);

#endif
