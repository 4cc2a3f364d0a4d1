/* SPDX-License-Identifier: Apache-2.0 */
#include <stdlib.h>
static inline __attribute__((always_inline)) int inlined(volatile int *p)
{
	return p[4]; /* inlined */
}
__attribute__((noinline)) int faulty(volatile int *p)
{
	int n = inlined(p); /* faulty */
	return n + 1;
}
int main(int argc, char **argv)
{
	(void)argv;
	int n = faulty(argc > 5 ? (int *)argv : NULL); /* main */
	return n == 77;
}
