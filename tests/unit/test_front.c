/* SPDX-License-Identifier: Apache-2.0 */
/* The front over a real socket: many connections on few threads, parked exchanges, bodies and replies of all sizes,
 * peers that misbehave, and the end. It is also what pins the fields of libfcgi that are not meant for use. */
#include <config.h>

#include "front/front.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>
#include <zlib.h>

#include "api/router.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/permits.h"
#include "base/process.h"
#include "fcgi_client.h"

enum { PATTERN = 70 * 1024 * 1024, BOUND_SECONDS = 60 };

static char directory[] = "/tmp/test-front-XXXXXX", path[64];
static struct config config;
static struct front *front;
static unsigned char *pattern; /* PATTERN bytes that differ from place to place */

/* A condition that must come true, looked at every millisecond. It is not asked again: a gauge is a sum of many numbers
 * that others change meanwhile. */
#define wait_until(condition)                                                \
	do {                                                                 \
		int64_t wait_end = clock_now() + BOUND_SECONDS * SECOND;     \
		bool came_true;                                              \
		while (!(came_true = (condition)) && clock_now() < wait_end) \
			poll(NULL, 0, 1);                                    \
		assert_true(came_true);                                      \
	} while (0)

/* handlers */

/* Another thread, as services have them: resumes what it is given, or when its peer has gone. */
struct parked {
	struct exchange *x;
	void (*fn)(struct exchange *x); /* NULL: it sleeps */
	unsigned times;                 /* still to be parked */
	bool until_gone;
	struct parked *next;
};

static struct {
	pthread_t thread;
	pthread_mutex_t lock;
	pthread_cond_t come;
	struct parked *list;
	bool stopping;
} resumer = {.lock = PTHREAD_MUTEX_INITIALIZER, .come = PTHREAD_COND_INITIALIZER};

static _Atomic(struct exchange *) held;
static atomic_uint seen_gone, seen_dropped;

static void park(struct parked *p)
{
	pthread_mutex_lock(&resumer.lock);
	p->next = resumer.list;
	resumer.list = p;
	pthread_cond_signal(&resumer.come);
	pthread_mutex_unlock(&resumer.lock);
}

static void *resume_all(void *arg)
{
	pthread_mutex_lock(&resumer.lock);
	while (!resumer.stopping) {
		struct parked *p = resumer.list;
		if (!p) {
			pthread_cond_wait(&resumer.come, &resumer.lock);
			continue;
		}
		resumer.list = p->next;
		pthread_mutex_unlock(&resumer.lock);
		if (!p->until_gone || exchange_gone(p->x)) {
			seen_gone += p->until_gone;
			if (p->fn)
				exchange_resume(p->x, p->fn);
			else
				exchange_wake(p->x);
		} else {
			poll(NULL, 0, 1);
			park(p);
		}
		pthread_mutex_lock(&resumer.lock);
	}
	pthread_mutex_unlock(&resumer.lock);
	return arg;
}

static void reply_parked(struct exchange *x)
{
	exchange_reply_text(x, 200, "text/plain", NULL, str_from("parked"));
}

static void step_parked(struct exchange *x)
{
	struct parked *p = x->user;
	if (p->times-- > 0)
		park(p);
	else
		reply_parked(x);
}

static void handle_park(struct exchange *x)
{
	struct parked *p = arena_calloc(x->arena, 1, sizeof *p);
	x->user = p;
	*p = (struct parked){.x = x, .fn = step_parked, .times = 2};
	if (str_equal(x->path, str_from("/t/gone"))) {
		p->until_gone = true;
		p->times = 0;
	}
	park(p);
}

static atomic_uint asleep;

/* Woken before it sleeps, then by another thread at about the time; /t/sleep/gone: when its peer has gone. */
static void handle_sleep(struct exchange *x)
{
	struct parked p = {.x = x, .until_gone = str_equal(x->path, str_from("/t/sleep/gone"))};
	exchange_wake(x);
	exchange_sleep(x);
	asleep++;
	for (unsigned i = 0; i < (p.until_gone ? 1 : 20); i++) {
		park(&p);
		exchange_sleep(x);
	}
	asleep--;
	reply_parked(x);
}

static void note_dropped(struct exchange *x)
{
	seen_dropped += x == atomic_load(&held);
}

static void handle_hold(struct exchange *x)
{
	x->dropped = note_dropped;
	atomic_store(&held, x);
}

static atomic_size_t echo_room; /* of the latest body */

/* The body back, or the path when there is none. */
static void handle_echo(struct exchange *x)
{
	struct buffer body;
	struct error e;
	buffer_init(&body, x->config->max_body_inflated);
	enum err err = exchange_read_body(x, &body, &e);
	echo_room = body.cap;
	if (err)
		exchange_reply_error(x, &e, 7);
	else if (body.len)
		exchange_reply_text(x, 200, "text/plain", NULL, (struct str){(char *)body.data, body.len});
	else
		exchange_reply_text(x, 200, "text/plain", NULL, x->path);
	buffer_release(&body);
}

/* Needs more time than a request has. */
static enum err take_slowly(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	const struct exchange *x = arg;
	(void)data;
	while (clock_now() - x->started < x->config->request_timeout + SECOND / 10)
		poll(NULL, 0, 1);
	return len ? ERR_OK : error_set(e, ERR_INTERNAL, "nothing");
}

static void handle_take(struct exchange *x)
{
	struct error e;
	if (exchange_stream_body(x, PATTERN, take_slowly, x, &e))
		exchange_reply_error(x, &e, 1);
	else
		exchange_reply_text(x, 200, "text/plain", NULL, str_from("taken"));
}

static void handle_ignore(struct exchange *x)
{
	exchange_reply_text(x, 200, "text/plain", "X-Extra: 1\r\n", str_from("ignored"));
}

/* /t/large/BYTES */
static void handle_large(struct exchange *x)
{
	size_t len = strtoul(x->path.data + strlen("/t/large/"), NULL, 10);
	exchange_reply_text(x, 200, "application/octet-stream", NULL, (struct str){(const char *)pattern, len});
}

/* /t/stored/BYTES */
static void handle_stored(struct exchange *x)
{
	size_t len = strtoul(x->path.data + strlen("/t/stored/"), NULL, 10);
	exchange_reply_begin_stored(x, 200, "application/octet-stream", NULL, len);
	if (exchange_reply_add(x, pattern, len))
		exchange_reply_end(x);
	else
		exchange_reply_cut(x);
}

static atomic_bool blocked, goes_on, gone_on;

/* As one that waits for a store. */
static void handle_block(struct exchange *x)
{
	atomic_store(&blocked, true);
	while (!atomic_load(&goes_on))
		poll(NULL, 0, 1);
	exchange_reply_text(x, 200, "text/plain", "", str_from("late"));
	atomic_store(&gone_on, true);
}

static atomic_uint working;
static atomic_bool work_ends;

/* Works until it is told to end, in slices; /t/slices/unpermitted: as one that has waited for memcached. */
static void handle_work(struct exchange *x)
{
	const int64_t end = clock_now() + BOUND_SECONDS * SECOND;
	bool needed = true;
	if (str_equal(x->path, str_from("/t/slices/unpermitted")))
		permit_give();
	working++;
	while (!atomic_load(&work_ends) && needed && clock_now() < end)
		needed = exchange_turn(x);
	working--;
	seen_gone += !needed;
	exchange_reply_text(x, 200, "text/plain", "", str_from("done"));
}

static atomic_uint helping;

static void help_on(struct help_work *w, const struct yield *y)
{
	const int64_t end = clock_now() + BOUND_SECONDS * SECOND;
	(void)w;
	helping++;
	while (!atomic_load(&work_ends) && clock_now() < end && yield_now(y))
		;
	helping--;
}

