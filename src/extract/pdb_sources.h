/* SPDX-License-Identifier: Apache-2.0 */
/* Where the source files of a PDB are in their repositories, as its streams "srcsrv" (of Microsoft's and Mozilla's
 * source servers) and "sourcelink" say: names as Mozilla's dump_syms writes them, which /source/v1 and the Firefox
 * Profiler open. */
#ifndef EXTRACT_PDB_SOURCES_H
#define EXTRACT_PDB_SOURCES_H

#include "base/buffer.h"
#include "base/error.h"
#include "base/map64.h"
#include "base/str.h"

enum { SOURCE_VARIABLES_MAX = 64, SOURCE_LINKS_MAX = 256, SOURCE_NAME_MAX = 1024 };

struct pdb_sources {
	struct str files;  /* of srcsrv: a line for each source file */
	struct str target; /* its URL, with names of variables between percent signs */
	struct {
		struct str name, value;
	} variables[SOURCE_VARIABLES_MAX];
	struct {
		struct str path, url; /* as JSON has them, each perhaps with an asterisk at its end */
	} links[SOURCE_LINKS_MAX];
	size_t variable_count, link_count;
	struct map64 lines; /* offset in files of each line + 1, by the hash of its path */
};

/* The contents of the two streams, which must outlive s; empty: there is none. What is malformed is ignored.
 * ERR_NO_MEMORY. */
enum err pdb_sources_read(struct pdb_sources *s, struct str srcsrv, struct str link, struct error *e);
void pdb_sources_release(struct pdb_sources *s);
/* "hg:hg.mozilla.org/mozilla-central:xpcom/a.cpp:REVISION", "git:github.com/OWNER/REPOSITORY:a.rs:REVISION" or
 * "s3:BUCKET:DIGEST/a.cpp:" for a path as the file has it, in out. False: its place is not known, or no such. */
bool pdb_sources_name(const struct pdb_sources *s, struct str path, char out[SOURCE_NAME_MAX]);

#endif
