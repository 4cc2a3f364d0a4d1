/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: Go's table of functions, in a program around it: what is read of it is sound, and not more than its code.
 */
#include <config.h>

#include <elf.h>

#include "extract/go_records.h"
#include "fuzz.h"

enum { TEXT = 0x401000, TEXT_BYTES = 16 << 10, TABLE = 0x500000, MODULE = 0x600000, MODULE_WORDS = 41, SECTIONS = 5 };

static const char section_names[] = "\0.text\0.gopclntab\0.noptrdata\0.shstrtab";

struct program {
	uint8_t *bytes;
	size_t len, cap;
};

static uint64_t append(struct program *p, const void *data, size_t n)
{
	uint64_t at = p->len;
	fuzz_check(p->cap - p->len >= n, "room");
	if (n)
		memcpy(p->bytes + p->len, data, n);
	p->len += n;
	return at;
}

/* The runtime's moduledata, as the table's own header has it; inlined calls are in the table. */
static void make_module(uint64_t module[MODULE_WORDS], const uint8_t *data, size_t size)
{
	uint64_t fields[9] = {0};
	if (size > 8)
		memcpy(fields, data + 8, size - 8 < sizeof fields ? size - 8 : sizeof fields);
	module[0] = TABLE;
	module[1] = TABLE + fields[3];
	module[16] = TABLE + fields[7];
	module[22] = TEXT;
	module[38] = module[40] = TABLE;
}

static struct program make_program(const uint8_t *data, size_t size)
{
	struct program p = {.cap = size + TEXT_BYTES + 4096};
	static uint8_t text[TEXT_BYTES];
	uint64_t module[MODULE_WORDS] = {0};
	Elf64_Ehdr header = {.e_type = ET_EXEC,
	        .e_machine = EM_X86_64,
	        .e_version = EV_CURRENT,
	        .e_ehsize = sizeof header,
	        .e_shentsize = sizeof(Elf64_Shdr),
	        .e_shnum = SECTIONS,
	        .e_shstrndx = SECTIONS - 1};
	memcpy(header.e_ident, ELFMAG "\2\1\1", 7);
	for (size_t i = 0; i < TEXT_BYTES; i++)
		text[i] = i % 16 == 8 ? 0xe8 : 0x90; /* calls among nops */
	make_module(module, data, size);
	p.bytes = calloc(1, p.cap);
	fuzz_check(p.bytes, "no memory");
	append(&p, &header, sizeof header);
	Elf64_Shdr sections[SECTIONS] = {{0},
	        {1, SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR, TEXT, append(&p, text, TEXT_BYTES), TEXT_BYTES, 0, 0, 16,
	                0},
	        {7, SHT_PROGBITS, SHF_ALLOC, TABLE, append(&p, data, size), size, 0, 0, 1, 0},
	        {18, SHT_PROGBITS, SHF_ALLOC | SHF_WRITE, MODULE, append(&p, module, sizeof module), sizeof module, 0,
	                0, 1, 0},
	        {29, SHT_STRTAB, 0, 0, append(&p, section_names, sizeof section_names), sizeof section_names, 0, 0, 1,
	                0}};
	p.len += -p.len % 8;
	header.e_shoff = append(&p, sections, sizeof sections);
	memcpy(p.bytes, &header, sizeof header);
	return p;
}

static void check_ranges(const struct result *r)
{
	for (size_t i = 0; i < r->range_count; i++) {
		const struct symbfile_range *range = &r->ranges[i];
		fuzz_check(range->va >= TEXT && range->va + range->length <= TEXT + TEXT_BYTES,
		        "a range outside the code");
		fuzz_check(range->length > 0 && range->depth <= INLINE_DEPTH_MAX, "a range of nothing");
		for (size_t k = 0; k < range->line_count; k++)
			fuzz_check(range->lines[k].offset < range->length, "a line outside its range");
	}
	for (size_t i = 0; i < r->pad_count; i++)
		fuzz_check(r->pads[i].count > 0 && r->pads[i].count <= INLINE_DEPTH_MAX + 1, "frames of a pad");
}

static void read_all(Elf *elf)
{
	static struct go_reader g;
	struct code_map code;
	struct coverage coverage;
	struct error e = {0};
	fuzz_check(
	        code_map_read(&code, elf, &e) == ERR_OK && coverage_init(&coverage, &code, &e) == ERR_OK, "a program");
	enum err err = go_reader_open(&g, elf, &code, &coverage, true, &e);
	for (size_t next = 0; err == ERR_OK && next < g.table.count;) {
		struct result *r = result_new();
		size_t before = next;
		fuzz_check(r && go_reader_read(&g, &next, r, &e) == ERR_OK && next > before, "an error within");
		check_ranges(r);
		result_free(r);
	}
	fuzz_check(err == ERR_OK || (err == ERR_MISSING && e.text[0]), "an error without a text");
	go_reader_close(&g);
	coverage_release(&coverage);
	code_map_release(&code);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct program p = make_program(data, size);
	elf_version(EV_CURRENT);
	Elf *elf = elf_memory((char *)p.bytes, p.len);
	fuzz_check(elf, "no ELF");
	read_all(elf);
	elf_end(elf);
	free(p.bytes);
	return 0;
}
