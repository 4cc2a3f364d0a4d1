/* SPDX-License-Identifier: Apache-2.0 */
/*
 * One HTTP request by libcurl. Four rules, besides what the options below say:
 *
 * - A redirect may lead anywhere on the internet, but not into this machine or its private networks, unless it leads
 *   back to the server's own address and port. Each pool has connections of its own, so no connection that was opened
 *   for one server serves a redirect of another.
 * - Proxies of the environment are not used: the address filter would see only the proxy's address.
 * - Bodies are handed on as they come: curl's own decoding takes a truncated stream for a complete one.
 * - Callers sign requests themselves: libcurl 8.14 cannot sign a path as it is, and older versions sign a plus sign in
 *   a query wrongly.
 */
#include <config.h>

#include "objects/transfer.h"

#include <errno.h>
#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "objects/place_clock.h"

enum {
	LOW_SPEED = 1000,           /* bytes per second; slower than this for stall_timeout counts as stalled */
	READ_BUFFER = 512 * 1024,   /* curl's; takes half the time of its default for a large file */
	ERROR_BODY_MAX = 64 * 1024, /* read to keep the connection; more than this costs it */
	LINES_MAX = 256 * 1024,     /* of headers; some providers' tokens are long */
};

struct transfer_pool {
	struct bucket_limits limits;
	struct transfer_settings settings;
	CURLSH *share; /* DNS cache and TLS sessions of all threads; connections are not safe to share */
	pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];
};

struct transfer {
	struct transfer_pool *pool; /* not owned */
	CURL *easy;
	struct sockaddr_storage first_address; /* where the last request went, before any redirect */
	unsigned first_address_len;
	char problem[CURL_ERROR_SIZE];
	/* of the request */
	const struct transfer_request *request;
	struct transfer_reply *reply;
	size_t error_body;
	curl_off_t moved; /* bytes of the body when on_progress was last called */
	int64_t moved_at; /* when that number last changed; clock_now() */
	int64_t excused;  /* time that counts towards no limit */
	bool stalled;
};

_Static_assert(TRANSFER_PROBLEM >= CURL_ERROR_SIZE, "problems fit");

static void share_lock(CURL *easy, curl_lock_data data, curl_lock_access access, void *arg)
{
	struct transfer_pool *s = arg;
	(void)easy;
	(void)access;
	pthread_mutex_lock(&s->share_locks[data]);
}

static void share_unlock(CURL *easy, curl_lock_data data, void *arg)
{
	struct transfer_pool *s = arg;
	(void)easy;
	pthread_mutex_unlock(&s->share_locks[data]);
}

static bool share_init(struct transfer_pool *s)
{
	for (unsigned i = 0; i < CURL_LOCK_DATA_LAST; i++)
		pthread_mutex_init(&s->share_locks[i], NULL);
	s->share = curl_share_init();
	return s->share && !curl_share_setopt(s->share, CURLSHOPT_LOCKFUNC, share_lock) &&
	       !curl_share_setopt(s->share, CURLSHOPT_UNLOCKFUNC, share_unlock) &&
	       !curl_share_setopt(s->share, CURLSHOPT_USERDATA, s) &&
	       !curl_share_setopt(s->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_DNS) &&
	       !curl_share_setopt(s->share, CURLSHOPT_SHARE, CURL_LOCK_DATA_SSL_SESSION);
}

/* They may have secrets. */
static void free_lines(char *lines)
{
	if (lines)
		explicit_bzero(lines, strlen(lines));
	free(lines);
}

enum err transfer_settings_for(struct transfer_settings *s, const struct config *c, const char *url)
{
	const char *value;
	for (unsigned i = 0; i < c->source_ca_files.count; i++)
		if ((value = config_for_url(&c->source_ca_files, i, url)))
			s->ca_file = value;
	for (unsigned i = 0; i < c->source_headers.count && !s->sign; i++) {
		if (!(value = config_for_url(&c->source_headers, i, url)))
			continue;
		char *more = text_printf("%s%s\n", s->headers ? s->headers : "", value);
		free_lines(s->headers);
		s->headers = more;
		if (!more)
			return ERR_NO_MEMORY;
		s->follow = false;
	}
	return ERR_OK;
}