static void handle_help(struct exchange *x)
{
	struct help_work w = {.run = help_on};
	exchange_offer(x, &w);
	while (!atomic_load(&work_ends))
		poll(NULL, 0, 1);
	exchange_take_back(x, &w);
	exchange_reply_text(x, 200, "text/plain", "", str_from("done"));
}

static void dispatch(struct exchange *x)
{
	static const struct {
		const char *path;
		void (*handle)(struct exchange *x);
	} own[] = {{"/t/echo", handle_echo}, {"/t/take", handle_take}, {"/t/park", handle_park},
	        {"/t/gone", handle_park}, {"/t/hold", handle_hold}, {"/t/sleep", handle_sleep},
	        {"/t/ignore", handle_ignore}, {"/t/large/", handle_large}, {"/t/stored/", handle_stored},
	        {"/t/block", handle_block}, {"/t/slices", handle_work}, {"/t/help", handle_help}};
	for (unsigned i = 0; i < sizeof own / sizeof own[0]; i++)
		if (x->path.len && strncmp(x->path.data, own[i].path, strlen(own[i].path)) == 0) {
			own[i].handle(x);
			return;
		}
	router_handle(x);
}

/* The real ones need services; the router needs only that they are there. */
static void say(struct exchange *x, const char *name)
{
	exchange_reply_text(x, 200, "text/plain", NULL, str_from(name));
}
void symbolicate_v5_handle(struct exchange *x)
{
	say(x, "v5");
}
void symbolicate_v4_handle(struct exchange *x)
{
	say(x, "v4");
}
void cache_delete_handle(struct exchange *x)
{
	say(x, "cache");
}
void heartbeat_handle(struct exchange *x)
{
	say(x, "heartbeat");
}
void lbheartbeat_handle(struct exchange *x)
{
	say(x, "lbheartbeat");
}
void version_handle(struct exchange *x)
{
	say(x, "version");
}
void broken_handle(struct exchange *x)
{
	say(x, "broken");
}
void metrics_handle(struct exchange *x)
{
	say(x, "metrics");
}

/* start and stop */

static void set(const char *key, const char *value)
{
	struct error e = {.code = ERR_OK};
	if (config_set(&config, key, value, &e))
		fail_msg("%s", e.text);
}

static void start_front(void)
{
	struct error e;
	int fd;
	if (front_listen(&config, &fd, &e) || !(front = front_start(&config, fd, dispatch, &e)))
		fail_msg("%s", e.text);
	signal(SIGPIPE, SIG_IGN);
}

static int setup(void **state)
{
	struct error e;
	(void)state;
	assert_int_equal(config_init(&config, &e), ERR_OK);
	set("listen", path);
	set("workers", "4");
	atomic_store(&held, NULL);
	atomic_store(&work_ends, false);
	working = 0;
	resumer.stopping = false;
	return pthread_create(&resumer.thread, NULL, resume_all, NULL);
}

static int teardown(void **state)
{
	(void)state;
	if (front)
		front_stop(front, BOUND_SECONDS * SECOND);
	front = NULL;
	pthread_mutex_lock(&resumer.lock);
	resumer.stopping = true;
	resumer.list = NULL;
	pthread_cond_signal(&resumer.come);
	pthread_mutex_unlock(&resumer.lock);
	pthread_join(resumer.thread, NULL);
	config_release(&config);
	unlink(path);
	return 0;
}

static int make_folder(void **state)
{
	struct error e;
	(void)state;
	if (!mkdtemp(directory) || !(pattern = malloc(PATTERN)))
		return -1;
	snprintf(path, sizeof path, "%s/socket", directory);
	for (uint32_t i = 0; i < PATTERN; i++)
		pattern[i] = (unsigned char)(i * 2654435761u >> 23);
	return (int)log_open("/dev/null", LOG_LEVEL_INFO, &e);
}

static int remove_folder(void **state)
{
	(void)state;
	free(pattern);
	return rmdir(directory);
}

/* One request, one reply. */
static void ask(int fd, const struct client_request *q, struct client_reply *r)
{
	assert_true(client_send(fd, q));
	client_read(fd, r, q->id ? q->id : 1, 0);
	assert_true(r->sound && r->ended);
}

static bool has_header(const struct client_reply *r, const char *name, const char *value)
{
	char found[2000];
	return client_header(r, name, found, sizeof found) && strcmp(found, value) == 0;
}

static bool is_body(const struct client_reply *r, const void *want, size_t n)
{
	return r->body_len == n && memcmp(r->body, want, n) == 0;
}

/* A request on a connection of its own. */
static void ask_once(const struct client_request *q, struct client_reply *r)
{
	int fd = client_connect(path);
	assert_true(fd >= 0);
	ask(fd, q, r);
	close(fd);
}

static void still_works(void)
{
	struct client_reply r;
	ask_once(&(struct client_request){.method = "GET", .uri = "/t/echo"}, &r);
	assert_true(r.status == 200 && is_body(&r, "/t/echo", 7));
	client_reply_release(&r);
}

static void ask_status(const struct client_request *q, int status)
{
	struct client_reply r;
	ask_once(q, &r);
	if (r.status != status)
		fail_msg("%s: %d instead of %d: %s", q->uri, r.status, status, r.data);
	client_reply_release(&r);
}

/* tests: exchanges */

static void headers_of_a_reply(void **state)
{
	struct client_reply r;
	char id[100];
	(void)state;
	start_front();
	struct client_request q = {.method = "GET", .uri = "/t/ignore?a=b", .params = {{"REQUEST_ID", "abc_-9"}}};
	ask_once(&q, &r);
	assert_memory_equal(r.data, "Status: 200 OK\r\n", 16);
	assert_true(has_header(&r, "Content-Type", "text/plain") && has_header(&r, "Content-Length", "7"));
	assert_true(has_header(&r, "X-Request-Id", "abc_-9") && has_header(&r, "X-Extra", "1"));
	assert_true(has_header(&r, "Access-Control-Allow-Origin", "*") && has_header(&r, "Vary", "Accept-Encoding"));
	assert_false(client_header(&r, "Content-Encoding", id, sizeof id));
	client_reply_release(&r);
	/* An id that could break a header or a log line is not taken over. */
	q.params[0][1] = "a\r\nSet-Cookie: b";
	ask_once(&q, &r);
	assert_true(client_header(&r, "X-Request-Id", id, sizeof id));
	assert_int_equal(strspn(id, "0123456789abcdef"), 32);
	assert_null(strstr(r.data, "Cookie"));
	client_reply_release(&r);
}

static void head_has_no_body(void **state)
{
	struct client_reply r;
	(void)state;
	start_front();
	int fd = client_connect(path);
	ask(fd, &(struct client_request){.method = "HEAD", .uri = "/__version__"}, &r);
	assert_true(r.status == 200 && r.body_len == 0 && has_header(&r, "Content-Length", "7"));
	client_reply_release(&r);
	ask(fd, &(struct client_request){.method = "HEAD", .uri = "/t/large/200000"}, &r);
	assert_true(r.status == 200 && r.body_len == 0 && has_header(&r, "Content-Length", "200000"));
	client_reply_release(&r);
	close(fd);
}

