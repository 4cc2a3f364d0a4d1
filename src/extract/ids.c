/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/ids.h"

#include <errno.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extract/elf_file.h"

enum {
	NOTE_GO_BUILD_ID = 4,
	TEXT_BYTES = 4096, /* of .text that a debug id is made of */
};

static bool is_printable(const char *text, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (text[i] < ' ' || text[i] > '~')
			return false;
	return true;
}

static void take_note(struct ids *ids, uint32_t type, const char *name, const uint8_t *value, size_t len)
{
	if (type == NT_GNU_BUILD_ID && memcmp(name, "GNU", 4) == 0 && !ids->build_id.len && len <= BUILD_ID_MAX) {
		memcpy(ids->build_id.bytes, value, len);
		ids->build_id.len = len;
	} else if (type == NOTE_GO_BUILD_ID && memcmp(name, "Go\0", 4) == 0 && !ids->go_build_id[0] &&
	           len <= GO_BUILD_ID_MAX && is_printable((const char *)value, len)) {
		memcpy(ids->go_build_id, value, len);
		ids->go_build_id[len] = 0;
	}
}

static void read_notes(struct ids *ids, Elf_Data *data)
{
	GElf_Nhdr note;
	size_t name, value;
	for (size_t at = 0; data && (at = gelf_getnote(data, at, &note, &name, &value)) > 0;)
		if (note.n_namesz == 4)
			take_note(ids, note.n_type, (const char *)data->d_buf + name,
			        (const uint8_t *)data->d_buf + value, note.n_descsz);
}

/* A debug file's segments lie elsewhere than its program headers say; its sections do not. */
static void read_sections(struct ids *ids, Elf *elf)
{
	GElf_Shdr header;
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s))
		if (gelf_getshdr(s, &header) && header.sh_type == SHT_NOTE)
			read_notes(ids, elf_getdata(s, NULL));
}

static void read_segments(struct ids *ids, Elf *elf)
{
	GElf_Phdr header;
	size_t count;
	if (elf_getphdrnum(elf, &count) != 0)
		return;
	for (size_t i = 0; i < count && i <= INT32_MAX && gelf_getphdr(elf, (int)i, &header); i++) {
		Elf_Type type = header.p_align == 8 ? ELF_T_NHDR8 : ELF_T_NHDR;
		if (header.p_type == PT_NOTE && header.p_offset <= INT64_MAX)
			read_notes(ids, elf_getdata_rawchunk(elf, (int64_t)header.p_offset, header.p_filesz, type));
	}
}

/* Breakpad's for a file without a build id: its first code, folded. Zeros are no id: reports say so of unknown files.
 */
static bool fold_text(uint8_t id[GUID_BYTES], Elf *elf)
{
	Elf_Scn *text = elf_find_section(elf, ".text");
	Elf_Data *data = text ? elf_rawdata(text, NULL) : NULL;
	uint8_t any = 0;
	if (!data || !data->d_buf)
		return false;
	for (size_t i = 0; i < data->d_size && i < TEXT_BYTES; i++)
		id[i % GUID_BYTES] ^= ((const uint8_t *)data->d_buf)[i];
	for (size_t i = 0; i < GUID_BYTES; i++)
		any |= id[i];
	return any;
}

/* The numbers of a GUID are little-endian ones there, and big-endian ones in its text. The last digit is the age. */
static void make_debug_id(struct ids *ids, Elf *elf)
{
	uint8_t id[GUID_BYTES] = {0};
	const char *ident = elf_getident(elf, NULL);
	bool swapped = ident && ident[EI_DATA] == ELFDATA2LSB && ids->view_kind != VIEW_MACHO;
	if (ids->view_kind && ids->build_id.len < GUID_BYTES)
		return;
	memcpy(id, ids->build_id.bytes, GUID_BYTES);
	if (!ident || (!ids->build_id.len && !fold_text(id, elf)))
		return;
	if (!ids->build_id.len) {
		memcpy(ids->found_by.bytes, id, GUID_BYTES);
		ids->found_by.len = GUID_BYTES;
	}
	for (size_t i = 0; i < GUID_BYTES; i++)
		snprintf(ids->debug_id + 2 * i, 3, "%02X", id[swapped ? guid_order[i] : i]);
	const uint8_t *age = ids->build_id.bytes + GUID_BYTES; /* zeros but for Windows */
	snprintf(ids->debug_id + DEBUG_ID_GUID, 9, "%x", ids->view_kind == VIEW_WINDOWS ? big_u32(age) : 0);
}

