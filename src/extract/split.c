/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/split.h"

#include <dwarf.h>
#include <elfutils/libdw.h>
#include <gelf.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/buffer.h"
#include "extract/elf_write.h"
#include "extract/places.h"

static const char *const part_names[SPLIT_PARTS] = {
        ".debug_info.dwo", ".debug_abbrev.dwo", ".debug_str.dwo", ".debug_str_offsets.dwo", ".debug_rnglists.dwo"};

static void read_parts(struct str parts[SPLIT_PARTS], Elf *elf)
{
	for (int i = 0; i < SPLIT_PARTS; i++)
		parts[i] = elf_section_bytes(elf, part_names[i]);
}

/* ---- files ---- */

static enum err open_file(struct section_file *file, Elf **elf, const char *path, struct error *e)
{
	struct elf_file f;
	if (elf_file_open_any(&f, path, e))
		return ERR_MISSING;
	enum err err = section_file_open(file, &f, e);
	elf_file_close(&f);
	if (err)
		return err;
	err = section_file_elf(file, elf, e);
	if (err)
		section_file_close(file);
	return err;
}

static enum err open_package(struct split_package *p, const char *path, struct error *e)
{
	enum err err = open_file(&p->file, &p->elf, path, e);
	if (err)
		return err;
	read_parts(p->parts, p->elf);
	split_index_read(&p->index, elf_section_bytes(p->elf, ".debug_cu_index"), elf_is_big(p->elf));
	return ERR_OK;
}

static void close_package(struct split_package *p)
{
	elf_end(p->elf);
	section_file_close(&p->file);
	*p = (struct split_package){.elf = NULL};
}

static bool package_at(struct split_source *s, const char *dir, const char *more, const char *base)
{
	char path[PATH_MAX];
	return snprintf(path, sizeof path, "%s%s%s.dwp", dir, more, base) < PATH_MAX &&
	       !open_package(&s->package, path, NULL);
}

/* A debug file may have its package's sections itself. Looks before it opens them, which may inflate much. */
static bool is_own_package(struct split_source *s)
{
	struct elf_file f;
	if (elf_file_open_any(&f, s->dwarf_path, NULL))
		return false;
	bool has_index = elf_find_section(f.elf, ".debug_cu_index");
	elf_file_close(&f);
	if (!has_index || open_package(&s->package, s->dwarf_path, NULL))
		return false;
	bool is = s->package.index.version > 0;
	if (!is)
		close_package(&s->package);
	return is;
}

void split_source_open(struct split_source *s, const char *program, const char *dwarf_path, const char *debug_dir)
{
	char dir[PATH_MAX];
	*s = (struct split_source){.program = program, .dwarf_path = dwarf_path, .debug_dir = debug_dir};
	pthread_mutex_init(&s->lock, NULL);
	place_directory(dir, program);
	(void)(package_at(s, "", "", program) || package_at(s, "", "", dwarf_path) ||
	        package_at(s, debug_dir, dir, basename(program)) || package_at(s, debug_dir, "/", basename(program)) ||
	        is_own_package(s));
}

