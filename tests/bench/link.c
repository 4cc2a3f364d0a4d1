/* SPDX-License-Identifier: Apache-2.0 */
/*
 * link PORT ROUND_TRIP_MS MBIT LISTEN: a distant server. What connects to port LISTEN is passed on to PORT of this
 * machine, as over a line of that round trip and rate: replies of all connections share the rate in the order in which
 * they come, a connection takes one round trip before its first byte, and then as TCP does without losses: ten segments
 * are on their way at first, and for each that arrives one more. Kernels may lack netem, and this needs no rights. Runs
 * until SIGTERM.
 */
#include "config.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/clock.h"

enum { CONNECTIONS_MAX = 256, SEGMENT = 16384, WINDOW_FIRST = 14600, WINDOW_MAX = 8 << 20, UP_MAX = 1 << 20 };

struct chunk {
	struct chunk *next;
	int64_t at;
	size_t len, sent; /* len 0: the end of the stream */
	char data[];
};

struct queue {
	struct chunk *first, **last;
	size_t bytes;
};

struct connection {
	int client, server; /* -1: no connection */
	struct queue up, down, acks;
	size_t window, in_flight;
	int64_t up_at; /* when the last of up arrives */
	bool spoke, server_ended, blocked;
};

struct line {
	int64_t delay; /* one way */
	double ns_per_byte;
	int64_t free_at;
	unsigned target;
	int listener;
	struct connection connections[CONNECTIONS_MAX];
};

static void die(const char *what)
{
	perror(what);
	exit(1);
}

static void put(struct queue *q, struct chunk *c)
{
	c->next = NULL;
	*(q->first ? q->last : &q->first) = c;
	q->last = &c->next;
	q->bytes += c->len;
}

static struct chunk *take(struct queue *q)
{
	struct chunk *c = q->first;
	q->first = c->next;
	q->bytes -= c->len;
	return c;
}

static void empty(struct queue *q)
{
	while (q->first)
		free(take(q));
}

/* Bytes of a socket as a chunk; NULL: nothing now, or broken (*ended). */
static struct chunk *read_chunk(int fd, size_t room, bool *ended)
{
	struct chunk *c = malloc(sizeof *c + room);
	if (!c)
		die("memory");
	ssize_t n = recv(fd, c->data, room, MSG_DONTWAIT);
	if (n > 0) {
		c->len = (size_t)n;
		c->sent = 0;
		return c;
	}
	*ended = n == 0 || errno != EAGAIN;
	free(c);
	return NULL;
}

/* Sends what has arrived; false: the socket is broken. What was sent whole goes to acks, if there are any, else is
 * freed. */
static bool deliver(struct queue *q, int fd, int64_t now, int64_t delay, struct queue *acks, bool *blocked)
{
	*blocked = false;
	while (q->first && q->first->at <= now) {
		struct chunk *c = q->first;
		ssize_t n = c->len ? send(fd, c->data + c->sent, c->len - c->sent, MSG_DONTWAIT | MSG_NOSIGNAL) : 0;
		if (n < 0) {
			*blocked = errno == EAGAIN;
			return *blocked;
		}
		if (!c->len)
			shutdown(fd, SHUT_WR);
		c->sent += (size_t)n;
		if (c->sent < c->len)
			continue;
		take(q);
		if (acks) {
			c->at = now + delay;
			put(acks, c);
		} else {
			free(c);
		}
	}
	return true;
}

static void drop(struct connection *c)
{
	close(c->client);
	close(c->server);
	empty(&c->up);
	empty(&c->down);
	empty(&c->acks);
	c->client = c->server = -1;
}

static void from_client(struct line *l, struct connection *c, int64_t now, bool *gone)
{
	struct chunk *chunk = c->up.bytes < UP_MAX ? read_chunk(c->client, SEGMENT, gone) : NULL;
	if (!chunk)
		return;
	chunk->at = now + l->delay + (c->spoke ? 0 : 2 * l->delay);
	if (chunk->at < c->up_at)
		chunk->at = c->up_at; /* behind what the handshake still holds */
	c->up_at = chunk->at;
	c->spoke = true;
	put(&c->up, chunk);
}

static bool may_read_server(const struct connection *c)
{
	return !c->server_ended && c->in_flight < c->window;
}

