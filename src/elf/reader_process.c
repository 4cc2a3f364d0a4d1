/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/reader_process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <unistd.h>

#include "base/clock.h"

#define INTERVAL (SECOND / 10)
enum { STEP = 4 << 20 }; /* bytes; charges are multiples of it */

/* A row "NAME: N kB", in bytes; 0 if it is not there. */
static uint64_t row(const char *text, const char *name)
{
	const char *at = strstr(text, name);
	return at ? strtoull(at + strlen(name), NULL, 10) << 10 : 0;
}

/* What it holds that no file backs: what it allocated, and what it inflated. */
static uint64_t memory_of(const struct reader_process *p)
{
	char text[4096];
	ssize_t n = pread(p->status, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	return row(text, "\nRssAnon:") + row(text, "\nRssShmem:");
}

bool reader_process_charge(struct reader_process *p, reader_take *take, void *arg)
{
	int64_t now = clock_now();
	if (p->status < 0 || now < p->look_at)
		return true;
	p->look_at = now + INTERVAL;
	uint64_t bytes = (memory_of(p) + STEP - 1) / STEP * STEP;
	if (bytes > p->charged) {
		uint64_t more = bytes - p->charged;
		if (!(take ? take(arg, ACCOUNT_HELPER, p->charged, more) : account_take_small(ACCOUNT_HELPER, more)))
			return false;
	} else {
		account_add(ACCOUNT_HELPER, (int64_t)bytes - (int64_t)p->charged);
	}
	p->charged = bytes;
	return true;
}

void reader_process_end(struct reader_process *p)
{
	if (p->handle >= 0) {
		pidfd_send_signal(p->handle, SIGKILL, NULL, 0);
		close(p->handle);
	}
	if (p->status >= 0)
		close(p->status);
	account_add(ACCOUNT_HELPER, -(int64_t)p->charged);
	*p = READER_PROCESS_NONE;
}
