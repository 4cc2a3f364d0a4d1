/* The reply to an exchange: its headers, whether it is compressed, and what is told of it afterwards. */
#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <strings.h>

#include "base/clock.h"
#include "base/log.h"
#include "exchange.h"
#include "format/gzip.h"

enum { HEAD_MAX = 8192, LOGGED_PATH = 300, LOGGED_AGENT = 150 };

static bool is_blank(char c)
{
	return c == ' ' || c == '\t';
}

static struct str trimmed(struct str s)
{
	while (s.len && is_blank(s.data[0])) {
		s.data++;
		s.len--;
	}
	while (s.len && is_blank(s.data[s.len - 1]))
		s.len--;
	return s;
}

/* What comes before the next `stop`; *s moves on behind it. */
static struct str next_item(struct str *s, char stop)
{
	const char *end = memchr(s->data, stop, s->len);
	struct str item = {s->data, end ? (size_t)(end - s->data) : s->len};
	size_t used = item.len + (end ? 1 : 0);
	s->data += used;
	s->len -= used;
	return trimmed(item);
}

static bool is_name(struct str s, const char *name)
{
	return s.len == strlen(name) && strncasecmp(s.data, name, s.len) == 0;
}

/* Whether the parameters behind a coding say q=0, or nothing that can be read. */
static bool is_refused(struct str parameters)
{
	while (parameters.len) {
		struct str q = next_item(&parameters, ';');
		if (q.len < 2 || (q.data[0] != 'q' && q.data[0] != 'Q') || q.data[1] != '=')
			continue;
		for (size_t i = 2; i < q.len; i++)
			if (q.data[i] >= '1' && q.data[i] <= '9')
				return false;
		return true;
	}
	return false;
}

/* Accept-Encoding: gzip by name, or by * when it is not named. */
static bool accepts_gzip(struct str header)
{
	bool any = false;
	while (header.len) {
		struct str item = next_item(&header, ',');
		struct str coding = next_item(&item, ';');
		if (is_name(coding, "gzip") || is_name(coding, "x-gzip"))
			return !is_refused(item);
		if (is_name(coding, "*"))
			any = !is_refused(item);
	}
	return any;
}

/* A reply on its way. */
struct reply {
	struct exchange_private *p;
	int status;
	const char *content_type, *extra;
	const struct error *error; /* for the log; NULL: none */
	const struct iovec *body;
	unsigned parts;
	uint64_t length;
	uint8_t *gzipped; /* owned; NULL: it goes out as it is */
	struct iovec gzipped_part;
};

/* Compresses the body when that is asked for and pays. Without memory it goes out as it is. */
static void compress(struct reply *r)
{
	const struct exchange *x = &r->p->x;
	const char *accepted = exchange_param(x, "HTTP_ACCEPT_ENCODING");
	size_t len;
	if (!accepted || r->length == 0 || r->length < x->config->gzip_min_size || !accepts_gzip(str_from(accepted)))
		return;
	if (gzip_compress(r->body, r->parts, &r->gzipped, &len) != ERR_OK) {
		r->gzipped = NULL;
		return;
	}
	if (len >= r->length) {
		free(r->gzipped);
		r->gzipped = NULL;
		return;
	}
	r->gzipped_part = (struct iovec){r->gzipped, len};
	r->body = &r->gzipped_part;
	r->parts = 1;
	r->length = len;
}

/* The header lines and the empty line behind them; 0 when they do not fit. */
static size_t make_head(const struct reply *r, char head[HEAD_MAX])
{
	int n = snprintf(head, HEAD_MAX,
	        "Status: %d %s\r\n"
	        "Content-Type: %s\r\n"
	        "Content-Length: %llu\r\n"
	        "%s"
	        "Access-Control-Allow-Origin: *\r\n"
	        "Vary: Accept-Encoding\r\n"
	        "X-Request-Id: %s\r\n"
	        "%s\r\n",
	        r->status, http_status_phrase(r->status), r->content_type, (unsigned long long)r->length,
	        r->gzipped ? "Content-Encoding: gzip\r\n" : "", r->p->x.request_id, r->extra ? r->extra : "");
	return n > 0 && n < HEAD_MAX ? (size_t)n : 0;
}

static struct str cut(struct str s, size_t max)
{
	return s.len <= max ? s : (struct str){s.data, max};
}