static void from_server(struct line *l, struct connection *c, int64_t now)
{
	size_t room = c->window - c->in_flight;
	struct chunk *chunk = read_chunk(c->server, room < SEGMENT ? room : SEGMENT, &c->server_ended);
	if (!chunk && !c->server_ended)
		return;
	if (!chunk) {
		chunk = calloc(1, sizeof *chunk);
		if (!chunk)
			die("memory");
	}
	l->free_at = (l->free_at > now ? l->free_at : now) + (int64_t)((double)chunk->len * l->ns_per_byte);
	chunk->at = l->free_at + l->delay;
	c->in_flight += chunk->len;
	put(&c->down, chunk);
}

static void go_on(struct line *l, struct connection *c, int64_t now)
{
	bool gone = false, blocked;
	from_client(l, c, now, &gone);
	while (c->acks.first && c->acks.first->at <= now) {
		struct chunk *chunk = take(&c->acks);
		c->in_flight -= chunk->len;
		c->window += c->window < WINDOW_MAX ? chunk->len : 0;
		free(chunk);
	}
	if (may_read_server(c))
		from_server(l, c, now);
	if (gone || !deliver(&c->up, c->server, now, 0, NULL, &blocked) ||
	        !deliver(&c->down, c->client, now, l->delay, &c->acks, &c->blocked))
		drop(c);
}

static void accept_one(struct line *l)
{
	int one = 1, fd = accept4(l->listener, NULL, NULL, SOCK_CLOEXEC);
	struct sockaddr_in to = {.sin_family = AF_INET, .sin_port = htons((uint16_t)l->target)};
	to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	if (fd < 0)
		return;
	for (int i = 0; i < CONNECTIONS_MAX; i++) {
		struct connection *c = &l->connections[i];
		if (c->client >= 0)
			continue;
		*c = (struct connection){.client = fd, .window = WINDOW_FIRST};
		c->server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (c->server < 0 || connect(c->server, (struct sockaddr *)&to, sizeof to) != 0)
			die("connect");
		setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		setsockopt(c->server, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
		return;
	}
	close(fd);
}

static void sooner(int64_t *next, const struct queue *q)
{
	if (q->first && q->first->at < *next)
		*next = q->first->at;
}

static void run(struct line *l)
{
	static struct pollfd fds[1 + 2 * CONNECTIONS_MAX];
	for (;;) {
		int64_t now = clock_now(), next = now + SECOND;
		nfds_t n = 1;
		fds[0] = (struct pollfd){.fd = l->listener, .events = POLLIN};
		for (int i = 0; i < CONNECTIONS_MAX; i++) {
			struct connection *c = &l->connections[i];
			if (c->client < 0)
				continue;
			fds[n++] = (struct pollfd){.fd = c->client,
			        .events = (short)((c->up.bytes < UP_MAX ? POLLIN : 0) | (c->blocked ? POLLOUT : 0))};
			fds[n++] = (struct pollfd){.fd = may_read_server(c) ? c->server : -1, .events = POLLIN};
			sooner(&next, &c->up);
			sooner(&next, &c->acks);
			if (!c->blocked)
				sooner(&next, &c->down);
		}
		int64_t wait = next > now ? next - now : 0;
		struct timespec time = {.tv_sec = wait / SECOND, .tv_nsec = wait % SECOND};
		if (ppoll(fds, n, &time, NULL) < 0)
			die("poll");
		now = clock_now();
		for (int i = 0; i < CONNECTIONS_MAX; i++)
			if (l->connections[i].client >= 0)
				go_on(l, &l->connections[i], now);
		if (fds[0].revents)
			accept_one(l);
	}
}

int main(int argc, char **argv)
{
	static struct line l;
	struct sockaddr_in at = {.sin_family = AF_INET};
	int one = 1;
	double round_trip = argc == 5 ? strtod(argv[2], NULL) : -1, mbit = argc == 5 ? strtod(argv[3], NULL) : 0;
	if (round_trip < 0 || mbit <= 0) {
		fputs("usage: link PORT ROUND_TRIP_MS MBIT LISTEN\n", stderr);
		return 2;
	}
	l.target = (unsigned)strtoul(argv[1], NULL, 10);
	l.delay = (int64_t)(round_trip * 1e6 / 2);
	l.ns_per_byte = 8e3 / mbit;
	for (int i = 0; i < CONNECTIONS_MAX; i++)
		l.connections[i].client = -1;
	at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	at.sin_port = htons((uint16_t)strtoul(argv[4], NULL, 10));
	l.listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (l.listener < 0 || setsockopt(l.listener, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one) != 0 ||
	        bind(l.listener, (struct sockaddr *)&at, sizeof at) != 0 || listen(l.listener, 256) != 0)
		die("listen");
	run(&l);
}
