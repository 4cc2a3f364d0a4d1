/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/function_address.h"

#include <gelf.h>
#include <string.h>

#include "extract/elf_file.h"

static bool find_in_table(Elf *elf, const char *section, const char *name, uint64_t *address)
{
	GElf_Shdr header;
	GElf_Sym symbol;
	Elf_Scn *found = elf_find_section(elf, section);
	Elf_Data *data = found ? elf_getdata(found, NULL) : NULL;
	if (!data || !gelf_getshdr(found, &header) || !header.sh_entsize)
		return false;
	for (size_t i = 0; i < data->d_size / header.sh_entsize && gelf_getsym(data, (int)i, &symbol); i++) {
		const char *other = elf_strptr(elf, header.sh_link, symbol.st_name);
		if (symbol.st_shndx == SHN_UNDEF || GELF_ST_TYPE(symbol.st_info) > STT_FUNC || !other ||
		        strcmp(other, name) != 0)
			continue;
		*address = symbol.st_value;
		return true;
	}
	return false;
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
