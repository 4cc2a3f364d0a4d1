/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/headerless.h"

#include <errno.h>
#include <gelf.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "extract/dwarf_bytes.h"
#include "extract/elf_write.h"

enum {
	SEGMENTS_MAX = 64,
	NOTES_MAX = 8,
	SECTIONS_MAX = SEGMENTS_MAX + NOTES_MAX + 5,         /* none, .eh_frame_hdr, .dynsym, .dynstr, .shstrtab */
	TAIL_MAX = SECTIONS_MAX * (sizeof(Elf64_Shdr) + 32), /* bytes: headers and names */
};

struct headerless {
	Elf *elf;
	struct str file;
	bool wide, big;
	GElf_Ehdr header;
	GElf_Phdr loads[SEGMENTS_MAX]; /* each with bytes in the file */
	GElf_Phdr notes[NOTES_MAX];
	size_t load_count, note_count;
	GElf_Phdr dynamic, unwinding; /* p_filesz 0: there is none */
	bool cut;
	GElf_Shdr sections[SECTIONS_MAX];
	size_t count;
	struct buffer names;
};

/* ---- what the file has ---- */

/* As much of it as the file has. */
static uint64_t in_file(const struct headerless *h, uint64_t offset, uint64_t size)
{
	uint64_t room = offset < h->file.len ? h->file.len - offset : 0;
	return size < room ? size : room;
}

static void take_segment(struct headerless *h, GElf_Phdr p)
{
	uint64_t size = in_file(h, p.p_offset, p.p_filesz);
	h->cut |= p.p_type == PT_LOAD && size < p.p_filesz;
	p.p_filesz = size;
	if (p.p_type == PT_LOAD && size > 0 && h->load_count < SEGMENTS_MAX)
		h->loads[h->load_count++] = p;
	else if (p.p_type == PT_NOTE && size > 0 && h->note_count < NOTES_MAX)
		h->notes[h->note_count++] = p;
	else if (p.p_type == PT_DYNAMIC && size > 0)
		h->dynamic = p;
	else if (p.p_type == PT_GNU_EH_FRAME)
		h->unwinding = p;
}

static void read_segments(struct headerless *h)
{
	GElf_Phdr p;
	for (int i = 0; i < h->header.e_phnum && gelf_getphdr(h->elf, i, &p); i++)
		take_segment(h, p);
}

/* Where an address is in the file; its end: nowhere. */
static uint64_t offset_of(const struct headerless *h, uint64_t address)
{
	for (size_t i = 0; i < h->load_count; i++) {
		const GElf_Phdr *p = &h->loads[i];
		if (address >= p->p_vaddr && address - p->p_vaddr < p->p_filesz)
			return p->p_offset + (address - p->p_vaddr);
	}
	return h->file.len;
}

/* ---- symbols ---- */

struct dynamic {
	uint64_t symbols, strings, strings_size, hash, gnu_hash; /* addresses; 0: none */
};

static struct dynamic read_dynamic(const struct headerless *h)
{
	struct dynamic d = {0};
	unsigned word = h->wide ? 8 : 4;
	struct str bytes = {h->file.data + h->dynamic.p_offset, (size_t)h->dynamic.p_filesz};
	struct reader r = reader_at(bytes, 0);
	while (r.end - r.at >= 2 * word) {
		uint64_t tag = read_fixed(&r, word, h->big), value = read_fixed(&r, word, h->big), other;
		uint64_t *to = tag == DT_SYMTAB     ? &d.symbols
		               : tag == DT_STRTAB   ? &d.strings
		               : tag == DT_STRSZ    ? &d.strings_size
		               : tag == DT_HASH     ? &d.hash
		               : tag == DT_GNU_HASH ? &d.gnu_hash
		                                    : &other;
		if (tag == DT_NULL)
			break;
		*to = value;
	}
	return d;
}

/* Chains are in the order of symbols; bit 0 of a word ends one. */
static uint64_t count_by_gnu_hash(const struct headerless *h, uint64_t address)
{
	struct reader r = reader_at(h->file, offset_of(h, address));
	uint64_t buckets = read_fixed(&r, 4, h->big), first = read_fixed(&r, 4, h->big);
	uint64_t filter = read_fixed(&r, 4, h->big), last = 0;
	read_skip(&r, 4 + filter * (h->wide ? 8 : 4));
	for (uint64_t i = 0; i < buckets && !r.bad; i++) {
		uint64_t bucket = read_fixed(&r, 4, h->big);
		last = bucket > last ? bucket : last;
	}
	if (r.bad || last < first)
		return r.bad ? 0 : first;
	read_skip(&r, (last - first) * 4);
	while (!(read_fixed(&r, 4, h->big) & 1) && !r.bad)
		last++;
	return r.bad ? 0 : last + 1;
}

static uint64_t count_by_hash(const struct headerless *h, uint64_t address)
{
	unsigned word = h->wide && h->header.e_machine == EM_S390 ? 8 : 4;
	struct reader r = reader_at(h->file, offset_of(h, address));
	read_skip(&r, word);
	return read_fixed(&r, word, h->big);
}

/* ---- sections ---- */

static void add_section(struct headerless *h, const char *name, GElf_Shdr s)
{
	s.sh_name = (GElf_Word)h->names.len;
	buffer_append(&h->names, name, strlen(name) + 1);
	h->sections[h->count++] = s;
}