enum err transfer_check_settings(const struct config *c, struct error *e)
{
	static const char token[] = "!#$%&'*+-.^_`|~0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
	for (unsigned i = 0; i < c->source_ca_files.count; i++) {
		const char *item = c->source_ca_files.items[i], *file = item + strcspn(item, " \t");
		file += strspn(file, " \t");
		if (access(file, R_OK) < 0)
			return error_set(e, ERR_CONFIG, "source_ca_file: %.150s: %s", file, strerror(errno));
	}
	size_t all = 0;
	for (unsigned i = 0; i < c->source_headers.count; i++) {
		const char *item = c->source_headers.items[i], *header = item + strcspn(item, " \t");
		header += strspn(header, " \t");
		size_t name = strspn(header, token);
		all += strlen(header) + 1;
		if (!name || strncmp(header + name, ": ", 2) != 0 || !header[name + 2])
			return error_set(
			        e, ERR_CONFIG, "source_header: what follows the URL is not of the form NAME: VALUE");
	}
	return all > LINES_MAX / 2
	               ? error_set(e, ERR_CONFIG, "source_header: longer than %d bytes in all", LINES_MAX / 2)
	               : ERR_OK;
}

void transfer_pool_free(struct transfer_pool *p)
{
	if (!p)
		return;
	free_lines(p->settings.headers);
	if (p->share)
		curl_share_cleanup(p->share);
	for (unsigned i = 0; i < CURL_LOCK_DATA_LAST; i++)
		pthread_mutex_destroy(&p->share_locks[i]);
	free(p);
	curl_global_cleanup();
}

struct transfer_pool *transfer_pool_new(const struct bucket_limits *limits, const struct transfer_settings *settings)
{
	struct transfer_pool *p = NULL;
	bool begun = curl_global_init(CURL_GLOBAL_DEFAULT) == CURLE_OK;
	if (begun && !(p = calloc(1, sizeof *p)))
		curl_global_cleanup();
	if (!p) {
		free_lines(settings->headers);
		return NULL;
	}
	p->limits = *limits;
	p->settings = *settings;
	if (share_init(p))
		return p;
	transfer_pool_free(p);
	return NULL;
}

static bool ip4_is_local(uint32_t a)
{
	static const struct {
		uint32_t net, mask;
	} nets[] = {
	        {0x00000000, 0xff000000}, /* this network */
	        {0x0a000000, 0xff000000}, /* private */
	        {0x64400000, 0xffc00000}, /* carrier-grade NAT */
	        {0x7f000000, 0xff000000}, /* loopback */
	        {0xa9fe0000, 0xffff0000}, /* link-local */
	        {0xac100000, 0xfff00000}, /* private */
	        {0xc0000000, 0xffffff00}, /* protocol assignments */
	        {0xc0a80000, 0xffff0000}, /* private */
	        {0xc6120000, 0xfffe0000}, /* benchmarks */
	        {0xe0000000, 0xe0000000}, /* multicast, reserved, broadcast */
	};
	for (unsigned i = 0; i < sizeof nets / sizeof nets[0]; i++)
		if ((a & nets[i].mask) == nets[i].net)
			return true;
	return false;
}

