/* SPDX-License-Identifier: Apache-2.0 */
/* A stub jumps to the address in a word that a relocation fills in; the relocation's symbol is the function. */
#include <config.h>

#include "extract/plt.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/map64.h"
#include "extract/elf_file.h"

struct plt {
	Elf *elf;
	const struct code_map *code;
	struct map64 symbols; /* names by the address of the word */
	struct plt_stub *stubs;
	size_t count;
	uint32_t cap;
	bool *done; /* sections of code */
	bool no_memory;
};

static bool fills_word(const struct plt *p, uint64_t type)
{
	if (p->code->machine == EM_X86_64)
		return type == R_X86_64_JUMP_SLOT || type == R_X86_64_GLOB_DAT;
	return type == R_AARCH64_JUMP_SLOT || type == R_AARCH64_GLOB_DAT;
}

static void read_relocations(struct plt *p, Elf_Scn *section, const GElf_Shdr *header)
{
	Elf_Scn *table = elf_getscn(p->elf, header->sh_link);
	Elf_Data *data = elf_getdata(section, NULL), *symbols = table ? elf_getdata(table, NULL) : NULL;
	GElf_Shdr h;
	GElf_Rela r;
	GElf_Sym sym;
	if (!data || !symbols || !gelf_getshdr(table, &h) || h.sh_type != SHT_DYNSYM)
		return;
	for (int i = 0; i < INT32_MAX && !p->no_memory && gelf_getrela(data, i, &r); i++) {
		if (!fills_word(p, GELF_R_TYPE(r.r_info)) || GELF_R_SYM(r.r_info) > INT32_MAX ||
		        !gelf_getsym(symbols, (int)GELF_R_SYM(r.r_info), &sym) || map64_get(&p->symbols, r.r_offset))
			continue;
		const char *name = elf_strptr(p->elf, h.sh_link, sym.st_name);
		if (name && *name)
			p->no_memory = !map64_put(&p->symbols, r.r_offset, (uintptr_t)name);
	}
}

static void add_stub(struct plt *p, uint64_t start, uint64_t end, uint64_t word)
{
	struct plt_stub stub = {start, end, (const char *)(uintptr_t)map64_get(&p->symbols, word)};
	if (stub.symbol)
		p->no_memory |= !array_append(&p->stubs, &p->cap, &p->count, &stub, sizeof stub);
}

static uint32_t word_at(const uint8_t *b)
{
	return (uint32_t)b[0] | (uint32_t)b[1] << 8 | (uint32_t)b[2] << 16 | (uint32_t)b[3] << 24;
}

/* jmp *distance(%rip), in a stub of `size` bytes */
static void read_x86(struct plt *p, const struct code_section *s, uint64_t size)
{
	for (uint64_t i = 0, n = s->end - s->start; i + size <= n; i += size)
		for (uint64_t k = 0; k + 6 <= size; k++) {
			const uint8_t *b = s->bytes + i + k;
			if (b[0] != 0xff || b[1] != 0x25)
				continue;
			uint64_t next = s->start + i + k + 6;
			add_stub(p, s->start + i, s->start + i + size,
			        next + (uint64_t)(int64_t)(int32_t)word_at(b + 2));
			break;
		}
}

/* adrp x16, page; ldr x17, [x16, #offset] ... br x17; perhaps after bti c */
static void read_aarch64(struct plt *p, const struct code_section *s)
{
	enum { BTI = 0xd503245f, BRANCH = 0xd61f0220u, LENGTH_MAX = 24 };
	uint64_t n = s->end - s->start;
	for (uint64_t i = 0; i + 8 <= n; i += 4) {
		uint32_t adrp = word_at(s->bytes + i), ldr = word_at(s->bytes + i + 4);
		if ((adrp & 0x9f00001f) != 0x90000010 || (ldr & 0xffc003ff) != 0xf9400211)
			continue;
		uint64_t pages = (uint64_t)(adrp >> 29 & 3) | (uint64_t)(adrp >> 5 & 0x7ffff) << 2;
		if (pages >> 20)
			pages |= ~(uint64_t)0 << 21;
		uint64_t word = ((s->start + i) & ~(uint64_t)0xfff) + (pages << 12) + (uint64_t)(ldr >> 10 & 0xfff) * 8;
		uint64_t start = i >= 4 && word_at(s->bytes + i - 4) == BTI ? i - 4 : i, end = i + 8;
		while (end + 4 <= n && end - start < LENGTH_MAX && word_at(s->bytes + end - 4) != BRANCH)
			end += 4;
		add_stub(p, s->start + start, s->start + end, word);
	}
}

static void read_section(struct plt *p, const char *name, const GElf_Shdr *header)
{
	const struct code_section *s = code_map_find(p->code, header->sh_addr);
	if (strncmp(name, ".plt", 4) != 0 || !s || !s->bytes || s->start != header->sh_addr ||
	        p->done[s - p->code->sections])
		return;
	p->done[s - p->code->sections] = true; /* many headers may lead to it */
	if (p->code->machine == EM_AARCH64)
		read_aarch64(p, s);
	else
		read_x86(p, s, header->sh_entsize == 8 ? 8 : 16);
}

enum err plt_read(Elf *elf, const struct code_map *code, struct plt_stub **stubs, size_t *count, struct error *e)
{
	struct plt p = {.elf = elf, .code = code};
	size_t strings;
	GElf_Shdr header;
	bool known =
	        (code->machine == EM_X86_64 || code->machine == EM_AARCH64) && elf_getshdrstrndx(elf, &strings) == 0;
	p.done = calloc(code->count + 1, sizeof *p.done);
	p.no_memory = !p.done;
	for (int pass = 0; known && pass < 2; pass++)
		for (Elf_Scn *s = elf_nextscn(elf, NULL); s && !p.no_memory; s = elf_nextscn(elf, s)) {
			if (!gelf_getshdr(s, &header))
				continue;
			const char *name = elf_strptr(elf, strings, header.sh_name);
			if (pass == 0 && header.sh_type == SHT_RELA)
				read_relocations(&p, s, &header);
			else if (pass == 1 && name)
				read_section(&p, name, &header);
		}
	map64_release(&p.symbols);
	free(p.done);
	*stubs = p.stubs;
	*count = p.count;
	return p.no_memory ? no_memory(e) : ERR_OK;
}
