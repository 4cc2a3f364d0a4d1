/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: an ELF file with compressed debug sections: its inflated copy can be opened, has no more than the headers
 * say, and says what libelf's own inflating does. */
#include <config.h>

#include <elfutils/libdw.h>
#include <gelf.h>
#include <sys/mman.h>
#include <unistd.h>

#include "extract/section_file.h"
#include "fuzz.h"

static int make_file(const uint8_t *data, size_t size)
{
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file in memory");
	return fd;
}

/* What libelf makes of a compressed section; it knows zlib alone, and neither damage nor more than one stream. */
static void compare(Elf *from, Elf *inflated, const char *name)
{
	GElf_Shdr header;
	Elf_Scn *s = elf_find_section(from, name);
	struct str got = elf_section_bytes(inflated, name);
	if (!s || !gelf_getshdr(s, &header) || header.sh_type != SHT_PROGBITS || !(header.sh_flags & SHF_COMPRESSED) ||
	        got.len == 0) /* of other types libelf turns the bytes round */
		return;
	if (elf_compress(s, 0, 0) < 0)
		return;
	Elf_Data *want = elf_getdata(s, NULL);
	if (!want || !want->d_buf)
		return;
	fuzz_check(want->d_size == got.len && memcmp(want->d_buf, got.data, got.len) == 0, "other bytes than libelf's");
}

static void check(const struct section_file *s, Elf *from)
{
	static const char *const names[] = {".debug_info", ".debug_abbrev", ".debug_line", ".debug_str"};
	Elf *elf;
	if (section_file_elf(s, &elf, NULL) != ERR_OK)
		return;
	Dwarf *dwarf = dwarf_begin_elf(elf, DWARF_C_READ, NULL);
	dwarf_end(dwarf);
	section_file_forget(s);
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		compare(from, elf, names[i]);
	elf_end(elf);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	struct elf_file f;
	struct section_file s;
	struct error e;
	int fd = make_file(data, size);
	snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
	if (elf_file_open_any(&f, path, &e) == ERR_OK) {
		if (section_file_open(&s, &f, &e) == ERR_OK)
			check(&s, f.elf);
		else
			fuzz_check(!s.bytes && e.text[0], "a failure without a text, or with a mapping");
		section_file_close(&s);
		elf_file_close(&f);
	}
	close(fd);
	return 0;
}
