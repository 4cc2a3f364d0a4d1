/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/disassemble_arm.h"

#include <gelf.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "base/varint.h"

/* ---- modes ---- */

/* What a symbol says of its address; 0: nothing. */
static char what_of(const struct arm_decoder *d, const GElf_Sym *sym, const char *name, bool *told)
{
	bool function = GELF_ST_TYPE(sym->st_info) == STT_FUNC || GELF_ST_TYPE(sym->st_info) == STT_GNU_IFUNC;
	*told = name && name[0] == '$' && name[1] && strchr(d->wide ? "xd" : "atd", name[1]) &&
	        (!name[2] || name[2] == '.');
	return *told ? name[1] : !function ? 0 : d->wide ? 'x' : sym->st_value & 1 ? 't' : 'a';
}

static enum err add_modes(
        struct arm_decoder *d, Elf *elf, Elf_Scn *table, const struct code_section *s, struct error *e)
{
	GElf_Shdr header;
	Elf_Data *data = gelf_getshdr(table, &header) && header.sh_type != SHT_NOBITS ? elf_getdata(table, NULL) : NULL;
	GElf_Sym sym;
	for (int i = 0; i < INT32_MAX && gelf_getsym(data, i, &sym); i++) {
		struct arm_mode m;
		if (sym.st_shndx == SHN_UNDEF)
			continue;
		m.what = what_of(d, &sym, elf_strptr(elf, header.sh_link, sym.st_name), &m.told);
		m.address = d->wide || m.told ? sym.st_value : sym.st_value & ~(uint64_t)1;
		if (!m.what || m.address < s->start || m.address >= s->end)
			continue;
		if (!array_append(&d->modes, &d->cap, &d->count, &m, sizeof m))
			return no_memory(e);
	}
	return ERR_OK;
}

/* Of those at one address, the last one counts. */
static int compare_modes(const void *a, const void *b)
{
	const struct arm_mode *x = a, *y = b;
	if (x->address != y->address)
		return x->address < y->address ? -1 : 1;
	return x->told != y->told ? (x->told ? 1 : -1) : x->what - y->what;
}

/* *end: where the next one begins, or UINT64_MAX. */
static char mode_at(const struct arm_decoder *d, uint64_t address, uint64_t *end)
{
	size_t n = search_up_to(d->modes, d->count, sizeof *d->modes, offsetof(struct arm_mode, address), address);
	*end = n < d->count ? d->modes[n].address : UINT64_MAX;
	return n > 0 ? d->modes[n - 1].what : d->wide ? 'x' : 0;
}

/* ---- opening ---- */

static bool set_mode(struct arm_decoder *d, cs_mode mode)
{
	if (d->mode != mode && cs_option(d->capstone, CS_OPT_MODE, mode) != CS_ERR_OK)
		return false;
	d->mode = mode;
	return true;
}

static enum err open_capstone(struct arm_decoder *d, struct error *e)
{
	d->mode = CS_MODE_LITTLE_ENDIAN;
	if (cs_open(d->wide ? CS_ARCH_ARM64 : CS_ARCH_ARM, d->mode, &d->capstone) != CS_ERR_OK)
		return no_memory(e);
	cs_option(d->capstone, CS_OPT_DETAIL, CS_OPT_ON);
	d->insn = cs_malloc(d->capstone);
	return d->insn ? ERR_OK : no_memory(e);
}

static enum err open_at(struct arm_decoder *d, uint64_t start, struct error *e)
{
	uint64_t end;
	char what = mode_at(d, start, &end);
	if (!what)
		return error_set(e, ERR_CORRUPT, "no symbol says whether this code is A32 or T32");
	if ((what == 't' && start % 2) || (what != 't' && what != 'd' && start % 4))
		return error_set(e, ERR_CORRUPT, "the address is not that of an instruction");
	return open_capstone(d, e);
}

