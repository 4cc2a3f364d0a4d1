/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/pe_file.h"

#include <byteswap.h>
#include <string.h>
#include <unistd.h>

#include "base/varint.h"

enum {
	LFANEW = 0x3c,
	HEADER = 24,    /* bytes: the signature and the COFF header */
	EXCEPTIONS = 3, /* numbers of data directories */
	LOAD_CONFIG = 10,
	DIRECTORIES = 112, /* bytes before them */
	OPTIONAL_MAX = DIRECTORIES + (LOAD_CONFIG + 1) * 8,
	HYBRID_AT = 0xc8, /* in the load configuration: the address of what describes code of two machines */
	RANGES_MAX = 1 << 14,
};

struct pe_section {
	uint64_t start, size; /* relative to the image; bytes that the file has of it */
	uint64_t at;          /* in the file */
	uint32_t flags;
};

/* All sums of numbers of a file stay below 2^34. */
static bool read_at(int fd, uint64_t at, uint8_t *out, size_t len)
{
	return pread(fd, out, len, (off_t)at) == (ssize_t)len;
}

bool pe_file_is(int fd)
{
	uint8_t magic[2];
	return read_at(fd, 0, magic, sizeof magic) && memcmp(magic, "MZ", 2) == 0;
}

static bool is_wide(const struct pe_file *pe)
{
	return pe->machine == PE_X86_64 || pe->machine == PE_AARCH64;
}

/* Where the data directory of a number is. False: there is none. i686's headers are others; it needs none. */
static bool has_directory(const struct pe_file *pe, const uint8_t *optional, size_t size, unsigned number, size_t *at)
{
	*at = DIRECTORIES + number * 8;
	return is_wide(pe) && size >= *at + 8 && get_u32(optional + DIRECTORIES - 4) > number;
}

static void read_functions(struct pe_file *pe, const uint8_t *optional, size_t size)
{
	size_t at;
	if (!has_directory(pe, optional, size, EXCEPTIONS, &at))
		return;
	pe->functions = get_u32(optional + at);
	pe->functions_bytes = get_u32(optional + at + 4);
}

bool pe_file_known(const struct pe_file *pe)
{
	return is_wide(pe) || pe->machine == PE_I386;
}

/* The section around an address, or one with size 0. */
static enum err find_section(const struct pe_file *pe, uint64_t address, struct pe_section *s, struct error *e)
{
	uint8_t h[PE_SECTION_HEADER];
	for (unsigned i = 0; i < pe->section_count; i++) {
		uint64_t at = pe->sections + (uint64_t)i * PE_SECTION_HEADER;
		if (!read_at(pe->fd, at, h, PE_SECTION_HEADER))
			return error_set(e, ERR_CORRUPT, "PE: the header of section %u at %#llx is cut off", i,
			        (unsigned long long)at);
		uint32_t virtual = get_u32(h + 8), raw = get_u32(h + 16);
		*s = (struct pe_section){
		        get_u32(h + 12), virtual && virtual < raw ? virtual : raw, get_u32(h + 20), get_u32(h + 36)};
		if (address >= s->start && address - s->start < s->size)
			return ERR_OK;
	}
	*s = (struct pe_section){0};
	return ERR_OK;
}

/* Bytes at an address relative to the image. */
static bool read_image(const struct pe_file *pe, uint64_t address, uint8_t *out, size_t len)
{
	struct pe_section s;
	struct error e;
	return !find_section(pe, address, &s, &e) && s.size > 0 &&
	       read_at(pe->fd, s.at + (address - s.start), out, len);
}

/* The load configuration begins with its size. What it leads to: version, the map of code, ranges in it. */
static void read_hybrid(struct pe_file *pe, const uint8_t *optional, size_t size)
{
	uint8_t config[HYBRID_AT + 8], hybrid[12];
	uint64_t base = get_u64(optional + 24);
	size_t at;
	if (!has_directory(pe, optional, size, LOAD_CONFIG, &at) ||
	        !read_image(pe, get_u32(optional + at), config, sizeof config) || get_u32(config) < sizeof config)
		return;
	uint64_t address = get_u64(config + HYBRID_AT) - base;
	if (get_u64(config + HYBRID_AT) == 0 || address > UINT32_MAX || !read_image(pe, address, hybrid, sizeof hybrid))
		return;
	pe->code_map = get_u32(hybrid + 4);
	pe->code_ranges = get_u32(hybrid + 8);
}

