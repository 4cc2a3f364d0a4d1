/* SPDX-License-Identifier: Apache-2.0 */
/*
 * load [OPTION...] PORT FILE: HTTP load from kept connections to 127.0.0.1. FILE holds whole HTTP/1.1 requests, each
 * after its length (u32, little-endian); they are sent in turn, one at a time on each connection.
 *
 *   -c N  connections (1)   -n N  at most so many replies (1000000)   -t S  at most so many seconds (10)
 *   -w S  replies of the first seconds are not counted (0)            -s    TLS
 *   -r R  open loop: request k is due k/R seconds after the start, whatever became of those before it, and its latency
 *         counts from then, also while it waits for one of the connections to be free
 *   -i S  also prints "timeline": how many replies there were in each S seconds
 *   -o F  writes a line for each request: status and bytes of the body of its last reply
 *
 * Ends early on SIGTERM. Prints one JSON object: counted replies, errors (a status that is not 200, a connection that
 * broke, no reply at the end), seconds, replies a second, bytes of bodies, latencies in microseconds ("first": the
 * median time until a body's first byte), and in the open loop how many requests were due and not sent ("behind"), and
 * all replies ("all"). Replies have a length, chunks, or the end of the connection as their end; what the server closes
 * is opened again.
 */
#include "config.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <netinet/tcp.h>
#include <openssl/ssl.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/timerfd.h>
#include <unistd.h>

#include "base/clock.h"

enum {
	CONNECTIONS_MAX = 1024,
	REPLIES_MAX = 20000000,
	HEAD_MAX = 16384,
	BODY_PIECE = 1 << 18,
	TICK_MS = 50,
	INTERVALS_MAX = 4096,
};

/* How the end of a body is known. */
enum framing { BY_LENGTH, BY_CHUNKS, BY_CLOSE };

/* Where in a chunked body: the digits of a chunk's size, the rest of that line, its data, the line end behind it, the
 * lines behind the last chunk. */
enum chunk_state { CHUNK_SIZE, CHUNK_LINE, CHUNK_DATA, CHUNK_END, CHUNK_TRAILER };

/* One request of the file, and what its last reply was. */
struct record {
	const char *data;
	size_t len;
	int status;
	uint64_t bytes;
};

struct connection {
	int fd;
	SSL *tls;
	struct record *record; /* in flight; NULL: idle */
	size_t sent, head_len;
	int64_t start, first; /* first: when the body began */
	enum framing framing;
	enum chunk_state chunk;
	uint64_t body_left; /* of the body, or of the chunk */
	bool line_empty;
	bool in_body, close, writing; /* writing: epoll waits for room */
	char head[HEAD_MAX];
};

struct load {
	unsigned port, connection_count, replies_max;
	double seconds, warm_up, rate, interval; /* rate: 0 for a closed loop */
	const char *out;
	SSL_CTX *tls;
	int epoll, timer;
	struct record *records;
	size_t record_count, next;
	int64_t begin, counted_from, end;
	uint32_t *latencies, *firsts; /* microseconds */
	unsigned timeline[INTERVALS_MAX];
	size_t counted, capacity;
	uint64_t replies, errors, bytes;
	struct connection *connections;
};

static volatile sig_atomic_t stopped;
static char scratch[BODY_PIECE];

static void on_stop(int number)
{
	stopped = number;
}

static void die(const char *what)
{
	fprintf(stderr, "load: %s: %s\n", what, strerror(errno));
	exit(1);
}

/* ---- the file ---- */

static char *read_file(const char *path, size_t *len)
{
	FILE *f = fopen(path, "rb");
	if (!f || fseek(f, 0, SEEK_END) != 0)
		die(path);
	*len = (size_t)ftell(f);
	rewind(f);
	char *data = malloc(*len + 1);
	if (!data || fread(data, 1, *len, f) != *len)
		die(path);
	fclose(f);
	return data;
}

static void split_records(struct load *l, const char *data, size_t len)
{
	size_t room = 0;
	for (size_t at = 0; at < len;) {
		const uint8_t *p = (const uint8_t *)data + at;
		uint32_t n =
		        len - at < 4 ? 0 : p[0] | (uint32_t)p[1] << 8 | (uint32_t)p[2] << 16 | (uint32_t)p[3] << 24;
		if (!n || n > len - at - 4) {
			fputs("load: the file is cut\n", stderr);
			exit(1);
		}
		if (l->record_count == room) {
			room = room ? room * 2 : 1024;
			l->records = realloc(l->records, room * sizeof *l->records);
			if (!l->records)
				die("memory");
		}
		l->records[l->record_count++] = (struct record){.data = data + at + 4, .len = n};
		at += 4 + (size_t)n;
	}
	if (!l->record_count) {
		fputs("load: no requests\n", stderr);
		exit(1);
	}
}

