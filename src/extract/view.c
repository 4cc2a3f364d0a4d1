/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/view.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/search.h"
#include "base/varint.h"
#include "extract/headerless.h"
#include "extract/macho.h"
#include "extract/pdb.h"
#include "extract/pe_view.h"

enum {
	SECTIONS_MAX = 512,
	OWN_SECTIONS = 6, /* none, names of sections, the build id, the debug link, symbols and their names */
	STRINGS_MAX = 1 << 30,
	STRINGS_FREE = 1 << 20,
	STRINGS_PER_BYTE = 4, /* of the file: several symbols may have one name in it */
	FAT_SLICES_MAX = 30,  /* a Java class has at least its version, 45, in that place */
};

/* ---- what it is ---- */

static bool begins(const uint8_t *head, size_t len, const char *magic, size_t n)
{
	return len >= n && memcmp(head, magic, n) == 0;
}

enum file_format file_format_of(const uint8_t *head, size_t len)
{
	static const struct {
		const char *magic;
		size_t len;
		enum file_format format;
	} magics[] = {{"\177ELF", 4, FORMAT_ELF}, {"\xcf\xfa\xed\xfe", 4, FORMAT_MACHO},
	        {"\xce\xfa\xed\xfe", 4, FORMAT_MACHO}, {"MZ", 2, FORMAT_PE},
	        {"Microsoft C/C++ MSF 7.00\r\n\x1a"
	         "DS\0\0\0",
	                32, FORMAT_PDB}};
	for (size_t i = 0; i < sizeof magics / sizeof *magics; i++)
		if (begins(head, len, magics[i].magic, magics[i].len))
			return magics[i].format;
	bool fat = begins(head, len, "\xca\xfe\xba\xbe", 4) || begins(head, len, "\xca\xfe\xba\xbf", 4);
	return fat && len >= 8 && big_u32(head + 4) <= FAT_SLICES_MAX ? FORMAT_FAT : FORMAT_OTHER;
}

enum file_format file_format_of_fd(int fd)
{
	uint8_t head[FORMAT_HEAD];
	ssize_t n = pread(fd, head, sizeof head, 0);
	return file_format_of(head, n > 0 ? (size_t)n : 0);
}

const char *file_format_refused(const uint8_t *head, size_t len)
{
	if (begins(head, len, "BSJB", 4))
		return "a portable PDB of .NET, which describes no machine code";
	if (begins(head, len, "Microsoft C/C++ program database 2.00", FORMAT_HEAD))
		return "a PDB of version 2.00, of before Visual C++ 7: link again with a newer linker";
	if (begins(head, len, "\xfe\xed\xfa\xce", 4) || begins(head, len, "\xfe\xed\xfa\xcf", 4))
		return "a Mach-O file of a big-endian machine";
	if (begins(head, len, "\xca\xfe\xba\xbe", 4) && file_format_of(head, len) != FORMAT_FAT)
		return "a Java class";
	return NULL;
}

/* ---- what its readers say ---- */

enum err view_add_section(struct view_builder *b, const struct view_section *s, struct error *e)
{
	if (s->type == SHT_PROGBITS && (s->at > b->file_len || s->size > b->file_len - s->at))
		return error_set(e, ERR_CORRUPT, "section %s: lies outside the file", s->name);
	if (b->section_count == SECTIONS_MAX)
		return error_set(e, ERR_CORRUPT, "more than %d sections", SECTIONS_MAX);
	if (s->address > UINT64_MAX - s->size)
		return error_set(e, ERR_CORRUPT, "section %s: its addresses overflow", s->name);
	bool ok = array_append(&b->sections, &b->section_cap, &b->section_count, s, sizeof *s);
	return ok ? ERR_OK : no_memory(e);
}

enum err view_add_segment(struct view_builder *b, const struct view_segment *s, struct error *e)
{
	bool ok = b->segment_count == SECTIONS_MAX ||
	          array_append(&b->segments, &b->segment_cap, &b->segment_count, s, sizeof *s);
	return ok ? ERR_OK : no_memory(e);
}

