/* SPDX-License-Identifier: Apache-2.0 */
/*
 * null_responder SOCKET: the limit that symbolicated is measured against. A FastCGI responder on libfcgi that reads the
 * body and answers as many bytes as the header X-Reply-Bytes says, at once. Runs until SIGTERM.
 */
#include "config.h"

#include <fcgiapp.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

/* Connections are taken from one epoll set, since libfcgi's own accept ties a thread to each that nginx keeps. */
enum { THREADS = 4, BACKLOG = 4096, PIECE = 1 << 20, REPLY_MAX = 1 << 30 };

static char piece[PIECE], drain[THREADS][1 << 16];
static int listener, epoll;

static long wanted(const FCGX_Request *r)
{
	const char *text = FCGX_GetParam("HTTP_X_REPLY_BYTES", r->envp);
	long n = text ? strtol(text, NULL, 10) : 0;
	return n < 0 || n > REPLY_MAX ? 0 : n;
}

static void answer(FCGX_Request *r, char *room)
{
	while (FCGX_GetStr(room, (int)sizeof drain[0], r->in) > 0)
		;
	long left = wanted(r);
	FCGX_FPrintF(r->out, "Status: 200 OK\r\nContent-Type: application/json\r\nContent-Length: %ld\r\n\r\n", left);
	while (left > 0) {
		int n = left < PIECE ? (int)left : PIECE;
		if (FCGX_PutStr(piece, n, r->out) != n)
			break;
		left -= n;
	}
}

/* One thread at a time sees a descriptor that is readable; it watches it again when it is done. */
static void watch(int operation, int fd)
{
	struct epoll_event event = {.events = EPOLLIN | EPOLLONESHOT, .data.fd = fd};
	if (epoll_ctl(epoll, operation, fd, &event) != 0) {
		perror("epoll_ctl");
		exit(1);
	}
}

static void accept_all(void)
{
	int fd;
	while ((fd = accept4(listener, NULL, NULL, SOCK_CLOEXEC)) >= 0)
		watch(EPOLL_CTL_ADD, fd);
	watch(EPOLL_CTL_MOD, listener);
}

/* One request; the connection goes back to epoll when nginx keeps it. */
static void serve_one(FCGX_Request *r, int fd, char *room)
{
	r->ipcFd = fd;
	r->keepConnection = 1;
	if (FCGX_Accept_r(r) < 0)
		return;
	answer(r, room);
	FCGX_Finish_r(r);
	if (r->ipcFd >= 0) {
		r->ipcFd = -1;
		r->keepConnection = 0;
		watch(EPOLL_CTL_MOD, fd);
	}
}

static void *serve(void *room)
{
	FCGX_Request r;
	struct epoll_event event;
	if (FCGX_InitRequest(&r, -1, 0) != 0)
		return NULL;
	for (;;) {
		if (epoll_wait(epoll, &event, 1, -1) != 1)
			continue;
		if (event.data.fd == listener)
			accept_all();
		else
			serve_one(&r, event.data.fd, room);
	}
}

int main(int argc, char **argv)
{
	pthread_t threads[THREADS];
	if (argc != 2) {
		fputs("usage: null_responder SOCKET\n", stderr);
		return 2;
	}
	memset(piece, 'x', sizeof piece);
	if (FCGX_Init() != 0 || (listener = FCGX_OpenSocket(argv[1], BACKLOG)) < 0 ||
	        fcntl(listener, F_SETFL, O_NONBLOCK) != 0 || (epoll = epoll_create1(EPOLL_CLOEXEC)) < 0) {
		fprintf(stderr, "%s: cannot listen\n", argv[1]);
		return 1;
	}
	/* libfcgi has put a handler of its own there. */
	signal(SIGTERM, SIG_DFL);
	watch(EPOLL_CTL_ADD, listener);
	for (int i = 0; i < THREADS; i++) {
		if (pthread_create(&threads[i], NULL, serve, drain[i]) != 0) {
			fputs("no threads\n", stderr);
			return 1;
		}
	}
	for (int i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	return 0;
}
