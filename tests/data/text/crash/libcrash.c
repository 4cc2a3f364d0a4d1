/* What crashes, or calls back, below functions that are in no dynamic symbol table. */
#include <stddef.h>
#define HIDDEN __attribute__((noinline, visibility("hidden")))
HIDDEN int die(volatile int *p)
{
	return *p; /* die */
}
HIDDEN int twice(volatile int *p)
{
	int n = die(p); /* twice */
	return n + 1;
}
HIDDEN int through(int (*call)(void))
{
	int n = call(); /* through */
	return n + 1;
}
HIDDEN int around(int (*call)(void))
{
	int n = through(call); /* around */
	return n * 2;
}
int crash(void)
{
	int n = twice(NULL); /* crash */
	return n - 1;
}
int enter(int (*call)(void))
{
	int n = around(call); /* enter */
	return n - 1;
}