static void routes_and_methods(void **state)
{
	static const struct {
		const char *method, *uri;
		int status;
		const char *said; /* of a 405: Allow */
	} rows[] = {{"POST", "/symbolicate/v5", 200, "v5"}, {"POST", "/symbolicate/v4?x", 200, "v4"},
	        {"POST", "/", 200, "v4"}, {"POST", "//symbolicate/v5/", 200, "v5"},
	        {"DELETE", "/cache/a/b", 200, "cache"}, {"GET", "/__metrics__", 200, "metrics"},
	        {"GET", "/__heartbeat__", 200, "heartbeat"}, {"GET", "/__version__", 200, "version"},
	        {"GET", "/__broken__", 200, "broken"}, {"GET", "/__lbheartbeat__", 200, "lbheartbeat"},
	        {"GET", "/symbolicate/v5", 405, "POST, OPTIONS"}, {"PUT", "/", 405, "POST, OPTIONS"},
	        {"POST", "/__version__", 405, "GET, HEAD, OPTIONS"}, {"GET", "/cache/a/b", 405, "DELETE, OPTIONS"},
	        {"get", "/", 405, "POST, OPTIONS"}, {"GET", "/nothing", 404, NULL},
	        {"POST", "/symbolicate/v5//", 404, NULL}, {"POST", "/symbolicate/v5/x", 404, NULL},
	        {"GET", "", 404, NULL}, {"GET", "/cach", 404, NULL}, {"OPTIONS", "/nothing", 404, NULL},
	        {"", "/symbolicate/v", 404, NULL}};
	struct client_reply r;
	char text[200];
	(void)state;
	start_front();
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		ask_once(&(struct client_request){.method = rows[i].method, .uri = rows[i].uri}, &r);
		if (r.status != rows[i].status)
			fail_msg("%s %s: %d", rows[i].method, rows[i].uri, r.status);
		if (r.status == 200)
			assert_true(is_body(&r, rows[i].said, strlen(rows[i].said)));
		if (r.status == 405)
			assert_true(has_header(&r, "Allow", rows[i].said));
		snprintf(text, sizeof text, "\"status\":%d}", r.status);
		if (r.status != 200)
			assert_true(has_header(&r, "Content-Type", "application/json") && strstr(r.body, text));
		client_reply_release(&r);
	}
}

static void preflight_echoes_the_headers(void **state)
{
	struct client_reply r;
	char text[100];
	(void)state;
	start_front();
	struct client_request q = {.method = "OPTIONS",
	        .uri = "/symbolicate/v5",
	        .params = {{"HTTP_ACCESS_CONTROL_REQUEST_HEADERS", "content-type, Debug,X-Own"}}};
	ask_once(&q, &r);
	assert_true(r.status == 200 && has_header(&r, "Access-Control-Allow-Headers", "content-type, Debug,X-Own"));
	assert_true(has_header(&r, "Access-Control-Allow-Methods", "POST, OPTIONS"));
	assert_true(has_header(&r, "Access-Control-Max-Age", "86400"));
	assert_true(has_header(&r, "Access-Control-Allow-Origin", "*"));
	client_reply_release(&r);
	q.params[0][1] = "a\r\nSet-Cookie: b";
	ask_once(&q, &r);
	assert_true(r.status == 200 && !client_header(&r, "Access-Control-Allow-Headers", text, sizeof text));
	client_reply_release(&r);
}

static size_t gunzip_whole(const char *data, size_t n, unsigned char *out, size_t size)
{
	z_stream z = {
	        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)size};
	assert_int_equal(inflateInit2(&z, 31), Z_OK);
	assert_int_equal(inflate(&z, Z_FINISH), Z_STREAM_END);
	inflateEnd(&z);
	return z.total_out;
}

static void replies_are_compressed_when_accepted(void **state)
{
	static const struct {
		const char *accepted;
		bool gzip;
	} rows[] = {{"gzip", true}, {"deflate, gzip;q=0.5", true}, {"GZIP", true}, {"x-gzip", true}, {"*", true},
	        {"br;q=1.0, *;q=0.1", true}, {"gzip;q=0", false}, {"gzip; q=0.000", false}, {"*, gzip;q=0", false},
	        {"deflate", false}, {"", false}, {"gzipped", false}, {"*;q=0", false}, {"gzip;q=", false},
	        {"gzip;q=0.001", true}, {",,;;,gzip", true}};
	static char body[5000], inflated[6000];
	struct client_reply r;
	(void)state;
	memset(body, 'a', sizeof body);
	start_front();
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		struct client_request q = {.method = "POST",
		        .uri = "/t/echo",
		        .body = body,
		        .body_len = sizeof body,
		        .params = {{"HTTP_ACCEPT_ENCODING", rows[i].accepted}}};
		ask_once(&q, &r);
		assert_int_equal(r.status, 200);
		if (has_header(&r, "Content-Encoding", "gzip") != rows[i].gzip)
			fail_msg("Accept-Encoding: %s", rows[i].accepted);
		if (rows[i].gzip) {
			size_t n = gunzip_whole(r.body, r.body_len, (unsigned char *)inflated, sizeof inflated);
			assert_int_equal(n, sizeof body);
			assert_memory_equal(inflated, body, n);
		} else {
			assert_true(is_body(&r, body, sizeof body));
		}
		client_reply_release(&r);
	}
	/* Neither is worth it. */
	struct client_request q = {.method = "POST",
	        .uri = "/t/echo",
	        .body = "short",
	        .body_len = 5,
	        .params = {{"HTTP_ACCEPT_ENCODING", "gzip"}}};
	ask_once(&q, &r);
	assert_true(is_body(&r, "short", 5));
	client_reply_release(&r);
}

/* tests: bodies */

static size_t gzip_whole(const void *data, size_t n, unsigned char *out, size_t size)
{
	z_stream z = {
	        .next_in = (Bytef *)(uintptr_t)data, .avail_in = (uInt)n, .next_out = out, .avail_out = (uInt)size};
	assert_int_equal(deflateInit2(&z, 6, Z_DEFLATED, 31, 8, Z_DEFAULT_STRATEGY), Z_OK);
	assert_int_equal(deflate(&z, Z_FINISH), Z_STREAM_END);
	deflateEnd(&z);
	return z.total_out;
}

static void bodies_of_all_sizes(void **state)
{
	static const size_t sizes[] = {1, 2, 4095, 8191, 8192, 8193, 65535, 65536, 65537, 200000, 1 << 20};
	struct client_reply r;
	(void)state;
	set("max_body", "1M");
	start_front();
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++)
		for (unsigned known = 0; known < 2; known++) {
			struct client_request q = {.method = "POST",
			        .uri = "/t/echo",
			        .body = pattern,
			        .body_len = sizes[i],
			        .length = known ? NULL : ""};
			ask_once(&q, &r);
			assert_true(r.status == 200 && is_body(&r, pattern, sizes[i]));
			if (known && sizes[i] > 256) /* no more than it needs */
				assert_int_equal(echo_room, sizes[i]);
			client_reply_release(&r);
		}
}

static void gzip_bodies(void **state)
{
	static unsigned char packed[3 << 20];
	struct client_reply r;
	(void)state;
	set("max_body", "1M");
	set("max_body_inflated", "2M");
	start_front();
	struct client_request q = {
	        .method = "POST", .uri = "/t/echo", .body = packed, .params = {{"HTTP_CONTENT_ENCODING", "gzip"}}};
	/* Exactly what is allowed. */
	q.body_len = gzip_whole(pattern, 2 << 20, packed, sizeof packed);
	assert_true(q.body_len < 1 << 20);
	ask_once(&q, &r);
	assert_true(r.status == 200 && is_body(&r, pattern, 2 << 20));
	client_reply_release(&r);
	q.body_len--;
	ask_status(&q, 400);
	q.body_len = 0;
	ask_status(&q, 400);
	q.body_len = gzip_whole(pattern, (2 << 20) + 1, packed, sizeof packed);
	ask_status(&q, 413);
	q.body = "this is no gzip at all";
	q.body_len = 22;
	ask_status(&q, 400);
	q.params[0][1] = "identity";
	ask_status(&q, 200);
	q.params[0][1] = "br";
	ask_status(&q, 400);
}

