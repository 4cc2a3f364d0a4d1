/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/elf_file.h"

#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

static enum err check_type(Elf *elf, const char *path, struct error *e)
{
	GElf_Ehdr header;
	gelf_getehdr(elf, &header);
	if (header.e_type == ET_REL)
		return error_set(e, ERR_CORRUPT,
		        "%s: not linked, such as a kernel module or an object file: its code has no addresses yet",
		        path);
	if (header.e_type != ET_EXEC && header.e_type != ET_DYN)
		return error_set(e, ERR_CORRUPT, "%s: not an executable or shared library", path);
	return ERR_OK;
}

/* A process that may open nothing names its descriptors like this. */
static int open_path(const char *path)
{
	static const char own[] = "/dev/fd/";
	const char *number = path + sizeof own - 1;
	if (strncmp(path, own, sizeof own - 1) == 0 && number[strspn(number, "0123456789")] == 0)
		return fcntl(atoi(number), F_DUPFD_CLOEXEC, 0);
	return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static int open_regular(const char *path, struct error *e)
{
	struct stat st;
	int fd = open_path(path);
	bool known = fd >= 0 && fstat(fd, &st) == 0;
	if (known && S_ISREG(st.st_mode))
		return fd;
	error_set(e, ERR_IO, "%s: %s", path, known ? "not a regular file" : strerror(errno));
	if (fd >= 0)
		close(fd);
	return -1;
}

static bool is_elf(Elf *elf)
{
	GElf_Ehdr header;
	return elf && elf_kind(elf) == ELF_K_ELF && gelf_getehdr(elf, &header);
}

/* Section headers are the last thing in a file that linkers write. */
static bool is_cut(const struct elf_file *f)
{
	GElf_Ehdr header;
	struct stat st;
	if (!gelf_getehdr(f->elf, &header) || header.e_shoff == 0 || fstat(f->fd, &st) != 0)
		return false;
	uint64_t size = (uint64_t)st.st_size, count = header.e_shnum > 0 ? header.e_shnum : 1;
	return header.e_shoff > size || count * header.e_shentsize > size - header.e_shoff;
}

/* Says what it is instead. */
static enum err refuse(const struct elf_file *f, const char *path, struct error *e)
{
	uint8_t head[64];
	ssize_t n = pread(f->fd, head, sizeof head, 0);
	const char *why = file_format_refused(head, n > 0 ? (size_t)n : 0);
	return why ? error_set(e, ERR_CORRUPT, "%s: %s", path, why)
	           : error_set(e, ERR_CORRUPT, "%s: not an ELF, Mach-O, PE or PDB file", path);
}

static enum err open_as(struct elf_file *f, const char *path, const struct view_wanted *wanted, struct error *e)
{
	struct error why;
	elf_version(EV_CURRENT);
	*f = (struct elf_file){.fd = open_regular(path, e)};
	if (f->fd < 0)
		return ERR_IO;
	enum err err = view_open(&f->view, f->fd, wanted, &why);
	if (err)
		error_set(e, err, "%s: %.200s", path, why.text);
	else
		f->elf = f->view.bytes ? elf_memory(f->view.bytes, f->view.len)
		                       : elf_begin(f->fd, ELF_C_READ_MMAP, NULL);
	if (!err && !is_elf(f->elf))
		err = refuse(f, path, e);
	else if (!err && f->view.cut)
		err = error_set(e, ERR_CORRUPT, "%s: cut off: the file ends within a segment", path);
	else if (!err && !f->view.bytes && is_cut(f))
		err = error_set(e, ERR_CORRUPT, "%s: cut off: the file ends before its section headers", path);
	if (err)
		elf_file_close(f);
	return err;
}

enum err elf_file_open_any(struct elf_file *f, const char *path, struct error *e)
{
	return open_as(f, path, &(struct view_wanted){.no_symbols = true}, e);
}

enum err elf_file_open(struct elf_file *f, const char *path, struct error *e)
{
	return elf_file_open_as(f, path, NULL, e);
}

enum err elf_file_open_as(struct elf_file *f, const char *path, const struct view_wanted *wanted, struct error *e)
{
	enum err err = open_as(f, path, wanted, e);
	if (err)
		return err;
	err = check_type(f->elf, path, e);
	if (err)
		elf_file_close(f);
	return err;
}

void elf_file_close(struct elf_file *f)
{
	elf_end(f->elf);
	view_close(&f->view);
	if (f->fd >= 0)
		close(f->fd);
	*f = (struct elf_file){.fd = -1};
}

/* ".zdebug_x" is the same as ".debug_x". */
static bool same_name(const char *have, const char *want)
{
	if (strncmp(have, ".zdebug_", 8) == 0 && strncmp(want, ".debug_", 7) == 0)
		return strcmp(have + 8, want + 7) == 0;
	return strcmp(have, want) == 0;
}

Elf_Scn *elf_find_section(Elf *elf, const char *name)
{
	size_t strings;
	if (elf_getshdrstrndx(elf, &strings) != 0)
		return NULL;
	for (Elf_Scn *s = elf_nextscn(elf, NULL); s; s = elf_nextscn(elf, s)) {
		GElf_Shdr header;
		const char *have = gelf_getshdr(s, &header) ? elf_strptr(elf, strings, header.sh_name) : NULL;
		if (have && same_name(have, name))
			return s;
	}
	return NULL;
}

struct str elf_section_bytes(Elf *elf, const char *name)
{
	Elf_Scn *s = elf_find_section(elf, name);
	Elf_Data *data = s ? elf_getdata(s, NULL) : NULL;
	if (!data || !data->d_buf)
		return (struct str){"", 0};
	return (struct str){data->d_buf, data->d_size};
}

bool elf_is_big(Elf *elf)
{
	const char *ident = elf_getident(elf, NULL);
	return ident && ident[EI_DATA] == ELFDATA2MSB;
}

unsigned elf_view_kind(Elf *elf)
{
	const char *ident = elf_getident(elf, NULL);
	unsigned kind = ident ? (unsigned char)ident[EI_OSABI] : 0;
	return kind == VIEW_MACHO || kind == VIEW_WINDOWS ? kind : 0;
}

bool elf_has_dwarf(Elf *elf)
{
	GElf_Shdr header;
	Elf_Scn *s = elf_find_section(elf, ".debug_info");
	return s && gelf_getshdr(s, &header) && header.sh_type != SHT_NOBITS && header.sh_size > 0;
}