static uint32_t big_endian(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

static bool ip6_is_local(const uint8_t a[16])
{
	static const uint8_t zero[12], mapped[12] = {[10] = 0xff, [11] = 0xff}, nat64[12] = {0, 0x64, 0xff, 0x9b};
	static const uint8_t translated[12] = {[8] = 0xff, [9] = 0xff}, own_nat64[6] = {0, 0x64, 0xff, 0x9b, 0, 1};
	static const uint8_t teredo[4] = {0x20, 0x01};
	/* Forms that contain an IPv4 address; all-zero includes :: and ::1. */
	if (memcmp(a, zero, 12) == 0 || memcmp(a, mapped, 12) == 0 || memcmp(a, nat64, 12) == 0 ||
	        memcmp(a, translated, 12) == 0)
		return ip4_is_local(big_endian(a + 12));
	if (a[0] == 0x20 && a[1] == 0x02)
		return ip4_is_local(big_endian(a + 2));
	/* These contain one too, but its position depends on the network. */
	if (memcmp(a, own_nat64, 6) == 0 || memcmp(a, teredo, 4) == 0)
		return true;
	/* Unique local, link-local and the old site-local, multicast. */
	return (a[0] & 0xfe) == 0xfc || (a[0] == 0xfe && (a[1] & 0x80)) || a[0] == 0xff;
}

static bool address_is_local(const struct curl_sockaddr *address)
{
	if (address->family == AF_INET) {
		struct sockaddr_in in;
		memcpy(&in, &address->addr, sizeof in);
		return ip4_is_local(ntohl(in.sin_addr.s_addr));
	}
	if (address->family == AF_INET6) {
		/* curl passes the whole address here, though the declared type is shorter. */
		struct sockaddr_in6 in;
		memcpy(&in, (const void *)&address->addr, sizeof in);
		return ip6_is_local(in.sin6_addr.s6_addr);
	}
	return true;
}

static void keep_address(struct transfer *t, const struct curl_sockaddr *a)
{
	t->first_address_len = a->addrlen <= sizeof t->first_address ? a->addrlen : 0;
	memcpy(&t->first_address, &a->addr, t->first_address_len);
}

static bool is_first_address(const struct transfer *t, const struct curl_sockaddr *a)
{
	return a->addrlen == t->first_address_len && memcmp(&a->addr, &t->first_address, a->addrlen) == 0;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct transfer *t = arg;
	long redirects = 0;
	(void)purpose;
	curl_easy_getinfo(t->easy, CURLINFO_REDIRECT_COUNT, &redirects);
	if (redirects == 0)
		keep_address(t, address);
	/* A server on a private network may redirect to itself, but nowhere else there. */
	bool elsewhere = redirects > 0 && !is_first_address(t, address);
	if (elsewhere && address_is_local(address) && !t->pool->limits.allow_local_redirects) {
		t->reply->address_refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static bool cancelled(const struct transfer *t)
{
	return t->request->cancel && atomic_load(t->request->cancel);
}

/* Has a body that had started to arrive stood still for too long? curl's own limit uses a five-second mean, which one
 * megabyte keeps above the limit for that long. */
static bool stands_still(struct transfer *t, curl_off_t down)
{
	int64_t now = clock_now();
	if (down == 0 || down != t->moved) {
		t->moved = down;
		t->moved_at = now;
	}
	return t->stalled = !t->request->takes_long && now - t->moved_at > t->pool->limits.stall_timeout;
}

/* Called when data arrives, and about once a second otherwise. */
static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
	(void)down_total;
	(void)up_total;
	(void)up;
	return cancelled(arg) || stands_still(arg, down);
}

static long status_of(const struct transfer *t)
{
	long status = 0;
	curl_easy_getinfo(t->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

/* Keeps the beginning of the body of another status than 200. */
static bool add_error_body(struct transfer *t, const char *data, size_t len)
{
	struct transfer_reply *r = t->reply;
	size_t room = sizeof r->error_body - r->error_len;
	size_t n = len < room ? len : room;
	memcpy(r->error_body + r->error_len, data, n);
	r->error_len += n;
	t->error_body += len;
	return t->error_body <= ERROR_BODY_MAX;
}

/* The value of a header of the last reply, valid until the next request; NULL if absent. */
static const char *header(CURL *h, const char *name, size_t *amount)
{
	struct curl_header *found = NULL;
	*amount = 0;
	if (curl_easy_header(h, name, 0, CURLH_HEADER, -1, &found) != CURLHE_OK)
		return NULL;
	*amount = found->amount;
	return found->value;
}

/* A cache's reply has the date of when it was new. */
static int64_t date_of(CURL *h)
{
	size_t ignored;
	const char *text = header(h, "Age", &ignored) ? NULL : header(h, "Date", &ignored);
	int64_t date = text ? (int64_t)curl_getdate(text, NULL) : -1;
	return date <= UINT32_MAX ? date : -1;
}

static void read_head(struct transfer *t)
{
	struct transfer_reply *r = t->reply;
	size_t lengths, ignored;
	curl_off_t length = -1;
	r->status = (int)status_of(t);
	r->chunked = header(t->easy, "Transfer-Encoding", &ignored);
	header(t->easy, "Content-Length", &lengths);
	r->many_lengths = lengths > 1;
	curl_easy_getinfo(t->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	r->head.sized = lengths == 1 && !r->chunked && length >= 0;
	r->head.length = r->head.sized ? (uint64_t)length : 0;
	const char *etag = header(t->easy, "ETag", &ignored);
	snprintf(r->head.etag, sizeof r->head.etag, "%s", etag ? etag : "");
	const char *type = header(t->easy, "Content-Type", &ignored);
	r->head.page = type && strncasecmp(type, "text/html", strlen("text/html")) == 0;
	r->date = date_of(t->easy);
}

static long milliseconds(int64_t t)
{
	return t <= 0 ? 1 : (long)((t + MS - 1) / MS);
}

/* How long the receiver of a body has taken is not the server's fault. stands_still notices that the rest does not
 * come: curl's own limit of speed would count that time. */
static bool excuse(struct transfer *t, int64_t taken)
{
	t->excused += taken;
	t->moved_at += taken;
	return !curl_easy_setopt(t->easy, CURLOPT_LOW_SPEED_TIME, 0L) &&
	       !curl_easy_setopt(t->easy, CURLOPT_TIMEOUT_MS, milliseconds(t->pool->limits.total_timeout + t->excused));
}

/* Called with at most 16 KiB. Any result but len ends the transfer. */
static size_t on_body(char *data, size_t size, size_t len, void *arg)
{
	struct transfer *t = arg;
	const struct transfer_request *q = t->request;
	(void)size;
	if (cancelled(t))
		return CURL_WRITEFUNC_ERROR;
	if (!t->reply->status)
		read_head(t);
	bool good = status_of(t) == 200 && q->body;
	int64_t began = clock_now();
	bool more = good ? q->body(q->arg, (const uint8_t *)data, len) : add_error_body(t, data, len);
	if (more && good && q->body_waits)
		more = excuse(t, clock_now() - began);
	return more ? len : CURL_WRITEFUNC_ERROR;
}

bool transfer_to_buffer(void *arg, const uint8_t *data, size_t len)
{
	return buffer_append(arg, data, len);
}

static bool set_limits(CURL *h, const struct bucket_limits *l)
{
	/* Only catches a Content-Length that is clearly too large, since gzip of noise is slightly larger than the
	 * noise. The real limit is on the body. */
	curl_off_t largest =
	        l->max_size < INT64_MAX / 4 ? (curl_off_t)(l->max_size + l->max_size / 8 + READ_BUFFER) : 0;
	return !curl_easy_setopt(h, CURLOPT_MAXFILESIZE_LARGE, largest) &&
	       !curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, (long)LOW_SPEED) &&
	       !curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)READ_BUFFER) &&
	       !curl_easy_setopt(h, CURLOPT_MAXREDIRS, 5L);
}

static bool set_policy(CURL *h, const struct transfer_pool *p)
{
	return !curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       !curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") &&
	       !curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, (long)p->settings.follow) &&
	       !curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L) && !curl_easy_setopt(h, CURLOPT_NOPROXY, "*") &&
	       !curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) && !curl_easy_setopt(h, CURLOPT_QUICK_EXIT, 1L) &&
	       !curl_easy_setopt(h, CURLOPT_SHARE, p->share) &&
	       /* One transfer per connection: HTTP/2 would only add flow control. */
	       !curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       !curl_easy_setopt(h, CURLOPT_ACCEPT_ENCODING, p->settings.gzip ? "gzip" : NULL) &&
	       !curl_easy_setopt(h, CURLOPT_HTTP_CONTENT_DECODING, 0L) &&
	       !curl_easy_setopt(h, CURLOPT_USERAGENT, "symbolicated/" FULL_VERSION);
}

