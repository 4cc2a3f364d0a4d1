/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/code_map.h"

#include <gelf.h>
#include <stdlib.h>

#include "base/array.h"
#include "base/search.h"
#include "extract/dwarf_bytes.h"
#include "extract/elf_file.h"

/* Offsets in a range have 32 bits. */
static const uint64_t CODE_MAX = 1ULL << 32;

static enum err read_bytes(struct code_section *c, Elf_Scn *s, struct error *e)
{
	Elf_Data *data = elf_rawdata(s, NULL);
	if (!data || !data->d_buf || data->d_size < c->end - c->start)
		return error_set(e, ERR_CORRUPT, "an executable section lies outside the file");
	c->bytes = data->d_buf;
	return ERR_OK;
}

static enum err add_section(struct code_map *m, uint32_t *cap, Elf_Scn *s, struct error *e)
{
	GElf_Shdr h;
	if (!gelf_getshdr(s, &h))
		return error_set(e, ERR_CORRUPT, "a section header cannot be read");
	if (!(h.sh_flags & SHF_ALLOC) || !(h.sh_flags & SHF_EXECINSTR) || h.sh_size == 0)
		return ERR_OK;
	if (h.sh_size > CODE_MAX || h.sh_addr > UINT64_MAX - h.sh_size)
		return error_set(e, ERR_CORRUPT, "an executable section has more than 4 GiB");
	if (!array_reserve(&m->sections, cap, m->count + 1, sizeof *m->sections))
		return no_memory(e);
	struct code_section *c = &m->sections[m->count++];
	*c = (struct code_section){.start = h.sh_addr, .end = h.sh_addr + h.sh_size};
	return h.sh_type == SHT_NOBITS ? ERR_OK : read_bytes(c, s, e);
}

/* Sections of a sound file do not overlap; of those that do, the first one counts. */
static enum err sort_sections(struct code_map *m, struct error *e)
{
	uint64_t total = 0;
	size_t kept = 0;
	if (m->count > 0)
		qsort(m->sections, m->count, sizeof *m->sections, search_order);
	for (size_t i = 0; i < m->count; i++) {
		if (kept > 0 && m->sections[i].start < m->sections[kept - 1].end)
			continue;
		m->sections[kept++] = m->sections[i];
		total += m->sections[i].end - m->sections[i].start;
	}
	m->count = kept;
	return total <= CODE_MAX ? ERR_OK : error_set(e, ERR_CORRUPT, "more than 4 GiB of code");
}

static void find_descriptors(struct code_map *m, Elf *elf)
{
	GElf_Shdr header;
	Elf_Scn *s = m->machine == EM_PPC64 ? elf_find_section(elf, ".opd") : NULL;
	if (!s || !gelf_getshdr(s, &header) || header.sh_type == SHT_NOBITS)
		return;
	m->opd = elf_section_bytes(elf, ".opd");
	m->opd_start = header.sh_addr;
}

uint64_t code_map_entry(const struct code_map *m, uint64_t value)
{
	if (m->machine == EM_ARM)
		return value & ~(uint64_t)1; /* it says that Thumb instructions follow */
	if (m->opd.len < 8 || value < m->opd_start || value - m->opd_start > m->opd.len - 8)
		return value;
	struct reader r = reader_at(m->opd, value - m->opd_start);
	return read_fixed(&r, 8, m->big);
}

enum err code_map_read(struct code_map *m, Elf *elf, struct error *e)
{
	GElf_Ehdr header;
	uint32_t cap = 0;
	*m = (struct code_map){0};
	if (!gelf_getehdr(elf, &header))
		return error_set(e, ERR_CORRUPT, "the ELF header cannot be read");
	m->machine = header.e_machine;
	m->big = elf_is_big(elf);
	find_descriptors(m, elf);
	enum err err = ERR_OK;
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s && !err; s = elf_nextscn(elf, s))
		err = add_section(m, &cap, s, e);
	if (!err)
		err = sort_sections(m, e);
	if (err)
		code_map_release(m);
	return err;
}

void code_map_release(struct code_map *m)
{
	free(m->sections);
	*m = (struct code_map){0};
}

const struct code_section *code_map_find(const struct code_map *m, uint64_t address)
{
	size_t i =
	        search_up_to(m->sections, m->count, sizeof *m->sections, offsetof(struct code_section, end), address);
	return i < m->count && m->sections[i].start <= address ? &m->sections[i] : NULL;
}

bool code_map_asked(const struct code_map *m, uint64_t start, uint64_t end)
{
	if (!m->asked_count)
		return true;
	size_t i = start ? search_up_to(m->asked, m->asked_count, sizeof *m->asked, 0, start - 1) : 0;
	return i < m->asked_count && m->asked[i] < end;
}
