/* SPDX-License-Identifier: Apache-2.0 */
/* The reply to an exchange: its headers, its compression, and its log line and metrics. */
#include <config.h>

#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/clock.h"
#include "base/gzip.h"
#include "base/log.h"
#include "base/permits.h"
#include "front/exchange_private.h"

enum { HEAD_MAX = 8192, LOGGED_PATH = 300, LOGGED_AGENT = 150 };
enum { PATIENCE_MAX = 24 * 3600 }; /* seconds that all which a reader has taken may earn it */
enum { GZIP_PIECE = 256 << 10 };   /* compressed bytes that are sent before the rest is known */

static bool is_name(struct str s, const char *name)
{
	return s.len == strlen(name) && strncasecmp(s.data, name, s.len) == 0;
}

/* Whether the parameters after a coding say q=0, or cannot be parsed. */
static bool is_refused(struct str parameters)
{
	while (parameters.len) {
		struct str q = trimmed(str_cut(&parameters, ';'));
		if (q.len < 2 || (q.data[0] != 'q' && q.data[0] != 'Q') || q.data[1] != '=')
			continue;
		for (size_t i = 2; i < q.len; i++)
			if (q.data[i] >= '1' && q.data[i] <= '9')
				return false;
		return true;
	}
	return false;
}

/* Accept-Encoding: by name, or by * if it is not named. "x-gzip" is an old name of gzip. */
bool exchange_accepts(const struct exchange *x, const char *coding)
{
	const char *accepted = exchange_param(x, "HTTP_ACCEPT_ENCODING");
	struct str header = str_from(accepted ? accepted : "");
	bool any = false;
	while (header.len) {
		struct str item = trimmed(str_cut(&header, ','));
		struct str name = trimmed(str_cut(&item, ';'));
		if (is_name(name, coding) || (is_name(name, "x-gzip") && strcmp(coding, "gzip") == 0))
			return !is_refused(item);
		if (is_name(name, "*"))
			any = !is_refused(item);
	}
	return any;
}

static bool wants_gzip(const struct exchange *x, uint64_t length)
{
	return length > 0 && length >= x->config->gzip_min_size && exchange_accepts(x, "gzip");
}

/* The length of the header lines with the empty line after them; 0 if they do not fit. */
static size_t make_head(const struct exchange_private *p, char head[HEAD_MAX])
{
	const struct reply *r = &p->reply;
	char length[48] = "";
	/* that of a 304 would be of what the client has: a cache takes it for that */
	if (r->length != EXCHANGE_UNSIZED && r->status != 304)
		snprintf(length, sizeof length, "Content-Length: %llu\r\n", (unsigned long long)r->length);
	int n = snprintf(head, HEAD_MAX,
	        "Status: %d %s\r\n"
	        "Content-Type: %s\r\n"
	        "%s%s"
	        "Access-Control-Allow-Origin: *\r\n"
	        "Access-Control-Expose-Headers: X-Request-Id, Retry-After, X-Frames\r\n"
	        "Vary: Accept-Encoding\r\n"
	        "X-Request-Id: %s\r\n"
	        "%s\r\n",
	        r->status, http_status_phrase(r->status), r->content_type, length,
	        r->gzipped ? "Content-Encoding: gzip\r\n" : "", p->x.request_id, r->extra ? r->extra : "");
	return n > 0 && n < HEAD_MAX ? (size_t)n : 0;
}

static void log_param(struct log_line *l, const char *key, const struct exchange *x, const char *name)
{
	const char *value = exchange_param(x, name);
	if (value)
		log_str(l, key, str_first(str_from(value), LOGGED_AGENT));
}