static bool set_callbacks(CURL *h, struct transfer *t)
{
	return !curl_easy_setopt(h, CURLOPT_ERRORBUFFER, t->problem) &&
	       !curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body) && !curl_easy_setopt(h, CURLOPT_WRITEDATA, t) &&
	       !curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L) &&
	       !curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress) &&
	       !curl_easy_setopt(h, CURLOPT_XFERINFODATA, t) &&
	       !curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
	       !curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, t);
}

static bool is_set(const char *text)
{
	return text && *text;
}

/* Instead of the system's authorities, not beside them. */
static bool set_authorities(CURL *h, const struct transfer_settings *s)
{
	return !s->ca_file ||
	       (!curl_easy_setopt(h, CURLOPT_CAINFO, s->ca_file) && !curl_easy_setopt(h, CURLOPT_CAPATH, NULL));
}

/* curl sends these only to the first host. */
static bool set_credentials(CURL *h, const struct transfer_settings *s)
{
	if (!is_set(s->user) && !is_set(s->password))
		return true;
	return !curl_easy_setopt(h, CURLOPT_HTTPAUTH, CURLAUTH_BASIC) &&
	       !curl_easy_setopt(h, CURLOPT_USERNAME, s->user) && !curl_easy_setopt(h, CURLOPT_PASSWORD, s->password);
}

void *transfer_owner(const struct transfer *t)
{
	return t->pool->settings.owner;
}

void transfer_free(void *transfer)
{
	struct transfer *t = transfer;
	if (!t)
		return;
	curl_easy_cleanup(t->easy);
	free(t);
}

struct transfer *transfer_new(struct transfer_pool *p)
{
	struct transfer *t = calloc(1, sizeof *t);
	if (!t)
		return NULL;
	t->pool = p;
	t->easy = curl_easy_init();
	if (t->easy && set_limits(t->easy, &p->limits) && set_policy(t->easy, p) && set_callbacks(t->easy, t) &&
	        set_credentials(t->easy, &p->settings) && set_authorities(t->easy, &p->settings))
		return t;
	transfer_free(t);
	return NULL;
}

/* Appends to the list; false if out of memory. */
static bool add_header(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(*list, line);
	if (longer)
		*list = longer;
	return longer;
}

