/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/split.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char *const part_names[SPLIT_PARTS] = {
        ".debug_info.dwo", ".debug_abbrev.dwo", ".debug_str.dwo", ".debug_str_offsets.dwo", ".debug_rnglists.dwo"};

static bool is_big(Elf *elf)
{
	const char *ident = elf_getident(elf, NULL);
	return ident && ident[EI_DATA] == ELFDATA2MSB;
}

static void read_parts(struct str parts[SPLIT_PARTS], Elf *elf)
{
	for (int i = 0; i < SPLIT_PARTS; i++)
		parts[i] = elf_section_bytes(elf, part_names[i]);
}

/* ---- files ---- */

static enum err open_file(struct section_file *file, Elf **elf, const char *path, struct error *e)
{
	struct elf_file f;
	enum err err = elf_file_open_any(&f, path, e);
	if (err)
		return ERR_MISSING;
	err = section_file_open(file, &f, e);
	elf_file_close(&f);
	if (err)
		return err;
	err = section_file_elf(file, elf, e);
	if (err)
		section_file_close(file);
	return err;
}

static bool open_package(struct split_source *s, const char *path)
{
	if (open_file(&s->package, &s->package_elf, path, NULL))
		return false;
	read_parts(s->package_parts, s->package_elf);
	split_index_read(&s->index, elf_section_bytes(s->package_elf, ".debug_cu_index"), is_big(s->package_elf));
	return true;
}

static const char *base_name(const char *path)
{
	const char *slash = strrchr(path, '/');
	return slash ? slash + 1 : path;
}

/* The directory of a file, with its slash; empty when it cannot be told. */
static void directory_of(char out[PATH_MAX], const char *path)
{
	char *real = realpath(path, NULL);
	int len = real ? (int)(base_name(real) - real) : 0;
	snprintf(out, PATH_MAX, "%.*s", len, real ? real : "");
	free(real);
}

static bool package_at(struct split_source *s, const char *dir, const char *more, const char *base)
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s%s%s.dwp", dir, more, base) < PATH_MAX && open_package(s, path);
}

void split_source_open(struct split_source *s, const char *program, const char *dwarf_path, const char *debug_dir)
{
	char dir[PATH_MAX];
	*s = (struct split_source){.program = program, .dwarf_path = dwarf_path, .debug_dir = debug_dir};
	pthread_mutex_init(&s->lock, NULL);
	directory_of(dir, program);
	if (package_at(s, "", "", program) || package_at(s, "", "", dwarf_path) ||
	        package_at(s, debug_dir, dir, base_name(program)) || package_at(s, debug_dir, "/", base_name(program)))
		return;
}

void split_source_close(struct split_source *s)
{
	if (!s->program)
		return;
	elf_end(s->package_elf);
	section_file_close(&s->package);
	pthread_mutex_destroy(&s->lock);
	*s = (struct split_source){.program = NULL};
}

/* ---- skeletons ---- */

static bool attribute(const Dwarf_Die *root, unsigned name, unsigned gnu, Dwarf_Attribute *a)
{
	Dwarf_Die copy = *root;
	return dwarf_attr(&copy, name, a) || (gnu && dwarf_attr(&copy, gnu, a));
}

static const char *text(const Dwarf_Die *root, unsigned name, unsigned gnu)
{
	Dwarf_Attribute a;
	const char *s = attribute(root, name, gnu, &a) ? dwarf_formstring(&a) : NULL;
	return s ? s : "";
}

/* The bytes of a section from where the unit's part begins. */
static struct str part_from(const Dwarf_Die *root, unsigned name, unsigned gnu, Elf *main, const char *section)
{
	Dwarf_Attribute a;
	Dwarf_Word offset = 0;
	struct str s = elf_section_bytes(main, section);
	if (attribute(root, name, gnu, &a) && (dwarf_formudata(&a, &offset) != 0 || offset > s.len))
		offset = s.len;
	return (struct str){s.data + offset, s.len - (size_t)offset};
}

bool split_is_skeleton(const Dwarf_Die *root)
{
	return text(root, DW_AT_dwo_name, DW_AT_GNU_dwo_name)[0] != 0;
}

