#include <config.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdlib.h>
#include <strings.h>
#include <unistd.h>

#include <curl/curl.h>

#include "base/clock.h"
#include "store/bucket_backend.h"

/* Symbol files over HTTP. What is held to, beyond one option each below:
 * - gzip is recognised and inflated in bucket_body.c; curl's own decoding takes a cut stream for a whole one.
 * - A transfer is whole when Content-Length, the last chunk or a gzip trailer says so; without any of them, when its
 * last line is.
 * - A redirect may lead anywhere on the internet, but not into the machine or its private networks, unless it is back
 * to the source's own address and port. Every source has connections of its own, so that none which was opened for one
 * source serves the redirect of another.
 * - Proxies of the environment are not used: the address filter would see the proxy's address only.
 * - User, password and query of a source are secrets: they appear in no text. */

enum {
	LOW_SPEED = 1000,           /* bytes a second; slower than this for stall_timeout is stalled */
	READ_BUFFER = 512 * 1024,   /* of curl; half the time of its default for a large file */
	ERROR_BODY_MAX = 64 * 1024, /* read to keep the connection; more than this costs it */
};

struct http_source {
	struct bucket_limits limits;
	CURLSH *share; /* names and TLS sessions of all threads; connections are not safe to share */
	pthread_mutex_t share_locks[CURL_LOCK_DATA_LAST];
	char *base;  /* URL with a final slash, without secrets */
	char *query; /* "?…", or empty */
	char *user, *password;
	bool credentials;
};

struct http_client {
	struct http_source *source; /* not owned */
	CURL *easy;
	struct sockaddr_storage source_address; /* where the last request went before any redirect */
	unsigned source_address_len;
	char problem[CURL_ERROR_SIZE];
	/* of the transfer */
	struct bucket_body *body;
	const atomic_bool *cancel;
	size_t error_body;
	bool address_refused;
};

static void share_lock(CURL *easy, curl_lock_data data, curl_lock_access access, void *arg)
{
	struct http_source *s = arg;
	(void)easy;
	(void)access;
	pthread_mutex_lock(&s->share_locks[data]);
}

static void share_unlock(CURL *easy, curl_lock_data data, void *arg)
{
	struct http_source *s = arg;
	(void)easy;
	pthread_mutex_unlock(&s->share_locks[data]);
}

static bool share_init(struct http_source *s)
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

/* A part of the URL, decoded, in memory of malloc; empty when it is not there. NULL without memory or when it holds
 * what no URL may. */
static char *url_part(CURLU *url, CURLUPart part, unsigned flags)
{
	char *text = NULL, *copy = NULL;
	CURLUcode code = curl_url_get(url, part, &text, flags);
	if (code == CURLUE_OK || code == CURLUE_NO_USER || code == CURLUE_NO_PASSWORD || code == CURLUE_NO_QUERY)
		copy = strdup(text ? text : "");
	curl_free(text);
	return copy;
}

static char *join(const char *a, const char *b)
{
	char *all = NULL;
	return asprintf(&all, "%s%s", a, b) < 0 ? NULL : all;
}

/* Splits the URL into what may be shown and what may not. */
static bool take_url(struct http_source *s, CURLU *url)
{
	char *query = url_part(url, CURLUPART_QUERY, 0), *shown = NULL;
	s->user = url_part(url, CURLUPART_USER, CURLU_URLDECODE);
	s->password = url_part(url, CURLUPART_PASSWORD, CURLU_URLDECODE);
	if (!query || !s->user || !s->password)
		goto out;
	s->credentials = *s->user || *s->password || *query;
	s->query = join(*query ? "?" : "", query);
	curl_url_set(url, CURLUPART_USER, NULL, 0);
	curl_url_set(url, CURLUPART_PASSWORD, NULL, 0);
	curl_url_set(url, CURLUPART_QUERY, NULL, 0);
	shown = url_part(url, CURLUPART_URL, 0);
	if (shown && *shown)
		s->base = join(shown, shown[strlen(shown) - 1] == '/' ? "" : "/");
out:
	free(query);
	free(shown);
	return s->query && s->base;
}

static void http_source_free(void *source)
{
	struct http_source *s = source;
	if (s->share)
		curl_share_cleanup(s->share);
	for (unsigned i = 0; i < CURL_LOCK_DATA_LAST; i++)
		pthread_mutex_destroy(&s->share_locks[i]);
	free(s->base);
	free(s->query);
	free(s->user);
	free(s->password);
	free(s);
	curl_global_cleanup();
}

