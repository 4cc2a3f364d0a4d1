/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/crash.h"

#include <execinfo.h>
#include <signal.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "base/put.h"

static const int crashes[] = {SIGABRT, SIGBUS, SIGFPE, SIGILL, SIGSEGV, SIGSYS};
enum { CRASHES = sizeof crashes / sizeof *crashes, FRAMES = 64, PATIENCE = 5 };

/* The loader's lock, which backtrace_symbols_fd takes, may be held by whatever crashed: then SIGALRM ends the process.
 */
static void end_in_time(void)
{
	sigset_t set;
	sigemptyset(&set);
	sigaddset(&set, SIGALRM);
	pthread_sigmask(SIG_UNBLOCK, &set, NULL);
	alarm(PATIENCE);
}

/* Calls nothing that allocates, or that waits for another thread without a bound. */
static void tell(int number)
{
	static atomic_flag told = ATOMIC_FLAG_INIT;
	void *frames[FRAMES];
	uint8_t line[128];
	while (atomic_flag_test_and_set(&told))
		pause(); /* the thread that crashed first ends the process */
	end_in_time();
	const char *name = sigabbrev_np(number), *priority;
	int fd = log_in_crash(&priority);
	uint8_t *at = put_text(line, priority, strlen(priority));
	at = PUT(at, "{\"level\":\"error\",\"event\":\"crash\",\"text\":\"died of SIG");
	at = put_text(at, name, strlen(name));
	at = PUT(at, "; its stack follows\"}\n");
	if (write(fd, line, (size_t)(at - line)) > 0)
		backtrace_symbols_fd(frames, backtrace(frames, FRAMES), fd);
	/* Blocked until the handler returns: then the process dies where it was interrupted, as a core dump shows. */
	raise(number);
}

void crash_catch(void)
{
	struct sigaction then = {.sa_handler = tell, .sa_flags = SA_RESETHAND}, now;
	void *frame;
	backtrace(&frame, 1); /* the first call loads a library and allocates */
	for (int i = 0; i < CRASHES; i++)
		sigaddset(&then.sa_mask, crashes[i]);
	for (int i = 0; i < CRASHES; i++)
		if (sigaction(crashes[i], NULL, &now) == 0 && now.sa_handler == SIG_DFL)
			sigaction(crashes[i], &then, NULL);
}
