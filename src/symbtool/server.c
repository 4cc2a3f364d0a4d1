/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/server.h"

#include <curl/curl.h>
#include <jansson.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"
#include "base/process.h"
#include "symbtool/api_key.h"
#include "symbtool/cli.h"

enum {
	CONNECT_TIMEOUT = 10, /* seconds */
	STALL_TIMEOUT = 120,  /* without receiving a byte: the server writes a part to its store before it replies */
	RETRY_AFTER_MAX = 300,
	SHOWN_MAX = 151,    /* bytes of a URL in a message */
	PAUSES_MAX = 10000, /* tries; retry_time ends them long before */
};
#define FIRST_PAUSE (SECOND / 4)
#define LONGEST_PAUSE (20 * SECOND)
#define PAUSE_SLICE (50 * MS) /* how soon a request notices that it was cancelled */

struct server_connection {
	struct server *server;
	CURL *easy;
	char problem[CURL_ERROR_SIZE];
	/* of the current request */
	const struct server_request *request;
	struct buffer *body;
	int64_t told; /* bytes already reported to its progress */
};

/* Hides user and password, which may contain any character. */
static const char *shown_url(char out[SHOWN_MAX], const char *url)
{
	const char *scheme = strstr(url, "://"), *start = scheme ? scheme + 3 : url, *user_end = strrchr(start, '@');
	snprintf(out, SHOWN_MAX, "%.*s%s%s", (int)(start - url), url, user_end ? "***" : "",
	        user_end ? user_end : start);
	return out;
}

const char *server_url(const char *given)
{
	const char *url = given ? given : getenv("SYMBTOOL_URL");
	return url && *url ? url : NULL;
}

/* Whether a URL has one of these schemes; *host: what stands there, which the caller frees by curl_free. */
static bool read_url(const char *text, char **scheme, char **host)
{
	CURLU *url = curl_url();
	*scheme = *host = NULL;
	bool ok = url && curl_url_set(url, CURLUPART_URL, text, 0) == CURLUE_OK &&
	          curl_url_get(url, CURLUPART_SCHEME, scheme, 0) == CURLUE_OK &&
	          curl_url_get(url, CURLUPART_HOST, host, 0) == CURLUE_OK &&
	          (strcmp(*scheme, "http") == 0 || strcmp(*scheme, "https") == 0);
	curl_url_cleanup(url);
	return ok;
}

/* Without what stands behind the part that all paths have in common: the page's file, a route, a query. */
static char *base_of(const char *url)
{
	static const char *const tails[] = {
	        "/", "/index.html", "/symbolicate/v5", "/symbolicate/v4", "/symbolicate/text", "/symbolicate", "/"};
	size_t len = strcspn(url, "?#");
	for (size_t i = 0; i < sizeof tails / sizeof *tails; i++) {
		size_t n = strlen(tails[i]);
		while (len > n && memcmp(url + len - n, tails[i], n) == 0)
			len -= n;
	}
	return strndup(url, len);
}

enum err server_open(struct server *s, struct error *e)
{
	char *scheme, *host, shown[SHOWN_MAX];
	atomic_init(&s->cancel, false);
	atomic_init(&s->settled, false);
	signal(SIGPIPE, SIG_IGN); /* a broken connection is an error, not the end */
	if (curl_global_init(CURL_GLOBAL_DEFAULT) != CURLE_OK || !(s->base = base_of(s->url)))
		return no_memory(e);
	bool ok = read_url(s->url, &scheme, &host), bare = !strstr(s->url, "://");
	if (!ok)
		error_set(e, ERR_CONFIG, "%s: not an http:// or https:// URL%s%s", shown_url(shown, s->url),
		        bare ? "; try https://" : "", bare ? s->url : "");
	atomic_store(&s->settled, ok && strcmp(scheme, "https") == 0);
	curl_free(scheme);
	curl_free(host);
	return !ok ? ERR_CONFIG : s->keyed ? api_key_header(&s->authorization, s->key, s->key_file, e) : ERR_OK;
}

