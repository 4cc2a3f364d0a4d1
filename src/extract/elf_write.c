/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/elf_write.h"

#include <stdbool.h>

enum { EHDR64 = 64, EHDR32 = 52, SHDR64 = 64, SHDR32 = 40, SECTIONS_AT = 64 };

static bool is_wide(const GElf_Ehdr *like)
{
	return like->e_ident[EI_CLASS] == ELFCLASS64;
}

static void put_number(struct buffer *out, const GElf_Ehdr *like, uint64_t v, unsigned n)
{
	uint8_t bytes[8];
	for (unsigned i = 0; i < n; i++)
		bytes[like->e_ident[EI_DATA] == ELFDATA2MSB ? n - 1 - i : i] = (uint8_t)(v >> 8 * i);
	buffer_append(out, bytes, n);
}

/* name: its offset in section 1. */
static void write_section(
        struct buffer *out, const GElf_Ehdr *like, uint64_t name, uint32_t type, uint64_t at, uint64_t len)
{
	unsigned word = is_wide(like) ? 8 : 4;
	put_number(out, like, name, 4);
	put_number(out, like, type, 4);
	put_number(out, like, 0, word); /* flags */
	put_number(out, like, 0, word); /* address */
	put_number(out, like, at, word);
	put_number(out, like, len, word);
	put_number(out, like, 0, 4);    /* link */
	put_number(out, like, 0, 4);    /* info */
	put_number(out, like, 1, word); /* alignment */
	put_number(out, like, 0, word); /* size of an entry */
}

static void write_header(struct buffer *out, const GElf_Ehdr *like, size_t count)
{
	unsigned word = is_wide(like) ? 8 : 4;
	buffer_append(out, like->e_ident, EI_NIDENT);
	put_number(out, like, ET_EXEC, 2);
	put_number(out, like, like->e_machine, 2);
	put_number(out, like, EV_CURRENT, 4);
	put_number(out, like, 0, word); /* entry */
	put_number(out, like, 0, word); /* program headers */
	put_number(out, like, SECTIONS_AT, word);
	put_number(out, like, like->e_flags, 4);
	put_number(out, like, is_wide(like) ? EHDR64 : EHDR32, 2);
	put_number(out, like, 0, 2); /* program headers: size and number */
	put_number(out, like, 0, 2);
	put_number(out, like, is_wide(like) ? SHDR64 : SHDR32, 2);
	put_number(out, like, count, 2);
	put_number(out, like, 1, 2); /* the section with the names */
}

void elf_write_headers(struct buffer *out, const GElf_Ehdr *like, const struct elf_part *parts, size_t count)
{
	static const char own[] = "\0.shstrtab", zeros[SECTIONS_AT];
	size_t names_len = sizeof own, name = sizeof own;
	for (size_t i = 0; i < count; i++)
		names_len += strlen(parts[i].name) + 1;
	write_header(out, like, 2 + count);
	buffer_append(out, zeros, is_wide(like) ? SECTIONS_AT - EHDR64 : SECTIONS_AT - EHDR32);
	write_section(out, like, 0, SHT_NULL, 0, 0);
	write_section(
	        out, like, 1, SHT_STRTAB, SECTIONS_AT + (2 + count) * (is_wide(like) ? SHDR64 : SHDR32), names_len);
	for (size_t i = 0; i < count; name += strlen(parts[i++].name) + 1)
		write_section(out, like, name, SHT_PROGBITS, parts[i].at, parts[i].len);
	buffer_append(out, own, sizeof own);
	for (size_t i = 0; i < count; i++)
		buffer_append(out, parts[i].name, strlen(parts[i].name) + 1);
}