static void log_param(struct log_line *l, const char *key, const struct exchange *x, const char *name)
{
	const char *value = exchange_param(x, name);
	if (value)
		log_str(l, key, cut(str_from(value), LOGGED_AGENT));
}

/* One line a request. What a client can make long comes last, so that it cannot push out the rest. */
static void log_request(const struct reply *r, int64_t elapsed, bool good)
{
	const struct exchange *x = &r->p->x;
	struct log_line l;
	log_begin(&l, LOG_LEVEL_INFO, "request");
	log_str(&l, "id", str_from(x->request_id));
	log_str(&l, "method", cut(x->method, 32));
	log_int(&l, "status", r->status);
	log_seconds(&l, "seconds", elapsed);
	log_int(&l, "bytes_in", (int64_t)r->p->bytes_in);
	log_int(&l, "bytes_out", (int64_t)r->p->bytes_out);
	log_int(&l, "frames", (int64_t)x->frames);
	log_int(&l, "modules", (int64_t)x->modules);
	log_int(&l, "loads", (int64_t)x->loads);
	if (!good)
		log_int(&l, "aborted", 1);
	log_param(&l, "remote", x, "REMOTE_ADDR");
	if (r->error)
		log_str(&l, "error", str_from(r->error->text));
	log_str(&l, "path", cut(x->path, LOGGED_PATH));
	log_param(&l, "agent", x, "HTTP_USER_AGENT");
	log_end(&l);
}

/* Writes it and ends the exchange. */
static void send_reply(struct reply *r)
{
	struct exchange_private *p = r->p;
	char head[HEAD_MAX];
	bool head_only = str_equal(p->x.method, str_from("HEAD"));
	for (unsigned i = 0; i < r->parts; i++)
		r->length += r->body[i].iov_len;
	compress(r);
	size_t head_len = make_head(r, head);
	/* Counted before the client can see the reply, so that who has seen it finds it counted. */
	metric_request(p->x.route, r->status);
	/* The body is read to its end, also when nobody wanted it: else what is left would be taken for the next
	 * request. */
	exchange_drain(p);
	int64_t deadline = clock_now() + p->x.config->request_timeout;
	p->bytes_out = head_only ? 0 : r->length;
	bool good =
	        head_len && fcgi_request_write(p->fcgi, head, head_len, r->body, head_only ? 0 : r->parts, deadline);
	int64_t elapsed = clock_now() - p->x.started;
	histogram_observe(p->x.histogram, elapsed);
	log_request(r, elapsed, good);
	free(r->gzipped);
	front_release(p, good);
}

void exchange_reply(struct exchange *x, int status, const char *content_type, const char *extra,
        const struct iovec *body, unsigned parts)
{
	struct reply r = {.p = exchange_private(x),
	        .status = status,
	        .content_type = content_type,
	        .extra = extra,
	        .body = body,
	        .parts = parts};
	send_reply(&r);
}

void exchange_reply_text(struct exchange *x, int status, const char *content_type, const char *extra, struct str body)
{
	struct iovec part = {(char *)(uintptr_t)body.data, body.len};
	exchange_reply(x, status, content_type, extra, &part, 1);
}

void exchange_reply_refusal(struct exchange *x, const struct error *e, const char *extra)
{
	struct buffer body;
	int status = error_http_status(e->code);
	buffer_init(&body, 8192);
	buffer_printf(&body, "{\"error\":");
	buffer_append_json(&body, str_from(e->text));
	buffer_printf(&body, ",\"title\":\"%s\",\"status\":%d}", http_status_phrase(status), status);
	struct iovec part = {body.data, body.len};
	if (body.failed)
		part = (struct iovec){(char *)(uintptr_t) "{}", 2};
	struct reply r = {.p = exchange_private(x),
	        .status = status,
	        .content_type = "application/json",
	        .extra = extra,
	        .error = e,
	        .body = &part,
	        .parts = 1};
	send_reply(&r);
	buffer_release(&body);
}

void exchange_reply_error(struct exchange *x, const struct error *e, unsigned retry_after)
{
	char extra[64] = "";
	int status = error_http_status(e->code);
	if (status == 503)
		snprintf(extra, sizeof extra, "Retry-After: %u\r\n", retry_after ? retry_after : 1);
	else if (status == 401)
		snprintf(extra, sizeof extra, "WWW-Authenticate: APIKey\r\n");
	exchange_reply_refusal(x, e, extra);
}
