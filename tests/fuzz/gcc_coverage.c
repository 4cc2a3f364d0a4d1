/* SPDX-License-Identifier: Apache-2.0 */
/* gcc's calls at each basic block, as counters that libFuzzer looks at: it knows only clang's. Linked with
 * --wrap=__sanitizer_cov_trace_pc; programs without libFuzzer get functions that do nothing. */
#include <stdint.h>

enum { COUNTERS = 1 << 15 };

static uint8_t counters[COUNTERS] __attribute__((section("__libfuzzer_extra_counters"), used));

void __wrap___sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_pc(void);
void __sanitizer_cov_trace_cmpf(float a, float b);
void __sanitizer_cov_trace_cmpd(double a, double b);

void __wrap___sanitizer_cov_trace_pc(void)
{
	uintptr_t pc = (uintptr_t)__builtin_return_address(0);
	counters[(pc ^ pc >> 15) % COUNTERS]++;
}

__attribute__((weak)) void __sanitizer_cov_trace_pc(void) {}

void __sanitizer_cov_trace_cmpf(float a, float b)
{
	(void)a;
	(void)b;
}

void __sanitizer_cov_trace_cmpd(double a, double b)
{
	(void)a;
	(void)b;
}
