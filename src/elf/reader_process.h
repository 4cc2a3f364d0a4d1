/* SPDX-License-Identifier: Apache-2.0 */
/* The helper's process that reads one file: its memory, which is charged to the account, and its end. */
#ifndef ELF_READER_PROCESS_H
#define ELF_READER_PROCESS_H

#include <stdbool.h>
#include <stdint.h>

#include "base/account.h"

/* Charges bytes more, where so many are charged already. False: there is no room. */
typedef bool reader_take(void *arg, enum account_kind kind, uint64_t has, uint64_t bytes);

enum { READER_FILES_MAX = 24 };
struct reader_process {
	int handle;       /* pidfd_open(2); -1: none */
	int status;       /* its /proc/self/status, proc(5); -1: none */
	int64_t look_at;  /* clock_now() when its memory is measured next */
	uint64_t charged; /* bytes */
	unsigned file_count;
	int files[READER_FILES_MAX]; /* in memory, that it inflates to; own descriptors */
};

#define READER_PROCESS_NONE ((struct reader_process){.handle = -1, .status = -1})

/* Takes over the descriptor of a file in memory, which counts from now on. False: there are too many; it is closed. */
bool reader_process_add_file(struct reader_process *p, int file);

/* Charges what the process has come to hold; measured ten times a second, however often this is called. False: there
 * is no room. take: NULL: account_take_small. */
bool reader_process_charge(struct reader_process *p, reader_take *take, void *arg);
/* Kills the process if it still runs, and gives back what was charged. */
void reader_process_end(struct reader_process *p);

#endif