static void bodies_that_are_refused(void **state)
{
	(void)state;
	set("max_body", "100K");
	start_front();
	struct client_request q = {.method = "POST", .uri = "/t/echo", .body = pattern, .body_len = 102400};
	ask_status(&q, 200);
	q.body_len++;
	ask_status(&q, 413);
	q.length = "";
	ask_status(&q, 413);
	q.body_len = 10;
	static const char *const wrong[] = {"9", "11", "0", "-1", "x", "10x", " 10"};
	for (unsigned i = 0; i < sizeof wrong / sizeof wrong[0]; i++) {
		q.length = wrong[i];
		ask_status(&q, 400);
	}
	q.length = "99999999999999999999999999";
	ask_status(&q, 413);
	still_works();
}

static void small_bodies_have_memory(void **state)
{
	enum { MEMORY = 8 << 20 };
	(void)state;
	set("max_body", "1M");
	start_front();
	struct client_request q = {.method = "POST", .uri = "/t/echo", .body = pattern, .body_len = 16 << 10};
	account_start(MEMORY);
	account_add(ACCOUNT_TEXTS, MEMORY);
	ask_status(&q, 200);
	q.body_len = 64 << 10;
	ask_status(&q, 503);
	account_add(ACCOUNT_TEXTS, -MEMORY);
	ask_status(&q, 200);
	account_start(0);
}

/* Whatever a handler does with a body, the next request on the connection is not taken for the rest of it. */
/* That is no body which did not arrive. */
static void a_body_that_is_taken_slowly(void **state)
{
	(void)state;
	set("request_timeout", "1s");
	start_front();
	ask_status(
	        &(struct client_request){.method = "POST", .uri = "/t/take", .body = pattern, .body_len = 200000}, 200);
}

static void a_body_that_nobody_reads(void **state)
{
	static const char *const uris[] = {"/t/ignore", "/nothing", "/__version__", "/t/park", "/t/echo"};
	struct client_reply r;
	(void)state;
	set("max_body", "100K");
	start_front();
	int fd = client_connect(path);
	for (unsigned i = 0; i < 50; i++) {
		struct client_request q = {.method = "POST",
		        .uri = uris[i % 5],
		        .body = pattern,
		        .body_len = 150000 + i * 1000,
		        .id = 1 + i * 1000};
		ask(fd, &q, &r);
		assert_true(r.status >= 200 && r.status < 500);
		client_reply_release(&r);
	}
	close(fd);
}

/* tests: connections */

static atomic_uint failures;

static bool expect(bool good)
{
	if (!good)
		failures++;
	return good;
}

enum { GROUPS = 8, GROUP = 8, ROUNDS = 40, ROUNDS_FOR_EVER = 1000000 };
static unsigned rounds;

/* What is asked in a round, and whether the answer is right. */
static void request_of(unsigned n, struct client_request *q)
{
	static const char *const uris[] = {"/t/echo", "/t/park", "/t/ignore", "/symbolicate/v5", "/nothing"};
	*q = (struct client_request){.method = "POST", .uri = uris[n % 5], .id = 1 + n % 60000};
	if (n % 5 != 1)
		q->body = pattern + n % 1000;
	q->body_len = q->body ? n * 131 % 20000 + 1 : 0;
}

static bool is_answer_of(unsigned n, const struct client_request *q, const struct client_reply *r)
{
	if (!r->sound || !r->ended || r->status != (n % 5 == 4 ? 404 : 200))
		return false;
	if (n % 5 == 0)
		return is_body(r, q->body, q->body_len);
	return n % 5 != 1 || is_body(r, "parked", 6);
}

/* Eight connections, all with a request on its way before the first reply is read. */
static void *drive_group(void *arg)
{
	int fds[GROUP];
	struct client_request q;
	struct client_reply r;
	unsigned seed = (unsigned)(uintptr_t)arg;
	for (unsigned i = 0; i < GROUP; i++)
		expect((fds[i] = client_connect(path)) >= 0);
	for (unsigned round = 0; round < rounds && !failures; round++) {
		for (unsigned i = 0; i < GROUP; i++) {
			request_of(seed + round * GROUP + i, &q);
			expect(client_send(fds[i], &q));
		}
		for (unsigned i = 0; i < GROUP; i++) {
			unsigned n = seed + round * GROUP + i;
			request_of(n, &q);
			client_read(fds[i], &r, q.id, 0);
			expect(is_answer_of(n, &q, &r));
			client_reply_release(&r);
		}
	}
	for (unsigned i = 0; i < GROUP; i++)
		close(fds[i]);
	return NULL;
}

/* A peer that leaves at every byte of a request. */
static void leave_early(unsigned bytes)
{
	static const char request[] = "\1\1\0\1\0\10\0\0"
	                              "\0\1\1\0\0\0\0\0"
	                              "\1\4\0\1\0\40\0\0"
	                              "\16\4REQUEST_METHODPOST"
	                              "\1\1ab\1\1cd\1\1ef"
	                              "\1\4\0\1\0\0\0\0"
	                              "\1\5\0\1\0\10\0\0"
	                              "12345678";
	int fd = client_connect(path);
	expect(fd >= 0);
	client_send_raw(fd, request, bytes % sizeof request);
	close(fd);
}

static void many_connections_on_few_threads(void **state)
{
	pthread_t threads[GROUPS];
	(void)state;
	failures = 0;
	rounds = ROUNDS;
	start_front();
	for (uintptr_t i = 0; i < GROUPS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, drive_group, (void *)(i * 7919)), 0);
	for (unsigned i = 0; i < 300; i++)
		leave_early(i);
	for (unsigned i = 0; i < GROUPS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(failures, 0);
	wait_until(metric_get(M_CONNECTIONS) == 0 && metric_get(M_REQUESTS_IN_FLIGHT) == 0);
}

void *__real_malloc(size_t n);
void *__wrap_malloc(size_t n);
static atomic_bool no_memory_left;
static atomic_uint denied;

void *__wrap_malloc(size_t n)
{
	if (!no_memory_left)
		return __real_malloc(n);
	denied++;
	errno = ENOMEM;
	return NULL;
}

/* For those behind the reserve: what others give back is for them. */
static void connections_without_memory_wait(void **state)
{
	enum { RESERVE = 64, MORE = 4 };
	int fds[RESERVE + MORE];
	struct client_reply r;
	(void)state;
	start_front();
	no_memory_left = true;
	for (unsigned i = 0; i < RESERVE + MORE; i++)
		assert_true((fds[i] = client_connect(path)) >= 0);
	wait_until(metric_get(M_CONNECTIONS) >= RESERVE);
	denied = 0;
	wait_until(denied >= 2);
	/* one more where memory was at hand for the next one */
	assert_in_range(metric_get(M_CONNECTIONS), RESERVE, RESERVE + 1);
	for (unsigned i = 0; i < RESERVE; i++)
		close(fds[i]);
	wait_until(metric_get(M_CONNECTIONS) == MORE);
	no_memory_left = false;
	for (unsigned i = RESERVE; i < RESERVE + MORE; i++) {
		assert_true(client_send(fds[i], &(struct client_request){.method = "GET", .uri = "/t/echo"}));
		client_read(fds[i], &r, 1, 0);
		assert_int_equal(r.status, 200);
		client_reply_release(&r);
		close(fds[i]);
	}
}

static void a_start_without_memory(void **state)
{
	struct error e;
	int fd, standard = fcntl(STDIN_FILENO, F_GETFD);
	(void)state;
	assert_int_equal(front_listen(&config, &fd, &e), ERR_OK);
	no_memory_left = true;
	front = front_start(&config, fd, dispatch, &e);
	no_memory_left = false;
	assert_null(front);
	assert_int_equal(e.code, ERR_NO_MEMORY);
	assert_int_equal(fcntl(STDIN_FILENO, F_GETFD), standard); /* only what it had opened is closed */
}

