/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "front/exchange_private.h"

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/account.h"
#include "base/clock.h"
#include "base/gzip.h"
#include "base/hex.h"
#include "base/permits.h"
#include "base/process.h"

enum {
	CHUNK = 64 * 1024,
	QUICK_BODY = 64 * 1024, /* a larger one may take longer to arrive */
	BODY_FIRST = 16 * 1024, /* bytes that every body may have, however full memory is */
	/* How much of its arena a request may use: a few times the body for names and texts, and this many bytes for
	   each thing that is counted. */
	ARENA_BODIES = 2,
	ARENA_BASE = 64 << 20,
	ARENA_STACK = 32,
	ARENA_MODULE = 1024,
	ARENA_JOB = 256,
};
struct exchange_private *exchange_new(void)
{
	struct exchange_private *p = calloc(1, sizeof *p);
	if (!p)
		return NULL;
	arena_init(&p->scratch, SIZE_MAX);
	arena_charge(&p->arena, ACCOUNT_BODIES, EXCHANGE_SMALL);
	arena_charge(&p->scratch, ACCOUNT_REPLIES, UINT64_MAX);
	p->fcgi = fcgi_request_new();
	if (p->fcgi)
		return p;
	free(p);
	return NULL;
}

void exchange_free(struct exchange_private *p)
{
	fcgi_request_free(p->fcgi);
	arena_release(&p->arena);
	arena_release(&p->scratch);
	free(p);
}

const char *exchange_param(const struct exchange *x, const char *name)
{
	return fcgi_request_param(exchange_private(x)->fcgi, name);
}

static struct str param(const struct exchange *x, const char *name)
{
	const char *value = exchange_param(x, name);
	return str_from(value ? value : "");
}

/* ---- begin ---- */

static void make_request_id(char out[64])
{
	const uint64_t random[2] = {random_u64(), random_u64()};
	hex_write(out, (const unsigned char *)random, sizeof random);
}

static void choose_request_id(struct exchange *x)
{
	struct str given = param(x, "REQUEST_ID");
	if (str_is_word(given, "_-") && given.len < sizeof x->request_id)
		memcpy(x->request_id, given.data, given.len + 1);
	else
		make_request_id(x->request_id);
}

/* Enough for every request within the limits. The table of settings bounds each term, so the sum fits 64 bits. */
static size_t arena_max(const struct config *c)
{
	uint64_t max = ARENA_BASE + c->max_body_inflated * ARENA_BODIES + c->max_frames * EXCHANGE_FRAME +
	               c->max_stacks * ARENA_STACK + c->max_modules * ARENA_MODULE + c->max_jobs * ARENA_JOB;
	return max < SIZE_MAX ? (size_t)max : SIZE_MAX;
}

bool exchange_begin(struct exchange_private *p, const struct config *c, int fd)
{
	if (!fcgi_request_accept(p->fcgi, fd))
		return false;
	struct exchange *x = &p->x;
	*x = (struct exchange){.config = c, .started = clock_now(), .arena = &p->arena, .scratch = &p->scratch};
	/* Each arena keeps a block of the previous request. */
	p->arena.max = arena_max(c);
	p->bytes_in = p->bytes_out = 0;
	p->body_ended = p->broken = p->keep = false;
	x->method = param(x, "REQUEST_METHOD");
	x->query = param(x, "REQUEST_URI");
	x->path = str_cut(&x->query, '?');
	x->client = client_key_of(exchange_param(x, "REMOTE_ADDR"), (unsigned)c->client_ipv6_prefix);
	p->turn = (struct turn){.client = x->client, .since = x->started};
	choose_request_id(x);
	return true;
}

/* ---- body ---- */

/* Like fcgi_request_read, but remembers how the body ended. */
static ssize_t read_some(struct exchange_private *p, void *to, size_t n)
{
	if (p->body_ended || p->broken)
		return p->broken ? -1 : 0;
	ssize_t got = fcgi_request_read(p->fcgi, to, n);
	p->bytes_in += got > 0 ? (uint64_t)got : 0;
	p->body_ended = got == 0;
	p->broken = got < 0;
	return got;
}