static bool id_of(const Dwarf_Die *root, uint64_t *id)
{
	uint8_t type;
	return dwarf_cu_info(root->cu, NULL, &type, NULL, NULL, id, NULL, NULL) == 0 &&
	       (type == DW_UT_skeleton || type == DW_UT_split_compile);
}

static void read_skeleton(struct skeleton *s, const Dwarf_Die *root, Elf *main)
{
	Dwarf_Die copy = *root;
	Dwarf_Half version = 0;
	*s = (struct skeleton){.base = 0};
	if (dwarf_lowpc(&copy, &s->base) != 0)
		s->base = 0;
	dwarf_cu_info(root->cu, &version, NULL, NULL, NULL, NULL, NULL, NULL);
	s->addresses = part_from(root, DW_AT_addr_base, DW_AT_GNU_addr_base, main, ".debug_addr");
	if (version < 5)
		s->ranges = part_from(root, DW_AT_GNU_ranges_base, 0, main, ".debug_ranges");
}

/* ---- a unit as if it had not been split ---- */

static bool add_section(Elf *elf, size_t name, struct str bytes, Elf64_Word type)
{
	GElf_Shdr header;
	Elf_Scn *s = elf_newscn(elf);
	Elf_Data *data = s ? elf_newdata(s) : NULL;
	if (!data || !gelf_getshdr(s, &header))
		return false;
	data->d_buf = (void *)(uintptr_t)bytes.data; /* never written to: the file is not */
	data->d_size = bytes.len;
	data->d_type = ELF_T_BYTE;
	data->d_align = 1;
	header.sh_name = (Elf64_Word)name;
	header.sh_type = type;
	header.sh_size = bytes.len;
	return gelf_update_shdr(s, &header) != 0;
}

static bool fill(Elf *elf, const struct str parts[SPLIT_PARTS], struct str addresses, const char *ident)
{
	static const char names[] =
	        "\0.shstrtab\0.debug_info\0.debug_abbrev\0.debug_str\0.debug_str_offsets\0.debug_addr";
	static const size_t at[] = {1, 11, 23, 37, 48, 67}; /* in names */
	GElf_Ehdr header;
	if (!gelf_newehdr(elf, ident[EI_CLASS]) || !gelf_getehdr(elf, &header))
		return false;
	header.e_ident[EI_DATA] = (unsigned char)ident[EI_DATA];
	header.e_type = ET_EXEC;
	header.e_version = EV_CURRENT;
	header.e_shstrndx = 1;
	return gelf_update_ehdr(elf, &header) &&
	       add_section(elf, at[0], (struct str){names, sizeof names}, SHT_STRTAB) &&
	       add_section(elf, at[1], parts[SPLIT_INFO], SHT_PROGBITS) &&
	       add_section(elf, at[2], parts[SPLIT_ABBREV], SHT_PROGBITS) &&
	       add_section(elf, at[3], parts[SPLIT_STR], SHT_PROGBITS) &&
	       add_section(elf, at[4], parts[SPLIT_STR_OFFSETS], SHT_PROGBITS) &&
	       add_section(elf, at[5], addresses, SHT_PROGBITS);
}

/* The unit of that id. */
static bool find_unit(struct split_unit *u, uint64_t id)
{
	Dwarf_CU *cu = NULL;
	uint8_t type;
	uint64_t have;
	while (dwarf_get_units(u->dwarf, cu, &cu, NULL, &type, &u->root, NULL) == 0)
		if (type == DW_UT_split_compile && id_of(&u->root, &have) && have == id)
			return true;
	return false;
}

/* ERR_MISSING: it is another unit. */
static enum err assemble(
        struct split_unit *u, const struct str parts[SPLIT_PARTS], uint64_t id, Elf *main, struct error *e)
{
	const char *ident = elf_getident(main, NULL);
	int fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
	u->elf = fd >= 0 && ident ? elf_begin(fd, ELF_C_WRITE, NULL) : NULL;
	bool filled = u->elf && fill(u->elf, parts, u->skeleton.addresses, ident);
	if (fd >= 0)
		close(fd);
	if (!filled)
		return no_memory(e);
	u->dwarf = dwarf_begin_elf(u->elf, DWARF_C_READ, NULL);
	if (!u->dwarf)
		return error_set(e, ERR_CORRUPT, "a split unit: %s", dwarf_errmsg(-1));
	if (u->skeleton.ranges.len == 0)
		u->skeleton.ranges = parts[SPLIT_RNGLISTS];
	return find_unit(u, id) ? ERR_OK : error_set(e, ERR_MISSING, "another unit");
}