static void garbage_closes_the_connection_at_once(void **state)
{
	static const struct {
		const char *data;
		size_t n;
	} rows[] = {
#define ROW(text) {text, sizeof text - 1}
	        ROW("GET / HTTP/1.0\r\n\r\n"), ROW("\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0\0"),
	        ROW("\1\1\0\1\0\7\0\0\0\1\1\0\0\0\0"),                                          /* a short BEGIN */
	        ROW("\1\1\0\1\0\10\0\0\0\2\1\0\0\0\0\0\1\4\0\1\0\0\0\0"),                       /* an authorizer */
	        ROW("\1\1\0\1\0\10\0\0\0\11\1\0\0\0\0\0\1\4\0\1\0\0\0\0"),                      /* no role */
	        ROW("\1\1\0\1\0\10\0\0\0\1\1\0\0\0\0\0\1\2\0\1\0\0\0\0"),                       /* ABORT */
	        ROW("\1\1\0\1\0\10\0\0\0\1\1\0\0\0\0\0\1\4\0\1\0\2\0\0\11\11\1\4\0\1\0\0\0\0"), /* params cut short */
	};
	(void)state;
	start_front();
	for (unsigned i = 0; i < sizeof rows / sizeof rows[0]; i++) {
		/* libfcgi would always wait two seconds for the peer to close its side; a busy machine takes as long
		 * now and then. */
		bool quick = false;
		for (unsigned tries = 0; !quick && tries < 3; tries++) {
			int fd = client_connect(path);
			int64_t started = clock_now();
			assert_true(client_send_raw(fd, rows[i].data, rows[i].n));
			if (!client_is_closed(fd))
				fail_msg("row %u", i);
			quick = clock_now() - started < 1500 * MS;
			close(fd);
		}
		if (!quick)
			fail_msg("row %u", i);
	}
	still_works();
}

static void silent_and_half_requests(void **state)
{
	int fds[40];
	(void)state;
	set("workers", "2");
	set("io_timeout", "1s");
	start_front();
	for (unsigned i = 0; i < 40; i++) {
		fds[i] = client_connect(path);
		if (i % 20 == 0)
			client_send_raw(fds[i], "\1\1\0\1\0", 5);
		else if (i % 10 == 0) /* a body without a request */
			client_send_raw(fds[i], "\1\5\0\1\0\3\0\0abc", 11);
	}
	still_works();
	/* Those that began a request are given up, those that are merely idle are not. */
	for (unsigned i = 0; i < 40; i += 10)
		assert_true(client_is_closed(fds[i]));
	struct client_reply r;
	ask(fds[1], &(struct client_request){.method = "GET", .uri = "/t/echo"}, &r);
	assert_int_equal(r.status, 200);
	client_reply_release(&r);
	/* A body that stops coming. */
	struct client_request q = {
	        .method = "POST", .uri = "/t/echo", .body = "abc", .body_len = 3, .length = "5", .no_end = true};
	ask(fds[2], &q, &r);
	assert_int_equal(r.status, 400);
	client_reply_release(&r);
	assert_true(client_is_closed(fds[2]));
	for (unsigned i = 0; i < 40; i++)
		close(fds[i]);
}

static void connections_that_are_not_kept(void **state)
{
	struct client_reply r;
	(void)state;
	start_front();
	for (unsigned i = 0; i < 20; i++) {
		int fd = client_connect(path);
		ask(fd, &(struct client_request){.method = "GET", .uri = "/t/park", .close = true}, &r);
		assert_true(r.status == 200 && client_is_closed(fd));
		client_reply_release(&r);
		close(fd);
	}
	wait_until(metric_get(M_CONNECTIONS) == 0);
}

static void a_large_reply(void **state)
{
	static const char *const uris[] = {"/t/large/65536", "/t/large/65537", "/t/large/1048560", "/t/large/1048561",
	        "/t/large/73400320", "/t/echo"};
	static const size_t sizes[] = {65536, 65537, 1048560, 1048561, PATTERN};
	struct client_reply r;
	(void)state;
	start_front();
	int fd = client_connect(path);
	for (unsigned i = 0; i < 6; i++) {
		ask(fd, &(struct client_request){.method = "GET", .uri = uris[i], .id = 40000}, &r);
		assert_int_equal(r.status, 200);
		if (i < 5)
			assert_true(is_body(&r, pattern, sizes[i]));
		client_reply_release(&r);
	}
	close(fd);
}

static void large_replies_to_slow_and_leaving_peers(void **state)
{
	struct client_reply r;
	char some[1000];
	(void)state;
	start_front();
	struct client_request q = {.method = "GET", .uri = "/t/large/4000000"};
	for (unsigned i = 0; i < 20; i++) {
		int fd = client_connect(path);
		assert_true(client_send(fd, &q));
		assert_true(recv(fd, some, sizeof some, 0) > 0);
		close(fd);
	}
	int fd = client_connect(path);
	assert_true(client_send(fd, &q));
	client_read(fd, &r, 1, 2000);
	assert_true(r.sound && r.ended && is_body(&r, pattern, 4000000));
	client_reply_release(&r);
	close(fd);
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 0);
}

static void a_peer_that_takes_nothing_is_given_up(void **state)
{
	(void)state;
	set("workers", "1");
	set("io_timeout", "1s");
	start_front();
	int fd = client_connect(path);
	assert_true(client_send(fd, &(struct client_request){.method = "GET", .uri = "/t/large/4000000"}));
	still_works();
	close(fd);
}

/* As many as may be awake wait for their peers, on both sides. */
static void those_that_wait_for_a_peer_keep_nobody_from_running(void **state)
{
	enum { MOST = 512 };
	int fds[MOST];
	char workers[16];
	unsigned count = 2 * (cores_count() + 1);
	(void)state;
	assert_true(count <= MOST);
	snprintf(workers, sizeof workers, "%u", count + 1);
	set("workers", workers);
	start_front();
	for (unsigned i = 0; i < count; i++) {
		static const struct client_request takes_nothing = {.method = "GET", .uri = "/t/large/4000000"},
		                                   sends_some = {.method = "POST",
		                                           .uri = "/t/echo",
		                                           .body = "abc",
		                                           .body_len = 3,
		                                           .length = "100000",
		                                           .no_end = true};
		fds[i] = client_connect(path);
		assert_true(client_send(fds[i], i % 2 ? &takes_nothing : &sends_some));
	}
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == count);
	still_works();
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == count);
	for (unsigned i = 0; i < count; i++)
		close(fds[i]);
}

static int send_to(const char *uri, const char *address)
{
	int fd = client_connect(path);
	struct client_request q = {.method = "GET", .uri = uri, .params = {{"REMOTE_ADDR", address}}};
	assert_true(fd >= 0 && client_send(fd, &q));
	return fd;
}

static void read_and_close(int fd, const void *body, size_t len)
{
	struct client_reply r;
	client_read(fd, &r, 1, 0);
	assert_true(r.sound && r.ended && is_body(&r, body, len));
	client_reply_release(&r);
	close(fd);
}

/* Replies wait for their readers and hold no worker, however many there are; afterwards nothing is missing. */
static void readers_that_read_nothing_hold_no_worker(void **state)
{
	enum { READERS = 20 };
	int fds[READERS];
	(void)state;
	set("workers", "1");
	start_front();
	for (unsigned i = 0; i < READERS; i++)
		fds[i] = send_to("/t/large/4000000", "192.0.2.1");
	wait_until(metric_get(M_REPLIES_WAITING) == READERS);
	still_works();
	for (unsigned i = 0; i < READERS; i++)
		read_and_close(fds[i], pattern, 4000000);
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 0);
	assert_int_equal(metric_get(M_REPLIES_WAITING), 0);
}

