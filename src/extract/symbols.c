/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/symbols.h"

#include <ctype.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>

#include "base/array.h"
#include "base/search.h"
#include "extract/dwarf_bytes.h"
#include "extract/elf_file.h"
#include "extract/plt.h"
#include "extract/records.h"

enum { TOGETHER_MAX = 16 }; /* symbols that begin at an address, each longer than the one before */

/* What a symbol without a size, or of data, says; of several at an address in this order. */
enum label {
	LABEL_NONE,     /* it has a size */
	LABEL_DATA,     /* no code, or code that its compiler calls an object */
	LABEL_FUNCTION, /* a function begins */
	LABEL_CODE,     /* one begins, as far as a label without a type can tell */
	LABEL_PLACE,    /* a place in a function, data, or the beginning of a function that only its file knows */
	LABEL_END,      /* other code begins */
};

struct symbol {
	uint64_t start, end; /* end, without a size: of the section that it is in */
	const char *name;
	unsigned binding;
	enum label label;
};

struct symbols {
	struct symbol *items; /* those with a size */
	size_t count;
	uint32_t cap;
	struct symbol *bare; /* labels without one */
	size_t bare_count;
	uint32_t bare_cap;
	bool whole; /* the table has local symbols too */
	const struct code_map *code;
	const struct symbols_wanted *wanted;
	struct records records; /* of what is found */
	struct error *e;
};

static bool is_function(const GElf_Sym *sym)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	return type == STT_FUNC || type == STT_GNU_IFUNC;
}

/* Entry points written in assembler, such as a kernel's, have a size like functions, but no type. */
static bool may_be_in_code(const GElf_Sym *sym)
{
	unsigned type = GELF_ST_TYPE(sym->st_info);
	return (is_function(sym) || type == STT_NOTYPE || type == STT_OBJECT) && sym->st_shndx != SHN_UNDEF;
}

static uint64_t code_address(const struct symbols *s, const GElf_Sym *sym)
{
	return is_function(sym) ? code_map_entry(s->code, sym->st_value) : sym->st_value;
}

/* The end of its section, if it is in that: linkers make labels such as etext behind a section's end. Else 0. */
static uint64_t section_end(Elf *elf, const GElf_Sym *sym)
{
	GElf_Shdr header;
	bool is = gelf_getshdr(elf_getscn(elf, sym->st_shndx), &header) &&
	          sym->st_value - header.sh_addr < header.sh_size;
	return is ? header.sh_addr + header.sh_size : 0;
}

/* What linkers make for 64-bit PowerPC to call functions of other files, or far away. */
static bool is_stub(const struct symbols *s, const char *name)
{
	return s->code->machine == EM_PPC64 && isxdigit((unsigned char)*name) &&
	       (strstr(name, ".plt_call.") || strstr(name, ".plt_branch.") || strstr(name, ".long_branch."));
}

/* Assembler often gives functions no size, and no type either. */
static enum label label_of(const struct symbols *s, Elf *elf, const GElf_Sym *sym, const char *name)
{
	if (GELF_ST_TYPE(sym->st_info) == STT_OBJECT)
		return LABEL_DATA;
	if (sym->st_size > 0)
		return LABEL_NONE;
	if (is_function(sym))
		return LABEL_FUNCTION;
	if (GELF_ST_BIND(sym->st_info) != STB_LOCAL)
		return s->whole && section_end(elf, sym) ? LABEL_CODE : LABEL_END;
	return is_stub(s, name) ? LABEL_FUNCTION : LABEL_PLACE;
}

/* Of the marks of Arm and RISC-V $a, $t and $x say which instructions follow, and $d that there are none. .L is what
 * assemblers leave out. */
static bool is_name(const struct symbols *s, const GElf_Sym *sym, const char *name)
{
	unsigned machine = s->code->machine;
	bool marked = machine == EM_ARM || machine == EM_AARCH64 || machine == EM_RISCV;
	bool mapping = marked && name[0] == '$' && name[1] != 'd';
	return *name && !(GELF_ST_BIND(sym->st_info) == STB_LOCAL && (mapping || strncmp(name, ".L", 2) == 0));
}

static enum err add_symbol(struct symbols *s, Elf *elf, const GElf_Sym *sym, const char *name)
{
	uint64_t start = code_address(s, sym);
	const struct code_section *section = code_map_find(s->code, start);
	if (!may_be_in_code(sym) || !section || !name || !is_name(s, sym, name))
		return ERR_OK;
	uint64_t room = section->end - start;
	struct symbol symbol = {start, start + (sym->st_size < room ? sym->st_size : room), name,
	        GELF_ST_BIND(sym->st_info), label_of(s, elf, sym, name)};
	if (sym->st_size == 0 && symbol.label != LABEL_DATA) {
		uint64_t end = section_end(elf, sym);
		symbol.end = end > start && end < section->end ? end : section->end;
	}
	bool ok = symbol.label == LABEL_NONE
	                  ? array_append(&s->items, &s->cap, &s->count, &symbol, sizeof symbol)
	                  : array_append(&s->bare, &s->bare_cap, &s->bare_count, &symbol, sizeof symbol);
	return ok ? ERR_OK : no_memory(s->e);
}

