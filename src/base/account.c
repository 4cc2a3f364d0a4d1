/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/account.h"

#include <stdatomic.h>
#include <stddef.h>

#include "base/process.h"

enum {
	SMALL_PART = 8, /* of the whole is kept for account_take_small */
	SLOWLY = 32,    /* by such a part, what is beside the account falls with each call: to a half in two seconds */
	LOOKED_AT = 1 << 20, /* bytes taken between two looks at what is resident */
};

#define UNKNOWN UINT64_MAX

static struct {
	_Atomic uint64_t memory; /* 0: no limit */
	_Atomic uint64_t beside; /* resident, but not charged */
	_Atomic uint64_t fixed;  /* the same at the start: what is always there */
	_Atomic uint64_t taken;  /* since resident bytes were last looked at */
	_Atomic int64_t used;
	_Atomic(void *) arg;
	_Atomic(void (*)(void *arg, uint64_t bytes)) make_room;
} account;

void account_start(uint64_t memory)
{
	atomic_store(&account.memory, memory);
	atomic_store(&account.beside, 0);
	atomic_store(&account.fixed, UNKNOWN);
	metric_set(M_MEMORY_LIMIT, (int64_t)memory);
}

static void note_beside(uint64_t bytes)
{
	atomic_store(&account.beside, bytes);
	metric_set(M_MEMORY_BESIDE, (int64_t)bytes);
}

void account_on_full(void (*make_room)(void *arg, uint64_t bytes), void *arg)
{
	atomic_store(&account.arg, arg);
	atomic_store(&account.make_room, make_room);
}

/* What is charged may not be touched yet, so one measurement alone says too little. */
void account_note_resident(uint64_t bytes)
{
	uint64_t used = account_used(), beside = bytes > used ? bytes - used : 0, before = atomic_load(&account.beside);
	uint64_t fixed = atomic_load(&account.fixed), least = before - before / SLOWLY - (before > 0);
	if (fixed == UNKNOWN)
		atomic_store(&account.fixed, fixed = beside);
	least = least > fixed ? least : fixed;
	note_beside(beside > least ? beside : least);
}

uint64_t account_resident(void)
{
	return resident_bytes() + account_used_for(ACCOUNT_HELPER);
}

/* Between two calls of account_note_resident much may be touched: whoever takes much looks himself. */
static void look(uint64_t bytes)
{
	if (atomic_fetch_add_explicit(&account.taken, bytes, memory_order_relaxed) + bytes < LOOKED_AT)
		return;
	atomic_store_explicit(&account.taken, 0, memory_order_relaxed);
	uint64_t used = account_used(), resident = account_resident();
	if (resident > used + atomic_load(&account.beside))
		note_beside(resident - used);
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
	look(bytes);
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
	/* in the order of their gauges */
	static const char *const names[] = {
	        "pages", "texts", "makers", "records", "uploads", "bodies", "replies", "helper"};
	enum { KINDS = sizeof names / sizeof names[0] };
	_Static_assert(KINDS == ACCOUNT_HELPER - ACCOUNT_PAGES + 1, "each kind has a name");
	for (unsigned i = 0; i < KINDS; i++)
		if (metric_get(M_MEMORY_PAGES + i) != 0)
			return names[i];
	return NULL;
}