void server_release(struct server *s)
{
	free(s->base);
	api_key_free(s->authorization);
	s->base = s->authorization = NULL;
}

/* ---- callbacks of curl ---- */

static size_t on_body(char *data, size_t size, size_t len, void *arg)
{
	struct server_connection *c = arg;
	(void)size;
	return buffer_append(c->body, data, len) ? len : CURL_WRITEFUNC_ERROR;
}

static void tell_sent(struct server_connection *c, int64_t now)
{
	if (c->request->progress && now != c->told)
		progress_add(c->request->progress, now - c->told);
	c->told = now;
}

static int on_progress(void *arg, curl_off_t down_total, curl_off_t down, curl_off_t up_total, curl_off_t up)
{
	struct server_connection *c = arg;
	(void)down_total, (void)down, (void)up_total;
	tell_sent(c, up);
	return atomic_load(&c->server->cancel);
}

/* ---- one try ---- */

static bool set_up(struct server_connection *c)
{
	CURL *h = c->easy;
	const struct server *s = c->server;
	return !curl_easy_setopt(h, CURLOPT_PROTOCOLS_STR, "http,https") &&
	       !curl_easy_setopt(h, CURLOPT_NOSIGNAL, 1L) &&
	       !curl_easy_setopt(h, CURLOPT_USERAGENT, "symbtool/" FULL_VERSION) &&
	       !curl_easy_setopt(h, CURLOPT_ACCEPT_ENCODING, "gzip") &&
	       !curl_easy_setopt(h, CURLOPT_HTTP_VERSION, (long)CURL_HTTP_VERSION_1_1) &&
	       !curl_easy_setopt(h, CURLOPT_CONNECTTIMEOUT, (long)CONNECT_TIMEOUT) &&
	       !curl_easy_setopt(h, CURLOPT_LOW_SPEED_LIMIT, 1L) &&
	       !curl_easy_setopt(h, CURLOPT_LOW_SPEED_TIME, (long)STALL_TIMEOUT) &&
	       !curl_easy_setopt(h, CURLOPT_ERRORBUFFER, c->problem) &&
	       !curl_easy_setopt(h, CURLOPT_WRITEFUNCTION, on_body) && !curl_easy_setopt(h, CURLOPT_WRITEDATA, c) &&
	       !curl_easy_setopt(h, CURLOPT_NOPROGRESS, 0L) &&
	       !curl_easy_setopt(h, CURLOPT_XFERINFOFUNCTION, on_progress) &&
	       !curl_easy_setopt(h, CURLOPT_XFERINFODATA, c) &&
	       !curl_easy_setopt(h, CURLOPT_SSL_VERIFYPEER, (long)!s->insecure) &&
	       !curl_easy_setopt(h, CURLOPT_SSL_VERIFYHOST, s->insecure ? 0L : 2L) &&
	       (!s->ca_file || !curl_easy_setopt(h, CURLOPT_CAINFO, s->ca_file));
}

struct server_connection *connection_new(struct server *s)
{
	struct server_connection *c = calloc(1, sizeof *c);
	if (!c)
		return NULL;
	c->server = s;
	c->easy = curl_easy_init();
	if (c->easy && set_up(c))
		return c;
	connection_free(c);
	return NULL;
}

void connection_free(struct server_connection *c)
{
	if (!c)
		return;
	curl_easy_cleanup(c->easy);
	free(c);
}

static bool add_header(struct curl_slist **list, const char *line)
{
	struct curl_slist *longer = curl_slist_append(*list, line);
	if (longer)
		*list = longer;
	return longer != NULL;
}