static enum err read_table(struct symbols *s, Elf *elf, Elf_Scn *section)
{
	GElf_Shdr header;
	Elf_Data *data = elf_getdata(section, NULL);
	if (!gelf_getshdr(section, &header))
		return error_set(s->e, ERR_CORRUPT, "a section header cannot be read");
	if (header.sh_type == SHT_NOBITS)
		return ERR_OK;
	if (!data)
		return error_set(s->e, ERR_CORRUPT, "a symbol table cannot be read: %s", elf_errmsg(-1));
	GElf_Sym sym;
	enum err err = ERR_OK;
	for (int i = 0; i < INT32_MAX && !err && gelf_getsym(data, i, &sym); i++)
		err = add_symbol(s, elf, &sym, elf_strptr(elf, header.sh_link, sym.st_name));
	return err;
}

static unsigned underscores(const char *name)
{
	return (unsigned)strspn(name, "_");
}

/* Of several names for the same code the most public comes first: not local; with the fewest underscores, as openat
 * before
 * __libc_openat64; global before weak. */
static int compare_symbols(const void *a, const void *b)
{
	static const int rank[] = {[STB_LOCAL] = 2, [STB_GLOBAL] = 0, [STB_WEAK] = 1};
	const struct symbol *x = a, *y = b;
	int r = x->binding <= STB_WEAK ? rank[x->binding] : 1, q = y->binding <= STB_WEAK ? rank[y->binding] : 1;
	if (x->start != y->start)
		return x->start < y->start ? -1 : 1;
	if (x->label != y->label)
		return x->label < y->label ? -1 : 1;
	if ((r == 2) != (q == 2))
		return r < q ? -1 : 1;
	if (underscores(x->name) != underscores(y->name))
		return underscores(x->name) < underscores(y->name) ? -1 : 1;
	if (r != q)
		return r < q ? -1 : 1;
	return strcmp(x->name, y->name);
}

static void sort_symbols(struct symbols *s)
{
	if (s->count > 0)
		qsort(s->items, s->count, sizeof *s->items, compare_symbols);
	if (s->bare_count > 0)
		qsort(s->bare, s->bare_count, sizeof *s->bare, compare_symbols);
}

/* A function without inlined calls. */
static enum err add_piece(struct symbols *s, uint64_t start, uint64_t end, const char *symbol)
{
	struct code_node node = {.parent = NO_NODE};
	struct functions functions = {.nodes = &node, .node_count = 1};
	struct segment all = {start, end, 0};
	struct segments segments = {.items = &all, .count = 1};
	size_t first = s->records.out->piece_count;
	if (!code_map_asked(s->code, start, end)) {
		*s->wanted->others = true;
		return ERR_OK;
	}
	node.name = names_of_symbol(s->records.names, str_from(symbol));
	if (!node.name.data)
		return no_memory(s->e);
	s->records.functions = &functions;
	enum err err = records_add_ranges(&s->records, &segments, s->e);
	return !err && s->wanted->pads ? records_add_pads(&s->records, &segments, first, s->e) : err;
}

/* What is still free of a stretch of one symbol. */
static enum err add_stretch(struct symbols *s, uint64_t start, uint64_t end, const char *symbol)
{
	enum err err = ERR_OK;
	while ((start = coverage_free(s->wanted->coverage, start, end)) < end && !err) {
		uint64_t taken = coverage_take(s->wanted->coverage, start, end);
		err = add_piece(s, start, taken, symbol);
		start = taken;
	}
	return err;
}

/* Of symbols that begin together the first one counts, and behind its end one that is longer: below the others. */
static size_t open_below(const struct symbol **open, size_t n, const struct symbol *more)
{
	size_t first = n;
	while (first > 0 && open[first - 1]->start == more->start)
		first--;
	if (first == n || n - first >= TOGETHER_MAX || more->end <= open[first]->end)
		return n;
	memmove(open + first + 1, open + first, (n - first) * sizeof *open);
	open[first] = more;
	return n + 1;
}

