/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/image.h"

#include <gelf.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "extract/dwarf_bytes.h"

/* The type of relocation that adds the load address to its addend, the pointer; 0: unknown. */
static uint32_t relative_type(uint16_t machine)
{
	static const uint16_t types[][2] = {{EM_X86_64, R_X86_64_RELATIVE}, {EM_AARCH64, R_AARCH64_RELATIVE},
	        {EM_PPC64, R_PPC64_RELATIVE}, {EM_S390, R_390_RELATIVE}, {EM_RISCV, R_RISCV_RELATIVE}};
	for (size_t i = 0; i < sizeof types / sizeof *types; i++)
		if (types[i][0] == machine)
			return types[i][1];
	return 0;
}

static enum err add_section(struct image *m, Elf_Scn *s, const GElf_Shdr *h, struct error *e)
{
	Elf_Data *data = h->sh_type == SHT_NOBITS ? NULL : elf_rawdata(s, NULL);
	if (!data || !data->d_buf || h->sh_addr > UINT64_MAX - data->d_size)
		return ERR_OK;
	const struct image_section section = {h->sh_addr, {data->d_buf, data->d_size}, h->sh_flags & SHF_WRITE};
	bool ok = array_append(&m->sections, &m->section_cap, &m->section_count, &section, sizeof section);
	return ok ? ERR_OK : no_memory(e);
}

static enum err add_pointers(struct image *m, Elf_Scn *s, uint32_t type, struct error *e)
{
	Elf_Data *data = elf_getdata(s, NULL);
	GElf_Rela r;
	for (int i = 0; i < INT32_MAX && gelf_getrela(data, i, &r); i++) {
		if (GELF_R_TYPE(r.r_info) != type)
			continue;
		const struct image_pointer p = {r.r_offset, (uint64_t)r.r_addend};
		if (!array_append(&m->pointers, &m->pointer_cap, &m->pointer_count, &p, sizeof p))
			return no_memory(e);
	}
	return ERR_OK;
}

enum err image_read(struct image *m, Elf *elf, struct error *e)
{
	GElf_Ehdr header;
	GElf_Shdr h;
	enum err err = ERR_OK;
	*m = (struct image){0};
	if (!gelf_getehdr(elf, &header))
		return ERR_OK;
	m->big = header.e_ident[EI_DATA] == ELFDATA2MSB;
	m->pointer_size = header.e_ident[EI_CLASS] == ELFCLASS32 ? 4 : 8;
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s && !err; s = elf_nextscn(elf, s))
		if (gelf_getshdr(s, &h) && h.sh_flags & SHF_ALLOC)
			err = add_section(m, s, &h, e);
	return err;
}

enum err image_read_pointers(struct image *m, Elf *elf, struct error *e)
{
	GElf_Ehdr header;
	GElf_Shdr h;
	enum err err = ERR_OK;
	uint32_t type = gelf_getehdr(elf, &header) && header.e_type == ET_DYN ? relative_type(header.e_machine) : 0;
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s && type && !err; s = elf_nextscn(elf, s))
		if (gelf_getshdr(s, &h) && h.sh_flags & SHF_ALLOC && h.sh_type == SHT_RELA)
			err = add_pointers(m, s, type, e);
	if (m->pointer_count > 0)
		qsort(m->pointers, m->pointer_count, sizeof *m->pointers, search_order);
	return err;
}

void image_release(struct image *m)
{
	free(m->sections);
	free(m->pointers);
	*m = (struct image){0};
}

struct str image_bytes(const struct image *m, uint64_t address)
{
	for (size_t i = 0; i < m->section_count; i++) {
		const struct image_section *s = &m->sections[i];
		uint64_t offset = address - s->start;
		if (address >= s->start && offset < s->bytes.len)
			return (struct str){s->bytes.data + offset, s->bytes.len - (size_t)offset};
	}
	return (struct str){"", 0};
}

uint64_t image_pointer(const struct image *m, uint64_t address)
{
	struct image_pointer key = {address, 0}, *found = NULL;
	if (m->pointer_count > 0)
		found = bsearch(&key, m->pointers, m->pointer_count, sizeof key, search_order);
	if (found)
		return found->value;
	struct reader r = reader_at(image_bytes(m, address), 0);
	return read_fixed(&r, m->pointer_size, m->big);
}
