/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/packet.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

union control {
	struct cmsghdr align;
	char bytes[CMSG_SPACE(PACKET_FDS * sizeof(int))];
};

static void attach(struct msghdr *m, union control *control, const int *fds, unsigned count)
{
	memset(control, 0, sizeof *control);
	m->msg_control = control->bytes;
	m->msg_controllen = CMSG_SPACE(count * sizeof(int));
	struct cmsghdr *c = CMSG_FIRSTHDR(m);
	c->cmsg_level = SOL_SOCKET;
	c->cmsg_type = SCM_RIGHTS;
	c->cmsg_len = CMSG_LEN(count * sizeof(int));
	memcpy(CMSG_DATA(c), fds, count * sizeof(int));
}

bool packet_send(int socket, enum packet_kind kind, const void *data, size_t len, const int *fds, unsigned fd_count)
{
	uint8_t letter = (uint8_t)kind;
	union control control;
	struct iovec parts[] = {{&letter, 1}, {(void *)data, len}};
	struct msghdr m = {.msg_iov = parts, .msg_iovlen = len > 0 ? 2 : 1};
	ssize_t n;
	if (fd_count > 0)
		attach(&m, &control, fds, fd_count);
	do
		n = sendmsg(socket, &m, MSG_NOSIGNAL);
	while (n < 0 && errno == EINTR);
	return n == (ssize_t)(len + 1);
}

static void take_fds(struct packet *p, struct msghdr *m)
{
	for (struct cmsghdr *c = CMSG_FIRSTHDR(m); c; c = CMSG_NXTHDR(m, c)) {
		if (c->cmsg_level != SOL_SOCKET || c->cmsg_type != SCM_RIGHTS)
			continue;
		p->fd_count = (unsigned)((c->cmsg_len - CMSG_LEN(0)) / sizeof(int));
		memcpy(p->fds, CMSG_DATA(c), p->fd_count * sizeof(int));
	}
}

bool packet_receive(int socket, struct packet *p)
{
	uint8_t letter;
	union control control;
	struct iovec parts[] = {{&letter, 1}, {p->data, PACKET_MAX}};
	struct msghdr m = {.msg_iov = parts,
	        .msg_iovlen = 2,
	        .msg_control = control.bytes,
	        .msg_controllen = sizeof control.bytes};
	ssize_t n;
	p->fd_count = 0;
	/* The kernel says once that the other side went without reading all, before what it had sent. */
	do
		n = recvmsg(socket, &m, MSG_CMSG_CLOEXEC);
	while (n < 0 && (errno == EINTR || errno == ECONNRESET));
	if (n <= 0)
		return false;
	take_fds(p, &m);
	p->kind = letter;
	p->len = (size_t)n - 1;
	p->data[p->len] = 0;
	if (!(m.msg_flags & (MSG_TRUNC | MSG_CTRUNC)))
		return true;
	packet_close_fds(p);
	return false;
}

void packet_close_fds(struct packet *p)
{
	while (p->fd_count > 0)
		close(p->fds[--p->fd_count]);
}

void job_limits_print(char out[JOB_LIMITS_TEXT], const struct job_limits *l)
{
	char question[BUILD_ID_QUESTION_TEXT + 1];
	build_id_question_text(question, &l->question);
	snprintf(out, JOB_LIMITS_TEXT, "%" PRIu64 " %" PRIu64 " %u %u %d %d %d %d %" PRIu64 " %" PRIu64 " %s %s",
	        l->memory, l->file_size, l->seconds, l->threads, l->sandbox, l->segments, l->code, l->to_function_end,
	        l->code_start, l->code_size, question, l->section);
}

bool job_limits_parse(struct job_limits *l, const char *text)
{
	char question[BUILD_ID_QUESTION_TEXT + 1];
	int sandbox, segments, code, to_end;
	l->section[0] = 0;
	if (sscanf(text, "%" SCNu64 " %" SCNu64 " %u %u %d %d %d %d %" SCNu64 " %" SCNu64 " %161s %63s", &l->memory,
	            &l->file_size, &l->seconds, &l->threads, &sandbox, &segments, &code, &to_end, &l->code_start,
	            &l->code_size, question, l->section) < 11 ||
	        !build_id_question_read(&l->question, str_from(question)))
		return false;
	l->sandbox = sandbox != 0;
	l->segments = segments != 0;
	l->code = code != 0;
	l->to_function_end = to_end != 0;
	return true;
}