/* ---- connections ---- */

static void connection_open(struct load *l, struct connection *c)
{
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)l->port)};
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = c};
	int one = 1;
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	c->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
	if (c->fd < 0 || connect(c->fd, (struct sockaddr *)&to, sizeof to) != 0)
		die("connect");
	setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
	if (l->tls) {
		c->tls = SSL_new(l->tls);
		if (!c->tls || SSL_set_fd(c->tls, c->fd) != 1 || SSL_connect(c->tls) != 1)
			die("TLS");
	}
	if (fcntl(c->fd, F_SETFL, O_NONBLOCK) != 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, c->fd, &event) != 0)
		die("epoll");
	c->record = NULL;
	c->close = c->writing = false;
}

static void connection_close(struct connection *c)
{
	SSL_free(c->tls);
	c->tls = NULL;
	close(c->fd);
}

/* Bytes, 0 at the end of the stream, -1 for an error, -2: not now. */
static ssize_t receive(struct connection *c, char *out, size_t room)
{
	if (c->tls) {
		int n = SSL_read(c->tls, out, (int)room), why = SSL_get_error(c->tls, n);
		return n > 0 ? n : why == SSL_ERROR_WANT_READ ? -2 : why == SSL_ERROR_ZERO_RETURN ? 0 : -1;
	}
	ssize_t n = recv(c->fd, out, room, 0);
	return n >= 0 ? n : errno == EAGAIN ? -2 : -1;
}

static ssize_t transmit(struct connection *c, const char *data, size_t len)
{
	if (c->tls) {
		int n = SSL_write(c->tls, data, (int)len), why = SSL_get_error(c->tls, n);
		return n > 0 ? n : why == SSL_ERROR_WANT_WRITE || why == SSL_ERROR_WANT_READ ? -2 : -1;
	}
	ssize_t n = send(c->fd, data, len, MSG_NOSIGNAL);
	return n >= 0 ? n : errno == EAGAIN ? -2 : -1;
}

/* ---- requests and replies ---- */

static void want_room(struct load *l, struct connection *c, bool on)
{
	struct epoll_event event = {.events = on ? EPOLLIN | EPOLLOUT : EPOLLIN, .data.ptr = c};
	if (c->writing != on && epoll_ctl(l->epoll, EPOLL_CTL_MOD, c->fd, &event) != 0)
		die("epoll");
	c->writing = on;
}

/* false: the connection broke. */
static bool send_more(struct load *l, struct connection *c)
{
	while (c->sent < c->record->len) {
		ssize_t n = transmit(c, c->record->data + c->sent, c->record->len - c->sent);
		if (n == -2)
			break;
		if (n < 0)
			return false;
		c->sent += (size_t)n;
	}
	want_room(l, c, c->sent < c->record->len);
	return true;
}

/* When request n of an open loop is to be sent. */
static int64_t due(const struct load *l, size_t n)
{
	return l->begin + (int64_t)((double)n / l->rate * 1e9);
}

static bool send_next(struct load *l, struct connection *c)
{
	c->start = l->rate > 0 ? due(l, l->next) : clock_now();
	c->record = &l->records[l->next++ % l->record_count];
	c->sent = c->head_len = 0;
	c->in_body = false;
	c->first = 0;
	return send_more(l, c);
}

static const char *header(const char *head, const char *name)
{
	const char *at = strcasestr(head, name);
	return at ? at + strlen(name) : NULL;
}

/* Bytes of a chunked body. 1: it is complete, 0: not yet, -1: no chunks. */
static int read_chunks(struct connection *c, const char *p, size_t len)
{
	for (const char *end = p + len; p < end; p++) {
		switch (c->chunk) {
		case CHUNK_SIZE:
			if (isxdigit((unsigned char)*p)) {
				c->body_left =
				        c->body_left * 16 + (uint64_t)(*p <= '9' ? *p - '0' : (*p | 32) - 'a' + 10);
				break;
			}
			c->chunk = CHUNK_LINE;
			/* fall through */
		case CHUNK_LINE:
			if (*p == '\n')
				c->chunk = c->body_left ? CHUNK_DATA : CHUNK_TRAILER;
			c->line_empty = true;
			break;
		case CHUNK_DATA: {
			size_t n = (uint64_t)(end - p) < c->body_left ? (size_t)(end - p) : (size_t)c->body_left;
			c->record->bytes += n;
			c->body_left -= n;
			p += n - 1;
			if (!c->body_left)
				c->chunk = CHUNK_END;
			break;
		}
		case CHUNK_END:
			if (*p == '\n')
				c->chunk = CHUNK_SIZE;
			else if (*p != '\r')
				return -1;
			break;
		case CHUNK_TRAILER:
			if (*p == '\n' && c->line_empty)
				return p + 1 == end ? 1 : -1;
			c->line_empty = *p == '\n' || (*p == '\r' && c->line_empty);
			break;
		}
	}
	return 0;
}

