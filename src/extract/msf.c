/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/msf.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/varint.h"

enum {
	SUPERBLOCK = 56, /* bytes */
	BLOCK_MIN = 512,
	BLOCK_MAX = 65536,
	RUNS_MAX = 8192,    /* mappings of one stream; the kernel allows a process 65,530 */
	COPY_MAX = 1 << 20, /* smaller streams are copied rather than mapped */
	STREAMS_MAX = 1 << 20,
	OVERLAP = 2, /* how often the blocks of a sound file are used, at most: old ones may be listed still */
};
static const uint32_t no_stream = 0xffffffff;

static enum err damaged(struct error *e, const char *what)
{
	return error_set(e, ERR_CORRUPT, "PDB: %s", what);
}

static size_t blocks_of(const struct msf *m, uint64_t size)
{
	return (size_t)((size + m->block_size - 1) / m->block_size);
}

/* Copies what the blocks hold whose little-endian numbers are in `list`. */
static bool copy_blocks(const struct msf *m, const uint8_t *list, size_t count, uint8_t *out, size_t len)
{
	for (size_t i = 0; i < count; i++) {
		uint64_t at = (uint64_t)get_u32(list + 4 * i) * m->block_size;
		size_t n = len - i * m->block_size < m->block_size ? len - i * m->block_size : m->block_size;
		if (at > m->len || n > m->len - at)
			return false;
		memcpy(out + i * m->block_size, m->file + at, n);
	}
	return true;
}

/* The directory: the number of streams, their sizes, and the numbers of their blocks. */
static enum err read_directory(struct msf *m, const uint8_t *d, size_t len, struct error *e)
{
	size_t count = len >= 4 ? get_u32(d) : 0, total = 0, limit = OVERLAP * (m->len / m->block_size + 1);
	if (count > STREAMS_MAX || count * 4 + 4 > len)
		return damaged(e, "the directory of streams is cut off");
	m->streams = calloc(count + 1, sizeof *m->streams);
	if (!m->streams)
		return no_memory(e);
	m->stream_count = count;
	for (size_t i = 0; i < count; i++) {
		uint32_t size = get_u32(d + 4 + 4 * i);
		m->streams[i] = (struct msf_stream){size == no_stream ? 0 : size, total};
		total += blocks_of(m, m->streams[i].size);
		if (total > limit)
			return damaged(e, "its streams are larger than the file");
	}
	const uint8_t *list = d + 4 + 4 * count;
	if (total > (len - 4 - 4 * count) / 4)
		return damaged(e, "the directory of streams is cut off");
	m->blocks = malloc((total + 1) * sizeof *m->blocks);
	if (!m->blocks)
		return no_memory(e);
	for (size_t i = 0; i < total; i++) {
		m->blocks[i] = get_u32(list + 4 * i);
		if (m->blocks[i] >= blocks_of(m, m->len))
			return damaged(e, "a block of a stream lies outside the file");
	}
	return ERR_OK;
}

/* The list of the directory's blocks is in blocks, too, one behind the other from the block that is named on. */
static enum err find_directory(struct msf *m, struct error *e)
{
	size_t bytes = get_u32(m->file + 44), count = blocks_of(m, bytes);
	uint64_t list = (uint64_t)get_u32(m->file + 52) * m->block_size;
	if (bytes > m->len || list > m->len || count * 4 > m->len - list)
		return damaged(e, "the directory of streams lies outside the file");
	uint8_t *directory = malloc(bytes + 1);
	if (!directory)
		return no_memory(e);
	enum err err = copy_blocks(m, m->file + list, count, directory, bytes)
	                       ? read_directory(m, directory, bytes, e)
	                       : damaged(e, "the directory of streams lies outside the file");
	free(directory);
	return err;
}

enum err msf_open(struct msf *m, int fd, struct error *e)
{
	struct stat st;
	enum err err = ERR_OK;
	*m = (struct msf){.fd = fcntl(fd, F_DUPFD_CLOEXEC, 0)};
	if (m->fd < 0 || fstat(m->fd, &st) != 0)
		err = error_set(e, ERR_IO, "%s", strerror(errno));
	else if (st.st_size < SUPERBLOCK)
		err = damaged(e, "the file ends within its first block");
	else
		m->file = mmap(NULL, m->len = (size_t)st.st_size, PROT_READ, MAP_SHARED, m->fd, 0);
	if (m->file == MAP_FAILED) {
		m->file = NULL;
		err = error_set(e, errno == ENOMEM ? ERR_NO_MEMORY : ERR_IO, "%s", strerror(errno));
	}
	if (!err) {
		m->block_size = get_u32(m->file + 32);
		bool sound = m->block_size >= BLOCK_MIN && m->block_size <= BLOCK_MAX &&
		             (m->block_size & (m->block_size - 1)) == 0;
		err = sound ? find_directory(m, e) : damaged(e, "the size of blocks is none of a PDB file");
	}
	if (err)
		msf_close(m);
	return err;
}