/* Lines that end in a line feed each, which is overwritten. */
static bool add_lines(struct curl_slist **list, char *lines)
{
	bool ok = true;
	for (char *end; ok && lines && (end = strchr(lines, '\n')); lines = end + 1) {
		*end = 0;
		ok = add_header(list, lines);
	}
	return ok;
}

static enum err make_headers(
        struct curl_slist **list, const struct transfer *t, const struct transfer_request *q, struct error *e)
{
	const struct transfer_settings *s = &t->pool->settings;
	struct buffer lines;
	buffer_init(&lines, LINES_MAX);
	no_memory(e);
	if (q->data)
		buffer_printf(&lines, "Content-Type: %s\n", q->content_type ? q->content_type : TRANSFER_CONTENT_TYPE);
	if (q->copy_source)
		buffer_printf(&lines, "x-amz-copy-source: %s\n", q->copy_source);
	bool ok = !s->sign || s->sign(s->owner, q, &lines, e);
	ok = ok && buffer_printf(&lines, "%s%s", s->headers ? s->headers : "", q->lines ? q->lines : "") &&
	     add_lines(list, (char *)lines.data);
	if (lines.data)
		explicit_bzero(lines.data, lines.len);
	buffer_release(&lines);
	return ok ? ERR_OK : e->code;
}

/* They may contain secrets. */
static void free_headers(struct curl_slist *list)
{
	for (struct curl_slist *l = list; l; l = l->next)
		explicit_bzero(l->data, strlen(l->data));
	curl_slist_free_all(list);
}

static bool set_request(const struct transfer *t, const struct transfer_request *q, struct curl_slist *headers)
{
	CURL *h = t->easy;
	bool get = strcmp(q->method, "GET") == 0;
	const struct bucket_limits *l = &t->pool->limits;
	const bool limited = q->limit > 0;
	const int64_t total = limited && q->limit < l->total_timeout ? q->limit : l->total_timeout;
	const int64_t connect = limited && q->limit < l->connect_timeout ? q->limit : l->connect_timeout;
	long stall = (milliseconds(l->stall_timeout) + 999) / 1000;
	if (curl_easy_setopt(h, CURLOPT_URL, q->url) || curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers) ||
	        curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, q->takes_long ? 0 : stall) ||
	        curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, milliseconds(total)) ||
	        curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(connect)) ||
	        curl_easy_setopt(h, CURLOPT_FRESH_CONNECT, (long)limited) || curl_easy_setopt(h, CURLOPT_HTTPGET, 1L) ||
	        curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, get ? NULL : q->method))
		return false;
	return !q->data ||
	       (!curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->len) &&
	               !curl_easy_setopt(h, CURLOPT_POSTFIELDS, q->data) && !curl_easy_setopt(h, CURLOPT_POST, 1L));
}

static void run_once(struct transfer *t, const struct transfer_request *request, struct transfer_reply *reply)
{
	struct curl_slist *headers = NULL;
	*reply = (struct transfer_reply){.date = -1};
	t->request = request;
	t->reply = reply;
	t->error_body = 0;
	t->moved = t->excused = 0;
	t->stalled = false;
	t->problem[0] = 0;
	CURLcode code = CURLE_OUT_OF_MEMORY;
	struct error e;
	if (make_headers(&headers, t, request, &e)) {
		snprintf(t->problem, sizeof t->problem, "%s", e.text);
	} else if (set_request(t, request, headers)) {
		code = curl_easy_perform(t->easy);
		read_head(t);
	}
	reply->cancelled = cancelled(t);
	reply->whole = code == CURLE_OK;
	reply->too_large = code == CURLE_FILESIZE_EXCEEDED;
	if (!reply->whole)
		snprintf(reply->problem, sizeof reply->problem, "%s",
		        t->stalled    ? "the transfer has stalled"
		        : *t->problem ? t->problem
		                      : curl_easy_strerror(code));
	/* The handle must not keep pointers to the headers or the caller's data. */
	curl_easy_setopt(t->easy, CURLOPT_HTTPHEADER, NULL);
	curl_easy_setopt(t->easy, CURLOPT_POSTFIELDS, NULL);
	free_headers(headers);
}

bool transfer_run(struct transfer *t, const struct transfer_request *request, struct transfer_reply *reply)
{
	const struct transfer_settings *s = &t->pool->settings;
	bool again = true;
	for (unsigned tries = 0; again && tries < 2; tries++) {
		int64_t sent = machine_now();
		run_once(t, request, reply);
		again = s->dated && reply->date >= 0 && s->dated(s->owner, reply, sent, machine_now());
	}
	return reply->whole;
}