/* Goes through the symbols by address. Those that are open are in a list, of which the last counts. */
static enum err sweep_symbols(struct symbols *s)
{
	const struct symbol **open = calloc(s->count + 1, sizeof *open);
	size_t n = 0;
	uint64_t at = 0;
	enum err err = open ? ERR_OK : no_memory(s->e);
	for (size_t i = 0; i <= s->count && !err; i++) {
		uint64_t start = i < s->count ? s->items[i].start : UINT64_MAX;
		for (; n > 0 && open[n - 1]->end <= start && !err; n--) {
			if (open[n - 1]->end > at) {
				err = add_stretch(s, at, open[n - 1]->end, open[n - 1]->name);
				at = open[n - 1]->end;
			}
		}
		if (i == s->count || err)
			continue;
		if (i > 0 && start == s->items[i - 1].start) {
			n = open_below(open, n, &s->items[i]);
			continue;
		}
		if (n > 0)
			err = add_stretch(s, at, start, open[n - 1]->name);
		at = start;
		open[n++] = &s->items[i];
	}
	free(open);
	return err;
}

/* NASM names places in a function after it, and those that macros make like "..@5.loop". */
static bool is_place_in(const struct symbol *code, const struct symbol *next)
{
	size_t len = strlen(code->name);
	return next->label == LABEL_PLACE &&
	       (strncmp(next->name, "..@", 3) == 0 ||
	               (strncmp(next->name, code->name, len) == 0 && next->name[len] == '.'));
}

/* Whether a label without a size ends the code of an earlier one. In a function of a known type there may be places and
 * data. */
static bool label_ends(const struct symbol *code, const struct symbol *next)
{
	if (code->label == LABEL_FUNCTION)
		return next->label != LABEL_PLACE && next->label != LABEL_DATA;
	return !is_place_in(code, next);
}

/* The one of the labels at an address that names its code, or NULL. Where there is a local label too, that may be the
 * function, and the global one the linker's, as _stext. */
static const struct symbol *code_label(const struct symbol *labels, size_t count)
{
	const struct symbol *code = NULL;
	for (size_t i = 0; i < count; i++) {
		const struct symbol *l = &labels[i];
		if (l->label == LABEL_FUNCTION)
			return l;
		if (l->label == LABEL_CODE && !code && labels->label != LABEL_DATA)
			code = l;
		if (l->label == LABEL_PLACE && code && !is_place_in(code, l))
			return NULL;
	}
	return code;
}

/* The code of a label without a size, as far as it is free. Those from number `next` on are behind it. */
static enum err add_bare(struct symbols *s, const struct symbol *code, size_t next)
{
	uint64_t end = code->end;
	for (; next < s->bare_count && s->bare[next].start < end; next++)
		if (label_ends(code, &s->bare[next]))
			end = s->bare[next].start;
	end = coverage_take(s->wanted->coverage, code->start, end);
	return end > code->start ? add_piece(s, code->start, end, code->name) : ERR_OK;
}

static enum err add_bare_symbols(struct symbols *s)
{
	enum err err = ERR_OK;
	for (size_t i = 0, n; i < s->bare_count && !err; i += n) {
		n = 1;
		while (i + n < s->bare_count && s->bare[i + n].start == s->bare[i].start)
			n++;
		const struct symbol *code = code_label(&s->bare[i], n);
		if (code)
			err = add_bare(s, code, i + n);
	}
	return err;
}

/* Some compilers, as GHC, call code an object. */
static enum err add_objects(struct symbols *s)
{
	enum err err = ERR_OK;
	for (size_t i = 0; i < s->bare_count && !err; i++)
		if (s->bare[i].label == LABEL_DATA && s->bare[i].end > s->bare[i].start)
			err = add_stretch(s, s->bare[i].start, s->bare[i].end, s->bare[i].name);
	return err;
}

/* Where functions begin by the table for unwinding: symbols of a stripped file lack those that are its own. */
static enum err add_unwound(struct symbols *s, Elf *elf)
{
	static const char form[] = "\1\x1b\x03\x3b"; /* pairs of 4 bytes, relative to the section */
	enum { HEADER = 12 };
	GElf_Shdr header;
	const struct str bytes = elf_section_bytes(elf, ".eh_frame_hdr");
	if (bytes.len < HEADER || memcmp(bytes.data, form, 4) != 0 ||
	        !gelf_getshdr(elf_find_section(elf, ".eh_frame_hdr"), &header))
		return ERR_OK;
	struct reader r = reader_at(bytes, HEADER);
	while (r.end - r.at >= 8) {
		int32_t distance = (int32_t)read_fixed(&r, 4, elf_is_big(elf));
		uint64_t start = header.sh_addr + (uint64_t)(int64_t)distance;
		read_skip(&r, 4);
		struct symbol end = {start, start, "", STB_LOCAL, LABEL_END};
		if (!array_append(&s->bare, &s->bare_cap, &s->bare_count, &end, sizeof end))
			return no_memory(s->e);
	}
	return ERR_OK;
}