/* The API key and the request's own header lines; no 100-continue, which costs a round trip. */
static bool make_headers(const struct server_connection *c, struct curl_slist **list)
{
	char line[8192];
	bool ok = add_header(list, "Expect:");
	if (c->server->authorization)
		ok = ok && add_header(list, c->server->authorization);
	for (const char *at = c->request->headers; ok && at && *at;) {
		const char *end = strchrnul(at, '\n');
		snprintf(line, sizeof line, "%.*s", (int)(end - at), at);
		ok = add_header(list, line);
		at = *end ? end + 1 : end;
	}
	return ok;
}

static void free_headers(struct curl_slist *list, const char *secret)
{
	for (struct curl_slist *l = list; l; l = l->next)
		if (secret && strcmp(l->data, secret) == 0)
			memset(l->data, 0, strlen(l->data));
	curl_slist_free_all(list);
}

static enum err status_error(long status)
{
	if (status == 404)
		return ERR_MISSING;
	if (status == 401 || status == 403)
		return ERR_FORBIDDEN;
	return status == 429 || status >= 500 ? ERR_UNAVAILABLE : ERR_BAD_REQUEST;
}

/* ---- from http to https ---- */

/* Connections of several threads share a server. One of them settles it; the others wait. */
static pthread_mutex_t base_lock = PTHREAD_MUTEX_INITIALIZER, settle_lock = PTHREAD_MUTEX_INITIALIZER;

static char *full_url(const struct server_connection *c, const char *path)
{
	pthread_mutex_lock(&base_lock);
	char *url = text_printf("%s%s", c->server->base, path);
	pthread_mutex_unlock(&base_lock);
	return url;
}

/* Takes the place to which the last reply sends, if it is the same host's by https. False: it is not. */
static bool take_redirect(struct server_connection *c, const char *path)
{
	char *to = NULL, *scheme, *host, *new_scheme, *new_host;
	size_t tail = strlen(path);
	if (curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to) != CURLE_OK || !to)
		return false;
	size_t len = strlen(to);
	bool ends = len > tail && strcmp(to + len - tail, path) == 0;
	pthread_mutex_lock(&base_lock);
	bool old = read_url(c->server->base, &scheme, &host), new = read_url(to, &new_scheme, &new_host);
	bool good = ends && old && new &&strcmp(scheme, "http") == 0 && strcmp(new_scheme, "https") == 0 &&
	            strcasecmp(host, new_host) == 0;
	char *base = good ? strndup(to, len - tail) : NULL;
	if (base) {
		free(c->server->base);
		c->server->base = base;
		atomic_store(&c->server->settled, true);
	}
	pthread_mutex_unlock(&base_lock);
	curl_free(scheme);
	curl_free(host);
	curl_free(new_scheme);
	curl_free(new_host);
	return base != NULL;
}

static CURLcode perform(
        struct server_connection *c, const struct server_request *q, const char *url, struct curl_slist *headers)
{
	CURL *h = c->easy;
	CURLcode code = curl_easy_setopt(h, CURLOPT_URL, url);
	if (!code)
		code = curl_easy_setopt(h, CURLOPT_HTTPHEADER, headers);
	if (!code)
		code = curl_easy_setopt(h, CURLOPT_HTTPGET, 1L);
	if (!code && q->data)
		code = curl_easy_setopt(h, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)q->len);
	if (!code && q->data)
		code = curl_easy_setopt(h, CURLOPT_POSTFIELDS, q->data);
	if (!code)
		code = curl_easy_setopt(h, CURLOPT_CUSTOMREQUEST, q->method);
	c->problem[0] = 0;
	buffer_reset(c->body);
	return code ? code : curl_easy_perform(h);
}

/* Asks without a key whether the server sends people to https. */
static CURLcode ask_where(struct server_connection *c)
{
	static const struct server_request version = {.path = "/__version__"};
	long status = 0;
	char *url = full_url(c, version.path);
	CURLcode code = url ? perform(c, &version, url, NULL) : CURLE_OUT_OF_MEMORY;
	if (!code)
		code = curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	if (!code && status_error(status) == ERR_UNAVAILABLE) /* who says so may send on all others */
		code = CURLE_HTTP_RETURNED_ERROR;
	bool elsewhere = !code && status >= 300 && status < 400;
	if (!code && (!elsewhere || !take_redirect(c, version.path)))
		atomic_store(&c->server->settled, !elsewhere);
	free(url);
	return code ? code : elsewhere && !atomic_load(&c->server->settled) ? CURLE_TOO_MANY_REDIRECTS : CURLE_OK;
}

