/* SPDX-License-Identifier: Apache-2.0 */
/* PDB 7.00 files, the debug data of Windows programs: their modules, sections and public symbols. Types are in
 * pdb_types.h, the functions of a module in pdb_module.h. The structures are those of LLVM's "The PDB File Format" and
 * of Microsoft's microsoft-pdb. */
#ifndef EXTRACT_PDB_H
#define EXTRACT_PDB_H

#include <pthread.h>

#include "base/map64.h"
#include "extract/msf.h"
#include "extract/pdb_sources.h"
#include "extract/view.h"

struct pdb_module {
	uint32_t stream, symbols, c11, c13; /* its stream; bytes of the three parts of that */
	struct str object;                  /* the name, which other modules refer to it by */
};

/* A stretch of code or data, and whose it is. */
struct pdb_contribution {
	uint64_t start; /* section, from 1 on, in the upper half, offset in the lower one */
	uint32_t size, module;
};

struct pdb_section {
	char name[9];
	uint32_t start, size, flags; /* relative to the image */
};

/* Of a program whose code was moved after linking: from here on code is there; 0: it is gone. */
struct pdb_move {
	uint32_t from, to;
};

/* A stream of types: records of an index each, and from where to look for one. */
struct pdb_types {
	struct msf_bytes stream, hash_stream;
	struct str records, hashes; /* hashes: of each record 4 bytes: that of its name, modulo buckets */
	uint32_t first, end;        /* indices */
	uint32_t buckets;
	uint32_t *by_bucket; /* numbers of records + 1: the first one of each bucket, then the next one of each record.
	                        Made when one is looked for, guarded by the PDB's lock */
	struct pdb_place {
		uint32_t index, offset;
	} * places;
	size_t place_count;
	uint32_t place_cap;
};

/* What a module says of types that are the same in others: its own index, and the common one. */
struct pdb_exports {
	struct pdb_export {
		uint32_t local, global;
	} * items; /* by local */
	size_t count;
	bool read;
};

struct pdb {
	struct msf msf;
	uint32_t srcsrv_stream, link_stream; /* 0: none */
	struct msf_bytes srcsrv, link;
	struct pdb_sources sources; /* empty until pdb_sources_open */
	struct msf_bytes info, dbi, names, header_bytes, own_header_bytes, move_bytes;
	struct str strings; /* of names, as checksums and imports refer to them */
	struct build_id id;
	uint16_t machine;                           /* as in a PE file */
	bool minimal;                               /* of /DEBUG:FASTLINK */
	uint32_t public_stream, public_list_stream; /* the second one lists what is in the first one by address */
	struct pdb_module *modules;
	struct pdb_contribution *contributions;      /* by start */
	struct pdb_section *sections, *own_sections; /* as loaded; as the symbols have them */
	struct pdb_move *moves;                      /* by from */
	size_t module_count, contribution_count, section_count, own_section_count, move_count;
	uint32_t module_cap;
	struct pdb_types types, ids;
	uint64_t base; /* where the image is loaded by its own header */
	/* What threads share; guarded by lock. */
	pthread_mutex_t lock;
	bool has_lock;
	struct pdb_exports *exports;  /* of each module */
	struct map64 modules_by_name; /* number + 1 by the last part of the name; chained by next_of_name */
	uint32_t *next_of_name;
	struct map64 imported; /* number + 1 of a module, by the offset of the name that others have for it */
};

/* fd may be closed afterwards. ERR_CORRUPT: the text names the place. It must be closed also after a failure. */
enum err pdb_open(struct pdb *p, int fd, uint64_t base, struct error *e);
void pdb_close(struct pdb *p);
/* Reads where its source files are in repositories. ERR_NO_MEMORY. */
enum err pdb_sources_open(struct pdb *p, struct error *e);
/* The module that owns an address; UINT32_MAX: none. */
uint32_t pdb_owner(const struct pdb *p, uint16_t section, uint32_t offset);
/* Calls take for the parts of len bytes of code, at addresses of the program; `skip`: how many bytes of them come
 * before. False: take said so. *steps: as long as it lasts, by one for each move behind the first one in this code;
 * then what is behind the first one is left out. */
bool pdb_place(const struct pdb *p, uint16_t section, uint32_t offset, uint32_t len, uint64_t *steps,
        bool (*take)(void *arg, uint64_t start, uint64_t end, uint32_t skip), void *arg);
/* How many steps the code of a sound file takes at most, with all that is said of it: procedures, inlined calls, lines.
 */
uint64_t pdb_steps(const struct pdb *p);
/* Sets needed[i] of the modules that have code at one of these addresses, in ascending order; all, if nobody says whose
 * one of them is. */
void pdb_needed(const struct pdb *p, const uint64_t *asked, size_t count, bool *needed);

/* For a view: sections without bytes, public symbols. */
enum err pdb_view_read(struct view_builder *b, int fd, struct error *e);

#endif
