/* SPDX-License-Identifier: Apache-2.0 */
/* Everything that an executable and its debug data say about its code, as records of the symbfile format. Executables
 * of Windows and macOS are read by a view of them as ELF. */
#ifndef EXTRACT_EXTRACT_H
#define EXTRACT_EXTRACT_H

#include <limits.h>

#include "symbfile/build_id.h"
#include "symbfile/symbfile.h"

struct extract_options {
	struct build_id slice;  /* of a universal Mach-O file; len 0: the first that can be read */
	const char *debug_file; /* with the DWARF; NULL: the executable itself, else the file that it names */
	const char *debug_dir;  /* where such files are looked for; NULL: /usr/lib/debug */
	unsigned threads;       /* 0: one for each processor, at most 64 */
	/* Only what describes code at one of these addresses is needed, in ascending order: other units and functions
	 * are left out. 0: all code. */
	const uint64_t *asked;
	size_t asked_count;
	/* Fetches the file with the debug data of a build id that is not here; NULL: nothing is fetched. name: of a
	 * file of shared entries (dwz -m), as the link to it says, or of a PDB file; NULL: it is neither. ERR_MISSING:
	 * nobody has it; other errors are told in notes. */
	enum err (*fetch)(
	        void *arg, const uint8_t *id, size_t len, const char *name, char found[PATH_MAX], struct error *e);
	/* Fetches the package (.dwp) of the executable, when units are split and not in files that are here; NULL:
	 * nobody does. ERR_MISSING: nobody has it; other errors end the extraction. */
	enum err (*fetch_package)(void *arg, char found[PATH_MAX], struct error *e);
	void *fetch_arg;                            /* for both */
	void (*doing)(void *arg, const char *what); /* told what comes next; may be NULL */
	void *doing_arg;
};

enum { EXTRACT_NOTES = 8, EXTRACT_NOTE_LENGTH = 512 };

struct extract_stats {
	uint64_t units, ranges, pads;
	/* Units of which entries are in files that are not there: split units, shared entries. A missing PDB file
	 * counts as one. */
	uint64_t lacking;
	bool dynamic;              /* all names come from dynamic symbols */
	bool pads_known;           /* false: no return pads, since calls of this machine are not known */
	char debug_file[PATH_MAX]; /* the other file that was used; empty: none */
	char notes[EXTRACT_NOTES][EXTRACT_NOTE_LENGTH]; /* for the user: what is missing, and what would help */
	unsigned note_count;
};

/* Passes all ranges and return pads of the executable at path to sink, whose functions are called by one thread at a
 * time, not always the same. If a member is NULL, such records are not made. Their order and contents do not depend
 * on the number of threads. stats may be NULL. ERR_MISSING: nothing is known about the code; ERR_CORRUPT: the file
 * is no executable or malformed, no unit of its debug data can be read, or they are of another build; ERR_IO;
 * ERR_NO_MEMORY; or the sink's own error. The text names the file. After a failure the sink has had part of the
 * records. */
enum err extract_executable(const char *path, const struct extract_options *options, const struct symbfile_sink *sink,
        struct extract_stats *stats, struct error *e);

/* The same on this thread, which must have a LARGE_STACK: it does not depend on a thread that cannot be started. */
enum err extract_here(const char *path, const struct extract_options *options, const struct symbfile_sink *sink,
        struct extract_stats *stats, struct error *e);

#endif