/* One line for each request. What a client can make long comes last, so that it cannot push out the rest. */
static void log_request(const struct exchange_private *p, int64_t elapsed)
{
	const struct exchange *x = &p->x;
	const struct reply *r = &p->reply;
	struct log_line l;
	if (x->health_check && r->status == 200 && !x->config->log_health_checks)
		return;
	log_begin(&l, LOG_LEVEL_INFO, "request");
	log_str(&l, "id", str_from(x->request_id));
	log_str(&l, "method", str_first(x->method, 32));
	log_int(&l, "status", r->status);
	log_seconds(&l, "seconds", elapsed);
	if (r->waited)
		log_seconds(&l, "reader_seconds", r->waited);
	log_int(&l, "bytes_in", (int64_t)p->bytes_in);
	log_int(&l, "bytes_out", (int64_t)p->bytes_out);
	log_int(&l, "frames", (int64_t)x->frames);
	log_int(&l, "modules", (int64_t)x->modules);
	log_int(&l, "loads", (int64_t)x->loads);
	if (!r->good)
		log_int(&l, "aborted", 1);
	if (r->slow)
		log_int(&l, "slow", 1);
	log_param(&l, "remote", x, "REMOTE_ADDR");
	if (r->error)
		log_str(&l, "error", str_from(r->error->text));
	log_str(&l, "path", str_first(x->path, LOGGED_PATH));
	log_param(&l, "agent", x, "HTTP_USER_AGENT");
	log_end_later(&l);
}

static bool head_only(const struct exchange_private *p)
{
	return str_equal(p->x.method, str_from("HEAD"));
}

/* What comes before the first piece of a reply; returns the length of its head, or 0. */
static size_t begin_reply(struct exchange_private *p, char head[HEAD_MAX])
{
	struct reply *r = &p->reply;
	size_t head_len = make_head(p, head);
	/* Counted before the client can see the reply, so that whoever has seen it finds it counted. */
	metric_request(p->x.route, r->status);
	/* The body is read to its end even if nobody wanted it: otherwise the rest would be taken for the next request.
	 */
	exchange_drain(p);
	p->patience = p->x.config->io_timeout;
	r->left = head_only(p) ? 0 : r->length;
	p->bytes_out = r->left == EXCHANGE_UNSIZED ? 0 : r->left;
	r->good = head_len;
	return head_len;
}

/* Without a pause, the thread waits. */
static void wait_here(struct exchange_private *p)
{
	struct pollfd fd = {.fd = fcgi_request_fd(p->fcgi), .events = POLLOUT};
	int64_t began = clock_now();
	permit_give();
	poll(&fd, 1, (int)(p->patience / MS) + 1);
	p->reply.waited += clock_now() - began;
}

/* The time that so many bytes may take at this rate. */
static int64_t time_at_rate(uint64_t bytes, uint64_t rate)
{
	double seconds = (double)bytes / (double)rate;
	return (int64_t)(seconds < PATIENCE_MAX ? seconds : PATIENCE_MAX) * SECOND;
}

/* Waits for the reader. It may be io_timeout behind reply_rate_min in the mean since the reply began, since what it has
 * taken may lie in a file that nginx empties before it takes more; without a rate, each byte gives it io_timeout. What
 * others take of the processor meanwhile does not count. */
static bool wait_for_reader(void *arg, uint64_t taken)
{
	struct exchange_private *p = arg;
	struct reply *r = &p->reply;
	const struct config *c = p->x.config;
	if (c->reply_rate_min)
		p->patience = c->io_timeout + time_at_rate(taken, c->reply_rate_min) - r->waited;
	else if (taken > r->taken)
		p->patience = c->io_timeout;
	r->taken = taken;
	int64_t before = r->waited;
	/* Inside a transfer there is no pausing: what runs it may not be ready to go on on another thread. */
	if (r->stored || !front_pause(p, PAUSE_READER))
		wait_here(p);
	p->patience -= r->waited - before;
	r->slow = p->patience <= 0;
	if (r->slow)
		metric_add(M_REPLIES_SLOW, 1);
	return !r->slow;
}

