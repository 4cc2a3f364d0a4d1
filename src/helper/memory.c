/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "helper/memory.h"

#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <unistd.h>

#include "base/error.h"
#include "base/sanitizers.h"
#include "elf/packet.h"

static atomic_int told = -1; /* the socket */

void memory_ends_job(int socket)
{
	atomic_store(&told, socket);
}

#if defined(__GLIBC__) && !defined(__SANITIZE_ADDRESS__) && !defined(__SANITIZE_THREAD__)

/* A program's own malloc takes the place of the C library's, which has these names besides. */
void *__libc_malloc(size_t size);
void *__libc_calloc(size_t count, size_t size);
void *__libc_realloc(void *block, size_t size);

static void *or_end(void *block)
{
	const uint8_t end[] = {ERR_NO_MEMORY};
	int socket = atomic_load(&told);
	if (block || socket < 0)
		return block;
	packet_send(socket, PACKET_END, end, sizeof end, NULL, 0);
	_exit(EXIT_FAILURE);
}

void *malloc(size_t size)
{
	return or_end(__libc_malloc(size));
}

void *calloc(size_t count, size_t size)
{
	return or_end(__libc_calloc(count, size));
}

void *realloc(void *block, size_t size)
{
	void *moved = __libc_realloc(block, size);
	return size ? or_end(moved) : moved; /* without a size it is freed */
}

#endif