const struct view_section *view_code_at(const struct view_builder *b, uint64_t address)
{
	for (size_t i = 0; i < b->section_count; i++) {
		const struct view_section *s = &b->sections[i];
		if (s->code && address >= s->address && address - s->address < s->size)
			return s;
	}
	return NULL;
}

enum err view_add_symbol(
        struct view_builder *b, uint64_t start, uint64_t end, struct str name, bool local, struct error *e)
{
	const struct view_symbol s = {start, end, (uint32_t)b->strings.len + 1, local};
	if (name.len == 0 || !view_code_at(b, start))
		return ERR_OK;
	if (name.len >= b->strings.max - b->strings.len)
		return error_set(e, ERR_CORRUPT, "the names of symbols are larger than the file");
	buffer_append_str(&b->strings, name);
	buffer_append(&b->strings, "", 1);
	bool ok = !b->strings.failed && array_append(&b->symbols, &b->symbol_cap, &b->symbol_count, &s, sizeof s);
	return ok ? ERR_OK : no_memory(e);
}

static struct view_stretch *stretch_of(const struct view_builder *b, uint64_t start)
{
	const struct view_wanted *w = b->wanted;
	return &b->stretches[start ? search_up_to(w->asked, w->asked_count, sizeof *w->asked, 0, start - 1) : 0];
}

bool view_wants(const struct view_builder *b, uint64_t start)
{
	const struct view_stretch *s = b->stretches ? stretch_of(b, start) : NULL;
	return !s || start == s->first || start == s->last || !b->symbol_count /* one tells that there are any */;
}

enum err view_add_start(struct view_builder *b, uint64_t start, struct error *e)
{
	struct view_stretch *s = b->stretches ? stretch_of(b, start) : NULL;
	if (s) {
		s->first = start < s->first ? start : s->first;
		s->last = start > s->last ? start : s->last;
		return ERR_OK;
	}
	return array_append(&b->starts, &b->start_cap, &b->start_count, &start, sizeof start) ? ERR_OK : no_memory(e);
}

/* ---- the ELF file around it ---- */

static enum err builder_init(struct view_builder *b, const uint8_t *file, size_t file_len, enum file_format format,
        const struct view_wanted *wanted, struct error *e)
{
	size_t count = format == FORMAT_MACHO || format == FORMAT_FAT ? wanted->asked_count : 0;
	*b = (struct view_builder){.file = file, .file_len = file_len, .wanted = wanted};
	b->stretches = count ? malloc((count + 1) * sizeof *b->stretches) : NULL;
	if (count && !b->stretches)
		return no_memory(e);
	for (size_t i = 0; i <= count && count; i++)
		b->stretches[i] = (struct view_stretch){UINT64_MAX, 0};
	uint64_t max = (uint64_t)b->file_len * STRINGS_PER_BYTE + STRINGS_FREE;
	buffer_init(&b->strings, max < STRINGS_MAX ? (size_t)max : STRINGS_MAX);
	return ERR_OK;
}

static void builder_release(struct view_builder *b)
{
	free(b->sections);
	free(b->segments);
	free(b->symbols);
	free(b->starts);
	free(b->stretches);
	buffer_release(&b->strings);
}

/* Where the next symbol or function begins. Of functions that nobody asks for it may be their first byte. */
static uint64_t start_behind(const struct view_builder *b, uint64_t start)
{
	if (!b->stretches) {
		size_t next = search_up_to(b->starts, b->start_count, sizeof *b->starts, 0, start);
		return next < b->start_count ? b->starts[next] : UINT64_MAX;
	}
	const struct view_stretch *s = stretch_of(b, start), *end = b->stretches + b->wanted->asked_count + 1;
	if (start != s->last)
		return start + 1;
	do
		s++;
	while (s < end && s->first > s->last);
	return s < end ? s->first : UINT64_MAX;
}