/* Each reply that waits has a stack of its own. */
/* How many mappings begin with a guard: the stacks of fibers, and of threads. */
static unsigned stacks(void)
{
	unsigned count = 0;
	unsigned long from, to;
	char line[4096];
	FILE *maps = fopen("/proc/self/maps", "r");
	assert_non_null(maps);
	while (fgets(line, sizeof line, maps))
		count += sscanf(line, "%lx-%lx ---p", &from, &to) == 2 && strstr(line, " ---p ") &&
		         to - from == (unsigned long)sysconf(_SC_PAGESIZE);
	fclose(maps);
	return count;
}

/* More than are kept for others. */
static void stacks_of_many_replies_are_freed(void **state)
{
	enum { READERS = 80 };
	int fds[READERS];
	(void)state;
	start_front();
	unsigned before = stacks();
	for (unsigned i = 0; i < READERS; i++)
		fds[i] = send_to("/t/large/4000000", "192.0.2.1");
	wait_until(metric_get(M_REPLIES_WAITING) == READERS);
	assert_true(stacks() >= before + READERS);
	for (unsigned i = 0; i < READERS; i++)
		close(fds[i]);
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 0);
	wait_until(stacks() < before + READERS);
	assert_int_equal(front_stop(front, BOUND_SECONDS * SECOND), 0);
	front = NULL;
	assert_true(stacks() <= before);
}

/* A reader that takes a little is given up like one that takes nothing, unless that is as much as it must. */
static void a_reader_that_is_too_slow_is_given_up(void **state)
{
	char some[1000];
	(void)state;
	set("workers", "1");
	set("io_timeout", "1s");
	set("reply_rate_min", "1G");
	start_front();
	int64_t before = metric_get(M_REPLIES_SLOW), end = clock_now() + BOUND_SECONDS * SECOND;
	int fd = send_to("/t/large/70000000", "192.0.2.1");
	while (recv(fd, some, sizeof some, 0) > 0 && clock_now() < end)
		poll(NULL, 0, 1);
	wait_until(metric_get(M_REPLIES_SLOW) == before + 1); /* it is cut off before it is counted */
	close(fd);
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 0);
	assert_int_equal(metric_get(M_REPLIES_WAITING), 0);
}

/* What is sent as it is stored waits on its thread. */
static void a_reader_of_a_stored_file_that_takes_nothing_is_given_up(void **state)
{
	(void)state;
	set("io_timeout", "100ms");
	start_front();
	int64_t before = metric_get(M_REPLIES_SLOW);
	int fd = send_to("/t/stored/70000000", "192.0.2.1");
	wait_until(metric_get(M_REPLIES_SLOW) == before + 1);
	close(fd);
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 0);
}

/* Reads a reply in more than io_timeout, with pauses of a fraction of it. Returns whether it came. */
static bool read_slowly(unsigned io_timeout)
{
	char seconds[16];
	struct client_reply r;
	snprintf(seconds, sizeof seconds, "%us", io_timeout);
	set("io_timeout", seconds);
	set("reply_rate_min", "1K");
	start_front();
	int64_t began = clock_now();
	int fd = send_to("/t/large/4000000", "192.0.2.1");
	client_read(fd, &r, 1, 15000 * io_timeout);
	bool whole = r.sound && r.ended && is_body(&r, pattern, 4000000);
	assert_true(!whole || clock_now() - began > io_timeout * SECOND);
	client_reply_release(&r);
	close(fd);
	front_stop(front, BOUND_SECONDS * SECOND);
	front = NULL;
	return whole;
}

/* It takes several times io_timeout, but goes on. A busy machine may hold it up for longer than a few seconds. */
static void a_slow_reader_that_goes_on_gets_its_reply(void **state)
{
	unsigned io_timeout = 2;
	(void)state;
	while (!read_slowly(io_timeout))
		assert_true((io_timeout *= 2) <= 16);
}

/* As many large requests as there are workers, and more: small ones pass them, those of the same client too. */
static void small_requests_pass_large_ones(void **state)
{
	enum { LARGE = 10 };
	int fds[LARGE];
	(void)state;
	set("workers", "2");
	start_front();
	for (unsigned i = 0; i < LARGE; i++)
		fds[i] = send_to("/t/slices", "192.0.2.1");
	wait_until(working == LARGE);
	for (unsigned i = 0; i < 20; i++) {
		read_and_close(send_to("/t/echo", "192.0.2.2"), "/t/echo", 7);
		read_and_close(send_to("/t/echo", "192.0.2.1"), "/t/echo", 7);
	}
	assert_int_equal(working, LARGE);
	atomic_store(&work_ends, true);
	for (unsigned i = 0; i < LARGE; i++)
		read_and_close(fds[i], "done", 4);
}

/* It pauses when it has no permit, and those that have one sleep: who wakes them? */
static void a_slice_without_a_permit_is_not_the_last(void **state)
{
	char workers[16];
	(void)state;
	snprintf(workers, sizeof workers, "%u", cores_count() + 2);
	set("workers", workers);
	start_front();
	for (unsigned i = 0; i < 20; i++) {
		atomic_store(&work_ends, false);
		int fd = send_to("/t/slices/unpermitted", "192.0.2.1"), other = send_to("/t/slices", "192.0.2.1");
		wait_until(working == 2);
		poll(NULL, 0, 5);
		atomic_store(&work_ends, true);
		read_and_close(fd, "done", 4);
		read_and_close(other, "done", 4);
	}
}

/* Long before the work that they help with ends. */
static void helpers_leave_when_requests_come(void **state)
{
	enum { MOST = 64 };
	int fds[MOST + 1];
	unsigned cores = cores_count();
	char workers[16];
	(void)state;
	if (cores < 2 || cores > MOST)
		skip();
	snprintf(workers, sizeof workers, "%u", 2 * cores + 2);
	set("workers", workers);
	start_front();
	fds[0] = send_to("/t/help", "192.0.2.1");
	wait_until(helping > 0);
	for (unsigned i = 1; i <= cores; i++)
		fds[i] = send_to("/t/slices", "192.0.2.2");
	wait_until(working == cores && helping == 0);
	atomic_store(&work_ends, true);
	for (unsigned i = 0; i <= cores; i++)
		read_and_close(fds[i], "done", 4);
}

static void work_that_nobody_waits_for_ends(void **state)
{
	(void)state;
	set("workers", "2");
	start_front();
	seen_gone = 0;
	int fd = send_to("/t/slices", "192.0.2.1");
	wait_until(working == 1);
	close(fd);
	wait_until(seen_gone == 1 && metric_get(M_REQUESTS_IN_FLIGHT) == 0);
}

/* Fibers that pause come to their end: work in slices, sleepers, and a reply that nobody reads. */
static void draining_ends_what_has_paused(void **state)
{
	(void)state;
	set("workers", "2");
	start_front();
	int fds[] = {send_to("/t/slices", "192.0.2.1"), send_to("/t/slices", "192.0.2.2"),
	        send_to("/t/sleep/gone", "192.0.2.3"), send_to("/t/large/4000000", "192.0.2.1")};
	wait_until(working == 2 && asleep == 1 && metric_get(M_REPLIES_WAITING) == 1);
	assert_int_equal(front_stop(front, 100 * MS), 4);
	front = NULL;
	assert_int_equal(working + asleep, 0);
	assert_int_equal(metric_get(M_REQUESTS_IN_FLIGHT), 0);
	assert_int_equal(metric_get(M_CONNECTIONS), 0);
	assert_int_equal(metric_get(M_REPLIES_WAITING), 0);
	for (unsigned i = 0; i < sizeof fds / sizeof fds[0]; i++)
		close(fds[i]);
}