/* Bytes of the body. 1: it is complete, 0: not yet, -1: too many. */
static int read_body(struct connection *c, const char *data, size_t len)
{
	if (len && !c->first)
		c->first = clock_now();
	if (c->framing == BY_CHUNKS)
		return read_chunks(c, data, len);
	c->record->bytes += len;
	if (c->framing == BY_CLOSE)
		return 0;
	if (len > c->body_left)
		return -1;
	c->body_left -= len;
	return !c->body_left;
}

/* Reads the head when it is complete, and the body's bytes behind it. 1: the reply is complete, 0: not yet, -1: no
 * reply that is understood. */
static int read_head(struct connection *c)
{
	c->head[c->head_len] = 0;
	char *end = strstr(c->head, "\r\n\r\n");
	if (!end)
		return c->head_len < HEAD_MAX - 1 ? 0 : -1;
	end[2] = 0;
	const char *length = header(c->head, "\r\nContent-Length:"), *close = header(c->head, "\r\nConnection:"),
	           *encoding = header(c->head, "\r\nTransfer-Encoding:");
	if (strncmp(c->head, "HTTP/1.", 7) != 0)
		return -1;
	c->record->status = atoi(c->head + 9);
	c->record->bytes = 0;
	c->framing = encoding ? BY_CHUNKS : length ? BY_LENGTH : BY_CLOSE;
	c->body_left = c->framing == BY_LENGTH ? strtoull(length, NULL, 10) : 0;
	c->chunk = CHUNK_SIZE;
	c->close = c->framing == BY_CLOSE || c->head[7] == '0' ||
	           (close && strncasecmp(close + strspn(close, " "), "close", 5) == 0);
	c->in_body = true;
	return read_body(c, end + 4, c->head_len - (size_t)(end + 4 - c->head));
}

/* One read. 1: the reply is complete, 0: not yet, -1: broken. *again: there may be more to read. */
static int read_some(struct connection *c, bool *again)
{
	char *to = c->in_body ? scratch : c->head + c->head_len;
	size_t room = c->in_body ? sizeof scratch : HEAD_MAX - 1 - c->head_len;
	ssize_t n = receive(c, to, room);
	*again = n > 0;
	if (n == -2)
		return 0;
	if (n == 0 && c->record && c->in_body && c->framing == BY_CLOSE)
		return 1;
	if (n <= 0 || !c->record)
		return -1;
	if (c->in_body)
		return read_body(c, scratch, (size_t)n);
	c->head_len += (size_t)n;
	return read_head(c);
}

static void count(struct load *l, const struct connection *c)
{
	int64_t now = clock_now();
	l->replies++;
	if (l->interval > 0) {
		double n = (double)(now - l->begin) / 1e9 / l->interval;
		l->timeline[n < INTERVALS_MAX ? (unsigned)n : INTERVALS_MAX - 1]++;
	}
	if (c->start < l->counted_from)
		return;
	if (c->record->status != 200)
		l->errors++;
	l->bytes += c->record->bytes;
	if (l->counted == l->capacity) {
		l->capacity = l->capacity ? l->capacity * 2 : 65536;
		l->latencies = realloc(l->latencies, l->capacity * sizeof *l->latencies);
		l->firsts = realloc(l->firsts, l->capacity * sizeof *l->firsts);
		if (!l->latencies || !l->firsts)
			die("memory");
	}
	l->firsts[l->counted] = (uint32_t)(((c->first ? c->first : now) - c->start) / 1000);
	l->latencies[l->counted++] = (uint32_t)((now - c->start) / 1000);
	l->end = now;
}

static bool more_wanted(const struct load *l)
{
	return !stopped && l->next < l->replies_max && (double)(clock_now() - l->begin) / 1e9 < l->seconds;
}