/* Symbols end there, or where their section does. */
static enum err end_symbols(struct view_builder *b, struct error *e)
{
	for (size_t i = 0; i < b->symbol_count && !b->stretches; i++)
		if (view_add_start(b, b->symbols[i].start, e))
			return ERR_NO_MEMORY;
	if (b->start_count > 0)
		qsort(b->starts, b->start_count, sizeof *b->starts, search_order);
	for (size_t i = 0; i < b->symbol_count; i++) {
		struct view_symbol *s = &b->symbols[i];
		const struct view_section *section = view_code_at(b, s->start);
		uint64_t end = section->address + section->size, next = start_behind(b, s->start);
		if (s->end <= s->start || s->end > end)
			s->end = next < end ? next : end;
	}
	return ERR_OK;
}

/* What follows the bytes of the file. */
struct tail {
	struct buffer out;
	uint64_t at; /* where it begins */
	struct buffer names;
	Elf64_Shdr headers[SECTIONS_MAX + OWN_SECTIONS];
	size_t count;
};

static void align_tail(struct tail *t)
{
	static const uint8_t zeros[8];
	buffer_append(&t->out, zeros, -t->out.len % 8);
}

static void add_header(struct tail *t, const char *name, Elf64_Shdr header)
{
	header.sh_name = (Elf64_Word)t->names.len;
	buffer_append(&t->names, name, strlen(name) + 1);
	t->headers[t->count++] = header;
}

static void add_own(struct tail *t, const char *name, uint32_t type, const struct buffer *bytes, Elf64_Shdr header)
{
	align_tail(t);
	header.sh_type = type;
	header.sh_offset = t->at + t->out.len;
	header.sh_size = bytes->len;
	header.sh_addralign = 4;
	add_header(t, name, header);
	buffer_append(&t->out, bytes->data, bytes->len);
}

/* Its layout is that of ELF's notes. */
static void add_build_id(struct tail *t, const struct view_builder *b, struct buffer *bytes)
{
	const uint32_t head[] = {4, (uint32_t)b->id.len, NT_GNU_BUILD_ID};
	if (!b->id.len)
		return;
	buffer_append(bytes, head, sizeof head);
	buffer_append(bytes, "GNU", 4);
	buffer_append(bytes, b->id.bytes, b->id.len);
	buffer_append(bytes, "\0\0\0", -b->id.len % 4);
	add_own(t, ".note.gnu.build-id", SHT_NOTE, bytes, (Elf64_Shdr){.sh_flags = 0});
	buffer_reset(bytes);
}

static void add_debug_link(struct tail *t, const struct view_builder *b, struct buffer *bytes)
{
	if (!b->debug_name)
		return;
	buffer_append(bytes, b->debug_name, strlen(b->debug_name) + 1);
	buffer_append(bytes, "\0\0\0", -bytes->len % 4);
	buffer_append(bytes, "\0\0\0", 4); /* no checksum: the id tells */
	add_own(t, ".gnu_debuglink", SHT_PROGBITS, bytes, (Elf64_Shdr){.sh_flags = 0});
	buffer_reset(bytes);
}

static void add_symbols(struct tail *t, const struct view_builder *b, struct buffer *bytes)
{
	const Elf64_Sym none = {0};
	if (!b->symbol_count)
		return;
	buffer_append(bytes, &none, sizeof none);
	for (size_t i = 0; i < b->symbol_count; i++) {
		const struct view_symbol *s = &b->symbols[i];
		const Elf64_Sym symbol = {.st_name = s->name,
		        .st_info = ELF64_ST_INFO(s->local ? STB_LOCAL : STB_GLOBAL, STT_FUNC),
		        .st_shndx = (Elf64_Section)(view_code_at(b, s->start) - b->sections + 1),
		        .st_value = s->start,
		        .st_size = s->end - s->start};
		buffer_append(bytes, &symbol, sizeof symbol);
	}
	add_own(t, ".symtab", SHT_SYMTAB, bytes,
	        (Elf64_Shdr){.sh_link = (Elf64_Word)t->count + 1, .sh_entsize = sizeof none});
	buffer_reset(bytes);
	buffer_append(bytes, "", 1);
	buffer_append(bytes, b->strings.data, b->strings.len);
	add_own(t, ".strtab", SHT_STRTAB, bytes, (Elf64_Shdr){.sh_flags = 0});
	buffer_reset(bytes);
}

