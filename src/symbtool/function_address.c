/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/function_address.h"

#include <gelf.h>
#include <string.h>

#include "extract/elf_file.h"

/* How likely a symbol is the one that is meant, 0: not at all. A variable of one file may have the name of another's
 * function, and a local function that of a global one. */
static int worth(const GElf_Sym *symbol)
{
	unsigned type = GELF_ST_TYPE(symbol->st_info);
	bool function = type == STT_FUNC || type == STT_GNU_IFUNC;
	if (symbol->st_shndx == SHN_UNDEF || (type > STT_FUNC && !function))
		return 0;
	return 1 + 2 * (function ? 2 : type == STT_NOTYPE) + (GELF_ST_BIND(symbol->st_info) != STB_LOCAL);
}

static bool find_in_table(Elf *elf, const char *section, const char *name, uint64_t *address)
{
	GElf_Ehdr file;
	GElf_Shdr header;
	GElf_Sym symbol;
	int best = 0;
	Elf_Scn *found = elf_find_section(elf, section);
	Elf_Data *data = found ? elf_getdata(found, NULL) : NULL;
	if (!data || !gelf_getehdr(elf, &file) || !gelf_getshdr(found, &header) || !header.sh_entsize)
		return false;
	for (size_t i = 0; i < data->d_size / header.sh_entsize && gelf_getsym(data, (int)i, &symbol); i++) {
		int now = worth(&symbol);
		const char *other = now > best ? elf_strptr(elf, header.sh_link, symbol.st_name) : NULL;
		if (!other || strcmp(other, name) != 0)
			continue;
		bool thumb = file.e_machine == EM_ARM && GELF_ST_TYPE(symbol.st_info) == STT_FUNC;
		*address = symbol.st_value & ~(uint64_t)thumb;
		best = now;
	}
	return best > 0;
}

bool function_address(const char *path, const char *name, uint64_t *address)
{
	struct elf_file file;
	struct error ignored;
	if (elf_file_open(&file, path, &ignored))
		return false;
	bool found =
	        find_in_table(file.elf, ".symtab", name, address) || find_in_table(file.elf, ".dynsym", name, address);
	elf_file_close(&file);
	return found;
}