/* Before a key is sent by http. */
static CURLcode settle(struct server_connection *c)
{
	pthread_mutex_lock(&settle_lock);
	CURLcode code = atomic_load(&c->server->settled) ? CURLE_OK : ask_where(c);
	pthread_mutex_unlock(&settle_lock);
	return code;
}

/* ---- what came of it ---- */

/* The server's message, in any of its forms of an error: {"error":{"Text"},"uuid"}, {"error"}. */
static void server_text(const struct buffer *body, char *out, size_t size)
{
	json_t *root = json_loadb((const char *)body->data, body->len, 0, NULL);
	const json_t *error = json_object_get(root, "error");
	const char *text = json_string_value(error), *uuid = json_string_value(json_object_get(root, "uuid"));
	if (json_is_object(error))
		text = json_string_value(json_object_get(error, "Text"));
	out[0] = 0;
	if (text && uuid)
		snprintf(out, size, ": %.100s (uuid %.36s)", text, uuid);
	else if (text)
		snprintf(out, size, ": %s", text);
	json_decref(root);
}

/* Failures that another try will not fix. */
static bool is_hopeless(CURLcode code)
{
	return code == CURLE_PEER_FAILED_VERIFICATION || code == CURLE_SSL_CACERT_BADFILE ||
	       code == CURLE_URL_MALFORMAT || code == CURLE_UNSUPPORTED_PROTOCOL || code == CURLE_ABORTED_BY_CALLBACK ||
	       code == CURLE_OUT_OF_MEMORY || code == CURLE_WRITE_ERROR;
}

/* What a person can do about it; empty: nothing is known. */
static const char *cure_of(const struct server_connection *c, CURLcode code, long status)
{
	const char *type = NULL;
	curl_easy_getinfo(c->easy, CURLINFO_CONTENT_TYPE, &type);
	if (code == CURLE_PEER_FAILED_VERIFICATION)
		return "; --ca-file FILE trusts a certificate of your own";
	if (code == CURLE_SSL_CONNECT_ERROR)
		return "; if the server has no TLS, write http://";
	if (type && strncmp(type, "text/html", strlen("text/html")) == 0 && status != 429 && status < 500)
		return ": this is a web page, not the API; is the URL right?";
	if (status == 401 && !c->server->authorization)
		return "; give a key by --api-key-file";
	return "";
}

/* A server may reply before it has read everything, so a status counts more than curl's result. */
static enum err judge_reply(struct server_connection *c, const char *url, CURLcode code, struct error *e)
{
	char text[160], shown[SHOWN_MAX], *to = NULL;
	long status = 0;
	shown_url(shown, url);
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	const char *cure = cure_of(c, code, status);
	curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &to);
	if (status >= 300 && status < 400 && to) {
		char there[SHOWN_MAX];
		return error_set(e, ERR_BAD_REQUEST, "%.80s: %ld, it is now %.80s: give that as --url", shown, status,
		        shown_url(there, to));
	}
	if (status >= 300 || (code == CURLE_OK && (status != 200 || *cure))) {
		server_text(c->body, text, sizeof text);
		return error_set(e, status_error(status), "%.90s: %ld%s%s", shown, status, text, cure);
	}
	if (code == CURLE_OK)
		return ERR_OK;
	return error_set(e, is_hopeless(code) ? ERR_IO : ERR_UNAVAILABLE, "%.90s: %.90s%s", shown,
	        c->problem[0] ? c->problem : curl_easy_strerror(code), cure);
}