static uint64_t add_segments(struct tail *t, const struct view_builder *b)
{
	align_tail(t);
	uint64_t at = t->at + t->out.len;
	for (size_t i = 0; i < b->segment_count; i++) {
		const struct view_segment *s = &b->segments[i];
		const Elf64_Phdr header = {.p_type = PT_LOAD,
		        .p_flags = PF_R | (s->code ? PF_X : 0U),
		        .p_offset = s->at,
		        .p_vaddr = s->address,
		        .p_filesz = s->file_size,
		        .p_memsz = s->size};
		buffer_append(&t->out, &header, sizeof header);
	}
	for (size_t i = 0; i < t->count; i++) {
		const Elf64_Shdr *s = &t->headers[i];
		const Elf64_Phdr header = {
		        .p_type = PT_NOTE, .p_offset = s->sh_offset, .p_filesz = s->sh_size, .p_align = 4};
		if (s->sh_type == SHT_NOTE)
			buffer_append(&t->out, &header, sizeof header);
	}
	return at;
}

static void write_tail(struct tail *t, const struct view_builder *b, Elf64_Ehdr *header)
{
	struct buffer bytes;
	buffer_init(&bytes, STRINGS_MAX);
	add_header(t, "", (Elf64_Shdr){.sh_type = SHT_NULL});
	for (size_t i = 0; i < b->section_count; i++) {
		const struct view_section *s = &b->sections[i];
		add_header(t, s->name,
		        (Elf64_Shdr){.sh_type = s->type,
		                .sh_flags = (s->loaded ? SHF_ALLOC : 0U) | (s->code ? SHF_EXECINSTR : 0U),
		                .sh_addr = s->address,
		                .sh_offset = s->at,
		                .sh_size = s->size,
		                .sh_addralign = 1});
	}
	add_build_id(t, b, &bytes);
	add_debug_link(t, b, &bytes);
	add_symbols(t, b, &bytes);
	header->e_phoff = add_segments(t, b);
	header->e_phnum = (Elf64_Half)(b->segment_count + (b->id.len > 0));
	buffer_append(&bytes, t->names.data, t->names.len);
	buffer_append(&bytes, ".shstrtab", sizeof ".shstrtab");
	header->e_shstrndx = (Elf64_Half)t->count;
	add_own(t, ".shstrtab", SHT_STRTAB, &bytes, (Elf64_Shdr){.sh_flags = 0});
	align_tail(t);
	header->e_shoff = t->at + t->out.len;
	header->e_shnum = (Elf64_Half)t->count;
	buffer_append(&t->out, t->headers, t->count * sizeof *t->headers);
	t->out.failed = t->out.failed || bytes.failed || t->names.failed;
	buffer_release(&bytes);
}

static bool map_fixed(char *at, size_t len, int fd)
{
	int flags = MAP_FIXED | (fd < 0 ? MAP_PRIVATE | MAP_ANONYMOUS : MAP_SHARED);
	return len == 0 || mmap(at, len, fd < 0 ? PROT_READ | PROT_WRITE : PROT_READ, flags, fd, 0) != MAP_FAILED;
}

uint64_t view_tail(size_t file_len)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = (file_len + page - 1) / page * page;
	return at ? at : page;
}

enum err view_map(
        struct view *v, int fd, struct str file, const struct buffer *head, const struct buffer *tail, struct error *e)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), at = (size_t)view_tail(file.len), len = at + tail->len;
	char *bytes = mmap(NULL, len, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (bytes == MAP_FAILED)
		return no_memory(e);
	v->bytes = bytes;
	v->len = len;
	v->file_len = file.len;
	if (!map_fixed(bytes, file.len, fd) || !map_fixed(bytes, page, -1) || !map_fixed(bytes + at, tail->len, -1)) {
		view_close(v);
		return no_memory(e);
	}
	memcpy(bytes, file.data, file.len < page ? file.len : page);
	memcpy(bytes, head->data, head->len);
	memcpy(bytes + at, tail->data, tail->len);
	return ERR_OK;
}