void split_source_close(struct split_source *s)
{
	if (!s->program)
		return;
	close_package(&s->package);
	close_package(&s->other);
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

/* ---- a unit as if it had not been split: a page of headers, then its parts, mapped from their files ---- */

enum { IMAGE_PARTS = 5 };
struct image_part {
	const char *name;
	const struct section_file *file;
	struct str bytes;
};

/* libelf returns only bytes that lie in the file. */
static bool lies_in_file(const struct image_part *p)
{
	return p->bytes.len == 0 ||
	       (p->bytes.data >= p->file->bytes && p->bytes.data + p->bytes.len <= p->file->bytes + p->file->len);
}

static size_t window_len(const struct image_part *p)
{
	return p->bytes.len ? section_file_window_len(p->file, p->bytes) : 0;
}

/* Address space for everything; memory for the page of headers only. */
static enum err reserve_image(
        struct split_unit *u, const struct image_part *parts, size_t page, bool wide, struct error *e)
{
	size_t len = page;
	for (int i = 0; i < IMAGE_PARTS; i++) {
		if (!lies_in_file(&parts[i]))
			return error_set(e, ERR_CORRUPT, "a split unit: %s cannot be read", parts[i].name);
		len += window_len(&parts[i]);
	}
	if (!wide && len > UINT32_MAX)
		return error_set(e, ERR_CORRUPT, "a split unit: larger than a 32-bit file can be");
	void *bytes = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	if (bytes == MAP_FAILED)
		return no_memory(e);
	u->image = bytes;
	u->image_len = len;
	return mprotect(bytes, page, PROT_READ | PROT_WRITE) == 0 ? ERR_OK : no_memory(e);
}

/* Maps the parts, and describes them in the page before. */
static bool add_parts(struct split_unit *u, const struct image_part *parts, size_t page, const GElf_Ehdr *like)
{
	struct elf_part described[IMAGE_PARTS];
	struct buffer headers;
	size_t at = page;
	for (int i = 0; i < IMAGE_PARTS; i++) {
		const struct image_part *p = &parts[i];
		const char *begin = p->bytes.len ? section_file_window(p->file, p->bytes, u->image + at) : u->image;
		if (!begin)
			return false;
		described[i] = (struct elf_part){p->name, (uint64_t)(begin - u->image), p->bytes.len};
		at += window_len(p);
	}
	buffer_init(&headers, ELF_WRITE_MAX);
	elf_write_headers(&headers, like, described, IMAGE_PARTS);
	bool good = !headers.failed;
	if (good)
		memcpy(u->image, headers.data, headers.len);
	buffer_release(&headers);
	return good;
}

static enum err make_image(struct split_unit *u, const struct image_part *parts, const GElf_Ehdr *like, struct error *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE);
	enum err err = reserve_image(u, parts, page, like->e_ident[EI_CLASS] == ELFCLASS64, e);
	return err || add_parts(u, parts, page, like) ? err : no_memory(e);
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

/* ERR_MISSING: it is another unit. file: what the parts lie in. */
static enum err assemble(struct split_unit *u, const struct section_file *file, const struct str parts[SPLIT_PARTS],
        uint64_t id, const struct split_main *main, struct error *e)
{
	const struct image_part all[IMAGE_PARTS] = {{".debug_info", file, parts[SPLIT_INFO]},
	        {".debug_abbrev", file, parts[SPLIT_ABBREV]}, {".debug_str", file, parts[SPLIT_STR]},
	        {".debug_str_offsets", file, parts[SPLIT_STR_OFFSETS]},
	        {".debug_addr", main->file, u->skeleton.addresses}};
	GElf_Ehdr like;
	if (!gelf_getehdr(main->elf, &like))
		return no_memory(e);
	enum err err = make_image(u, all, &like, e);
	if (err)
		return err;
	u->elf = elf_memory(u->image, u->image_len);
	u->dwarf = u->elf ? dwarf_begin_elf(u->elf, DWARF_C_READ, NULL) : NULL;
	if (!u->dwarf)
		return error_set(e, ERR_CORRUPT, "a split unit: %s", u->elf ? dwarf_errmsg(-1) : elf_errmsg(-1));
	if (u->skeleton.ranges.len == 0)
		u->skeleton.ranges = parts[SPLIT_RNGLISTS];
	return find_unit(u, id) ? ERR_OK : error_set(e, ERR_MISSING, "another unit");
}

static enum err try_package(struct split_unit *u, const struct split_package *p, uint64_t id,
        const struct split_main *main, struct error *e)
{
	struct str parts[SPLIT_PARTS];
	if (!split_index_find(&p->index, id, elf_is_big(main->elf), p->parts, parts))
		return ERR_MISSING;
	return assemble(u, &p->file, parts, id, main, e);
}

/* The first thread that needs a package has it fetched, for all. One that is malformed has no units. */
static enum err fetch_package(struct split_source *s, struct error *e)
{
	char found[PATH_MAX];
	pthread_mutex_lock(&s->lock);
	if (!s->fetched) {
		s->fetched = true;
		s->fetch_err = s->fetch(s->fetch_arg, found, &s->fetch_error);
		if (!s->fetch_err)
			s->fetch_err = open_package(&s->other, found, &s->fetch_error);
		if (s->fetch_err == ERR_CORRUPT)
			s->fetch_err = ERR_MISSING;
	}
	pthread_mutex_unlock(&s->lock);
	return s->fetch_err ? error_set(e, s->fetch_err, "%s", s->fetch_error.text) : ERR_OK;
}

static enum err try_fetched(struct split_unit *u, struct split_source *s, const Dwarf_Die *root, uint64_t id,
        const struct split_main *main, struct error *e)
{
	enum err err = s->fetch ? fetch_package(s, e) : ERR_MISSING;
	if (err)
		return err;
	split_unit_close(u);
	read_skeleton(&u->skeleton, root, main->elf);
	return try_package(u, &s->other, id, main, e);
}

static enum err try_file(
        struct split_unit *u, const char *path, uint64_t id, const struct split_main *main, struct error *e)
{
	struct str parts[SPLIT_PARTS];
	enum err err = open_file(&u->file, &u->file_elf, path, e);
	if (err)
		return err;
	read_parts(parts, u->file_elf);
	return assemble(u, &u->file, parts, id, main, e);
}

/* Where it was made, beside the program or its debug file, and below the folder of debug files. */
static enum err try_files(struct split_unit *u, struct split_source *s, const Dwarf_Die *root, uint64_t id,
        const struct split_main *main, struct error *e)
{
	const char *name = text(root, DW_AT_dwo_name, DW_AT_GNU_dwo_name), *made = text(root, DW_AT_comp_dir, 0);
	char beside[PATH_MAX], debug[PATH_MAX], path[PATH_MAX];
	struct skeleton skeleton = u->skeleton;
	place_directory(beside, s->program);
	place_directory(debug, s->dwarf_path);
	bool absolute = name[0] == '/';
	const char *const forms[][4] = {{absolute ? "" : made, absolute ? "" : "/", name, ""},
	        {beside, absolute ? basename(name) : name, "", ""}, {beside, basename(name), "", ""},
	        {debug, absolute ? basename(name) : name, "", ""}, {debug, basename(name), "", ""},
	        {s->debug_dir, absolute ? "" : made, absolute ? "" : "/", name}, {s->debug_dir, "/", name, ""},
	        {s->debug_dir, "/", basename(name), ""}};
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

static void count_missing(struct split_source *s, const Dwarf_Die *root)
{
	Dwarf_Die copy = *root;
	uint64_t at = dwarf_dieoffset(&copy);
	pthread_mutex_lock(&s->lock);
	if (s->missing++ == 0 || at < s->first_missing) {
		s->first_missing = at;
		snprintf(s->first_name, sizeof s->first_name, "%s", text(root, DW_AT_dwo_name, DW_AT_GNU_dwo_name));
	}
	pthread_mutex_unlock(&s->lock);
}

enum err split_unit_open(struct split_unit *u, struct split_source *s, const Dwarf_Die *skeleton,
        const struct split_main *main, struct error *e)
{
	uint64_t id;
	*u = (struct split_unit){.image = NULL};
	read_skeleton(&u->skeleton, skeleton, main->elf);
	bool known = id_of(skeleton, &id);
	enum err err = known ? try_package(u, &s->package, id, main, e) : ERR_MISSING;
	if (known && err == ERR_MISSING)
		err = try_files(u, s, skeleton, id, main, e);
	if (known && err == ERR_MISSING)
		err = try_fetched(u, s, skeleton, id, main, e);
	if (err) {
		count_missing(s, skeleton);
		split_unit_close(u);
	}
	return err;
}

void split_unit_close(struct split_unit *u)
{
	dwarf_end(u->dwarf);
	elf_end(u->elf);
	if (u->image)
		munmap(u->image, u->image_len);
	elf_end(u->file_elf);
	section_file_close(&u->file);
	*u = (struct split_unit){.image = NULL};
}
