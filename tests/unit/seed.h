/* SPDX-License-Identifier: Apache-2.0 */
/* Random data of tests: the same each time, and others with SEED in the environment (./check --seed N); and how much of
 * it. */
#ifndef TESTS_SEED_H
#define TESTS_SEED_H

#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>

/* What a generator begins with; `own` is the place's own number. */
static inline uint64_t seed_of(uint64_t own)
{
	const char *text = getenv("SEED");
	return own + (text ? strtoull(text, NULL, 10) * 0x9e3779b97f4a7c15U : 0);
}

/* The next number of a generator. */
static inline uint32_t next_random(uint64_t *seed)
{
	*seed = *seed * 6364136223846793005U + 1442695040888963407U;
	return (uint32_t)(*seed >> 33);
}

/* How many times as long as in the plain run each step takes; roughly. */
static inline unsigned slowness(void)
{
#if defined __SANITIZE_ADDRESS__ || defined __SANITIZE_THREAD__
	return 4;
#else
	return getenv("UNDER_VALGRIND") ? 8 : 1;
#endif
}

/* For a test that takes long and has one thread, or does the same with several as others do: ThreadSanitizer sees
 * nothing new in it. */
static inline bool is_watched_for_races(void)
{
#ifdef __SANITIZE_THREAD__
	return true;
#else
	return false;
#endif
}

/* Of n rounds that all try the same, fewer where each takes longer. */
static inline unsigned rounds(unsigned n)
{
	return n / slowness();
}

#endif