static enum err make_view(struct view *v, int fd, struct view_builder *b, struct error *e)
{
	Elf64_Ehdr header = {.e_ident = ELFMAG "\2\1\1",
	        .e_type = ET_DYN,
	        .e_machine = b->machine,
	        .e_version = EV_CURRENT,
	        .e_ehsize = sizeof header,
	        .e_phentsize = sizeof(Elf64_Phdr),
	        .e_shentsize = sizeof(Elf64_Shdr)};
	header.e_ident[EI_OSABI] = (unsigned char)b->kind;
	enum err err = end_symbols(b, e);
	struct tail *t = err ? NULL : calloc(1, sizeof *t);
	if (!t)
		return no_memory(e);
	buffer_init(&t->out, STRINGS_MAX);
	buffer_init(&t->names, SECTIONS_MAX * sizeof b->sections->name);
	t->at = view_tail(b->file_len);
	write_tail(t, b, &header);
	const struct buffer head = {.data = (uint8_t *)&header, .len = sizeof header};
	const struct str file = {(const char *)b->file, b->file_len};
	err = t->out.failed ? no_memory(e) : view_map(v, fd, file, &head, &t->out, e);
	buffer_release(&t->out);
	buffer_release(&t->names);
	free(t);
	return err;
}

/* ---- slices ---- */

struct slice {
	uint64_t at, size;
};

/* False: there are no more; one that is not in the file has no size. */
static bool next_slice(const uint8_t *file, size_t len, unsigned number, struct slice *s)
{
	bool wide = file[3] == 0xbf;
	size_t entry = wide ? 32 : 20, at = 8 + number * entry;
	if (number >= big_u32(file + 4) || at + entry > len)
		return false;
	const uint8_t *p = file + at;
	*s = wide ? (struct slice){(uint64_t)big_u32(p + 8) << 32 | big_u32(p + 12),
	                    (uint64_t)big_u32(p + 16) << 32 | big_u32(p + 20)}
	          : (struct slice){big_u32(p + 8), big_u32(p + 12)};
	if (s->at > len || s->size > len - s->at)
		s->size = 0;
	return true;
}

/* The slice with this id, or the first that can be read. */
static enum err read_fat(struct view_builder *b, struct error *e)
{
	const struct build_id *wanted = &b->wanted->id;
	struct error first = {0};
	struct slice s;
	struct build_id id;
	for (unsigned i = 0; next_slice(b->file, b->file_len, i, &s); i++) {
		struct error why;
		if (s.size == 0 || !macho_id(&id, b->file + s.at, (size_t)s.size))
			continue;
		if (wanted->len && (id.len != wanted->len || memcmp(id.bytes, wanted->bytes, id.len) != 0))
			continue;
		enum err err = macho_read(b, s.at, (size_t)s.size, &why);
		if (!err || err == ERR_NO_MEMORY || wanted->len)
			return err ? error_set(e, err, "%s", why.text) : ERR_OK;
		if (!first.code)
			first = why;
		const struct view_builder old = *b;
		builder_release(b);
		if (builder_init(b, old.file, old.file_len, FORMAT_FAT, old.wanted, e))
			return ERR_NO_MEMORY;
	}
	if (first.code)
		return error_set(e, first.code, "%s", first.text);
	return error_set(e, wanted->len ? ERR_MISSING : ERR_CORRUPT, "universal Mach-O file: no slice %s",
	        wanted->len ? "has this id" : "can be read");
}