static void a_parked_request_whose_peer_leaves(void **state)
{
	(void)state;
	start_front();
	seen_gone = 0;
	for (unsigned i = 0; i < 10; i++) {
		int fd = client_connect(path);
		assert_true(client_send(fd, &(struct client_request){.method = "GET", .uri = "/t/gone"}));
		wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 1);
		/* Parked requests hold no thread. */
		still_works();
		assert_int_equal(seen_gone, i);
		close(fd);
		wait_until(seen_gone == i + 1);
		wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 0);
	}
}

static void more_parked_requests_than_threads(void **state)
{
	int fds[200];
	struct client_reply r;
	(void)state;
	set("workers", "1");
	start_front();
	for (unsigned i = 0; i < 200; i++) {
		const char *uri = i % 2 ? "/t/park" : "/t/sleep";
		fds[i] = client_connect(path);
		assert_true(client_send(fds[i], &(struct client_request){.method = "GET", .uri = uri}));
	}
	for (unsigned i = 0; i < 200; i++) {
		client_read(fds[i], &r, 1, 0);
		assert_true(r.ended && is_body(&r, "parked", 6));
		client_reply_release(&r);
		close(fds[i]);
	}
}

static void settings_of_a_request_are_those_of_its_arrival(void **state)
{
	struct config other;
	struct client_request q = {.method = "POST", .uri = "/t/echo", .body = pattern, .body_len = 20000};
	(void)state;
	start_front();
	ask_status(&q, 200);
	assert_int_equal(config_copy(&other, &config), ERR_OK);
	other.max_body = 10000;
	front_set_config(front, &other);
	ask_status(&q, 413);
	front_set_config(front, &config);
	ask_status(&q, 200);
	config_release(&other);
}

/* tests: the end */

static void *stop_front_thread(void *arg)
{
	unsigned *cut = arg;
	*cut = front_stop(front, BOUND_SECONDS * SECOND);
	return NULL;
}

static void draining_finishes_what_is_in_hand(void **state)
{
	struct client_reply r;
	pthread_t stopper;
	unsigned cut = 99;
	int late;
	(void)state;
	start_front();
	int parked = client_connect(path), kept = client_connect(path);
	ask(kept, &(struct client_request){.method = "GET", .uri = "/t/echo"}, &r);
	client_reply_release(&r);
	assert_true(client_send(parked, &(struct client_request){.method = "GET", .uri = "/t/hold"}));
	wait_until(atomic_load(&held));
	assert_int_equal(pthread_create(&stopper, NULL, stop_front_thread, &cut), 0);
	/* Nobody new is let in; */
	wait_until((late = client_connect(path)) < 0 || (close(late), false));
	/* who has a connection is answered, once. */
	ask(kept, &(struct client_request){.method = "GET", .uri = "/t/echo"}, &r);
	assert_int_equal(r.status, 200);
	client_reply_release(&r);
	assert_true(client_is_closed(kept));
	exchange_resume(atomic_load(&held), reply_parked);
	client_read(parked, &r, 1, 0);
	assert_true(r.ended && is_body(&r, "parked", 6));
	client_reply_release(&r);
	pthread_join(stopper, NULL);
	front = NULL;
	assert_int_equal(cut, 0);
	close(parked);
	close(kept);
}

/* Many that could not be accepted before. */
static void draining_answers_who_waits_to_be_accepted(void **state)
{
	enum { HELD = 65, WAITING = 100 };
	int fds[HELD + WAITING];
	struct client_reply r;
	pthread_t stopper;
	unsigned cut = 99;
	(void)state;
	start_front();
	no_memory_left = true;
	for (unsigned i = 0; i < HELD + WAITING; i++) {
		assert_true((fds[i] = client_connect(path)) >= 0);
		if (i >= HELD)
			client_send(fds[i], &(struct client_request){.method = "GET", .uri = "/t/ignore"});
	}
	wait_until(metric_get(M_CONNECTIONS) >= HELD - 1);
	denied = 0;
	wait_until(denied >= 1);
	no_memory_left = false; /* the worker rests for a moment */
	assert_int_equal(pthread_create(&stopper, NULL, stop_front_thread, &cut), 0);
	for (unsigned i = HELD; i < HELD + WAITING; i++) {
		client_read(fds[i], &r, 1, 0);
		assert_int_equal(r.status, 200);
		client_reply_release(&r);
	}
	for (unsigned i = 0; i < HELD + WAITING; i++)
		close(fds[i]);
	pthread_join(stopper, NULL);
	front = NULL;
	assert_int_equal(cut, 0);
}

/* Each front has one. */
static unsigned epoll_descriptors(void)
{
	unsigned n = 0;
	char name[64];
	DIR *folder = opendir("/proc/self/fd");
	assert_non_null(folder);
	for (struct dirent *d; (d = readdir(folder));) {
		ssize_t len = readlinkat(dirfd(folder), d->d_name, name, sizeof name);
		n += len > 0 && memmem(name, (size_t)len, "eventpoll", 9);
	}
	closedir(folder);
	return n;
}

static void draining_is_bounded(void **state)
{
	(void)state;
	const unsigned others = epoll_descriptors();
	start_front();
	int fd = client_connect(path);
	assert_true(client_send(fd, &(struct client_request){.method = "GET", .uri = "/t/hold"}));
	wait_until(atomic_load(&held));
	int64_t started = clock_now();
	assert_int_equal(front_stop(front, 200 * MS), 1);
	front = NULL;
	assert_true(clock_now() - started < BOUND_SECONDS * SECOND);
	assert_true(client_is_closed(fd));
	/* Whoever holds the exchange may come too late, and frees the front then. */
	assert_int_equal(epoll_descriptors(), others + 1);
	exchange_resume(atomic_load(&held), reply_parked);
	assert_int_equal(epoll_descriptors(), others);
	close(fd);
	assert_int_equal(metric_get(M_REQUESTS_IN_FLIGHT), 0);
	assert_int_equal(metric_get(M_CONNECTIONS), 0);
}

static void draining_does_not_wait_for_a_worker_that_is_held_up(void **state)
{
	static struct front *volatile left; /* it is not freed, and not lost */
	(void)state;
	start_front();
	int fd = client_connect(path);
	assert_true(client_send(fd, &(struct client_request){.method = "GET", .uri = "/t/block"}));
	wait_until(atomic_load(&blocked));
	left = front;
	front = NULL;
	assert_int_equal(front_stop(left, 0), 1);
	assert_true(client_is_closed(fd));
	close(fd);
	atomic_store(&goes_on, true);
	wait_until(atomic_load(&gone_on) && metric_get(M_REQUESTS_IN_FLIGHT) == 0 && metric_get(M_CONNECTIONS) == 0);
}

/* The linker sends the front's calls here. With a late client, the connections are cut off when its request has woken a
 * worker: behind the end of draining. */
int __real_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout);
int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout);
int __real_shutdown(int fd, int how);
int __wrap_shutdown(int fd, int how);
static atomic_int late_client = -1;
static atomic_uint woken;

int __wrap_epoll_wait(int epoll, struct epoll_event *events, int count, int timeout)
{
	int n = __real_epoll_wait(epoll, events, count, timeout);
	woken++;
	return n;
}

int __wrap_shutdown(int fd, int how)
{
	int client = atomic_exchange(&late_client, -1);
	if (client >= 0) {
		unsigned before = atomic_load(&woken);
		int64_t end = clock_now() + BOUND_SECONDS * SECOND;
		/* Nothing is asserted here, where the front holds its lock. */
		if (client_send(client, &(struct client_request){.method = "GET", .uri = "/t/hold"}))
			while (atomic_load(&woken) == before && clock_now() < end)
				poll(NULL, 0, 1);
	}
	return __real_shutdown(fd, how);
}