/* May the next request be sent now? */
static bool next_may_go(const struct load *l)
{
	return more_wanted(l) && (l->rate <= 0 || due(l, l->next) <= clock_now());
}

/* Leaves the connection idle, or with the next request in flight. */
static void go_on(struct load *l, struct connection *c, bool broken)
{
	c->record = NULL;
	if (broken)
		l->errors++;
	if (broken || c->close) {
		connection_close(c);
		connection_open(l, c);
	}
	if (next_may_go(l) && !send_next(l, c)) {
		/* Once more at most: a server that refuses every connection ends the run by its bounds. */
		l->errors++;
		connection_close(c);
		connection_open(l, c);
	}
}

static void handle(struct load *l, struct connection *c, uint32_t events)
{
	bool again = true;
	int done = 0;
	if ((events & EPOLLOUT) && c->record && !send_more(l, c)) {
		go_on(l, c, true);
		return;
	}
	while (again && !done)
		done = read_some(c, &again);
	if (done > 0)
		count(l, c);
	if (done && (done > 0 || c->record)) {
		go_on(l, c, done < 0);
	} else if (done < 0) {
		/* nginx gave an idle connection up. */
		connection_close(c);
		connection_open(l, c);
		if (next_may_go(l))
			go_on(l, c, false);
	}
}

static unsigned in_flight(const struct load *l)
{
	unsigned n = 0;
	for (unsigned i = 0; i < l->connection_count; i++)
		n += l->connections[i].record != NULL;
	return n;
}

/* The open loop: sends what is due on idle connections, and sets the timer to what is due next. While none is idle the
 * end of a reply sends what waits. */
static void send_due(struct load *l)
{
	for (unsigned i = 0; i < l->connection_count && next_may_go(l); i++)
		if (!l->connections[i].record)
			go_on(l, &l->connections[i], false);
	int64_t at = due(l, l->next);
	if (more_wanted(l) && at > clock_now()) {
		struct itimerspec when = {.it_value = {.tv_sec = at / 1000000000, .tv_nsec = at % 1000000000}};
		if (timerfd_settime(l->timer, TFD_TIMER_ABSTIME, &when, NULL) != 0)
			die("timer");
	}
}

static void open_timer(struct load *l)
{
	struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL};
	l->timer = timerfd_create(CLOCK_MONOTONIC, TFD_CLOEXEC | TFD_NONBLOCK);
	if (l->timer < 0 || epoll_ctl(l->epoll, EPOLL_CTL_ADD, l->timer, &event) != 0)
		die("timer");
}

static void run(struct load *l)
{
	struct epoll_event events[64];
	uint64_t ticks;
	l->epoll = epoll_create1(EPOLL_CLOEXEC);
	for (unsigned i = 0; i < l->connection_count; i++)
		connection_open(l, &l->connections[i]);
	l->begin = l->end = clock_now();
	l->counted_from = l->begin + (int64_t)(l->warm_up * 1e9);
	open_timer(l);
	for (unsigned i = 0; i < l->connection_count && next_may_go(l); i++)
		if (!send_next(l, &l->connections[i]))
			go_on(l, &l->connections[i], true);
	/* What is in flight at the end is waited for until half the time has passed once more, or ten seconds. */
	double patience = l->seconds * 1.5 + 10;
	while ((in_flight(l) || (l->rate > 0 && more_wanted(l))) && (double)(clock_now() - l->begin) / 1e9 < patience) {
		if (l->rate > 0)
			send_due(l);
		int n = epoll_wait(l->epoll, events, 64, TICK_MS);
		for (int i = 0; i < n; i++) {
			if (events[i].data.ptr)
				handle(l, events[i].data.ptr, events[i].events);
			else if (read(l->timer, &ticks, sizeof ticks) < 0 && errno != EAGAIN)
				die("timer");
		}
	}
	l->errors += in_flight(l);
}

/* ---- the result ---- */

static int order(const void *a, const void *b)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	return (x > y) - (x < y);
}

static uint32_t percentile(const uint32_t *sorted, size_t count, double percent)
{
	return count ? sorted[(size_t)((double)(count - 1) * percent / 100)] : 0;
}

/* Requests that were due and not sent when the time was over. */
static size_t behind(const struct load *l)
{
	double wanted = (l->seconds < (double)l->replies_max / l->rate ? l->seconds * l->rate : (double)l->replies_max);
	return l->rate > 0 && !stopped && wanted > (double)l->next ? (size_t)(wanted - (double)l->next) : 0;
}