/* Calls take for each slice that can be read, until it says false. */
static bool each_slice(int fd, bool (*take)(void *arg, const struct build_id *id, const struct slice *s), void *arg)
{
	struct stat st;
	struct slice s;
	struct build_id id;
	if (file_format_of_fd(fd) != FORMAT_FAT || fstat(fd, &st) != 0)
		return false;
	size_t len = (size_t)st.st_size;
	uint8_t *file = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return false;
	bool go_on = true;
	for (unsigned i = 0; go_on && next_slice(file, len, i, &s); i++)
		if (s.size > 0 && macho_id(&id, file + s.at, (size_t)s.size) && id.len)
			go_on = take(arg, &id, &s);
	munmap(file, len);
	return true;
}

struct slice_list {
	struct build_id *ids;
	size_t count;
};

static bool list_slice(void *arg, const struct build_id *id, const struct slice *s)
{
	struct slice_list *l = arg;
	(void)s;
	l->ids[l->count++] = *id;
	return l->count < VIEW_SLICES_MAX;
}

size_t view_slices(struct build_id ids[VIEW_SLICES_MAX], int fd)
{
	struct slice_list l = {ids, 0};
	each_slice(fd, list_slice, &l);
	return l.count;
}

struct slice_search {
	const struct build_id *id;
	struct slice found;
};

static bool find_slice(void *arg, const struct build_id *id, const struct slice *s)
{
	struct slice_search *search = arg;
	bool is = id->len == search->id->len && memcmp(id->bytes, search->id->bytes, id->len) == 0;
	if (is)
		search->found = *s;
	return !is;
}

enum err view_slice_place(int fd, const struct build_id *id, uint64_t *at, uint64_t *size, struct error *e)
{
	struct slice_search search = {id, {0}};
	struct stat st;
	if (fstat(fd, &st) != 0)
		return error_set(e, ERR_IO, "cannot read the file: %s", strerror(errno));
	*at = 0;
	*size = (uint64_t)st.st_size;
	if (!id->len || !each_slice(fd, find_slice, &search))
		return ERR_OK;
	*at = search.found.at;
	*size = search.found.size;
	return *size ? ERR_OK : error_set(e, ERR_MISSING, "universal Mach-O file: no slice has this id");
}

/* ---- a file ---- */

static enum err read_format(struct view_builder *b, enum file_format format, int fd, struct error *e)
{
	switch (format) {
	case FORMAT_MACHO:
		return macho_read(b, 0, b->file_len, e);
	case FORMAT_FAT:
		return read_fat(b, e);
	case FORMAT_PE:
		return pe_view_read(b, fd, e);
	default:
		return pdb_view_read(b, fd, e);
	}
}

enum err view_open(struct view *v, int fd, const struct view_wanted *wanted, struct error *e)
{
	struct view_builder b;
	struct stat st;
	*v = (struct view){.wanted = wanted ? *wanted : (struct view_wanted){.base = 0}};
	enum file_format format = file_format_of_fd(fd);
	if (format == FORMAT_ELF)
		return headerless_open(v, fd, e);
	if (format == FORMAT_OTHER)
		return ERR_OK;
	if (fstat(fd, &st) != 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	size_t len = (size_t)st.st_size;
	void *file = mmap(NULL, len, PROT_READ, MAP_SHARED, fd, 0);
	if (file == MAP_FAILED)
		return error_set(e, errno == ENOMEM ? ERR_NO_MEMORY : ERR_IO, "%s", strerror(errno));
	enum err err = builder_init(&b, file, len, format, &v->wanted, e);
	if (!err)
		err = read_format(&b, format, fd, e);
	if (format == FORMAT_PDB)
		b.file_len = 0; /* its streams lie in pieces: nothing of it is a section */
	if (!err)
		err = make_view(v, fd, &b, e);
	builder_release(&b);
	munmap(file, len);
	return err;
}

void view_close(struct view *v)
{
	if (v->bytes)
		munmap(v->bytes, v->len);
	*v = (struct view){0};
}

void view_forget(const struct view *v)
{
	size_t page = (size_t)sysconf(_SC_PAGESIZE), end = (v->file_len + page - 1) / page * page;
	if (v->bytes && end > page)
		madvise(v->bytes + page, end - page, MADV_DONTNEED);
}
