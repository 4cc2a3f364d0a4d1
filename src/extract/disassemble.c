/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/disassemble.h"

#include <Zydis/Zydis.h>
#include <elf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "extract/code_map.h"
#include "extract/disassemble_arm.h"
#include "extract/elf_file.h"
#include "extract/ids.h"
#include "extract/pe_file.h"
#include "extract/symbol_files.h"
#include "extract/symbols.h"

enum { TEXT_MAX = 512, SHOWN_NAME_MAX = 300 };

struct code_reader {
	struct disassembly *d;
	struct elf_file file;
	struct code_map code;
	struct symbol_files tables;
	struct symbol_names names;
	uint64_t image_base;
	bool is_arm, is_pe;
	uint64_t target; /* of the instruction that was read, if it is known and has no name; or UINT64_MAX */
	struct arm_decoder arm;
	ZydisDecoder decoder;
	ZydisFormatter formatter;
};

static enum err open_x86(struct code_reader *r, bool wide, struct error *e)
{
	ZydisDecoderInit(&r->decoder, wide ? ZYDIS_MACHINE_MODE_LONG_64 : ZYDIS_MACHINE_MODE_LEGACY_32,
	        wide ? ZYDIS_STACK_WIDTH_64 : ZYDIS_STACK_WIDTH_32);
	ZydisFormatterInit(&r->formatter, ZYDIS_FORMATTER_STYLE_INTEL);
	return r->d->begin(r->d->arg, wide ? "x86_64" : "i686", e);
}

static enum err open_decoder(struct code_reader *r, const struct code_section *s, uint64_t start, struct error *e)
{
	bool wide = r->code.machine == EM_X86_64;
	r->is_arm = r->code.machine == EM_AARCH64 || r->code.machine == EM_ARM;
	if (r->is_arm) {
		enum err err = arm_decoder_open(&r->arm, r->file.elf, &r->tables, s, start, e);
		return err ? err : r->d->begin(r->d->arg, r->arm.wide ? "aarch64" : "arm", e);
	}
	if (!wide && r->code.machine != EM_386)
		return error_set(e, ERR_CORRUPT, "this machine's code cannot be disassembled: only x86 and Arm can");
	return open_x86(r, wide, e);
}

/* Behind a branch to an address that is known: " <name+0x12>". */
static enum err add_target(struct code_reader *r, uint64_t target, char text[TEXT_MAX], struct error *e)
{
	uint64_t start;
	struct str name = {"", 0};
	enum err err = r->is_pe ? ERR_OK : symbol_names_find(&r->names, target + r->image_base, &name, e);
	if (!err && name.len == 0)
		r->target = target;
	if (err || name.len == 0)
		return err;
	symbol_names_bounds(&r->names, target + r->image_base, &start, NULL);
	size_t n = strlen(text);
	uint64_t distance = target + r->image_base - start;
	int len = name.len < SHOWN_NAME_MAX ? (int)name.len : SHOWN_NAME_MAX;
	n += (size_t)snprintf(text + n, TEXT_MAX - n, " <%.*s", len, name.data);
	if (n < TEXT_MAX && distance > 0)
		n += (size_t)snprintf(text + n, TEXT_MAX - n, "+%#llx", (unsigned long long)distance);
	if (n < TEXT_MAX - 1)
		memcpy(text + n, ">", 2);
	return ERR_OK;
}

static enum err read_one_arm(struct code_reader *r, const uint8_t *bytes, size_t len, uint64_t address, size_t *used,
        char text[TEXT_MAX], struct error *e)
{
	uint64_t target;
	*used = arm_decode(&r->arm, bytes, len, r->image_base + address, address, text, TEXT_MAX, &target);
	return target == UINT64_MAX ? ERR_OK : add_target(r, target, text, e);
}

/* One instruction at address, of the image; a byte that starts none is "(bad)", as objdump has it. */
static enum err read_one(struct code_reader *r, const uint8_t *bytes, size_t len, uint64_t address, size_t *used,
        char text[TEXT_MAX], struct error *e)
{
	ZydisDecodedInstruction i;
	ZydisDecodedOperand operands[ZYDIS_MAX_OPERAND_COUNT];
	ZyanU64 target;
	*used = 1;
	snprintf(text, TEXT_MAX, "(bad)");
	if (!ZYAN_SUCCESS(ZydisDecoderDecodeFull(&r->decoder, bytes, len, &i, operands)) || i.length == 0)
		return ERR_OK;
	*used = i.length;
	if (!ZYAN_SUCCESS(ZydisFormatterFormatInstruction(
	            &r->formatter, &i, operands, i.operand_count_visible, text, TEXT_MAX, address, ZYAN_NULL)))
		return ERR_OK;
	bool branches = i.meta.branch_type != ZYDIS_BRANCH_TYPE_NONE && i.operand_count_visible > 0 &&
	                operands[0].type == ZYDIS_OPERAND_TYPE_IMMEDIATE;
	if (!branches || !ZYAN_SUCCESS(ZydisCalcAbsoluteAddress(&i, &operands[0], address, &target)))
		return ERR_OK;
	return add_target(r, target, text, e);
}