void msf_close(struct msf *m)
{
	if (m->file)
		munmap((void *)(uintptr_t)m->file, m->len);
	if (m->fd >= 0)
		close(m->fd);
	free(m->streams);
	free(m->blocks);
	*m = (struct msf){.fd = -1};
}

/* How many of the stream's blocks follow each other in the file from number i on. */
static size_t run_length(const uint32_t *blocks, size_t i, size_t count)
{
	size_t n = 1;
	while (i + n < count && blocks[i + n] == blocks[i] + n)
		n++;
	return n;
}

static size_t run_count(const uint32_t *blocks, size_t count)
{
	size_t runs = 0;
	for (size_t i = 0; i < count; i += run_length(blocks, i, count))
		runs++;
	return runs;
}

/* Maps each run at its place in one stretch of addresses, so that memory need not hold a copy. */
static bool map_runs(const struct msf *m, const uint32_t *blocks, size_t count, uint64_t size, struct msf_bytes *b)
{
	size_t len = count * m->block_size;
	char *at = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (at == MAP_FAILED)
		return false;
	bool ok = true;
	for (size_t i = 0, n; i < count && ok; i += n) {
		n = run_length(blocks, i, count);
		ok = mmap(at + i * m->block_size, n * m->block_size, PROT_READ, MAP_SHARED | MAP_FIXED, m->fd,
		             (off_t)blocks[i] * m->block_size) != MAP_FAILED;
	}
	if (!ok) {
		munmap(at, len);
		return false;
	}
	*b = (struct msf_bytes){{at, (size_t)size}, NULL, at, len};
	return true;
}

static enum err copy_stream(
        const struct msf *m, const uint32_t *blocks, size_t count, uint64_t size, struct msf_bytes *b, struct error *e)
{
	uint8_t *copy = calloc(1, (size_t)size);
	if (!copy)
		return no_memory(e);
	for (size_t i = 0; i < count; i++) {
		size_t at = (size_t)blocks[i] * m->block_size, done = i * m->block_size;
		size_t n = size - done < m->block_size ? (size_t)size - done : m->block_size;
		memcpy(copy + done, m->file + at, n < m->len - at ? n : m->len - at); /* the last one may be cut */
	}
	*b = (struct msf_bytes){{(char *)copy, (size_t)size}, copy, NULL, 0};
	return ERR_OK;
}

enum err msf_read(const struct msf *m, uint32_t stream, struct msf_bytes *b, struct error *e)
{
	*b = (struct msf_bytes){.bytes = {"", 0}};
	if (stream >= m->stream_count || m->streams[stream].size == 0)
		return ERR_OK;
	const struct msf_stream *s = &m->streams[stream];
	const uint32_t *blocks = m->blocks + s->blocks;
	size_t count = blocks_of(m, s->size), page = (size_t)sysconf(_SC_PAGESIZE), runs = run_count(blocks, count);
	uint64_t at = (uint64_t)blocks[0] * m->block_size;
	if (runs == 1 && s->size <= m->len - at) {
		b->bytes = (struct str){(const char *)m->file + at, (size_t)s->size};
		return ERR_OK;
	}
	if (s->size >= COPY_MAX && m->block_size % page == 0 && runs <= RUNS_MAX &&
	        m->len % m->block_size == 0 /* no block is cut */ && map_runs(m, blocks, count, s->size, b))
		return ERR_OK;
	return copy_stream(m, blocks, count, s->size, b, e);
}

void msf_bytes_release(const struct msf *m, struct msf_bytes *b)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	if (b->mapped) {
		munmap(b->mapped, b->mapped_len);
	} else if (b->copy) {
		free(b->copy);
	} else if (b->bytes.len > 0) { /* the memory of its whole pages is given back */
		size_t at = (size_t)(b->bytes.data - (const char *)m->file), from = (at + page - 1) / page * page;
		size_t to = (at + b->bytes.len) / page * page;
		if (to > from)
			madvise((void *)(uintptr_t)(m->file + from), to - from, MADV_DONTNEED);
	}
	*b = (struct msf_bytes){.bytes = {"", 0}};
}
