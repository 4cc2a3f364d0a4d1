/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "helper/cage.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#ifdef HAVE_SECCOMP
#include <seccomp.h>
#endif

#include "base/sanitizers.h"
#include "extract/large_stack.h"

#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
enum { SHADOW_MEMORY = 1 }; /* a sanitizer reserves terabytes */
#else
enum { SHADOW_MEMORY = 0 };
#endif

enum { FILES = 64 }; /* descriptors */

static void limit(int what, rlim_t most)
{
	const struct rlimit r = {most, most};
	setrlimit(what, &r);
}

/* What RLIMIT_DATA counts of this process before it reads anything, bytes: "data" of /proc/self/statm (proc(5)). */
static rlim_t data_so_far(void)
{
	char text[128];
	unsigned long pages = 0;
	int fd = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
	ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
	text[n > 0 ? n : 0] = 0;
	sscanf(text, "%*u %*u %*u %*u %*u %lu", &pages);
	if (fd >= 0)
		close(fd);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

static void limit_resources(const struct job_limits *l)
{
	if (!SHADOW_MEMORY)
		limit(RLIMIT_DATA, data_so_far() + l->memory + (rlim_t)LARGE_STACK * l->threads);
	limit(RLIMIT_FSIZE, l->file_size);
	limit(RLIMIT_CPU, (rlim_t)l->seconds * (l->threads + 1));
	limit(RLIMIT_NOFILE, FILES);
	limit(RLIMIT_CORE, 0);
}

/* When the machine runs out of memory, this process goes, and not the server. */
static void be_expendable(void)
{
	int fd = open("/proc/self/oom_score_adj", O_WRONLY | O_CLOEXEC);
	if (fd < 0)
		return;
	if (write(fd, "1000", 4) < 0)
		errno = 0; /* without it the kernel chooses */
	close(fd);
}

#ifdef HAVE_SECCOMP

/* Memory, threads, time, and what descriptors that are open allow. Nothing opens a file, a socket or a process. */
static const char *const allowed[] = {
        "brk",
        "clock_gettime",
        "clock_nanosleep",
        "close",
        "exit",
        "exit_group",
        "fcntl",
        "fcntl64",
        "fstat",
        "fstat64",
        "ftruncate",
        "ftruncate64",
        "futex",
        "futex_time64",
        "getpid",
        "getrandom",
        "gettid",
        "lseek",
        "_llseek",
        "madvise",
        "memfd_create",
        "mincore",
        "mmap",
        "mmap2",
        "mprotect",
        "mremap",
        "munmap",
        "newfstatat",
        "pread64",
        "pwrite64",
        "read",
        "recvmsg",
        "restart_syscall",
        "rseq",
        "rt_sigaction",
        "rt_sigprocmask",
        "rt_sigreturn",
        "sched_getaffinity",
        "sched_yield",
        "sendmsg",
        "set_robust_list",
        "sigaltstack",
        "tgkill",
        "write",
        "writev",
};

/* Threads, but no processes. */
static int allow_threads(scmp_filter_ctx filter)
{
	enum { CLONE_THREAD_FLAG = 0x10000 };
	return seccomp_rule_add(filter, SCMP_ACT_ALLOW, SCMP_SYS(clone), 1,
	        SCMP_A0(SCMP_CMP_MASKED_EQ, CLONE_THREAD_FLAG, CLONE_THREAD_FLAG));
}

static int add_rules(scmp_filter_ctx filter)
{
	int failed = allow_threads(filter);
	for (size_t i = 0; !failed && i < sizeof allowed / sizeof *allowed; i++) {
		int number = seccomp_syscall_resolve_name(allowed[i]);
		if (number >= 0) /* below: not on this machine */
			failed = seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0);
	}
	/* glibc falls back to clone, whose flags can be looked at; and a file that may not be opened is not there. */
	if (!failed)
		failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOSYS), SCMP_SYS(clone3), 0);
	if (!failed)
		failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(openat), 0);
	if (!failed)
		failed = seccomp_rule_add(filter, SCMP_ACT_ERRNO(ENOENT), SCMP_SYS(readlink), 0);
	return failed;
}

static enum err filter_calls(struct error *e)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ERRNO(EPERM));
	int failed = filter ? add_rules(filter) : -ENOMEM;
	if (!failed)
		failed = seccomp_load(filter);
	seccomp_release(filter);
	return failed ? error_set(e, ERR_UNAVAILABLE, "seccomp: %s", strerror(-failed)) : ERR_OK;
}

#else

static enum err filter_calls(struct error *e)
{
	return error_set(e, ERR_UNAVAILABLE, "seccomp: built without it");
}

#endif

enum err cage_enter(const struct job_limits *l, struct error *e)
{
	be_expendable();
	limit_resources(l);
	prctl(PR_SET_DUMPABLE, 0);
	enum err err = filter_calls(e);
	return l->sandbox ? err : ERR_OK;
}
