/* SPDX-License-Identifier: Apache-2.0 */
/* libfcgi, one request at a time, on connections that somebody else accepted and waits for. Nobody else knows libfcgi.
 */
#ifndef FCGI_REQUEST_H
#define FCGI_REQUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>
#include <sys/uio.h>

struct fcgi_request;

/* Once, before there are threads. libfcgi takes signal handlers for itself: the process's own are installed afterwards.
 */
bool fcgi_library_init(void);

/* NULL without memory. May be used for one request after the other. */
struct fcgi_request *fcgi_request_new(void);
/* It carries no request. */
void fcgi_request_free(struct fcgi_request *r);

/* Reads a request up to its parameters from a connection that is readable. False: its peer went away or spoke nonsense,
 * and the connection is closed. Only one thread at a time may use a request, but not always the same one. */
bool fcgi_request_accept(struct fcgi_request *r, int fd);
/* The connection. */
int fcgi_request_fd(const struct fcgi_request *r);
/* NULL when there is none. Lives until the request is finished or dropped. */
const char *fcgi_request_param(const struct fcgi_request *r, const char *name);
/* Some of the body, waiting for at least a byte of it. 0 is its end, -1 a broken one: the peer went away, or was silent
 * for as long as the connection's SO_RCVTIMEO. */
ssize_t fcgi_request_read(struct fcgi_request *r, void *to, size_t n);
/* The reply: its head, ended by an empty line, and then its body of `length` bytes, piece by piece. What was given is
 * out, or will be when the request is finished; false: the peer does not take it, nothing more may be written, and the
 * connection will be closed. A body that is still being written at deadline is broken off. */
bool fcgi_request_write_head(struct fcgi_request *r, const void *head, size_t head_len, uint64_t length);
bool fcgi_request_write_body(struct fcgi_request *r, const struct iovec *body, unsigned parts, int64_t deadline);

/* Ends the reply. Returns the connection when it can carry another request, else -1: it is closed. The body has been
 * read to its end, or keep is false. */
int fcgi_request_finish(struct fcgi_request *r, bool keep);
/* Closes the connection without a reply, or with one that was cut short. */
void fcgi_request_drop(struct fcgi_request *r);

#endif