static void *http_source_new(const char *text, const struct bucket_limits *limits, struct error *e)
{
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK) {
		error_set(e, ERR_INTERNAL, "source: libcurl does not start");
		return NULL;
	}
	struct http_source *s = calloc(1, sizeof *s);
	CURLU *url = curl_url();
	bool shared = s && share_init(s);
	if (!shared || !url) {
		error_set(e, ERR_NO_MEMORY, "source: no memory");
		goto fail;
	}
	s->limits = *limits;
	CURLUcode code = curl_url_set(url, CURLUPART_URL, text, CURLU_PATH_AS_IS);
	/* curl would take http:///symbols for the host "symbols". */
	if (code != CURLUE_OK || strstr(text, ":///") || strchr(text, '#') || !take_url(s, url)) {
		error_set(e, ERR_CONFIG, "source: no usable URL: %s",
		        code ? curl_url_strerror(code) : "no host, a fragment, or bad characters");
		goto fail;
	}
	curl_url_cleanup(url);
	return s;
fail:
	curl_url_cleanup(url);
	if (s)
		http_source_free(s);
	else
		curl_global_cleanup();
	return NULL;
}

static const char *http_source_name(const void *source)
{
	return ((const struct http_source *)source)->base;
}

static bool ip4_is_local(uint32_t a)
{
	static const struct {
		uint32_t net, mask;
	} nets[] = {
	        {0x00000000, 0xff000000}, /* this network */
	        {0x0a000000, 0xff000000}, /* private */
	        {0x64400000, 0xffc00000}, /* a provider's private */
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
	/* Forms that carry an IPv4 address; all zero holds :: and ::1 too. */
	if (memcmp(a, zero, 12) == 0 || memcmp(a, mapped, 12) == 0 || memcmp(a, nat64, 12) == 0)
		return ip4_is_local(big_endian(a + 12));
	if (a[0] == 0x20 && a[1] == 0x02)
		return ip4_is_local(big_endian(a + 2));
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
		/* curl gives the whole address here, though the declared type is shorter. */
		struct sockaddr_in6 in;
		memcpy(&in, (const void *)&address->addr, sizeof in);
		return ip6_is_local(in.sin6_addr.s6_addr);
	}
	return true;
}

static void keep_address(struct http_client *c, const struct curl_sockaddr *a)
{
	c->source_address_len = a->addrlen <= sizeof c->source_address ? a->addrlen : 0;
	memcpy(&c->source_address, &a->addr, c->source_address_len);
}

static bool is_source_address(const struct http_client *c, const struct curl_sockaddr *a)
{
	return a->addrlen == c->source_address_len && memcmp(&a->addr, &c->source_address, a->addrlen) == 0;
}

static curl_socket_t open_socket(void *arg, curlsocktype purpose, struct curl_sockaddr *address)
{
	struct http_client *c = arg;
	long redirects = 0;
	(void)purpose;
	curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_COUNT, &redirects);
	if (redirects == 0)
		keep_address(c, address);
	/* A bucket on a private network may redirect within itself, and nowhere else there. */
	bool elsewhere = redirects > 0 && !is_source_address(c, address);
	if (elsewhere && address_is_local(address) && !c->source->limits.allow_local_redirects) {
		c->address_refused = true;
		return CURL_SOCKET_BAD;
	}
	return socket(address->family, address->socktype | SOCK_CLOEXEC, address->protocol);
}

static bool cancelled(const struct http_client *c)
{
	return c->cancel && atomic_load(c->cancel);
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
	(void)down_total;
	(void)down;
	(void)up_total;
	(void)up;
	return cancelled(arg);
}

static long status_of(const struct http_client *c)
{
	long status = 0;
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	return status;
}

/* At most 16 KiB a call. Anything but len ends the transfer. */
static size_t on_body(char *data, size_t size, size_t len, void *arg)
{
	struct http_client *c = arg;
	(void)size;
	if (cancelled(c))
		return CURL_WRITEFUNC_ERROR;
	if (status_of(c) != 200) {
		c->error_body += len;
		return c->error_body <= ERROR_BODY_MAX ? len : CURL_WRITEFUNC_ERROR;
	}
	enum bucket_outcome outcome = bucket_body_add(c->body, (const uint8_t *)data, len);
	return outcome == BUCKET_OK ? len : CURL_WRITEFUNC_ERROR;
}