enum err symbols_read(
        Elf *elf, const char *section, const struct symbols_wanted *w, struct result *out, struct error *e)
{
	const struct code_map *code = w->coverage->code;
	struct symbols s = {.code = code, .wanted = w, .e = e};
	s.records = (struct records){
	        .code = code, .lines = w->lines, .names = w->names, .strings = w->names->strings, .out = out};
	s.whole = strcmp(section, ".dynsym") != 0;
	Elf_Scn *found = elf_find_section(elf, section);
	enum err err = found ? read_table(&s, elf, found) : ERR_OK;
	if (!err && !s.whole && s.bare_count > 0)
		err = add_unwound(&s, elf);
	if (!err)
		sort_symbols(&s);
	if (!err && s.count > 0)
		err = sweep_symbols(&s);
	if (!err)
		err = add_bare_symbols(&s);
	if (!err)
		err = add_objects(&s);
	records_release(&s.records);
	free(s.items);
	free(s.bare);
	return err;
}

enum err symbols_read_stubs(Elf *elf, const struct symbols_wanted *w, struct result *out, struct error *e)
{
	struct symbols s = {.code = w->coverage->code, .wanted = w, .e = e};
	struct plt_stub *stubs;
	size_t count;
	s.records = (struct records){
	        .code = s.code, .lines = w->lines, .names = w->names, .strings = w->names->strings, .out = out};
	enum err err = plt_read(elf, s.code, &stubs, &count, e);
	for (size_t i = 0; i < count && !err; i++) {
		struct str name = names_of_stub(w->names, str_from(stubs[i].symbol));
		err = name.data ? add_stretch(&s, stubs[i].start, stubs[i].end, name.data) : no_memory(e);
	}
	records_release(&s.records);
	free(stubs);
	return err;
}

/* ---- names alone ---- */

enum { NESTED_MAX = 16 }; /* symbols that may begin within the one that is looked for */

enum err symbol_names_read(
        struct symbol_names *n, const struct symbol_files *files, const struct code_map *code, struct error *e)
{
	struct symbols s = {.code = code, .e = e};
	enum err err = ERR_OK;
	*n = (struct symbol_names){0};
	names_init(&n->names, &n->strings);
	for (size_t i = 0; i < files->count && !err; i++) {
		Elf_Scn *found = elf_find_section(files->tables[i].elf, files->tables[i].section);
		if (found)
			err = read_table(&s, files->tables[i].elf, found);
	}
	sort_symbols(&s);
	n->items = s.items;
	n->count = s.count;
	free(s.bare);
	return err;
}

void symbol_names_release(struct symbol_names *n)
{
	if (!n->names.strings)
		return;
	names_release(&n->names);
	intern_release(&n->strings);
	free(n->items);
	*n = (struct symbol_names){0};
}

/* Of several for the same code the first one counts. */
static const struct symbol *find_symbol(const struct symbol_names *n, uint64_t address)
{
	size_t started = search_up_to(n->items, n->count, sizeof *n->items, offsetof(struct symbol, start), address);
	const struct symbol *found = NULL;
	for (size_t i = started; i > 0 && started - i < NESTED_MAX; i--) {
		const struct symbol *s = &n->items[i - 1];
		if (found && s->start != found->start)
			break;
		if (s->end > address)
			found = s;
	}
	return found;
}

enum err symbol_names_find(struct symbol_names *n, uint64_t address, struct str *name, struct error *e)
{
	const struct symbol *found = find_symbol(n, address);
	*name = found ? names_of_symbol(&n->names, str_from(found->name)) : (struct str){"", 0};
	return name->data ? ERR_OK : no_memory(e);
}

const char *symbol_names_at(const struct symbol_names *n, uint64_t address, size_t number)
{
	size_t before = address ? search_up_to(n->items, n->count, sizeof *n->items, offsetof(struct symbol, start),
	                                  address - 1)
	                        : 0;
	bool is = before < n->count && number < n->count - before && n->items[before + number].start == address;
	return is ? n->items[before + number].name : NULL;
}

bool symbol_names_bounds(const struct symbol_names *n, uint64_t address, uint64_t *start, uint64_t *end)
{
	const struct symbol *found = find_symbol(n, address);
	if (found && start)
		*start = found->start;
	if (found && end)
		*end = found->end;
	return found;
}

uint64_t symbol_names_next(const struct symbol_names *n, uint64_t address)
{
	size_t i = search_up_to(n->items, n->count, sizeof *n->items, offsetof(struct symbol, start), address);
	return i < n->count ? n->items[i].start : UINT64_MAX;
}
