/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/account.h"

#include <stdatomic.h>
#include <stddef.h>

enum {
	SMALL_PART = 8, /* of the whole is kept for account_take_small */
	SLOWLY = 4,     /* by such a part, what is beside the account falls with each call */
};

static struct {
	_Atomic uint64_t memory; /* 0: no limit */
	_Atomic uint64_t beside; /* resident, but not charged */
	_Atomic int64_t used;
	_Atomic(void *) arg;
	_Atomic(void (*)(void *arg, uint64_t bytes)) make_room;
} account;

void account_start(uint64_t memory)
{
	atomic_store(&account.memory, memory);
	atomic_store(&account.beside, 0);
	metric_set(M_MEMORY_LIMIT, (int64_t)memory);
}

void account_on_full(void (*make_room)(void *arg, uint64_t bytes), void *arg)
{
	atomic_store(&account.arg, arg);
	atomic_store(&account.make_room, make_room);
}

void account_note_resident(uint64_t bytes)
{
	uint64_t used = account_used(), beside = bytes > used ? bytes - used : 0, before = atomic_load(&account.beside);
	/* what was there a moment ago may soon come back */
	if (beside < before)
		beside = before - (before - beside) / SLOWLY - 1;
	atomic_store(&account.beside, beside);
	metric_set(M_MEMORY_BESIDE, (int64_t)beside);
}

uint64_t account_total(void)
{
	uint64_t memory = atomic_load(&account.memory), beside = atomic_load(&account.beside);
	return !memory ? UINT64_MAX : memory > beside ? memory - beside : 0;
}

uint64_t account_beside(void)
{
	return atomic_load(&account.beside);
}

uint64_t account_used(void)
{
	int64_t used = atomic_load_explicit(&account.used, memory_order_relaxed);
	return used > 0 ? (uint64_t)used : 0;
}

uint64_t account_used_for(enum account_kind kind)
{
	int64_t used = metric_get((enum metric)kind);
	return used > 0 ? (uint64_t)used : 0;
}

/* The limit for those who leave room for small ones, or not. */
static uint64_t limit_for(bool small)
{
	uint64_t total = account_total();
	return small || total == UINT64_MAX ? total : total - total / SMALL_PART;
}

uint64_t account_left(void)
{
	uint64_t limit = limit_for(false), used = account_used();
	return limit == UINT64_MAX ? limit : limit > used ? limit - used : 0;
}

void account_add(enum account_kind kind, int64_t bytes)
{
	atomic_fetch_add_explicit(&account.used, bytes, memory_order_relaxed);
	metric_add((enum metric)kind, bytes);
}

/* Charges if it fits; otherwise returns how many bytes lack. */
static uint64_t charge(enum account_kind kind, uint64_t bytes, bool small)
{
	uint64_t limit = limit_for(small);
	int64_t used = atomic_load_explicit(&account.used, memory_order_relaxed);
	do {
		uint64_t after = (used > 0 ? (uint64_t)used : 0) + bytes;
		if (after > limit)
			return after - limit;
	} while (!atomic_compare_exchange_weak_explicit(
	        &account.used, &used, used + (int64_t)bytes, memory_order_relaxed, memory_order_relaxed));
	metric_add((enum metric)kind, (int64_t)bytes);
	return 0;
}

static bool take(enum account_kind kind, uint64_t bytes, bool small)
{
	uint64_t lacks = charge(kind, bytes, small);
	void (*make_room)(void *arg, uint64_t bytes) = lacks ? atomic_load(&account.make_room) : NULL;
	if (!make_room)
		return !lacks;
	make_room(atomic_load(&account.arg), lacks);
	return !charge(kind, bytes, small);
}

bool account_take(enum account_kind kind, uint64_t bytes)
{
	return take(kind, bytes, false);
}

bool account_take_small(enum account_kind kind, uint64_t bytes)
{
	return take(kind, bytes, true);
}

const char *account_unbalanced(void)
{
	static const struct {
		enum account_kind kind;
		const char *name;
	} kinds[] = {{ACCOUNT_PAGES, "pages"}, {ACCOUNT_TEXTS, "texts"}, {ACCOUNT_MAKERS, "makers"},
	        {ACCOUNT_RECORDS, "records"}, {ACCOUNT_UPLOADS, "uploads"}, {ACCOUNT_BODIES, "bodies"},
	        {ACCOUNT_REPLIES, "replies"}};
	for (unsigned i = 0; i < sizeof kinds / sizeof kinds[0]; i++)
		if (metric_get((enum metric)kinds[i].kind) != 0)
			return kinds[i].name;
	return NULL;
}