static void a_request_that_comes_behind_draining_is_cut_off(void **state)
{
	struct client_reply r;
	(void)state;
	start_front();
	int fd = client_connect(path);
	ask(fd, &(struct client_request){.method = "GET", .uri = "/t/echo"}, &r);
	client_reply_release(&r);
	/* Only then does its connection wait for another request. */
	wait_until(metric_get(M_REQUESTS_IN_FLIGHT) == 0);
	atomic_store(&late_client, fd);
	atomic_store(&seen_dropped, 0);
	assert_int_equal(front_stop(front, 0), 1);
	front = NULL;
	assert_non_null(atomic_load(&held));
	assert_int_equal(atomic_load(&seen_dropped), 0);
	/* what it has of others is given back before it goes */
	exchange_resume(atomic_load(&held), reply_parked);
	assert_int_equal(atomic_load(&seen_dropped), 1);
	close(fd);
	assert_int_equal(metric_get(M_REQUESTS_IN_FLIGHT), 0);
	assert_int_equal(metric_get(M_CONNECTIONS), 0);
}

static void draining_while_requests_pour_in(void **state)
{
	pthread_t threads[GROUPS];
	unsigned cut;
	(void)state;
	failures = 0;
	rounds = ROUNDS_FOR_EVER;
	start_front();
	for (uintptr_t i = 0; i < GROUPS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, drive_group, (void *)(i * 7919)), 0);
	wait_until(metric_get(M_CONNECTIONS) >= GROUPS * GROUP);
	cut = front_stop(front, BOUND_SECONDS * SECOND);
	front = NULL;
	for (unsigned i = 0; i < GROUPS; i++)
		pthread_join(threads[i], NULL);
	/* The clients fail, for nobody serves them; the front has lost nothing that it had begun. */
	assert_int_equal(cut, 0);
	assert_int_equal(metric_get(M_CONNECTIONS), 0);
}

/* tests: the listening socket */

/* Another process that holds the listener may make it blocking, and may be faster to accept. */
static void a_shared_listener(void **state)
{
	struct error e;
	int fd;
	(void)state;
	set("workers", "1");
	assert_int_equal(front_listen(&config, &fd, &e), ERR_OK);
	int other = dup(fd);
	front = front_start(&config, fd, dispatch, &e);
	assert_non_null(front);
	for (unsigned i = 0; i < 50; i++) {
		fcntl(other, F_SETFL, fcntl(other, F_GETFL) & ~O_NONBLOCK);
		int client = client_connect(path);
		struct pollfd waiting = {.fd = other, .events = POLLIN};
		if (i % 2 && poll(&waiting, 1, 0) > 0) {
			fcntl(other, F_SETFL, fcntl(other, F_GETFL) | O_NONBLOCK);
			int stolen = accept(other, NULL, NULL);
			if (stolen >= 0)
				close(stolen);
		}
		close(client);
		still_works();
	}
	close(other);
}

static void listening(void **state)
{
	static const char *const taken[] = {"127.0.0.1:0", "[::1]:0", "[::ffff:127.0.0.1]:0"};
	static const char *const refused[] = {"0.0.0.0:0", "[::]:0", "[::ffff:192.0.2.1]:0", ":0", "192.0.2.1:9000",
	        "nonsense", "/no/such/directory/socket", "127.0.0.1:port"};
	struct error e;
	struct stat st;
	int fd, second;
	(void)state;
	set("listen_mode", "0640");
	assert_int_equal(front_listen(&config, &fd, &e), ERR_OK);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(st.st_mode & 0777, 0640);
	/* Not while somebody listens, but over what is left afterwards. */
	assert_int_equal(front_listen(&config, &second, &e), ERR_IO); /* no wrong setting: systemd starts it again */
	close(fd);
	assert_int_equal(front_listen(&config, &fd, &e), ERR_OK);
	close(fd);
	/* A socket that nobody may connect to is not left behind: the next start would take it for another process's.
	 */
	set("listen_group", "no-such-group-here");
	assert_int_equal(front_listen(&config, &fd, &e), ERR_CONFIG);
	assert_int_not_equal(stat(path, &st), 0);
	set("listen_group", "");
	for (unsigned i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		set("listen", refused[i]);
		if (!front_listen(&config, &fd, &e))
			fail_msg("%s is listened on", refused[i]);
		assert_int_equal(fd, -1);
	}
	for (unsigned i = 0; i < sizeof taken / sizeof taken[0]; i++) {
		set("listen", taken[i]);
		enum err err = front_listen(&config, &fd, &e);
		if (err && (i == 0 || err != ERR_IO)) /* a machine may have no IPv6 */
			fail_msg("%s: %s", taken[i], e.text);
		close(fd);
	}
	set("listen", "0.0.0.0:0");
	set("listen_tcp_anywhere", "yes");
	assert_int_equal(front_listen(&config, &fd, &e), ERR_OK);
	close(fd);
}

/* A file is never removed to make room. */
static void a_file_in_the_way(void **state)
{
	struct error e;
	int fd;
	(void)state;
	close(open(path, O_CREAT | O_WRONLY, 0600));
	assert_int_equal(front_listen(&config, &fd, &e), ERR_CONFIG);
	assert_int_equal(access(path, F_OK), 0);
}

int main(void)
{
#define TEST(name) cmocka_unit_test_setup_teardown(name, setup, teardown)
	const struct CMUnitTest tests[] = {
	        TEST(headers_of_a_reply),
	        TEST(head_has_no_body),
	        TEST(routes_and_methods),
	        TEST(preflight_echoes_the_headers),
	        TEST(replies_are_compressed_when_accepted),
	        TEST(bodies_of_all_sizes),
	        TEST(gzip_bodies),
	        TEST(bodies_that_are_refused),
	        TEST(small_bodies_have_memory),
	        TEST(a_body_that_is_taken_slowly),
	        TEST(a_body_that_nobody_reads),
	        TEST(many_connections_on_few_threads),
	        TEST(connections_without_memory_wait),
	        TEST(a_start_without_memory),
	        TEST(garbage_closes_the_connection_at_once),
	        TEST(silent_and_half_requests),
	        TEST(connections_that_are_not_kept),
	        TEST(a_large_reply),
	        TEST(large_replies_to_slow_and_leaving_peers),
	        TEST(a_peer_that_takes_nothing_is_given_up),
	        TEST(those_that_wait_for_a_peer_keep_nobody_from_running),
	        TEST(readers_that_read_nothing_hold_no_worker),
	        TEST(stacks_of_many_replies_are_freed),
	        TEST(a_reader_that_is_too_slow_is_given_up),
	        TEST(a_reader_of_a_stored_file_that_takes_nothing_is_given_up),
	        TEST(a_slow_reader_that_goes_on_gets_its_reply),
	        TEST(small_requests_pass_large_ones),
	        TEST(a_slice_without_a_permit_is_not_the_last),
	        TEST(helpers_leave_when_requests_come),
	        TEST(work_that_nobody_waits_for_ends),
	        TEST(draining_ends_what_has_paused),
	        TEST(a_parked_request_whose_peer_leaves),
	        TEST(more_parked_requests_than_threads),
	        TEST(settings_of_a_request_are_those_of_its_arrival),
	        TEST(draining_finishes_what_is_in_hand),
	        TEST(draining_answers_who_waits_to_be_accepted),
	        TEST(draining_is_bounded),
	        TEST(draining_does_not_wait_for_a_worker_that_is_held_up),
	        TEST(a_request_that_comes_behind_draining_is_cut_off),
	        TEST(draining_while_requests_pour_in),
	        TEST(a_shared_listener),
	        TEST(listening),
	        TEST(a_file_in_the_way),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