/* The pause that the server asks for, else twice the last one, slightly shortened at random so that clients do not all
 * come back at once. */
static int64_t pause_length(struct server_connection *c, unsigned tries)
{
	curl_off_t asked = 0;
	curl_easy_getinfo(c->easy, CURLINFO_RETRY_AFTER, &asked);
	if (asked > 0)
		return (asked < RETRY_AFTER_MAX ? asked : RETRY_AFTER_MAX) * SECOND;
	int64_t pause = tries < 7 ? FIRST_PAUSE << tries : LONGEST_PAUSE;
	if (pause > LONGEST_PAUSE)
		pause = LONGEST_PAUSE;
	return pause - (int64_t)(random_u64() % (uint64_t)(pause / 4));
}

static void pause_for(const struct server_connection *c, int64_t length)
{
	int64_t end = clock_now() + length;
	struct timespec slice = {.tv_nsec = PAUSE_SLICE};
	while (clock_now() < end && !atomic_load(&c->server->cancel))
		nanosleep(&slice, NULL);
}

/* Whether to try again; waits before that. */
static bool wait_for_another(struct server_connection *c, unsigned tries, int64_t *give_up, const struct error *e)
{
	if (!*give_up)
		*give_up = clock_now() + (int64_t)c->server->retry_time * SECOND;
	int64_t pause = pause_length(c, tries);
	if (tries >= PAUSES_MAX || clock_now() + pause > *give_up || atomic_load(&c->server->cancel))
		return false;
	complain("", "%s; trying again in %.1f s", e->text, (double)pause / (double)SECOND);
	pause_for(c, pause);
	return !atomic_load(&c->server->cancel);
}

/* One try. *again: it was sent on to https. */
static enum err try_once(struct server_connection *c, struct curl_slist *headers, bool *again, struct error *e)
{
	CURLcode code = CURLE_OK;
	long status = 0;
	if (c->server->authorization && !atomic_load(&c->server->settled))
		code = settle(c);
	char *url = full_url(c, c->request->path);
	if (!url)
		return no_memory(e);
	if (!code)
		code = perform(c, c->request, url, headers);
	curl_easy_getinfo(c->easy, CURLINFO_RESPONSE_CODE, &status);
	*again = !code && status >= 300 && status < 400 && !atomic_load(&c->server->settled) &&
	         take_redirect(c, c->request->path);
	enum err err = *again ? ERR_OK : judge_reply(c, url, code, e);
	free(url);
	return err;
}

enum err connection_send(
        struct server_connection *c, const struct server_request *request, struct buffer *body, struct error *e)
{
	struct curl_slist *headers = NULL;
	bool again = false;
	int64_t give_up = 0;
	c->request = request;
	c->body = body;
	c->told = 0;
	enum err err = make_headers(c, &headers) ? ERR_OK : no_memory(e);
	for (unsigned tries = 0; !err; tries++) {
		err = try_once(c, headers, &again, e);
		if (!err && again)
			err = try_once(c, headers, &again, e);
		if (err)
			tell_sent(c, 0);
		if (err != ERR_UNAVAILABLE || !wait_for_another(c, tries, &give_up, e))
			break;
		err = ERR_OK;
	}
	if (!err)
		tell_sent(c, (int64_t)request->len);
	free_headers(headers, c->server->authorization);
	return err;
}

json_t *connection_ask(struct server_connection *c, const struct server_request *request, struct error *e)
{
	struct buffer body;
	json_t *root = NULL;
	buffer_init(&body, SERVER_REPLY_MAX);
	if (!connection_send(c, request, &body, e)) {
		root = json_loadb((const char *)body.data, body.len, JSON_ALLOW_NUL, NULL);
		if (!json_is_object(root)) {
			error_set(e, ERR_CORRUPT, "%.100s: the reply is not a JSON object", request->path);
			json_decref(root);
			root = NULL;
		}
	}
	buffer_release(&body);
	return root;
}
