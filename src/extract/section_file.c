/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/section_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buffer.h"
#include "extract/dwarf_bytes.h"
#include "extract/elf_write.h"
#include "extract/inflate.h"
#include "extract/temp_file.h"

/* Locations of variables, unwinding and indexes by name or address are not needed. */
static const char *const names[] = {
        ".debug_info",
        ".debug_types",
        ".debug_abbrev",
        ".debug_line",
        ".debug_str",
        ".debug_line_str",
        ".debug_str_offsets",
        ".debug_addr",
        ".debug_ranges",
        ".debug_rnglists",
        ".gnu_debugaltlink",
        ".debug_info.dwo",
        ".debug_types.dwo",
        ".debug_abbrev.dwo",
        ".debug_line.dwo",
        ".debug_str.dwo",
        ".debug_str_offsets.dwo",
        ".debug_rnglists.dwo",
        ".debug_cu_index",
        ".debug_tu_index",
};
enum {
	NAMES = sizeof names / sizeof *names,
	CHDR64 = 24, /* bytes of headers */
	CHDR32 = 12,
	ZDEBUG = 12,
	KIND_ZSTD = 2, /* ELFCOMPRESS_ZSTD, which old headers lack */
};

/* A section of the file, and where it comes to be. */
struct section {
	enum inflate_method method; /* INFLATE_NONE also for one that is not there */
	struct inflate_source source;
	uint64_t size; /* inflated, as its header says */
	uint64_t at;   /* in the temporary file */
};

/* The temporary file while it is made. */
struct image {
	const struct elf_file *from;
	int fd;
	uint64_t len;
	bool wide, big; /* ELF64; big-endian */
	GElf_Ehdr like;
	struct section sections[NAMES];
};

/* ---- what there is ---- */

static enum err read_at(const struct section *s, uint8_t *out, size_t len, const char *name, struct error *e)
{
	if (s->source.len < len || pread(s->source.fd, out, len, (off_t)s->source.at) != (ssize_t)len)
		return error_set(e, ERR_CORRUPT, "section %s: lies outside the file", name);
	return ERR_OK;
}

static void skip_header(struct section *s, size_t header)
{
	s->source.at += header;
	s->source.len -= header;
}

/* SHF_COMPRESSED: type, size and alignment stand before the data. */
static enum err read_chdr(struct section *s, const struct image *m, const char *name, struct error *e)
{
	uint8_t head[CHDR64];
	size_t len = m->wide ? CHDR64 : CHDR32;
	enum err err = read_at(s, head, len, name, e);
	if (err)
		return err;
	struct reader r = {.at = head, .end = head + len};
	uint64_t type = read_fixed(&r, 4, m->big);
	if (m->wide)
		read_skip(&r, 4);
	s->size = read_fixed(&r, m->wide ? 8 : 4, m->big);
	if (type != ELFCOMPRESS_ZLIB && type != KIND_ZSTD)
		return error_set(
		        e, ERR_CORRUPT, "section %s: compressed in a way that is not known: %u", name, (unsigned)type);
	s->method = type == ELFCOMPRESS_ZLIB ? INFLATE_ZLIB : INFLATE_ZSTD;
	skip_header(s, len);
	return ERR_OK;
}

/* The old form of GNU, .zdebug_: the letters ZLIB and the size, big-endian, stand before the data. */
static enum err read_zdebug(struct section *s, const char *name, struct error *e)
{
	uint8_t head[ZDEBUG];
	enum err err = read_at(s, head, sizeof head, name, e);
	if (err || memcmp(head, "ZLIB", 4) != 0)
		return err;
	struct reader r = {.at = head + 4, .end = head + sizeof head};
	s->size = read_fixed(&r, 8, true);
	s->method = INFLATE_ZLIB;
	skip_header(s, sizeof head);
	return ERR_OK;
}

static enum err find_section(struct image *m, size_t i, struct error *e)
{
	struct section *s = &m->sections[i];
	GElf_Shdr header;
	size_t strings;
	Elf_Scn *found = elf_find_section(m->from->elf, names[i]);
	if (!found || !gelf_getshdr(found, &header) || header.sh_type == SHT_NOBITS)
		return ERR_OK;
	s->source = (struct inflate_source){m->from->fd, header.sh_offset, header.sh_size};
	s->size = header.sh_size;
	if (header.sh_flags & SHF_COMPRESSED)
		return read_chdr(s, m, names[i], e);
	const char *name = elf_getshdrstrndx(m->from->elf, &strings) == 0
	                           ? elf_strptr(m->from->elf, strings, header.sh_name)
	                           : NULL;
	return name && name[1] == 'z' ? read_zdebug(s, name, e) : ERR_OK;
}

/* Also for sections that are not needed: libdw would inflate every section that it knows, and write to its header in
 * the file. */
static bool has_compressed(Elf *elf)
{
	GElf_Shdr header;
	size_t strings;
	if (elf_getshdrstrndx(elf, &strings) != 0)
		return false;
	for (Elf_Scn *s = NULL; (s = elf_nextscn(elf, s));) {
		const char *name = gelf_getshdr(s, &header) ? elf_strptr(elf, strings, header.sh_name) : NULL;
		if (name && ((header.sh_flags & SHF_COMPRESSED) || strncmp(name, ".zdebug", 7) == 0))
			return true;
	}
	return false;
}

/* ---- the temporary file: room for headers, then the sections ---- */