enum err pe_file_read(struct pe_file *pe, int fd, struct error *e)
{
	uint8_t lfanew[4], header[HEADER], optional[OPTIONAL_MAX] = {0};
	*pe = (struct pe_file){.fd = fd};
	if (!read_at(fd, LFANEW, lfanew, sizeof lfanew))
		return error_set(e, ERR_CORRUPT, "PE: the file ends within its DOS header");
	uint64_t at = get_u32(lfanew);
	if (!read_at(fd, at, header, HEADER) || memcmp(header, "PE\0\0", 4) != 0)
		return error_set(e, ERR_CORRUPT, "PE: no signature at %#llx", (unsigned long long)at);
	size_t size = get_u16(header + 20), wanted = size < OPTIONAL_MAX ? size : OPTIONAL_MAX;
	pe->machine = get_u16(header + 4);
	pe->section_count = get_u16(header + 6);
	pe->sections = at + HEADER + size;
	if (wanted < 60 || !read_at(fd, at + HEADER, optional, wanted))
		return error_set(e, ERR_CORRUPT, "PE: the optional header at %#llx is cut off",
		        (unsigned long long)(at + HEADER));
	uint32_t magic = is_wide(pe) ? 0x20b : 0x10b;
	if (pe_file_known(pe) && get_u16(optional) != magic)
		return error_set(e, ERR_CORRUPT, "PE: the optional header at %#llx is not of this machine",
		        (unsigned long long)(at + HEADER));
	put_u32(pe->id, bswap_32(get_u32(header + 8)));
	put_u32(pe->id + 4, bswap_32(get_u32(optional + 56)));
	read_functions(pe, optional, wanted);
	read_hybrid(pe, optional, wanted);
	return ERR_OK;
}

enum err pe_file_code(
        const struct pe_file *pe, uint64_t start, uint8_t *bytes, size_t max, size_t *len, struct error *e)
{
	struct pe_section s;
	enum err err = find_section(pe, start, &s, e);
	if (err)
		return err;
	if (s.size == 0 || !(s.flags & PE_SECTION_CODE))
		return error_set(e, ERR_MISSING, "no code is at this address");
	uint64_t room = s.size - (start - s.start), at = s.at + (start - s.start);
	*len = room < max ? (size_t)room : max;
	if (!read_at(pe->fd, at, bytes, *len))
		return error_set(e, ERR_CORRUPT, "PE: the code at %#llx is cut off", (unsigned long long)at);
	return ERR_OK;
}

/* A range: where it begins, with the kind of its code in two bits, and its bytes. */
uint16_t pe_file_machine(const struct pe_file *pe, uint64_t start, uint64_t *end)
{
	enum { ARM64, ARM64EC, AMD64 };
	struct pe_section s;
	struct error e;
	uint8_t range[8];
	*end = UINT64_MAX;
	if (!pe->code_map)
		return pe->machine;
	if (find_section(pe, pe->code_map, &s, &e) || s.size == 0)
		return 0;
	uint64_t map = s.at + (pe->code_map - s.start);
	for (uint32_t i = 0; i < pe->code_ranges && i < RANGES_MAX; i++) {
		if (!read_at(pe->fd, map + i * sizeof range, range, sizeof range))
			return 0;
		uint64_t begin = get_u32(range) & ~3U, kind = get_u32(range) & 3;
		*end = begin + get_u32(range + 4);
		if (start >= begin && start < *end)
			return kind == AMD64 ? PE_X86_64 : kind == ARM64 || kind == ARM64EC ? PE_AARCH64 : 0;
	}
	return 0;
}

/* ---- the table of functions, by address ---- */

enum { ENTRY_X86_64 = 12, ENTRY_AARCH64 = 8 }; /* bytes */

/* Of AArch64 the length is in the entry itself, if it is packed, or at the place that it names: in instructions. 0: it
 * cannot be read. */
static uint64_t aarch64_length(const struct pe_file *pe, uint32_t unwind)
{
	uint8_t header[4];
	if (unwind & 3)
		return (unwind & 3) == 3 ? 0 : 4 * (uint64_t)(unwind >> 2 & 0x7ff);
	if (!read_image(pe, unwind, header, sizeof header))
		return 0;
	return 4 * (uint64_t)(get_u32(header) & 0x3ffff);
}

uint64_t pe_file_function_end(const struct pe_file *pe, uint64_t start)
{
	struct pe_section s;
	struct error e;
	uint8_t entry[ENTRY_X86_64];
	size_t size = pe->machine == PE_X86_64 ? ENTRY_X86_64 : ENTRY_AARCH64;
	if (!pe->functions || find_section(pe, pe->functions, &s, &e) || s.size == 0)
		return 0;
	/* the last one that does not begin behind start */
	uint64_t table = s.at + (pe->functions - s.start), low = 0, high = pe->functions_bytes / size;
	while (low < high) {
		uint64_t middle = low + (high - low) / 2;
		if (!read_at(pe->fd, table + middle * size, entry, size))
			return 0;
		if (get_u32(entry) <= start)
			low = middle + 1;
		else
			high = middle;
	}
	if (low == 0 || !read_at(pe->fd, table + (low - 1) * size, entry, size))
		return 0;
	uint64_t end =
	        pe->machine == PE_X86_64 ? get_u32(entry + 4) : get_u32(entry) + aarch64_length(pe, get_u32(entry + 4));
	return end > start ? end : 0;
}