static void print_timeline(const struct load *l)
{
	unsigned count = 0;
	for (unsigned i = 0; i < INTERVALS_MAX; i++)
		count = l->timeline[i] ? i + 1 : count;
	printf(", \"timeline\": [");
	for (unsigned i = 0; i < count; i++)
		printf("%s%u", i ? ", " : "", l->timeline[i]);
	printf("]");
}

static void print_result(struct load *l)
{
	double seconds = (double)(l->end - l->counted_from) / 1e9;
	if (l->counted) {
		qsort(l->latencies, l->counted, sizeof *l->latencies, order);
		qsort(l->firsts, l->counted, sizeof *l->firsts, order);
	}
	printf("{\"requests\": %zu, \"errors\": %" PRIu64 ", \"seconds\": %.4f, \"rate\": %.1f, \"bytes\": %" PRIu64,
	        l->counted, l->errors, seconds, seconds > 0 ? (double)l->counted / seconds : 0, l->bytes);
	printf(", \"p50\": %" PRIu32 ", \"p99\": %" PRIu32 ", \"p999\": %" PRIu32 ", \"max\": %" PRIu32
	       ", \"first\": %" PRIu32 ", \"behind\": %zu, \"all\": %" PRIu64,
	        percentile(l->latencies, l->counted, 50), percentile(l->latencies, l->counted, 99),
	        percentile(l->latencies, l->counted, 99.9), percentile(l->latencies, l->counted, 100),
	        percentile(l->firsts, l->counted, 50), behind(l), l->replies);
	if (l->interval > 0)
		print_timeline(l);
	puts("}");
}

static void write_replies(const struct load *l)
{
	FILE *f = l->out ? fopen(l->out, "w") : NULL;
	if (!l->out)
		return;
	if (!f)
		die(l->out);
	for (size_t i = 0; i < l->record_count; i++)
		fprintf(f, "%d %" PRIu64 "\n", l->records[i].status, l->records[i].bytes);
	if (fclose(f) != 0)
		die(l->out);
}

/* ---- arguments ---- */

static void start_tls(struct load *l)
{
	/* The certificate is the benchmark's own. */
	l->tls = SSL_CTX_new(TLS_client_method());
	if (!l->tls)
		die("TLS");
	SSL_CTX_set_mode(l->tls, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
}

static bool read_options(struct load *l, int argc, char **argv)
{
	int option;
	while ((option = getopt(argc, argv, "c:n:t:w:r:i:so:")) != -1) {
		switch (option) {
		case 'c':
			l->connection_count = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 'n':
			l->replies_max = (unsigned)strtoul(optarg, NULL, 10);
			break;
		case 't':
			l->seconds = strtod(optarg, NULL);
			break;
		case 'w':
			l->warm_up = strtod(optarg, NULL);
			break;
		case 'r':
			l->rate = strtod(optarg, NULL);
			break;
		case 'i':
			l->interval = strtod(optarg, NULL);
			break;
		case 's':
			start_tls(l);
			break;
		case 'o':
			l->out = optarg;
			break;
		default:
			return false;
		}
	}
	return argc - optind == 2 && l->connection_count >= 1 && l->connection_count <= CONNECTIONS_MAX &&
	       l->replies_max <= REPLIES_MAX && l->seconds > 0 && l->seconds <= 600 && l->rate >= 0 && l->interval >= 0;
}

int main(int argc, char **argv)
{
	struct load l = {.connection_count = 1, .replies_max = 1000000, .seconds = 10};
	struct sigaction stop = {.sa_handler = on_stop};
	size_t len;
	if (!read_options(&l, argc, argv)) {
		fputs("usage: load [-c N] [-n N] [-t S] [-w S] [-r RATE] [-i S] [-s] [-o FILE] PORT FILE\n", stderr);
		return 2;
	}
	sigaction(SIGTERM, &stop, NULL);
	signal(SIGPIPE, SIG_IGN);
	l.port = (unsigned)strtoul(argv[optind], NULL, 10);
	char *data = read_file(argv[optind + 1], &len);
	split_records(&l, data, len);
	l.connections = calloc(l.connection_count, sizeof *l.connections);
	if (!l.connections)
		die("memory");
	run(&l);
	write_replies(&l);
	print_result(&l);
	for (unsigned i = 0; i < l.connection_count; i++)
		connection_close(&l.connections[i]);
	close(l.timer);
	SSL_CTX_free(l.tls);
	free(l.connections);
	free(l.latencies);
	free(l.firsts);
	free(l.records);
	free(data);
	return 0;
}
