/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/elf_write.h"

#include <stdbool.h>
#include <string.h>

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

void elf_write_section(struct buffer *out, const GElf_Ehdr *like, const GElf_Shdr *s)
{
	unsigned word = is_wide(like) ? 8 : 4;
	put_number(out, like, s->sh_name, 4);
	put_number(out, like, s->sh_type, 4);
	put_number(out, like, s->sh_flags, word);
	put_number(out, like, s->sh_addr, word);
	put_number(out, like, s->sh_offset, word);
	put_number(out, like, s->sh_size, word);
	put_number(out, like, s->sh_link, 4);
	put_number(out, like, s->sh_info, 4);
	put_number(out, like, s->sh_addralign, word);
	put_number(out, like, s->sh_entsize, word);
}

void elf_write_header(struct buffer *out, const GElf_Ehdr *h)
{
	unsigned word = is_wide(h) ? 8 : 4;
	buffer_append(out, h->e_ident, EI_NIDENT);
	put_number(out, h, h->e_type, 2);
	put_number(out, h, h->e_machine, 2);
	put_number(out, h, EV_CURRENT, 4);
	put_number(out, h, h->e_entry, word);
	put_number(out, h, h->e_phoff, word);
	put_number(out, h, h->e_shoff, word);
	put_number(out, h, h->e_flags, 4);
	put_number(out, h, is_wide(h) ? EHDR64 : EHDR32, 2);
	put_number(out, h, h->e_phentsize, 2);
	put_number(out, h, h->e_phnum, 2);
	put_number(out, h, is_wide(h) ? SHDR64 : SHDR32, 2);
	put_number(out, h, h->e_shnum, 2);
	put_number(out, h, h->e_shstrndx, 2);
}

void elf_write_headers(struct buffer *out, const GElf_Ehdr *like, const struct elf_part *parts, size_t count)
{
	static const char own[] = "\0.shstrtab", zeros[SECTIONS_AT];
	size_t names_len = sizeof own, name = sizeof own;
	for (size_t i = 0; i < count; i++)
		names_len += strlen(parts[i].name) + 1;
	GElf_Ehdr header = {.e_type = ET_EXEC,
	        .e_machine = like->e_machine,
	        .e_flags = like->e_flags,
	        .e_shoff = SECTIONS_AT,
	        .e_shnum = (GElf_Half)(2 + count),
	        .e_shstrndx = 1};
	memcpy(header.e_ident, like->e_ident, EI_NIDENT);
	elf_write_header(out, &header);
	buffer_append(out, zeros, is_wide(like) ? SECTIONS_AT - EHDR64 : SECTIONS_AT - EHDR32);
	const GElf_Shdr none = {.sh_addralign = 1},
	                strings = {.sh_name = 1,
	                        .sh_type = SHT_STRTAB,
	                        .sh_offset = SECTIONS_AT + (2 + count) * (is_wide(like) ? SHDR64 : SHDR32),
	                        .sh_size = names_len,
	                        .sh_addralign = 1};
	elf_write_section(out, like, &none);
	elf_write_section(out, like, &strings);
	for (size_t i = 0; i < count; name += strlen(parts[i++].name) + 1) {
		const GElf_Shdr part = {.sh_name = (GElf_Word)name,
		        .sh_type = SHT_PROGBITS,
		        .sh_offset = parts[i].at,
		        .sh_size = parts[i].len,
		        .sh_addralign = 1};
		elf_write_section(out, like, &part);
	}
	buffer_append(out, own, sizeof own);
	for (size_t i = 0; i < count; i++)
		buffer_append(out, parts[i].name, strlen(parts[i].name) + 1);
}