static long milliseconds(int64_t t)
{
	return t <= 0 ? 1 : (long)((t + MS - 1) / MS);
}

static bool set_limits(CURL *h, const struct bucket_limits *l)
{
	/* Only for a Content-Length that needs no second look; gzip of noise is a little larger than the noise. The
	 * body counts. */
	curl_off_t largest =
	        l->max_size < INT64_MAX / 4 ? (curl_off_t)(l->max_size + l->max_size / 8 + READ_BUFFER) : 0;
	return !curl_easy_setopt(h, CURLOPT_MAXFILESIZE_LARGE, largest) &&
	       !curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT_MS, milliseconds(l->connect_timeout)) &&
	       !curl_easy_setopt(h, CURLOPT_TIMEOUT_MS, milliseconds(l->total_timeout)) &&
	       !curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, (long)LOW_SPEED) &&
	       !curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (milliseconds(l->stall_timeout) + 999) / 1000) &&
	       !curl_easy_setopt(h, CURLOPT_BUFFERSIZE, (long)READ_BUFFER) &&
	       !curl_easy_setopt(h, CURLOPT_MAXREDIRS, 5L);
}

static bool set_policy(CURL *h, const struct http_source *s)
{
	return !curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       !curl_easy_setopt(h, CURLOPT_REDIR_PROTOCOLS_STR, "http,https") &&
	       !curl_easy_setopt(h, CURLOPT_FOLLOWLOCATION, 1L) && !curl_easy_setopt(h, CURLOPT_PATH_AS_IS, 1L) &&
	       !curl_easy_setopt(h, CURLOPT_NOPROXY, "*") && !curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) &&
	       !curl_easy_setopt(h, CURLOPT_QUICK_EXIT, 1L) && !curl_easy_setopt(h, CURLOPT_SHARE, s->share) &&
	       /* One transfer a connection: HTTP/2 would only add windows. */
	       !curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       !curl_easy_setopt(h, CURLOPT_ACCEPT_ENCODING, "gzip") &&
	       !curl_easy_setopt(h, CURLOPT_HTTP_CONTENT_DECODING, 0L) &&
	       !curl_easy_setopt(h, CURLOPT_USERAGENT, "symbolicated/" PACKAGE_VERSION);
}

static bool set_callbacks(CURL *h, struct http_client *c)
{
	return !curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->problem) &&
	       !curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body) && !curl_easy_setopt(h, CURLOPT_WRITEDATA, c) &&
	       !curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L) &&
	       !curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress) &&
	       !curl_easy_setopt(h, CURLOPT_XFERINFODATA, c) &&
	       !curl_easy_setopt(h, CURLOPT_OPENSOCKETFUNCTION, open_socket) &&
	       !curl_easy_setopt(h, CURLOPT_OPENSOCKETDATA, c);
}

/* curl never sends these to another host than the source's. */
static bool set_credentials(CURL *h, const struct http_source *s)
{
	if (!*s->user && !*s->password)
		return true;
	return !curl_easy_setopt(h, CURLOPT_HTTPAUTH, CURLAUTH_BASIC) &&
	       !curl_easy_setopt(h, CURLOPT_USERNAME, s->user) && !curl_easy_setopt(h, CURLOPT_PASSWORD, s->password);
}

static void http_client_free(void *client)
{
	struct http_client *c = client;
	curl_easy_cleanup(c->easy);
	free(c);
}

static void *http_client_new(void *source)
{
	struct http_source *s = source;
	struct http_client *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->source = s;
	c->easy = curl_easy_init();
	if (c->easy && set_limits(c->easy, &s->limits) && set_policy(c->easy, s) && set_callbacks(c->easy, c) &&
	        set_credentials(c->easy, s))
		return c;
	http_client_free(c);
	return NULL;
}

/* The outcome that a status other than 200 means. */
static enum bucket_outcome outcome_of_status(long status, bool credentials)
{
	switch (status) {
	case 400:
	case 404:
	case 410:
	case 414:
	case 451:
		return BUCKET_MISSING;
	case 403: /* S3 says so of a missing object to who may not list; to who may, it is a matter of rights */
		return credentials ? BUCKET_FAILED : BUCKET_MISSING;
	default:
		return BUCKET_FAILED;
	}
}