/* What lies between functions, such as the zeros of some linkers, does not swallow the beginning of the next one. */
static size_t room_at(const struct code_reader *r, uint64_t address, size_t room)
{
	uint64_t next = symbol_names_next(&r->names, address + r->image_base) - r->image_base - address;
	return next < room ? (size_t)next : room;
}

static enum err read_code(struct code_reader *r, const uint8_t *bytes, size_t len, size_t wanted, struct error *e)
{
	char text[TEXT_MAX];
	enum err err = ERR_OK;
	size_t at = 0, used = 0;
	/* The last instruction may end behind what was asked for. */
	for (; at < wanted && !err; at += used) {
		uint64_t address = r->d->start + at;
		r->target = UINT64_MAX;
		err = (r->is_arm ? read_one_arm : read_one)(
		        r, bytes + at, room_at(r, address, len - at), address, &used, text, e);
		if (!err)
			err = r->d->instruction(
			        r->d->arg, (uint32_t)at, (uint32_t)(at + used), r->target, str_from(text), e);
	}
	return err;
}

static enum err read_range(struct code_reader *r, struct error *e)
{
	uint64_t start = r->image_base + r->d->start, end, wanted = r->d->size;
	const struct code_section *s = code_map_find(&r->code, start);
	if (!s)
		return error_set(e, ERR_MISSING, "no code is at this address");
	if (!s->bytes)
		return error_set(e, ERR_MISSING, "the file has no bytes of its code: it is a debug file");
	if (r->d->to_function_end && symbol_names_bounds(&r->names, start, NULL, &end) && end - start > wanted)
		wanted = end - start;
	if (wanted > DISASSEMBLE_MAX)
		wanted = DISASSEMBLE_MAX;
	uint64_t room = s->end - start;
	enum err err = open_decoder(r, s, start, e);
	return err ? err
	           : read_code(r, s->bytes + (start - s->start), (size_t)room, (size_t)(wanted < room ? wanted : room),
	                     e);
}

static enum err open_pe(struct code_reader *r, uint16_t machine, struct error *e)
{
	if (!r->is_arm)
		return open_x86(r, machine == PE_X86_64, e);
	enum err err = arm_decoder_open_wide(&r->arm, r->d->start, e);
	return err ? err : r->d->begin(r->d->arg, "aarch64", e);
}

enum err disassemble_pe(const struct pe_file *pe, struct disassembly *d, struct error *e)
{
	uint64_t other;
	uint16_t machine = pe_file_machine(pe, d->start, &other);
	struct code_reader r = {.d = d, .is_pe = true, .is_arm = machine == PE_AARCH64};
	size_t len = 0, wanted = d->size < DISASSEMBLE_MAX ? (size_t)d->size : DISASSEMBLE_MAX;
	if (pe->machine == PE_ARM)
		return error_set(e, ERR_CORRUPT,
		        "32-bit Arm code of PE files cannot be disassembled: nothing tells where jump tables lie in "
		        "it");
	if (!pe_file_known(pe))
		return error_set(e, ERR_CORRUPT,
		        "this machine's code cannot be disassembled: in PE files only x86 and AArch64 can");
	if (!machine)
		return error_set(e, ERR_MISSING,
		        "this file has code for two machines, and does not say which one is at this address");
	uint64_t end = d->to_function_end && machine == pe->machine ? pe_file_function_end(pe, d->start) : 0;
	if (end > d->start && end - d->start > wanted)
		wanted = end - d->start < DISASSEMBLE_MAX ? (size_t)(end - d->start) : DISASSEMBLE_MAX;
	uint8_t *bytes = malloc(wanted + ZYDIS_MAX_INSTRUCTION_LENGTH);
	if (!bytes)
		return no_memory(e);
	enum err err = pe_file_code(pe, d->start, bytes, wanted + ZYDIS_MAX_INSTRUCTION_LENGTH, &len, e);
	if (!err)
		err = open_pe(&r, machine, e);
	if (!err && len > other - d->start)
		len = (size_t)(other - d->start);
	if (!err)
		err = read_code(&r, bytes, len, wanted < len ? wanted : len, e);
	arm_decoder_close(&r.arm);
	free(bytes);
	return err;
}

enum err disassemble(const char *path, struct disassembly *d, struct error *e)
{
	struct ids ids;
	struct code_reader r = {.d = d, .file = {.fd = -1}};
	enum err err = elf_file_open(&r.file, path, e);
	if (err)
		return err;
	ids_read(&ids, r.file.elf);
	r.image_base = ids.image_base;
	err = code_map_read(&r.code, r.file.elf, e);
	if (!err)
		err = symbol_files_open(&r.tables, r.file.elf, "", NULL, e);
	if (!err)
		err = symbol_names_read(&r.names, &r.tables, &r.code, e);
	r.names.names.whole = true;
	if (!err)
		err = read_range(&r, e);
	arm_decoder_close(&r.arm);
	symbol_names_release(&r.names);
	symbol_files_close(&r.tables);
	code_map_release(&r.code);
	elf_file_close(&r.file);
	return err;
}
