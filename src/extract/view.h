/* SPDX-License-Identifier: Apache-2.0 */
/* Programs of Windows and macOS as ELF files: Mach-O, PE and PDB files get ELF headers in memory, around the bytes of
 * the file where they are, so that everything that reads ELF reads them. So do ELF files without section headers. */
#ifndef EXTRACT_VIEW_H
#define EXTRACT_VIEW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/buffer.h"
#include "base/error.h"
#include "symbfile/build_id.h"

/* What a file is by its first bytes. */
enum file_format {
	FORMAT_ELF,
	FORMAT_MACHO, /* little-endian */
	FORMAT_FAT,   /* several Mach-O files: "universal" */
	FORMAT_PE,
	FORMAT_PDB,
	FORMAT_OTHER,
};

enum { FORMAT_HEAD = 32 }; /* bytes that tell */

enum file_format file_format_of(const uint8_t *head, size_t len);
enum file_format file_format_of_fd(int fd);
/* What it is, and what helps, of a file that is refused by its first bytes; NULL: that is not known. */
const char *file_format_refused(const uint8_t *head, size_t len);

/* In e_ident[EI_OSABI] of a view: how its build id makes a debug id. */
enum view_kind {
	VIEW_MACHO = 'M',   /* the UUID, and age 0 */
	VIEW_WINDOWS = 'W', /* the GUID in the file's order, and the age in 4 bytes, big-endian; or a code id */
	VIEW_CODE_ID = 8,   /* bytes of that */
};

/* What is wanted of a file that may be read in several ways. */
struct view_wanted {
	struct build_id id; /* of the slice of a universal file; len 0: the first that can be read */
	uint64_t base;      /* where a PDB's program is loaded by its own header */
	bool no_symbols;    /* no symbols are needed */
	/* Symbols of PDB and Mach-O files are needed around these addresses only, in ascending order; 0: all. */
	const uint64_t *asked;
	size_t asked_count;
};

struct view {
	char *bytes; /* the ELF file; NULL: the file is one itself, with section headers */
	size_t len;
	size_t file_len; /* bytes of the file at the beginning, but for the first page */
	bool cut;        /* of an ELF file: it ends within a segment */
	struct view_wanted wanted;
};

/* Leaves the view empty if the file is ELF with section headers, or nothing that is known. wanted may be NULL.
 * ERR_CORRUPT: the text says at which place; ERR_MISSING: no slice has this id; ERR_NO_MEMORY, ERR_IO. */
enum err view_open(struct view *v, int fd, const struct view_wanted *wanted, struct error *e);
void view_close(struct view *v);
/* Gives back memory; what is needed again comes from the file. */
void view_forget(const struct view *v);

/* The ids of a universal file's slices that can be read, at most max; 0: it is no such file. */
enum { VIEW_SLICES_MAX = 16 };
size_t view_slices(struct build_id ids[VIEW_SLICES_MAX], int fd);
/* Where in the file the slice with this id is; all of it, if id is empty or it is no such file. ERR_IO, ERR_MISSING. */
enum err view_slice_place(int fd, const struct build_id *id, uint64_t *at, uint64_t *size, struct error *e);

/* ---- for its readers ---- */

static inline uint32_t big_u32(const uint8_t *p)
{
	return (uint32_t)p[0] << 24 | (uint32_t)p[1] << 16 | (uint32_t)p[2] << 8 | p[3];
}

struct view_section {
	char name[24];
	uint64_t address, at, size; /* at: in the file */
	uint32_t type;              /* SHT_PROGBITS or SHT_NOBITS */
	bool code, loaded;
};

struct view_segment {
	uint64_t at, address, file_size, size;
	bool code;
};

struct view_symbol {
	uint64_t start, end; /* end 0: where the next one begins */
	uint32_t name;       /* in strings */
	bool local;
};

/* The first and the last function of those that begin behind one address that is asked for, and not behind the next. */
struct view_stretch {
	uint64_t first, last; /* first above last: there is none */
};

struct view_builder {
	const uint8_t *file;
	size_t file_len;
	const struct view_wanted *wanted;
	struct view_stretch *stretches; /* one more than there are addresses; NULL: all symbols are needed */
	uint16_t machine;               /* EM_X86_64, ... */
	enum view_kind kind;
	struct build_id id;
	const char *debug_name; /* the file with the debug data, as .gnu_debuglink says it; NULL: none */
	struct view_section *sections;
	struct view_segment *segments;
	struct view_symbol *symbols;
	uint64_t *starts; /* of functions, those without a name too */
	size_t section_count, segment_count, symbol_count, start_count;
	uint32_t section_cap, segment_cap, symbol_cap, start_cap;
	struct buffer strings;
};

/* Where what follows a file may begin: on a page of its own. */
uint64_t view_tail(size_t file_len);
/* Maps the file, whose bytes these are; its first page is a copy, which begins with head; the tail is behind it.
 * ERR_NO_MEMORY. */
enum err view_map(
        struct view *v, int fd, struct str file, const struct buffer *head, const struct buffer *tail, struct error *e);
/* Adds a section; of one that is not loaded or has code, bytes outside the file are ERR_CORRUPT. */
enum err view_add_section(struct view_builder *b, const struct view_section *s, struct error *e);
enum err view_add_segment(struct view_builder *b, const struct view_segment *s, struct error *e);
/* Adds a symbol if its start is in a section with code, and its name not empty. */
enum err view_add_symbol(
        struct view_builder *b, uint64_t start, uint64_t end, struct str name, bool local, struct error *e);
/* A function begins here, which may have no name. If there are stretches, those of all symbols come before the symbols.
 */
enum err view_add_start(struct view_builder *b, uint64_t start, struct error *e);
/* Whether a symbol that begins here is needed. */
bool view_wants(const struct view_builder *b, uint64_t start);
/* The section with code of an address; NULL: none. */
const struct view_section *view_code_at(const struct view_builder *b, uint64_t address);

#endif