static void add_segment(struct headerless *h, const char *name, uint32_t type, uint64_t flags, const GElf_Phdr *p)
{
	add_section(h, name,
	        (GElf_Shdr){.sh_type = type,
	                .sh_flags = flags,
	                .sh_addr = p->p_vaddr,
	                .sh_offset = p->p_offset,
	                .sh_size = p->p_filesz,
	                .sh_addralign = p->p_align == 8 ? 8 : 4});
}

static void add_segments(struct headerless *h)
{
	for (size_t i = 0; i < h->load_count; i++) {
		const GElf_Phdr *p = &h->loads[i];
		uint64_t writable = p->p_flags & PF_W ? SHF_WRITE : 0U;
		if (p->p_flags & PF_X)
			add_segment(h, ".code", SHT_PROGBITS, SHF_ALLOC | SHF_EXECINSTR | writable, p);
		else
			add_segment(h, ".data", SHT_PROGBITS, SHF_ALLOC | writable, p);
	}
	for (size_t i = 0; i < h->note_count; i++)
		add_segment(h, ".note", SHT_NOTE, 0, &h->notes[i]);
	if (h->unwinding.p_filesz > 0)
		add_segment(h, ".eh_frame_hdr", SHT_PROGBITS, 0, &h->unwinding);
}

static void add_symbols(struct headerless *h)
{
	const struct dynamic d = read_dynamic(h);
	uint64_t symbols = offset_of(h, d.symbols), strings = offset_of(h, d.strings);
	uint64_t size = h->wide ? sizeof(Elf64_Sym) : sizeof(Elf32_Sym);
	uint64_t count = d.gnu_hash ? count_by_gnu_hash(h, d.gnu_hash) : d.hash ? count_by_hash(h, d.hash) : 0;
	uint64_t room = (h->file.len - symbols) / size;
	if (!d.symbols || !d.strings || count == 0 || room == 0 || in_file(h, strings, d.strings_size) == 0)
		return;
	add_section(h, ".dynsym",
	        (GElf_Shdr){.sh_type = SHT_DYNSYM,
	                .sh_offset = symbols,
	                .sh_size = (count < room ? count : room) * size,
	                .sh_entsize = size,
	                .sh_link = (GElf_Word)h->count + 1});
	add_section(h, ".dynstr",
	        (GElf_Shdr){
	                .sh_type = SHT_STRTAB, .sh_offset = strings, .sh_size = in_file(h, strings, d.strings_size)});
}

/* ---- the view ---- */

/* The file with its header changed, and behind it the names of sections and their headers. */
static enum err make_view(struct headerless *h, struct view *v, int fd, struct error *e)
{
	uint64_t at = view_tail(h->file.len);
	struct buffer head, tail;
	buffer_init(&head, sizeof(Elf64_Ehdr));
	buffer_init(&tail, TAIL_MAX);
	add_section(h, "", (GElf_Shdr){.sh_type = SHT_NULL});
	add_segments(h);
	add_symbols(h);
	add_section(h, ".shstrtab", (GElf_Shdr){.sh_type = SHT_STRTAB, .sh_offset = at});
	h->sections[h->count - 1].sh_size = h->names.len;
	buffer_append(&tail, h->names.data, h->names.len);
	buffer_append(&tail, "\0\0\0\0\0\0\0", -tail.len % 8);
	h->header.e_shoff = at + tail.len;
	h->header.e_shnum = (GElf_Half)h->count;
	h->header.e_shstrndx = (GElf_Half)(h->count - 1);
	elf_write_header(&head, &h->header);
	for (size_t i = 0; i < h->count; i++)
		elf_write_section(&tail, &h->header, &h->sections[i]);
	bool failed = head.failed || tail.failed || h->names.failed;
	enum err err = failed ? no_memory(e) : view_map(v, fd, h->file, &head, &tail, e);
	v->cut = h->cut;
	buffer_release(&head);
	buffer_release(&tail);
	return err;
}

static bool begins_headerless(int fd)
{
	GElf_Ehdr header;
	Elf *elf = elf_begin(fd, ELF_C_READ, NULL);
	bool is = elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header) && header.e_shoff == 0 &&
	          (header.e_type == ET_EXEC || header.e_type == ET_DYN);
	elf_end(elf);
	return is;
}

enum err headerless_open(struct view *v, int fd, struct error *e)
{
	struct headerless h = {0};
	struct stat st;
	if (!begins_headerless(fd) || fstat(fd, &st) != 0)
		return ERR_OK;
	size_t len = (size_t)st.st_size;
	char *file = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return error_set(e, errno == ENOMEM ? ERR_NO_MEMORY : ERR_IO, "%s", strerror(errno));
	h.file = (struct str){file, len};
	h.elf = elf_memory(file, len);
	buffer_init(&h.names, TAIL_MAX);
	enum err err = ERR_OK;
	if (h.elf && gelf_getehdr(h.elf, &h.header)) {
		h.wide = h.header.e_ident[EI_CLASS] == ELFCLASS64;
		h.big = h.header.e_ident[EI_DATA] == ELFDATA2MSB;
		read_segments(&h);
		err = make_view(&h, v, fd, e);
	}
	buffer_release(&h.names);
	elf_end(h.elf);
	munmap(file, len);
	return err;
}