static bool has_header(CURL *h, const char *name, size_t *amount)
{
	struct curl_header *found = NULL;
	bool has = curl_easy_header(h, name, 0, CURLH_HEADER, -1, &found) == CURLHE_OK;
	*amount = has ? found->amount : 0;
	return has;
}

/* A body that curl took for whole: is it? */
static enum bucket_outcome check_whole(struct http_client *c, struct bucket_result *result)
{
	size_t lengths = 0, codings = 0;
	curl_off_t length = -1;
	bool chunked = has_header(c->easy, "Transfer-Encoding", &codings);
	bool sized = has_header(c->easy, "Content-Length", &lengths) && !chunked;
	if (lengths > 1)
		return bucket_result_set(result, BUCKET_FAILED, "more than one Content-Length");
	curl_easy_getinfo(c->easy, CURLINFO_CONTENT_LENGTH_DOWNLOAD_T, &length);
	if (sized && length >= 0 && (uint64_t)length != bucket_body_wire_bytes(c->body))
		return bucket_result_set(result, BUCKET_FAILED, "other length than Content-Length");
	enum bucket_outcome outcome = bucket_body_end(c->body);
	if (outcome != BUCKET_OK)
		return bucket_result_set(result, outcome, "%s", bucket_body_problem(c->body));
	result->length_known = chunked || sized || bucket_body_is_gzip(c->body);
	if (!result->length_known && !bucket_body_ends_line(c->body))
		return bucket_result_set(result, BUCKET_FAILED, "a body of unknown length ends within a line");
	return result->outcome = BUCKET_OK;
}

static enum bucket_outcome judge(struct http_client *c, CURLcode code, struct bucket_result *result)
{
	enum bucket_outcome outcome = bucket_body_add(c->body, NULL, 0);
	const char *text = *c->problem ? c->problem : curl_easy_strerror(code);
	if (cancelled(c))
		return bucket_result_set(result, BUCKET_ABORTED, "cancelled");
	if (outcome != BUCKET_OK)
		return bucket_result_set(result, outcome, "%s", bucket_body_problem(c->body));
	/* With several addresses another one may have been taken. */
	if (c->address_refused && code != CURLE_OK)
		return bucket_result_set(result, BUCKET_FAILED, "redirect to a local address");
	if (code != CURLE_OK && (result->status < 400 || result->status > 599)) {
		outcome = code == CURLE_FILESIZE_EXCEEDED ? BUCKET_TOO_LARGE : BUCKET_FAILED;
		return bucket_result_set(result, outcome, "%.150s", text);
	}
	if (result->status != 200)
		return bucket_result_set(result, outcome_of_status(result->status, c->source->credentials),
		        "HTTP status %d", result->status);
	return check_whole(c, result);
}

static void transfer(struct http_client *c, const char *path, struct bucket_body *body, const atomic_bool *cancel,
        struct bucket_result *result)
{
	char *url = NULL;
	if (asprintf(&url, "%s%s%s", c->source->base, path, c->source->query) < 0 ||
	        curl_easy_setopt(c->easy, CURLOPT_URL, url) != CURLE_OK) {
		free(url);
		bucket_result_set(result, BUCKET_FAILED, "no memory");
		return;
	}
	c->body = body;
	c->cancel = cancel;
	c->error_body = 0;
	c->address_refused = false;
	c->problem[0] = 0;
	CURLcode code = curl_easy_perform(c->easy);
	result->status = (int)status_of(c);
	judge(c, code, result);
	free(url);
}

static void http_fetch(void *client, struct str name, struct str id, struct bucket_body *body,
        const atomic_bool *cancel, struct bucket_result *result)
{
	char path[BUCKET_PATH_MAX];
	bucket_object_path(path, name, id);
	transfer(client, path, body, cancel, result);
}

/* No object has a name without slashes. */
static void http_probe(void *client, struct bucket_body *body, struct bucket_result *result)
{
	transfer(client, "__heartbeat__", body, NULL, result);
}

#define HTTP_BACKEND(name)                                                                                       \
	{                                                                                                        \
		.scheme = name, .source_new = http_source_new, .source_free = http_source_free,                  \
		.source_name = http_source_name, .client_new = http_client_new, .client_free = http_client_free, \
		.fetch = http_fetch, .probe = http_probe,                                                        \
	}

const struct bucket_backend bucket_http = HTTP_BACKEND("http://");
const struct bucket_backend bucket_https = HTTP_BACKEND("https://");
