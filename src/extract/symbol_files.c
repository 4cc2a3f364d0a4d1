/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/symbol_files.h"

#include <string.h>

static void add_table(struct symbol_files *f, Elf *elf, const char *section)
{
	f->tables[f->count++] = (struct symbol_table){elf, section};
}

enum err symbol_files_open(
        struct symbol_files *f, Elf *elf, const char *debug_path, const struct view_wanted *wanted, struct error *e)
{
	enum err err = ERR_OK;
	*f = (struct symbol_files){.debug = {.fd = -1}};
	if (debug_path[0])
		err = elf_file_open_as(&f->debug, debug_path, wanted, e);
	if (err)
		return err;
	if (f->debug.elf)
		add_table(f, f->debug.elf, ".symtab");
	add_table(f, elf, ".symtab");
	add_table(f, elf, ".dynsym");
	if (!f->debug.elf && !elf_find_section(elf, ".symtab"))
		err = mini_debug_open(&f->mini, elf, &f->mini_error);
	if (f->mini.elf)
		add_table(f, f->mini.elf, ".symtab");
	return err == ERR_NO_MEMORY ? no_memory(e) : ERR_OK;
}

bool symbol_files_have_symtab(const struct symbol_files *f)
{
	bool any = false;
	for (size_t i = 0; i < f->count; i++)
		any = any ||
		      (strcmp(f->tables[i].section, ".symtab") == 0 && elf_find_section(f->tables[i].elf, ".symtab"));
	return any;
}

void symbol_files_close(struct symbol_files *f)
{
	if (f->debug.elf)
		elf_file_close(&f->debug);
	mini_debug_close(&f->mini);
	*f = (struct symbol_files){.debug = {.fd = -1}};
}