bool exchange_drain(struct exchange_private *p)
{
	char scrap[4096];
	int64_t deadline = clock_now() + p->x.config->io_timeout;
	if (!p->body_ended)
		permit_give();
	while (read_some(p, scrap, sizeof scrap) > 0)
		if (clock_now() > deadline)
			break;
	return p->body_ended;
}

/* A body on its way to the handler. */
struct body_intake {
	struct exchange_private *p;
	struct buffer *body; /* where it goes, or */
	enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e);
	void *arg;             /* who takes it in pieces */
	struct gunzip *gunzip; /* NULL: it is plain */
	uint64_t sent_max;     /* bytes as sent */
	uint64_t max, taken;   /* bytes of the text */
	bool announced;        /* there is a Content-Length, which is also max if the body is plain */
	uint64_t length;       /* that one */
	int64_t deadline;
};

static enum err too_large(struct error *e, uint64_t max, const char *how)
{
	return error_set(e, ERR_TOO_LARGE, "the body is larger than %llu bytes%s", (unsigned long long)max, how);
}

/* Reads CONTENT_LENGTH; *known is false if the client sent none, as with chunked encoding. */
static enum err announced_length(const struct exchange *x, uint64_t max, uint64_t *length, bool *known, struct error *e)
{
	struct str text = param(x, "CONTENT_LENGTH");
	*known = text.len;
	if (strspn(text.data, "0123456789") != text.len)
		return error_set(e, ERR_BAD_REQUEST, "Content-Length is not a number");
	*length = strtoull(text.data, NULL, 10);
	return *length > max ? too_large(e, max, "") : ERR_OK;
}

/* ERR_BAD_REQUEST for an unknown encoding. */
static enum err choose_decoder(const struct exchange *x, struct gunzip **gunzip, struct error *e)
{
	struct str encoding = param(x, "HTTP_CONTENT_ENCODING");
	*gunzip = NULL;
	if (encoding.len == 0 || strcasecmp(encoding.data, "identity") == 0)
		return ERR_OK;
	if (strcasecmp(encoding.data, "gzip") != 0 && strcasecmp(encoding.data, "x-gzip") != 0)
		return error_set(
		        e, ERR_BAD_REQUEST, "Content-Encoding \"%.40s\" is neither gzip nor identity", encoding.data);
	*gunzip = gunzip_new();
	return *gunzip ? ERR_OK : no_memory(e);
}

void exchange_uncharge_body(struct exchange *x)
{
	account_add(ACCOUNT_BODIES, -(int64_t)x->body_charged);
	x->body_charged = 0;
}

/* Charges a body before it is read further; a large one in steps of an eighth. */
static bool charge_body(struct body_intake *in)
{
	struct exchange *x = &in->p->x;
	if (!in->body || in->taken <= x->body_charged)
		return true;
	bool first = in->taken <= BODY_FIRST, small = in->taken <= EXCHANGE_SMALL;
	uint64_t more = in->taken + (small ? 0 : in->taken / 8) - x->body_charged;
	if (first)
		account_add(ACCOUNT_BODIES, (int64_t)more);
	else if (small ? !account_take_small(ACCOUNT_BODIES, more) : !account_take(ACCOUNT_BODIES, more))
		return false;
	x->body_charged += more;
	return true;
}

/* How long the taker needs is not the client's fault. */
static enum err pass_on(struct body_intake *in, const uint8_t *at, size_t n, struct error *e)
{
	int64_t began = clock_now();
	enum err err = in->take(in->arg, at, n, e);
	in->deadline += clock_now() - began;
	return err;
}

static enum err take_text(struct body_intake *in, const uint8_t *at, size_t n, struct error *e)
{
	in->taken += n;
	if (in->taken > in->max && in->announced && !in->gunzip)
		return error_set(e, ERR_BAD_REQUEST, "the body is longer than Content-Length says");
	if (in->taken > in->max)
		return too_large(e, in->max, in->gunzip ? " inflated" : "");
	if (!charge_body(in))
		return error_set(e, ERR_UNAVAILABLE, "too much memory is in use; try again");
	if (in->take)
		return n ? pass_on(in, at, n, e) : ERR_OK;
	return buffer_append(in->body, at, n) ? ERR_OK : no_memory(e);
}