static enum err try_package(struct split_unit *u, struct split_source *s, uint64_t id, Elf *main, struct error *e)
{
	struct str parts[SPLIT_PARTS];
	if (!split_index_find(&s->index, id, is_big(main), s->package_parts, parts))
		return ERR_MISSING;
	return assemble(u, parts, id, main, e);
}

static enum err try_file(struct split_unit *u, const char *path, uint64_t id, Elf *main, struct error *e)
{
	struct str parts[SPLIT_PARTS];
	enum err err = open_file(&u->file, &u->file_elf, path, e);
	if (err)
		return err;
	read_parts(parts, u->file_elf);
	return assemble(u, parts, id, main, e);
}

/* Where it was made, beside the program or its debug file, and below the folder of debug files. */
static enum err try_files(
        struct split_unit *u, struct split_source *s, const Dwarf_Die *root, uint64_t id, Elf *main, struct error *e)
{
	const char *name = text(root, DW_AT_dwo_name, DW_AT_GNU_dwo_name), *made = text(root, DW_AT_comp_dir, 0);
	char beside[PATH_MAX], debug[PATH_MAX], path[PATH_MAX];
	struct skeleton skeleton = u->skeleton;
	directory_of(beside, s->program);
	directory_of(debug, s->dwarf_path);
	bool absolute = name[0] == '/';
	const char *const forms[][4] = {{absolute ? "" : made, absolute ? "" : "/", name, ""},
	        {beside, absolute ? base_name(name) : name, "", ""}, {beside, base_name(name), "", ""},
	        {debug, absolute ? base_name(name) : name, "", ""}, {debug, base_name(name), "", ""},
	        {s->debug_dir, absolute ? "" : made, absolute ? "" : "/", name}, {s->debug_dir, "/", name, ""},
	        {s->debug_dir, "/", base_name(name), ""}};
	enum err err = ERR_MISSING;
	for (size_t i = 0; i < sizeof forms / sizeof *forms && err == ERR_MISSING; i++) {
		const char *const *f = forms[i];
		if (snprintf(path, sizeof path, "%s%s%s%s", f[0], f[1], f[2], f[3]) >= PATH_MAX)
			continue;
		split_unit_close(u);
		u->skeleton = skeleton;
		err = try_file(u, path, id, main, e);
	}
	return err;
}

static void count(struct split_source *s, const Dwarf_Die *root, bool found)
{
	Dwarf_Die copy = *root;
	uint64_t at = dwarf_dieoffset(&copy);
	pthread_mutex_lock(&s->lock);
	s->found += found;
	s->missing += !found;
	if (!found && (s->missing == 1 || at < s->first_missing)) {
		s->first_missing = at;
		snprintf(s->first_name, sizeof s->first_name, "%s", text(root, DW_AT_dwo_name, DW_AT_GNU_dwo_name));
	}
	pthread_mutex_unlock(&s->lock);
}

enum err split_unit_open(
        struct split_unit *u, struct split_source *s, const Dwarf_Die *skeleton, Elf *main, struct error *e)
{
	uint64_t id;
	*u = (struct split_unit){.file = {NULL, 0}};
	read_skeleton(&u->skeleton, skeleton, main);
	enum err err = id_of(skeleton, &id) ? try_package(u, s, id, main, e) : ERR_MISSING;
	if (err == ERR_MISSING && id_of(skeleton, &id))
		err = try_files(u, s, skeleton, id, main, e);
	count(s, skeleton, !err);
	if (err)
		split_unit_close(u);
	return err;
}

void split_unit_close(struct split_unit *u)
{
	dwarf_end(u->dwarf);
	elf_end(u->elf);
	elf_end(u->file_elf);
	section_file_close(&u->file);
	*u = (struct split_unit){.file = {NULL, 0}};
}
