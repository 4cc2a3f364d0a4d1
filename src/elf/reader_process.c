/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/reader_process.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/pidfd.h>
#include <sys/stat.h>
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

bool reader_process_add_file(struct reader_process *p, int file)
{
	if (p->file_count == READER_FILES_MAX) {
		close(file);
		return false;
	}
	p->files[p->file_count++] = file;
	return true;
}

/* Of its files in memory, whether it has mapped them or not. */
static uint64_t inflated(const struct reader_process *p)
{
	uint64_t bytes = 0;
	struct stat st;
	for (unsigned i = 0; i < p->file_count; i++)
		bytes += fstat(p->files[i], &st) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
	return bytes;
}

/* What it holds that no file of a disk backs: what it allocated, and what it inflated. It may have hidden files from
 * us, but not what it has mapped of them. */
static uint64_t memory_of(const struct reader_process *p)
{
	char text[4096];
	ssize_t n = pread(p->status, text, sizeof text - 1, 0);
	text[n > 0 ? n : 0] = 0;
	uint64_t mapped = row(text, "\nRssShmem:"), files = inflated(p);
	return row(text, "\nRssAnon:") + (mapped > files ? mapped : files);
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
	while (p->file_count > 0)
		close(p->files[--p->file_count]);
	account_add(ACCOUNT_HELPER, -(int64_t)p->charged);
	*p = READER_PROCESS_NONE;
}
