/* SPDX-License-Identifier: Apache-2.0 */
/* Split DWARF: units whose entries are in another file, in DWARF 5's form and in GNU's of DWARF 4. The program keeps a
 * skeleton with the line table, the addresses and the name of that file (.dwo), or the entries are in a package (.dwp).
 *
 * libdw finds such files only where they were made, and packages not at all before 0.191. Here a unit's parts are
 * mapped side by side, without being copied, after headers that make an ELF file of them, as if nothing had been
 * split. */
#ifndef EXTRACT_SPLIT_H
#define EXTRACT_SPLIT_H

#include <limits.h>
#include <pthread.h>

#include "extract/die_ranges.h"
#include "extract/section_file.h"

/* Parts of a unit. */
enum split_part { SPLIT_INFO, SPLIT_ABBREV, SPLIT_STR, SPLIT_STR_OFFSETS, SPLIT_RNGLISTS, SPLIT_PARTS };

/* The units of a package, by their ids. */
struct split_index {
	struct str table;
	unsigned version; /* 2 (GNU's) or 5; 0: there is none */
	uint32_t columns, units, slots;
};

/* A cleared one is closed. */
struct split_package {
	struct section_file file;
	Elf *elf;
	struct str parts[SPLIT_PARTS];
	struct split_index index;
};

/* For all threads. */
struct split_source {
	const char *program, *dwarf_path, *debug_dir;
	struct split_package package; /* that was found */
	/* Fetches a package for units that are nowhere, once; NULL: nobody does. ERR_MISSING: nobody has one. Set after
	 * split_source_open. */
	enum err (*fetch)(void *arg, char found[PATH_MAX], struct error *e);
	void *fetch_arg;
	pthread_mutex_t lock; /* of what follows */
	bool fetched;         /* then the next three stay as they are */
	struct split_package other;
	enum err fetch_err; /* why that is closed */
	struct error fetch_error;
	uint64_t missing;       /* units */
	uint64_t first_missing; /* the offset of the first of these, and its file */
	char first_name[256];
};

/* The file with the skeletons. */
struct split_main {
	const struct section_file *file;
	Elf *elf; /* the calling thread's */
};

/* A unit put together from its parts. A cleared one is closed. */
struct split_unit {
	struct section_file file; /* a .dwo; empty when it is of a package */
	char *image;              /* the ELF file */
	size_t image_len;
	Elf *file_elf, *elf;
	Dwarf *dwarf;
	Dwarf_Die root;
	struct skeleton skeleton;
};

/* The paths must outlive s. A package is looked for. */
void split_source_open(struct split_source *s, const char *program, const char *dwarf_path, const char *debug_dir);
void split_source_close(struct split_source *s);
/* Whether root is a skeleton. */
bool split_is_skeleton(const Dwarf_Die *root);
/* ERR_MISSING: no file or package has the unit, which is counted; ERR_CORRUPT, ERR_NO_MEMORY, or what fetch returns.
 * After a failure there is nothing to close. */
enum err split_unit_open(struct split_unit *u, struct split_source *s, const Dwarf_Die *skeleton,
        const struct split_main *main, struct error *e);
void split_unit_close(struct split_unit *u);

/* Reads the index of a package; version stays 0 if there is none, or if it is malformed. */
void split_index_read(struct split_index *x, struct str section, bool big);
/* Cuts the parts of a unit out of those of the package. False: the package does not have the unit. */
bool split_index_find(const struct split_index *x, uint64_t id, bool big, const struct str whole[SPLIT_PARTS],
        struct str parts[SPLIT_PARTS]);

#endif
