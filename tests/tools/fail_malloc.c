/* SPDX-License-Identifier: Apache-2.0 */
/*
 * fail_malloc: a library for LD_PRELOAD under which allocations of the whole process fail when they are told to, C
 * library, curl, memcached client and OpenSSL included. FAIL_MALLOC names a file of 32 bytes that both sides map:
 *
 *    0  u32  one of so many allocations fails, by chance; 0: none
 *    4  u32  the n-th from now on fails, and then no more; counts down to 0
 *    8  u64  allocations so far (written here)
 *   16  u64  of these failed (written here)
 *
 *   cc -O2 -fPIC -shared fail_malloc.c -o fail_malloc.so
 *
 * What libfcgi and the dynamic loader ask for is always given: they end the process when it is not. So is what the helper
 * symbolicated-extract asks for: libseccomp computes for ever when it is not.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

struct control {
	_Atomic uint32_t one_in, nth;
	_Atomic uint64_t calls, failed, unused;
};

struct span {
	uintptr_t from, to;
};

enum { SPARED_MAX = 8 };

/* of glibc */
extern void *__libc_malloc(size_t n);
extern void *__libc_calloc(size_t count, size_t size);
extern void *__libc_realloc(void *p, size_t n);

static struct control *control;
static struct span spared[SPARED_MAX];
static unsigned spared_count;

/* All that the loader has mapped of libraries that cannot do without. */
static int spare(struct dl_phdr_info *info, size_t size, void *arg)
{
	static const char *const names[] = {"libfcgi", "ld-linux"};
	(void)size;
	(void)arg;
	for (unsigned i = 0; i < sizeof names / sizeof *names; i++)
		for (int k = 0; strstr(info->dlpi_name, names[i]) && k < info->dlpi_phnum; k++) {
			const ElfW(Phdr) *p = &info->dlpi_phdr[k];
			if (p->p_type == PT_LOAD && (p->p_flags & PF_X) && spared_count < SPARED_MAX) {
				uintptr_t from = info->dlpi_addr + p->p_vaddr;
				spared[spared_count++] = (struct span){from, from + p->p_memsz};
			}
		}
	return 0;
}

__attribute__((constructor)) static void start(void)
{
	const char *path = getenv("FAIL_MALLOC");
	bool helper = strcmp(program_invocation_short_name, "symbolicated-extract") == 0;
	int fd = path && !helper ? open(path, O_RDWR | O_CLOEXEC) : -1;
	if (fd < 0)
		return;
	dl_iterate_phdr(spare, NULL);
	void *map = mmap(NULL, sizeof *control, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	close(fd);
	if (map != MAP_FAILED)
		control = map;
}

static bool is_spared(const void *caller)
{
	for (unsigned i = 0; i < spared_count; i++)
		if ((uintptr_t)caller >= spared[i].from && (uintptr_t)caller < spared[i].to)
			return true;
	return false;
}

static bool is_nth(void)
{
	uint32_t left = atomic_load(&control->nth);
	while (left && !atomic_compare_exchange_weak(&control->nth, &left, left - 1))
		;
	return left == 1;
}

/* A number that looks random, from how many came before. */
static bool is_chosen(uint64_t call, uint32_t one_in)
{
	uint64_t v = call * UINT64_C(0x9e3779b97f4a7c15);
	v = (v ^ v >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
	return one_in && (v >> 33) % one_in == 0;
}

static bool fails(const void *caller)
{
	if (!control || is_spared(caller))
		return false;
	uint64_t call = atomic_fetch_add(&control->calls, 1);
	if (!is_chosen(call, atomic_load(&control->one_in)) && !is_nth())
		return false;
	atomic_fetch_add(&control->failed, 1);
	errno = ENOMEM;
	return true;
}

#define CALLER __builtin_return_address(0)

void *malloc(size_t n)
{
	return fails(CALLER) ? NULL : __libc_malloc(n);
}

void *calloc(size_t count, size_t size)
{
	return fails(CALLER) ? NULL : __libc_calloc(count, size);
}

void *realloc(void *p, size_t n)
{
	return n && fails(CALLER) ? NULL : __libc_realloc(p, n);
}
