/* SPDX-License-Identifier: Apache-2.0 */
/* symbolicated-extract, the helper of symbolicated that reads executables: it may die of them, and the server does not.
 * The server starts it before it enters its sandbox, and cannot start it again: so the first process only starts the
 * second one, whenever that has died. The second one starts a process for each job, in a cage (cage.h), and tells the
 * server how it died. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/prctl.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/crash.h"
#include "elf/packet.h"
#include "helper/job.h"

enum { JOBS_MAX = 256, NICE = 10 };

struct running {
	pid_t pid; /* 0: none */
	int socket;
};

struct helper {
	int signals;
	struct running jobs[JOBS_MAX];
	struct packet packet;
};

static struct running *find_job(struct helper *h, pid_t pid)
{
	for (int i = 0; i < JOBS_MAX; i++)
		if (h->jobs[i].pid == pid)
			return &h->jobs[i];
	return NULL;
}

/* ---- a job's process ---- */

static void close_others(const struct helper *h)
{
	close(HELPER_SOCKET);
	close(h->signals);
	for (int i = 0; i < JOBS_MAX; i++)
		if (h->jobs[i].pid > 0)
			close(h->jobs[i].socket);
}

static bool introduce_self(int socket)
{
	const int self[] = {pidfd_open(getpid(), 0), open("/proc/self/status", O_RDONLY | O_CLOEXEC)};
	bool ok = self[0] >= 0 && self[1] >= 0 && packet_send(socket, PACKET_PROCESS, NULL, 0, self, 2);
	for (int i = 0; i < 2; i++)
		if (self[i] >= 0)
			close(self[i]);
	return ok;
}

__attribute__((noreturn)) static void be_job(const struct helper *h, pid_t parent)
{
	struct job_limits limits;
	sigset_t none;
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	close_others(h);
	/* When the helper goes, so do its jobs. */
	if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != parent)
		_exit(EXIT_FAILURE);
	if (!job_limits_parse(&limits, (const char *)h->packet.data) || !introduce_self(h->packet.fds[0]))
		_exit(EXIT_FAILURE);
	job_run(h->packet.fds[0], h->packet.fds[1], &limits);
	_exit(EXIT_SUCCESS);
}

/* ---- the helper's own ---- */

static void tell_death(int socket, int status)
{
	/* A server that does not read sees the end of the socket all the same. */
	fcntl(socket, F_SETFL, O_NONBLOCK);
	uint8_t how = (uint8_t)(WIFSIGNALED(status) ? WTERMSIG(status) : 128 + (WEXITSTATUS(status) & 127));
	packet_send(socket, PACKET_DIED, &how, 1, NULL, 0);
}

static void start_job(struct helper *h)
{
	struct running *job = find_job(h, 0);
	pid_t self = getpid(), pid = -1;
	if (h->packet.kind == PACKET_JOB && h->packet.fd_count == 2 && job)
		pid = fork();
	if (pid == 0)
		be_job(h, self);
	if (pid > 0)
		*job = (struct running){pid, dup(h->packet.fds[0])};
	packet_close_fds(&h->packet); /* without a process, the server sees that the job's socket is closed */
}

static void reap_jobs(struct helper *h)
{
	struct signalfd_siginfo info;
	int status;
	pid_t pid;
	if (read(h->signals, &info, sizeof info) < 0)
		return;
	while ((pid = waitpid(-1, &status, WNOHANG)) > 0) {
		struct running *job = find_job(h, pid);
		if (!job)
			continue;
		tell_death(job->socket, status); /* nobody reads it behind PACKET_END */
		close(job->socket);
		job->pid = 0;
	}
}

static int serve(struct helper *h)
{
	struct pollfd waited[] = {{.fd = HELPER_SOCKET, .events = POLLIN}, {.fd = h->signals, .events = POLLIN}};
	for (;;) {
		if (poll(waited, 2, -1) < 0 && errno != EINTR)
			return EXIT_FAILURE;
		if (waited[1].revents)
			reap_jobs(h);
		if (waited[0].revents && packet_receive(HELPER_SOCKET, &h->packet))
			start_job(h);
		else if (waited[0].revents & (POLLHUP | POLLERR))
			return EXIT_SUCCESS; /* the server is gone */
	}
}

/* Returns in the process that serves; the one that watches it does not return. It reaps also the jobs that outlive the
 * one that has started them by a moment. */
static void watch(void)
{
	int status;
	pid_t self = getpid(), pid, ended;
	prctl(PR_SET_CHILD_SUBREAPER, 1);
	for (;;) {
		pid = fork();
		if (pid == 0) {
			if (prctl(PR_SET_PDEATHSIG, SIGKILL) != 0 || getppid() != self)
				_exit(EXIT_FAILURE);
			return;
		}
		do
			ended = wait(&status);
		while (ended > 0 && ended != pid);
		if (ended > 0 && WIFEXITED(status))
			_exit(WEXITSTATUS(status)); /* the server is gone, or it cannot work */
		sleep(1);                           /* it was killed, or there is no process for it */
	}
}

static bool is_socket(int fd)
{
	int type;
	socklen_t len = sizeof type;
	return getsockopt(fd, SOL_SOCKET, SO_TYPE, &type, &len) == 0 && type == SOCK_SEQPACKET;
}

int main(int argc, char **argv)
{
	static struct helper h;
	sigset_t child;
	if (argc > 1 && strcmp(argv[1], "--version") == 0) {
		puts("symbolicated-extract " FULL_VERSION);
		return EXIT_SUCCESS;
	}
	if (!is_socket(HELPER_SOCKET)) {
		fputs("symbolicated-extract: symbolicated starts this program, to read executables\n", stderr);
		return EXIT_FAILURE;
	}
	/* A stop of the server comes as the end of its socket; a terminal's signals are for the server. */
	signal(SIGINT, SIG_IGN);
	signal(SIGTERM, SIG_IGN);
	signal(SIGHUP, SIG_IGN);
	crash_catch();
	watch();
	sigemptyset(&child);
	sigaddset(&child, SIGCHLD);
	sigprocmask(SIG_SETMASK, &child, NULL);
	h.signals = signalfd(-1, &child, SFD_CLOEXEC | SFD_NONBLOCK);
	if (h.signals < 0 || chdir("/") != 0)
		return EXIT_FAILURE;
	if (nice(NICE) < 0)
		errno = 0; /* then it competes with the server */
	const char *version = FULL_VERSION;
	packet_send(HELPER_SOCKET, PACKET_READY, version, strlen(version), NULL, 0);
	return serve(&h);
}
