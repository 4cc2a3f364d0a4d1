/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/function_address.h"

#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "extract/elf_file.h"

enum { PADDING_MAX = 64 }; /* bytes behind a function, to where the next one is aligned */

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

/* Of a function for Thumb, symbols have the lowest bit set, too. */
static uint64_t address_of(const GElf_Ehdr *file, const GElf_Sym *symbol)
{
	bool thumb = file->e_machine == EM_ARM && GELF_ST_TYPE(symbol->st_info) == STT_FUNC;
	return symbol->st_value & ~(uint64_t)thumb;
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
		*address = address_of(&file, &symbol);
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

struct function_table {
	struct elf_file file;
	struct named_function {
		const char *name; /* in the file */
		uint64_t address, size;
	} * items;
	uint32_t count, cap;
};

static int by_name(const void *a, const void *b)
{
	const struct named_function *x = a, *y = b;
	int order = strcmp(x->name, y->name);
	return order ? order : (x->address > y->address) - (x->address < y->address);
}

static bool add_functions(struct function_table *f)
{
	GElf_Ehdr file;
	GElf_Shdr header;
	GElf_Sym symbol;
	Elf_Scn *table = elf_find_section(f->file.elf, ".symtab");
	Elf_Data *data = table ? elf_getdata(table, NULL) : NULL;
	if (!data || !gelf_getehdr(f->file.elf, &file) || !gelf_getshdr(table, &header) || !header.sh_entsize)
		return false;
	for (size_t i = 0; i < data->d_size / header.sh_entsize && gelf_getsym(data, (int)i, &symbol); i++) {
		const char *name = worth(&symbol) ? elf_strptr(f->file.elf, header.sh_link, symbol.st_name) : NULL;
		if (!name || !*name || GELF_ST_TYPE(symbol.st_info) == STT_OBJECT)
			continue;
		if (!array_reserve(&f->items, &f->cap, f->count + (size_t)1, sizeof *f->items))
			return false;
		f->items[f->count++] = (struct named_function){name, address_of(&file, &symbol), symbol.st_size};
	}
	if (f->count)
		qsort(f->items, f->count, sizeof *f->items, by_name);
	return true;
}

struct function_table *function_table_read(const char *path)
{
	struct error ignored;
	struct function_table *f = calloc(1, sizeof *f);
	if (f && elf_file_open(&f->file, path, &ignored)) {
		free(f);
		return NULL;
	}
	if (f && !add_functions(f)) {
		function_table_free(f);
		return NULL;
	}
	return f;
}

void function_table_free(struct function_table *f)
{
	if (!f)
		return;
	elf_file_close(&f->file);
	free(f->items);
	free(f);
}

static int compare_names(struct str name, const char *other)
{
	int order = strncmp(name.data, other, name.len);
	return order ? order : other[name.len] ? -1 : 0;
}

/* The kernel counts what stands behind a function up to the next symbol as its own. */
static bool has_size(const struct function_table *f, const struct named_function *item, uint64_t size)
{
	uint64_t next = UINT64_MAX;
	if (!item->size || (item->size <= size && size - item->size < PADDING_MAX))
		return true;
	for (uint32_t i = 0; i < f->count; i++)
		if (f->items[i].address > item->address && f->items[i].address < next)
			next = f->items[i].address;
	return size == next - item->address;
}

bool function_table_find(const struct function_table *f, struct str name, uint64_t size, uint64_t *address)
{
	size_t from = 0, to = f->count, found = 0;
	while (from < to) {
		size_t middle = from + (to - from) / 2;
		if (compare_names(name, f->items[middle].name) > 0)
			from = middle + 1;
		else
			to = middle;
	}
	for (; from < f->count && compare_names(name, f->items[from].name) == 0; from++) {
		const struct named_function *item = &f->items[from];
		if ((found && item->address == *address) || !has_size(f, item, size))
			continue; /* another symbol of the same function, or another function */
		*address = item->address;
		found++;
	}
	return found == 1;
}
