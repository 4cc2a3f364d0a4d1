/* SPDX-License-Identifier: Apache-2.0 */
/* MSF 7.00, the container of PDB files: streams, each of blocks that may lie anywhere in the file. */
#ifndef EXTRACT_MSF_H
#define EXTRACT_MSF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

struct msf_stream {
	uint64_t size;
	size_t blocks; /* index of its first block's number */
};

struct msf {
	int fd;
	const uint8_t *file;
	size_t len;
	uint32_t block_size;
	struct msf_stream *streams;
	size_t stream_count;
	uint32_t *blocks; /* all are in the file */
};

/* A stream's bytes in order: of the mapped file where they lie in order there. */
struct msf_bytes {
	struct str bytes;
	void *copy;   /* NULL: none */
	char *mapped; /* NULL: not mapped anew */
	size_t mapped_len;
};

/* fd may be closed afterwards. ERR_CORRUPT: the text names the place; ERR_NO_MEMORY; ERR_IO. After a failure m is
 * empty. */
enum err msf_open(struct msf *m, int fd, struct error *e);
void msf_close(struct msf *m);
/* The bytes of a stream; none if there is no such stream. Any thread may call it. ERR_NO_MEMORY. */
enum err msf_read(const struct msf *m, uint32_t stream, struct msf_bytes *b, struct error *e);
/* The caller has all of them before msf_close. A cleared one is empty. */
void msf_bytes_release(const struct msf *m, struct msf_bytes *b);

#endif
