/* SPDX-License-Identifier: Apache-2.0 */
/*
 * bench_checksum [ROUNDS]: what a value's checksum costs, without a secret (XXH3) and with one (SipHash), over bytes in
 * the cache: a page of 8 KiB, and one of 3,500 bytes as it is compressed. Prints MB/s and the time of one.
 */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/hash.h"
#include "base/mac.h"

enum { HEADER = 40, LARGEST = 8192 };

static int64_t cpu_now(void)
{
	struct timespec t;
	clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
	return t.tv_sec * SECOND + t.tv_nsec;
}

static uint64_t sum_of(struct mac *mac, const uint8_t *data, size_t len)
{
	uint64_t sum = 0;
	if (!mac)
		return checksum(data, HEADER, data + HEADER, len);
	if (!mac_tag(mac, data, HEADER, data + HEADER, len, &sum))
		abort();
	return sum;
}

static void measure(const char *name, struct mac *mac, size_t len, unsigned rounds)
{
	static uint8_t data[HEADER + LARGEST];
	uint64_t all = 0;
	int64_t start = cpu_now();
	for (unsigned i = 0; i < rounds; i++) {
		data[HEADER] = (uint8_t)i;
		all ^= sum_of(mac, data, len);
	}
	double ns = (double)(cpu_now() - start) / rounds;
	printf("%s of %zu bytes: %.0f MB/s, %.2f us (%" PRIx64 ")\n", name, len, (double)len / ns * 1e3, ns / 1e3, all);
}

int main(int argc, char **argv)
{
	static const size_t sizes[] = {LARGEST, 3500};
	static const struct mac_key key = {{1, 2, 3}};
	unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 100000;
	struct mac *mac = mac_new(&key);
	if (!mac || !rounds)
		return EXIT_FAILURE;
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		measure("XXH3", NULL, sizes[i], rounds);
		measure("SipHash", mac, sizes[i], rounds);
	}
	mac_free(mac);
	return EXIT_SUCCESS;
}