/* Sends a piece of the body; with the first one the head, and with the last one the end. */
static void send_piece(struct exchange_private *p, struct iovec body)
{
	struct reply *r = &p->reply;
	char text[HEAD_MAX];
	struct iovec head = {text, 0};
	if (!r->begun)
		head.iov_len = begin_reply(p, text);
	if (head_only(p))
		body.iov_len = 0;
	const uint64_t size = body.iov_len;
	if (r->begun && !size && !r->ending)
		return;
	r->begun = true;
	if (r->length == EXCHANGE_UNSIZED)
		p->bytes_out += size;
	bool last = size == r->left;
	/* Decided before the end is sent: a reply that says so lets nginx reuse the connection at once. */
	p->keep = last && p->body_ended && front_keeps(p->front);
	const struct fcgi_waiter waiter = {wait_for_reader, p};
	r->good = r->good && size <= r->left && fcgi_request_write(p->fcgi, head, body, last, &waiter);
	r->left -= r->good ? size : 0;
	p->keep = p->keep && r->good;
	if (last && !p->keep)
		fcgi_request_shut(p->fcgi);
}

static void finish_reply(struct exchange_private *p)
{
	struct reply *r = &p->reply;
	if (!r->begun)
		send_piece(p, (struct iovec){0});
	int64_t elapsed = clock_now() - p->x.started;
	r->good = r->good && r->left == 0;
	/* How long a reader takes says nothing about the service. */
	metric_request_seconds(p->x.route, elapsed - r->waited);
	log_request(p, elapsed);
	front_release(p);
}

/* Compresses the body if that is accepted and pays, and returns what the caller frees, or NULL. If out of memory the
 * body goes out as it is. */
static uint8_t *compress(struct exchange_private *p, struct iovec *body)
{
	struct reply *r = &p->reply;
	uint8_t *bytes;
	size_t len;
	if (!wants_gzip(&p->x, r->length) || gzip_compress(body->iov_base, body->iov_len, &bytes, &len))
		return NULL;
	if (len >= r->length) {
		free(bytes);
		return NULL;
	}
	*body = (struct iovec){bytes, len};
	r->length = len;
	r->gzipped = true;
	return bytes;
}

/* Writes a reply whose body is complete, and ends the exchange. */
static void send_reply(struct exchange *x, const struct reply *reply, struct str text)
{
	struct exchange_private *p = exchange_private(x);
	struct iovec body = {(char *)(uintptr_t)text.data, text.len};
	p->reply = *reply;
	p->reply.length = text.len;
	uint8_t *packed = compress(p, &body);
	send_piece(p, body);
	free(packed);
	finish_reply(p);
}

void exchange_reply_text(struct exchange *x, int status, const char *content_type, const char *extra, struct str body)
{
	struct reply r = {.status = status, .content_type = content_type, .extra = extra};
	send_reply(x, &r, body);
}

void exchange_reply_begin(struct exchange *x, int status, const char *content_type, uint64_t length)
{
	struct exchange_private *p = exchange_private(x);
	p->reply = (struct reply){.status = status,
	        .content_type = content_type,
	        .extra = x->frames_header,
	        .length = length,
	        .good = true};
	if (wants_gzip(x, length))
		p->reply.gzip = gzip_new(length < 8 * GZIP_PIECE ? length : 8 * GZIP_PIECE);
}

/* As long as all of it may be one piece, nothing is sent, so that its length can be told. */
static void add_gzipped(struct exchange_private *p, const void *data, size_t len)
{
	struct reply *r = &p->reply;
	r->good = r->good && gzip_add(r->gzip, data, len);
	struct iovec made = gzip_take(r->gzip, GZIP_PIECE);
	if (!r->good || !made.iov_len)
		return;
	r->gzipped = true;
	r->length = EXCHANGE_UNSIZED;
	send_piece(p, made);
}

bool exchange_reply_add(struct exchange *x, const void *data, size_t len)
{
	struct exchange_private *p = exchange_private(x);
	struct reply *r = &p->reply;
	if (r->gzip)
		add_gzipped(p, data, len);
	else
		send_piece(p, (struct iovec){(void *)(uintptr_t)data, len});
	return r->good;
}

