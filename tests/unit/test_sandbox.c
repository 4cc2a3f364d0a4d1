/* SPDX-License-Identifier: Apache-2.0 */
/* The sandbox: what is refused in it, and that everything the service needs still works. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/ptrace.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/background.h"
#include "base/sandbox.h"
#include "helper/cage.h"

/* Each attempt gives 0 or errno. */
typedef int attempt(void);

static int outcome(long result)
{
	return result < 0 ? errno : 0;
}

static int start_program(void)
{
	char name[] = "/bin/true", *argv[] = {name, NULL}, *env[] = {NULL};
	return outcome(execve(argv[0], argv, env));
}

static int start_program_at(void)
{
	char name[] = "/bin/true", *argv[] = {name, NULL}, *env[] = {NULL};
	return outcome(syscall(SYS_execveat, AT_FDCWD, argv[0], argv, env, 0));
}

static int be_traced(void)
{
	return outcome(ptrace(PTRACE_TRACEME, 0, NULL, NULL));
}

static int read_other_process(void)
{
	return outcome(syscall(SYS_process_vm_readv, getppid(), NULL, 0, NULL, 0, 0));
}

static int make_namespace(void)
{
	return outcome(syscall(SYS_unshare, 0));
}

static int become_oneself(void)
{
	return outcome(syscall(SYS_setuid, getuid()));
}

static int load_bpf(void)
{
	return outcome(syscall(SYS_bpf, -1, NULL, 0)) == EPERM ? EPERM : 0;
}

static int write_and_execute(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? errno : 0;
}

static int execute_what_was_written(void)
{
	void *p = mmap(NULL, 4096, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return p == MAP_FAILED ? 0 : outcome(mprotect(p, 4096, PROT_READ | PROT_EXEC));
}

static int vm_socket(void)
{
	return outcome(socket(AF_VSOCK, SOCK_STREAM, 0)) == EAFNOSUPPORT ? EPERM : 0;
}

/* What the service does. */

static void *in_thread(void *arg)
{
	/* Lower priority, as builders of maps have it. */
	id_t self = (id_t)syscall(SYS_gettid);
	int before = getpriority(PRIO_PROCESS, self);
	background_begin(5);
	background_enter(false);
	int after = getpriority(PRIO_PROCESS, self);
	return after == (before < 9 ? before + 10 : 19) && start_program() == EPERM ? arg : NULL;
}

/* The filter is also that of threads. */
static int thread(void)
{
	pthread_t t;
	int mark;
	void *result = NULL;
	if (pthread_create(&t, NULL, in_thread, &mark) != 0 || pthread_join(t, &result) != 0)
		return EIO;
	return result == &mark ? 0 : EPERM;
}

static int resolve(void)
{
	struct addrinfo *list = NULL;
	int failed = getaddrinfo("localhost", "80", NULL, &list);
	if (!failed)
		freeaddrinfo(list);
	return failed ? EPERM : 0;
}

static int sockets(void)
{
	static const int families[] = {AF_UNIX, AF_INET};
	for (unsigned i = 0; i < 2; i++) {
		int fd = socket(families[i], SOCK_STREAM | SOCK_CLOEXEC, 0);
		if (fd < 0)
			return errno;
		close(fd);
	}
	return 0;
}

static int files(void)
{
	char path[] = "/tmp/test_sandbox.XXXXXX", other[64];
	int fd = mkstemp(path);
	snprintf(other, sizeof other, "%s.new", path);
	int failed = fd < 0 || write(fd, "x", 1) != 1 || fsync(fd) != 0 || fchmod(fd, 0600) != 0 ||
	             fchown(fd, (uid_t)-1, getgid()) != 0 || rename(path, other) != 0 || unlink(other) != 0;
	close(fd);
	return failed ? EPERM : 0;
}

static int status_says_so(void)
{
	char line[128];
	bool filtered = false, no_new = false;
	FILE *in = fopen("/proc/self/status", "re");
	while (in && fgets(line, sizeof line, in)) {
		filtered |= strcmp(line, "Seccomp:\t2\n") == 0;
		no_new |= strcmp(line, "NoNewPrivs:\t1\n") == 0;
	}
	if (in)
		fclose(in);
	return filtered && no_new ? 0 : EPERM;
}

/* In a process of its own, since there is no way out of the sandbox. 255: it could not be entered. */
static int run(attempt *a, bool sandbox)
{
	struct error e;
	int status = 0;
	fflush(NULL);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0)
		_exit(sandbox && sandbox_enter(&e) != ERR_OK ? 255 : a());
	assert_int_equal(waitpid(child, &status, 0), child);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static const struct {
	const char *name;
	attempt *try;
	bool free; /* it works outside for anybody, so it is the sandbox that refuses it */
} refused[] = {
        {"start_program", start_program, true},
        {"start_program_at", start_program_at, true},
        {"be_traced", be_traced, true},
        {"read_other_process", read_other_process, false},
        {"make_namespace", make_namespace, true},
        {"become_oneself", become_oneself, true},
        {"load_bpf", load_bpf, false},
        {"write_and_execute", write_and_execute, true},
        {"execute_what_was_written", execute_what_was_written, true},
        {"vm_socket", vm_socket, false},
};

static void test_refused(void **state)
{
	(void)state;
	for (unsigned i = 0; i < sizeof refused / sizeof refused[0]; i++) {
		int inside = run(refused[i].try, true);
		if (inside != EPERM)
			fail_msg("%s: %d", refused[i].name, inside);
		if (refused[i].free)
			assert_int_equal(run(refused[i].try, false), 0);
	}
}

static void test_allowed(void **state)
{
	static attempt *const needed[] = {thread, resolve, sockets, files, status_says_so};
	(void)state;
	for (unsigned i = 0; i < sizeof needed / sizeof needed[0]; i++)
		assert_int_equal(run(needed[i], true), 0);
}

static unsigned open_files(void)
{
	unsigned n = 0;
	for (int fd = 0; fd < 100; fd++)
		n += fcntl(fd, F_GETFD) >= 0;
	return n;
}

static int enter_cage(void)
{
	const struct job_limits limits = {.memory = 1 << 30, .file_size = 1 << 20, .seconds = 10, .threads = 1};
	struct error e;
	unsigned before = open_files();
	enum err err = cage_enter(&limits, &e);
	return err || open_files() != before;
}

/* What it opens for itself, a job could use. */
static void test_the_cage_leaves_nothing_open(void **state)
{
	(void)state;
	assert_int_equal(run(enter_cage, false), 0);
}

static int nothing(void)
{
	return 0;
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_refused),
	        cmocka_unit_test(test_allowed),
	        cmocka_unit_test(test_the_cage_leaves_nothing_open),
	};
	const char *preload = getenv("LD_PRELOAD");
	/* valgrind writes code and executes it; it could not go on. */
	if (preload && strstr(preload, "vgpreload"))
		return 77;
	if (run(nothing, true) == 255)
		return 77; /* built without it, or a kernel that cannot: skipped */
	return cmocka_run_group_tests(tests, NULL, NULL);
}
