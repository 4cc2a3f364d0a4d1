/* SPDX-License-Identifier: Apache-2.0 */
/* A module's records from a source of executables: finds the file with its debug data by build id, and has it read. */
#ifndef ELF_ELF_SOURCE_H
#define ELF_ELF_SOURCE_H

#include "elf/extractors.h"
#include "elf/layouts.h"
#include "objects/bucket.h"

/* What all calls share. */
struct elf_sources {
	const struct config *config;
	struct extractors *extractors;
	const struct bucket_sources *buckets;
};

/* Whether any source of the settings is one of executables. */
bool elf_sources_wanted(const struct config *c);

/* Whether this user can have executables read: the program and the folder. ERR_CONFIG. */
enum err elf_sources_check(const struct config *c, struct error *e);

/* What one file may take, by the settings. */
struct job_limits elf_job_limits(const struct config *c);

/* What is known beside the result. */
struct elf_source_report {
	struct error error; /* why reading the file failed; the sink's own error, if it had one. ERR_MISSING: more than
	                       that no file is there */
	struct file_map loaded; /* where the file is loaded in the image, if it tells */
	uint64_t hash;          /* of all records, in order */
	uint64_t lacking;       /* as in struct extraction */
	uint64_t code_size;     /* bytes of the instructions */
	bool sent;              /* as in struct extraction */
	int64_t read_time;      /* nanoseconds, in which a file that shares entries may be fetched too */
};

enum { PE_NAME_MAX = LAYOUT_NAME_MAX };

/* A range of code. */
struct code_range {
	uint64_t start, size; /* relative to the image */
	bool to_function_end; /* go on behind size, to the end of the function that start is in, if a symbol tells it */
	/* If the question's build id may be a PE file's code id (time stamp and size of the image, four bytes each):
	 * its name, of letters, digits, '.', '_', '+' and '-' only. "": it is none. */
	char pe_name[PE_NAME_MAX];
};

/* Who takes the records, or the instructions. */
struct elf_taker {
	struct str name;          /* of the module; files of Windows and macOS are looked for by it */
	struct client_key client; /* who waits for it */
	struct symbfile_sink sink;
	reader_take *take; /* as in struct extraction, with its argument */
	void *take_arg;
	const atomic_bool *cancel; /* may be NULL */
	/* No records are wanted, but of the executable itself the instructions of a range. Without a range: only where
	 * it is loaded (report->loaded), which a debug file may not know; just the beginning of it is fetched. */
	bool executable;
	const struct code_range *range;
	struct code_sink code;
	/* Neither, but the bytes of the section of this name (as in struct job_limits), if not NULL: of the debug file,
	 * or else of the executable. */
	const char *section_name;
	struct section_sink section;
};

/* One attempt at the source, which is not of the kind BUCKET_SYMS, for the module whose build id answers the question.
 * Passes its records or instructions to the taker, at addresses relative to the image. BUCKET_MISSING: no such module
 * there, or the question is about a debug id, of which only a directory tells the rest; the text says which, the
 * report's error too; BUCKET_BROKEN: the file is malformed, or another one, or its reader died; BUCKET_FAILED:
 * temporary; BUCKET_ABORTED: cancelled, or by the sink, or memory ran out (ERR_TOO_LARGE: for its reader). */
void elf_source_load(const struct elf_sources *s, struct bucket_client *c, unsigned source,
        const struct build_id_question *question, const struct elf_taker *taker, struct bucket_result *result,
        struct elf_source_report *report);

#endif
