/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: requests of any kind through the whole service in this process: FastCGI, router, handlers, a bucket of
 * files. The input is a method, a path, headers, one a line, an empty line, and the body; or, behind a 0, the bytes of
 * the connection itself. Each request gets a reply with a status that the interface has, and the service goes on. */
#include <config.h>

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>
#include <unistd.h>

#include <fastcgi.h>

#include "../unit/fcgi_client.h"
#include "api/router.h"
#include "api/status.h"
#include "base/clock.h"
#include "base/hash.h"
#include "base/log.h"
#include "front/fcgi_request.h"
#include "front/front.h"
#include "fuzz.h"
#include "api/services.h"

enum { INPUT_MAX = 16 << 10, LINE_MAX_ = 4000 };

static struct config config;
static char directory[] = "/tmp/fuzz-front-XXXXXX", socket_path[64];
static struct front *front;

static void set(const char *key, const char *value)
{
	struct error e;
	if (config_set(&config, key, value, &e))
		fuzz_check(false, e.text);
}

static void stop(void)
{
	front_stop(front, 10 * SECOND);
	status_stop();
	services_stop();
	config_release(&config);
	unlink(socket_path);
	char path[96];
	static const char *const inner[] = {"/a.sym", ""};
	for (unsigned i = 0; i < sizeof inner / sizeof *inner; i++) {
		snprintf(path, sizeof path, "%s%s", directory, inner[i]);
		remove(path);
	}
}

/* Once. */
static void start(void)
{
	struct error e = {0};
	char source[96];
	struct module_hash hash;
	int fd;
	fuzz_check(mkdtemp(directory) && config_init(&config, &e) == ERR_OK, "cannot start");
	snprintf(socket_path, sizeof socket_path, "%s/socket", directory);
	snprintf(source, sizeof source, "file://%s/", directory);
	set("listen", socket_path);
	set("source", source);
	set("workers", "2");
	set("bucket_parallel", "1");
	set("log_level", "error");
	set("log_file", "/dev/null");
	set("io_timeout", "1s");
	set("max_body", "64K");
	set("max_body_inflated", "64K");
	fuzz_check(log_open(config.log_file, config.log_level, &e) == ERR_OK, e.text);
	fuzz_check(front_listen(&config, &fd, &e) == ERR_OK, e.text);
	fuzz_check(services_start(&config, NULL, &e) == ERR_OK && status_start(&e) == ERR_OK, e.text);
	front = front_start(&config, fd, router_handle, &e);
	fuzz_check(front, e.text);
	signal(SIGPIPE, SIG_IGN);
	/* libcrypto's own end is registered by its first use, and has to come behind ours */
	fuzz_check(module_hash_make(&hash, "", str_from(""), str_from("")), "no memory");
	atexit(stop);
}

/* The line that *text begins with, ended by a NUL; NULL for an empty one, or at the end. */
static char *next_line(char **text, const char *end)
{
	char *line = *text, *stop_ = line < end ? memchr(line, '\n', (size_t)(end - line)) : NULL;
	if (!stop_)
		return NULL;
	*stop_ = 0;
	*text = stop_ + 1;
	return *line && strlen(line) < LINE_MAX_ ? line : NULL;
}

static bool is_known_status(int status)
{
	static const int known[] = {200, 400, 401, 403, 404, 405, 413, 500, 503};
	for (unsigned i = 0; i < sizeof known / sizeof *known; i++)
		if (status == known[i])
			return true;
	return false;
}

static void send_request(char *text, size_t size)
{
	struct client_request q = {.method = "GET", .uri = "/", .close = true};
	struct client_reply r;
	char *end = text + size, *line = next_line(&text, end);
	size_t length = 0;
	q.method = line ? line : q.method;
	line = line ? next_line(&text, end) : NULL;
	q.uri = line ? line : q.uri;
	for (unsigned i = 0; line && i + 1 < CLIENT_PARAMS && (line = next_line(&text, end)) && length < LINE_MAX_;
	        i++) {
		char *value = strchr(line, ':');
		if (!value)
			break;
		*value = 0;
		length += strlen(line) + strlen(value + 1);
		q.params[i][0] = line;
		q.params[i][1] = value + 1;
		if (strcmp(line, "CONTENT_LENGTH") == 0) /* another length than the body has */
			q.length = value + 1;
	}
	q.body = text;
	q.body_len = (size_t)(end - text);
	int fd = client_connect(socket_path);
	fuzz_check(fd >= 0, "the front does not answer");
	client_send(fd, &q);
	if (q.length) /* more of the body never comes */
		shutdown(fd, SHUT_WR);
	client_read(fd, &r, 1, 0);
	fuzz_check(!r.ended || (r.sound && is_known_status(r.status)), "another status");
	fuzz_check(r.ended || q.length, "no reply");
	client_reply_release(&r);
	close(fd);
}

/* What may be a length of four bytes becomes one below 8 MiB; where it would not be whole, one of a byte. */
static void shorten(uint8_t *data, size_t size)
{
	for (size_t i = 0; i < size; i++)
		if (i + 4 > size) {
			data[i] &= 0x7f;
		} else if (data[i] & 0x80) {
			data[i] = 0x80;
			data[++i] = 0;
		}
}

/* libfcgi adds the lengths of names and values up in an int, and takes one that is cut short for whole, so that a peer
 * can end the process: docs/security.md. Such lengths are not sent: not in the records that hold pairs, and nowhere
 * in or behind a record of which it is not clear what libfcgi takes it for or where it takes its end to be. */
static void shorten_pairs(uint8_t *data, size_t size)
{
	size_t at = 0, len;
	for (; size - at > FCGI_HEADER_LEN; at += FCGI_HEADER_LEN + len) {
		const uint8_t *h = data + at;
		size_t content = ((size_t)h[4] << 8) + h[5];
		bool of_request = h[2] || h[3];
		bool pairs = h[1] == FCGI_PARAMS || h[1] == FCGI_GET_VALUES;
		bool begins = h[1] == FCGI_BEGIN_REQUEST && !at && content == sizeof(FCGI_BeginRequestBody);
		bool skips_padding = content && (h[1] == FCGI_PARAMS || h[1] == FCGI_STDIN);
		len = content + h[6];
		if (!(pairs || begins || h[1] == FCGI_STDIN) || of_request == (h[1] == FCGI_GET_VALUES) ||
		        (h[6] && !skips_padding) || len > size - at - FCGI_HEADER_LEN)
			break;
		if (pairs)
			shorten(data + at + FCGI_HEADER_LEN, content);
	}
	for (; at < size; at++)
		data[at] &= 0x7f;
}

static void send_bytes(uint8_t *data, size_t size)
{
	char reply[4096];
	shorten_pairs(data, size);
	int fd = client_connect(socket_path);
	fuzz_check(fd >= 0, "the front does not answer");
	client_send_raw(fd, data, size);
	shutdown(fd, SHUT_WR);
	ssize_t n;
	while ((n = recv(fd, reply, sizeof reply, 0)) > 0 || (n < 0 && errno == EINTR)) /* libFuzzer's alarm */
		;
	fuzz_check(n == 0 || errno == ECONNRESET, "the connection is not closed");
	close(fd);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static pthread_once_t once = PTHREAD_ONCE_INIT;
	if (size > INPUT_MAX)
		return 0;
	pthread_once(&once, start);
	uint8_t *copy = fuzz_copy(data, size);
	if (size && !data[0])
		send_bytes(copy + 1, size - 1);
	else
		send_request((char *)copy, size);
	free(copy);
	return 0;
}
