/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The one account of the process's memory. Whatever a client, a file or a peer can make large is charged here before it
 * is allocated, and given back when it is freed. What nobody charges (code, stacks, what malloc keeps) is measured.
 * For any thread, without locks.
 */
#ifndef BASE_ACCOUNT_H
#define BASE_ACCOUNT_H

#include <stdbool.h>
#include <stdint.h>

#include "base/metrics.h"

/* What the memory is for; each kind has a gauge, symbolicated_memory_bytes. */
enum account_kind {
	ACCOUNT_PAGES = M_MEMORY_PAGES,     /* pages and roots of maps, in the cache or held for replies */
	ACCOUNT_TEXTS = M_MEMORY_TEXTS,     /* records of symbol files, until their pages are made */
	ACCOUNT_MAKERS = M_MEMORY_MAKERS,   /* who makes pages of these records */
	ACCOUNT_RECORDS = M_MEMORY_RECORDS, /* records of symbfiles while their map is built */
	ACCOUNT_UPLOADS = M_MEMORY_UPLOADS, /* what is being uploaded */
	ACCOUNT_BODIES = M_MEMORY_BODIES,   /* bodies of requests, and what is read from them */
	ACCOUNT_REPLIES = M_MEMORY_REPLIES, /* replies on their way */
	ACCOUNT_HELPER = M_MEMORY_HELPER,   /* of the helper that reads executables, beside what is resident here */
};

/* Sets the most that the process may have resident, in bytes; 0: no limit, as before the first call. */
void account_start(uint64_t memory);

/* Charges bytes that are to be allocated. False: no room, even after make_room; nothing is charged. account_take leaves
 * the last eighth to account_take_small, which is for what is small and soon over, so that it passes what is large. */
bool account_take(enum account_kind kind, uint64_t bytes);
bool account_take_small(enum account_kind kind, uint64_t bytes);
/* Charges, or with a negative number gives back, without asking: for what must go on, or is there already. */
void account_add(enum account_kind kind, int64_t bytes);

/* What is resident but not charged, as told by account_note_resident. */
uint64_t account_beside(void);
/* What is charged, in all and for one kind. */
uint64_t account_used(void);
uint64_t account_used_for(enum account_kind kind);
/* The limit less what is measured beside the account; UINT64_MAX: no limit. */
uint64_t account_total(void);
/* What account_take has left; UINT64_MAX: no limit. */
uint64_t account_left(void);

/* make_room is called when something does not fit, with the bytes that lack, by the thread that asks; so ask without
 * locks that it needs. There is one; NULL takes it away, after the last call of account_take. */
void account_on_full(void (*make_room)(void *arg, uint64_t bytes), void *arg);
/* What is resident of this process, and charged for the helper's. */
uint64_t account_resident(void);
/* Tells how many bytes are resident, the helper's too: what is above the charges is taken from the room, at once; given
 * back it is in steps. To be called ten times a second. */
void account_note_resident(uint64_t bytes);

/* For tests at the end: the kind that is not 0, as its gauge is labelled; NULL: all are. */
const char *account_unbalanced(void);

#endif