void exchange_reply_begin_stored(
        struct exchange *x, int status, const char *content_type, const char *extra, uint64_t length)
{
	exchange_private(x)->reply = (struct reply){.status = status,
	        .content_type = content_type,
	        .extra = extra,
	        .length = length,
	        .stored = true,
	        .good = true};
}

void exchange_reply_cut(struct exchange *x)
{
	struct exchange_private *p = exchange_private(x);
	p->reply.good = false;
	p->keep = false;
	gzip_free(p->reply.gzip);
	finish_reply(p);
}

/* The rest of what was compressed; mostly all of it, so its length is known now. */
static void send_gzipped(struct exchange_private *p)
{
	struct reply *r = &p->reply;
	struct iovec packed = {NULL, 0};
	uint8_t *bytes;
	size_t len = 0;
	if (r->good && !gzip_finish(r->gzip, &bytes, &len))
		packed = (struct iovec){bytes, len};
	gzip_free(r->gzip);
	if (!packed.iov_base && !r->begun) {
		struct error e;
		no_memory(&e);
		exchange_reply_error(&p->x, &e, 1);
		return;
	}
	r->good = r->good && packed.iov_base;
	if (r->begun)
		r->left = len;
	else
		r->length = len;
	r->ending = true;
	r->gzipped = true;
	send_piece(p, packed);
	free(packed.iov_base);
	finish_reply(p);
}

void exchange_reply_end(struct exchange *x)
{
	struct exchange_private *p = exchange_private(x);
	struct reply *r = &p->reply;
	if (r->gzip) {
		send_gzipped(p);
		return;
	}
	if (r->length == EXCHANGE_UNSIZED && r->begun && !head_only(p)) {
		r->ending = true;
		r->left = 0;
		send_piece(p, (struct iovec){0});
	} else if (r->length == EXCHANGE_UNSIZED && !r->begun && !head_only(p)) {
		r->length = 0;
	}
	finish_reply(p);
}

static void refuse(struct exchange *x, const struct error *e, struct str text, const char *extra)
{
	struct buffer body;
	char plain[160];
	int status = error_http_status(e->code);
	const char *title = http_status_phrase(status);
	buffer_init(&body, 8192);
	buffer_printf(&body, "{\"error\":");
	buffer_append_json(&body, text);
	if (e->place[0])
		buffer_printf(&body, ",\"place\":%s", e->place);
	buffer_printf(&body, ",\"title\":\"%s\",\"status\":%d}", title, status);
	struct str whole = {(const char *)body.data, body.len};
	if (body.failed) { /* out of memory for the text of the error */
		snprintf(
		        plain, sizeof plain, "{\"error\":\"%s\",\"title\":\"%s\",\"status\":%d}", title, title, status);
		whole = str_from(plain);
	}
	struct reply r = {.status = status, .content_type = "application/json", .extra = extra, .error = e};
	send_reply(x, &r, whole);
	buffer_release(&body);
}

void exchange_reply_refusal(struct exchange *x, const struct error *e, const char *extra)
{
	refuse(x, e, str_from(e->text), extra);
}

void exchange_error_headers(char extra[64], enum err code, unsigned retry_after)
{
	int status = error_http_status(code);
	*extra = 0;
	if (status == 503)
		snprintf(extra, 64, "Retry-After: %u\r\n", retry_after ? retry_after : 1);
	else if (status == 401)
		snprintf(extra, 64, "WWW-Authenticate: APIKey\r\n");
}

void exchange_reply_problems(struct exchange *x, const struct error *e, struct str text, unsigned retry_after)
{
	char extra[64];
	exchange_error_headers(extra, e->code, retry_after);
	refuse(x, e, text, extra);
}

void exchange_reply_error(struct exchange *x, const struct error *e, unsigned retry_after)
{
	exchange_reply_problems(x, e, str_from(e->text), retry_after);
}