static enum err copy_section(struct image *m, size_t i, struct error *e)
{
	struct section *s = &m->sections[i];
	struct error inner;
	uint64_t size;
	s->at = m->len;
	enum err err = inflate_file(s->method, &s->source, s->size, m->fd, &size, &inner);
	m->len += size;
	if (!err && size < s->size)
		err = error_set(&inner, ERR_CORRUPT, "compressed data: less than its header says");
	return !err ? ERR_OK : error_set(e, err, "section %s: %s", names[i], inner.text);
}

static enum err write_headers(struct image *m, struct error *e)
{
	struct elf_part parts[NAMES];
	struct buffer out;
	size_t count = 0;
	enum err err = ERR_OK;
	if (!m->wide && m->len > UINT32_MAX)
		return error_set(e, ERR_CORRUPT, "more debug data than a 32-bit file can have");
	for (size_t i = 0; i < NAMES; i++)
		if (m->sections[i].size > 0)
			parts[count++] = (struct elf_part){names[i], m->sections[i].at, m->sections[i].size};
	buffer_init(&out, ELF_WRITE_MAX);
	elf_write_headers(&out, &m->like, parts, count);
	if (out.failed)
		err = no_memory(e);
	else if (pwrite(m->fd, out.data, out.len, 0) != (ssize_t)out.len)
		err = error_set(e, ERR_IO, "temporary file: %s", strerror(errno));
	buffer_release(&out);
	return err;
}

static enum err write_image(struct image *m, struct error *e)
{
	static const uint8_t room[ELF_WRITE_MAX];
	enum err err = temp_file_write(m->fd, room, sizeof room, e);
	m->len = sizeof room;
	for (size_t i = 0; i < NAMES && !err; i++)
		if (m->sections[i].size > 0)
			err = copy_section(m, i, e);
	return err ? err : write_headers(m, e);
}

/* ---- the mapping ---- */

static enum err map(struct section_file *s, int fd, struct error *e)
{
	struct stat st;
	if (fstat(fd, &st) != 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	void *bytes = mmap(NULL, (size_t)st.st_size, PROT_READ, MAP_SHARED, fd, 0);
	if (bytes == MAP_FAILED)
		return error_set(e, errno == ENOMEM ? ERR_NO_MEMORY : ERR_IO, "%s", strerror(errno));
	*s = (struct section_file){bytes, (size_t)st.st_size, fcntl(fd, F_DUPFD_CLOEXEC, 0), {0}};
	if (s->fd >= 0)
		return ERR_OK;
	munmap(bytes, s->len);
	*s = (struct section_file){0};
	return error_set(e, ERR_IO, "%s", strerror(errno));
}

static enum err map_file(struct section_file *s, const struct elf_file *f, struct error *e)
{
	if (!f->view.bytes)
		return map(s, f->fd, e);
	enum err err = view_open(&s->view, f->fd, &f->view.wanted, e);
	if (err)
		return err;
	s->fd = fcntl(f->fd, F_DUPFD_CLOEXEC, 0);
	if (s->fd < 0) {
		view_close(&s->view);
		return error_set(e, ERR_IO, "%s", strerror(errno));
	}
	s->bytes = s->view.bytes;
	s->len = s->view.len;
	return ERR_OK;
}

enum err section_file_open(struct section_file *s, const struct elf_file *f, struct error *e)
{
	struct image m = {.from = f, .fd = -1};
	*s = (struct section_file){0};
	gelf_getehdr(f->elf, &m.like);
	m.wide = m.like.e_ident[EI_CLASS] == ELFCLASS64;
	m.big = m.like.e_ident[EI_DATA] == ELFDATA2MSB;
	enum err err = ERR_OK;
	for (size_t i = 0; i < NAMES && !err; i++)
		err = find_section(&m, i, e);
	if (err || !has_compressed(f->elf))
		return err ? err : map_file(s, f, e);
	err = temp_file_open(&m.fd, e);
	if (!err)
		err = write_image(&m, e);
	if (!err)
		err = map(s, m.fd, e);
	if (m.fd >= 0)
		close(m.fd);
	return err;
}

void section_file_close(struct section_file *s)
{
	if (s->bytes) {
		munmap(s->bytes, s->len);
		close(s->fd);
	}
	*s = (struct section_file){0};
}

enum err section_file_elf(const struct section_file *s, Elf **elf, struct error *e)
{
	*elf = elf_memory(s->bytes, s->len);
	return *elf ? ERR_OK : error_set(e, ERR_CORRUPT, "%s", elf_errmsg(-1));
}

void section_file_forget(const struct section_file *s)
{
	if (s->view.bytes)
		view_forget(&s->view);
	else if (s->bytes)
		madvise(s->bytes, s->len, MADV_DONTNEED);
}

/* The start of the page of the file in which a part begins. */
static size_t first_page(const struct section_file *s, struct str part)
{
	size_t at = (size_t)(part.data - s->bytes);
	return at - at % (size_t)sysconf(_SC_PAGESIZE);
}

size_t section_file_window_len(const struct section_file *s, struct str part)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (size_t)(part.data - s->bytes) + part.len;
	return (end + page - 1) / page * page - first_page(s, part);
}

const char *section_file_window(const struct section_file *s, struct str part, char *place)
{
	size_t first = first_page(s, part);
	void *window =
	        mmap(place, section_file_window_len(s, part), PROT_READ, MAP_SHARED | MAP_FIXED, s->fd, (off_t)first);
	return window == MAP_FAILED ? NULL : place + (part.data - s->bytes - (ptrdiff_t)first);
}