/* The address that the loader maps first, from the beginning of its page. */
static uint64_t image_base(Elf *elf)
{
	enum { PAGE_MASK = 4096 - 1 };
	GElf_Phdr header;
	size_t count;
	if (elf_getphdrnum(elf, &count) != 0)
		return 0;
	for (size_t i = 0; i < count && i <= INT32_MAX && gelf_getphdr(elf, (int)i, &header); i++)
		if (header.p_type == PT_LOAD)
			return header.p_vaddr & ~(uint64_t)PAGE_MASK;
	return 0;
}

void ids_read(struct ids *ids, Elf *elf)
{
	*ids = (struct ids){.image_base = image_base(elf),
	        .view_kind = elf_view_kind(elf),
	        .is_package = elf_find_section(elf, ".debug_cu_index") != NULL};
	read_sections(ids, elf);
	if (!ids->build_id.len || !ids->go_build_id[0])
		read_segments(ids, elf);
	ids->found_by = ids->build_id;
	make_debug_id(ids, elf);
}

/* May be the beginning of a file only. */
static enum err open_fd(struct elf_file *f, int fd, const struct view_wanted *wanted, struct error *e)
{
	elf_version(EV_CURRENT);
	*f = (struct elf_file){.fd = -1};
	enum err err = view_open(&f->view, fd, wanted, e);
	if (err)
		return err == ERR_CORRUPT ? (e ? (e->code = ERR_MISSING) : ERR_MISSING) : err;
	f->elf = f->view.bytes ? elf_memory(f->view.bytes, f->view.len) : elf_begin(fd, ELF_C_READ_MMAP, NULL);
	if (f->elf && elf_kind(f->elf) == ELF_K_ELF)
		return ERR_OK;
	elf_file_close(f);
	return error_set(e, ERR_MISSING, "not an ELF, Mach-O, PE or PDB file");
}

enum err ids_of_fd(struct ids *ids, int fd, const struct view_wanted *wanted, struct error *e)
{
	struct elf_file f;
	struct view_wanted alone = wanted ? *wanted : (struct view_wanted){.base = 0};
	alone.no_symbols = true;
	enum err err = open_fd(&f, fd, &alone, e);
	if (err)
		return err;
	ids_read(ids, f.elf);
	elf_file_close(&f);
	return ERR_OK;
}

/* Whether the code is here, and not left out as in a debug file. */
static bool has_code(Elf *elf)
{
	GElf_Shdr header;
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s))
		if (gelf_getshdr(s, &header) && header.sh_flags & SHF_EXECINSTR)
			return header.sh_type != SHT_NOBITS;
	return false;
}

void segments_read(struct load_segments *s, Elf *elf)
{
	GElf_Phdr header;
	size_t count;
	s->count = 0;
	if (elf_getphdrnum(elf, &count) != 0)
		return;
	for (size_t i = 0; i < count && i <= INT32_MAX && gelf_getphdr(elf, (int)i, &header); i++) {
		if (header.p_type != PT_LOAD)
			continue;
		bool cut = header.p_flags & PF_X && header.p_filesz < header.p_memsz && !has_code(elf);
		if (cut || s->count == LOAD_SEGMENTS_MAX) {
			s->count = 0;
			return;
		}
		s->items[s->count++] =
		        (struct load_segment){header.p_offset, header.p_vaddr, header.p_filesz, header.p_memsz};
	}
}

void segments_of_fd(struct load_segments *s, int fd, const struct view_wanted *wanted)
{
	struct elf_file f;
	s->count = 0;
	if (open_fd(&f, fd, wanted, NULL))
		return;
	segments_read(s, f.elf);
	elf_file_close(&f);
}

static enum err read_at(int fd, uint8_t *to, size_t len, off_t offset, struct error *e)
{
	ssize_t n = pread(fd, to, len, offset);
	if (n < 0)
		return error_set(e, ERR_IO, "cannot read the file: %s", strerror(errno));
	return (size_t)n == len ? ERR_OK : error_set(e, ERR_IO, "the file became shorter while it was read");
}

enum err file_id_of_fd(struct file_id *id, int fd, const struct build_id *slice, struct error *e)
{
	uint8_t ends[2 * FILE_ID_END];
	const struct build_id whole = {.len = 0};
	struct stat st;
	uint64_t at, size;
	if (fstat(fd, &st) != 0)
		return error_set(e, ERR_IO, "cannot read the file: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(e, ERR_IO, "not a regular file");
	enum err err = view_slice_place(fd, slice ? slice : &whole, &at, &size, e);
	if (err)
		return err;
	size_t len = size < FILE_ID_END ? (size_t)size : FILE_ID_END;
	err = read_at(fd, ends, len, (off_t)at, e);
	if (!err)
		err = read_at(fd, ends + len, len, (off_t)(at + size - len), e);
	if (!err && !file_id_make(id, ends, 2 * len, size))
		err = error_set(e, ERR_NO_MEMORY, "SHA-256 failed");
	return err;
}