enum err arm_decoder_open(struct arm_decoder *d, Elf *elf, const struct symbol_files *files,
        const struct code_section *section, uint64_t start, struct error *e)
{
	GElf_Ehdr header;
	enum err err = ERR_OK;
	*d = (struct arm_decoder){0};
	if (!gelf_getehdr(elf, &header) || header.e_ident[EI_DATA] != ELFDATA2LSB)
		return error_set(e, ERR_CORRUPT, "big-endian code cannot be disassembled");
	d->wide = header.e_machine == EM_AARCH64;
	for (size_t i = 0; i < files->count && !err; i++) {
		Elf_Scn *table = elf_find_section(files->tables[i].elf, files->tables[i].section);
		if (table)
			err = add_modes(d, files->tables[i].elf, table, section, e);
	}
	if (err)
		return err;
	if (d->count > 0)
		qsort(d->modes, d->count, sizeof *d->modes, compare_modes);
	return open_at(d, start, e);
}

enum err arm_decoder_open_wide(struct arm_decoder *d, uint64_t start, struct error *e)
{
	*d = (struct arm_decoder){.wide = true};
	return open_at(d, start, e);
}

void arm_decoder_close(struct arm_decoder *d)
{
	if (d->insn)
		cs_free(d->insn, 1);
	if (d->capstone)
		cs_close(&d->capstone);
	free(d->modes);
	*d = (struct arm_decoder){0};
}

/* ---- decoding ---- */

/* Up to the next multiple of four, as objdump has it. */
static size_t data_word(const uint8_t *bytes, size_t len, uint64_t address, char *text, size_t size)
{
	if (len < 2 || address % 2 == 1) {
		snprintf(text, size, ".byte 0x%02x", bytes[0]);
		return 1;
	}
	if (len < 4 || address % 4 == 2) {
		snprintf(text, size, ".short 0x%04x", get_u16(bytes));
		return 2;
	}
	snprintf(text, size, ".word 0x%08" PRIx32, get_u32(bytes));
	return 4;
}

/* The last operand of a branch, if it is an address. */
static uint64_t target_of(const struct arm_decoder *d)
{
	const cs_insn *insn = d->insn;
	if (!cs_insn_group(d->capstone, insn, CS_GRP_JUMP) && !cs_insn_group(d->capstone, insn, CS_GRP_CALL) &&
	        !cs_insn_group(d->capstone, insn, CS_GRP_BRANCH_RELATIVE))
		return UINT64_MAX;
	if (d->wide) {
		const cs_arm64 *a = &insn->detail->arm64;
		const cs_arm64_op *last = a->op_count > 0 ? &a->operands[a->op_count - 1] : NULL;
		return last && last->type == ARM64_OP_IMM ? (uint64_t)last->imm : UINT64_MAX;
	}
	const cs_arm *a = &insn->detail->arm;
	const cs_arm_op *last = a->op_count > 0 ? &a->operands[a->op_count - 1] : NULL;
	return last && last->type == ARM_OP_IMM ? (uint32_t)last->imm : UINT64_MAX;
}

size_t arm_decode(struct arm_decoder *d, const uint8_t *bytes, size_t len, uint64_t address, uint64_t shown, char *text,
        size_t size, uint64_t *target)
{
	uint64_t end;
	char what = mode_at(d, address, &end);
	size_t room = end - address < len ? (size_t)(end - address) : len, step = what == 't' ? 2 : 4;
	*target = UINT64_MAX;
	if (what == 'd')
		return data_word(bytes, room, address, text, size);
	const uint8_t *code = bytes;
	if (!set_mode(d, what == 't' ? CS_MODE_THUMB : CS_MODE_LITTLE_ENDIAN) ||
	        !cs_disasm_iter(d->capstone, &code, &room, &shown, d->insn)) {
		snprintf(text, size, "(bad)");
		return room < step ? (room > 0 ? room : 1) : step;
	}
	snprintf(text, size, "%s%s%s", d->insn->mnemonic, d->insn->op_str[0] ? " " : "", d->insn->op_str);
	*target = target_of(d);
	return d->insn->size;
}