static enum err inflate(struct body_intake *in, const uint8_t *data, size_t n, struct error *e)
{
	uint8_t text[CHUNK];
	size_t made;
	do {
		enum err err = gunzip_step(in->gunzip, &data, &n, text, sizeof text, &made);
		if (err == ERR_CORRUPT)
			return error_set(e, ERR_BAD_REQUEST, "the body is not valid gzip");
		err = err ? no_memory(e) : take_text(in, text, made, e);
		if (!err && !exchange_turn(&in->p->x))
			err = error_set(e, ERR_GONE, "the client went away");
		if (err)
			return err;
	} while (n > 0 || made == sizeof text);
	return ERR_OK;
}

static enum err check_end(const struct body_intake *in, struct error *e)
{
	if (in->announced && in->p->bytes_in != in->length)
		return error_set(e, ERR_BAD_REQUEST, "the body has %llu bytes, not %llu as Content-Length says",
		        (unsigned long long)in->p->bytes_in, (unsigned long long)in->length);
	if (in->gunzip && !gunzip_complete(in->gunzip))
		return error_set(e, ERR_BAD_REQUEST, "the gzip body is cut short");
	return ERR_OK;
}

/* Reads to the end of the body. Each turn reads at least a byte, and sent_max bounds those. */
static enum err read_to_end(struct body_intake *in, struct error *e)
{
	uint8_t sent[CHUNK];
	for (;;) {
		ssize_t n = read_some(in->p, sent, sizeof sent);
		if (n == 0)
			return check_end(in, e);
		if (n < 0 || clock_now() > in->deadline)
			return error_set(e, ERR_BAD_REQUEST, "the body did not arrive in full");
		if (in->gunzip && in->p->bytes_in > in->sent_max)
			return too_large(e, in->sent_max, "");
		enum err err = in->gunzip ? inflate(in, sent, (size_t)n, e) : take_text(in, sent, (size_t)n, e);
		if (err)
			return err;
		if (!exchange_turn(&in->p->x))
			return error_set(e, ERR_GONE, "the client went away");
	}
}

/* inflated_max: the most bytes that a gzip body may inflate to. */
static enum err read_body(struct body_intake *in, uint64_t inflated_max, struct error *e)
{
	const struct exchange *x = &in->p->x;
	in->deadline = clock_now() + x->config->request_timeout;
	enum err err = announced_length(x, in->sent_max, &in->length, &in->announced, e);
	if (!err)
		err = choose_decoder(x, &in->gunzip, e);
	if (!in->announced || in->length > QUICK_BODY)
		permit_give();
	in->max = in->gunzip ? inflated_max : in->announced ? in->length : in->sent_max;
	if (!err && in->body && in->announced && !in->gunzip && !buffer_reserve(in->body, (size_t)in->length))
		err = no_memory(e);
	if (!err)
		err = read_to_end(in, e);
	gunzip_free(in->gunzip);
	return err;
}

enum err exchange_read_body(struct exchange *x, struct buffer *body, struct error *e)
{
	const struct config *c = x->config;
	struct body_intake in = {.p = exchange_private(x), .body = body};
	in.sent_max = c->max_body < body->max ? c->max_body : body->max;
	buffer_reset(body);
	return read_body(&in, c->max_body_inflated < body->max ? c->max_body_inflated : body->max, e);
}

enum err exchange_stream_body(struct exchange *x, uint64_t max,
        enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e), void *arg, struct error *e)
{
	struct body_intake in = {.p = exchange_private(x), .take = take, .arg = arg, .sent_max = max};
	return read_body(&in, max, e);
}

bool exchange_gone(const struct exchange *x)
{
	struct pollfd fd = {.fd = fcgi_request_fd(exchange_private(x)->fcgi), .events = POLLRDHUP};
	return poll(&fd, 1, 0) > 0 && (fd.revents & (POLLRDHUP | POLLHUP | POLLERR));
}

/* ---- end ---- */

int exchange_end(struct exchange_private *p)
{
	int fd = fcgi_request_finish(p->fcgi, p->keep);
	exchange_uncharge_body(&p->x);
	arena_reset(&p->arena);
	arena_reset(&p->scratch);
	return fd;
}
