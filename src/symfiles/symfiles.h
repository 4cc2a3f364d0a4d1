/* SPDX-License-Identifier: Apache-2.0 */
/* Symbol files as they are stored: from the first source that has one, with a memory of which are missing. */
#ifndef SYMFILES_SYMFILES_H
#define SYMFILES_SYMFILES_H

#include <stdbool.h>
#include <stdint.h>

#include "base/config.h"
#include "base/error.h"
#include "base/hash.h"
#include "objects/bucket.h"
#include "objects/store.h"
#include "symfiles/code_ids.h"
#include "symfiles/missing.h"

/* For all threads. c and sources must outlive it. */
struct symfiles;
struct symfiles *symfiles_new(const struct config *c, struct bucket_sources *sources, struct error *e);
void symfiles_free(struct symfiles *s); /* NULL is fine */

/* The place that sym_store names; NULL if it names none. */
struct symbfile_store *symfiles_store(const struct symfiles *s);

/* Where another file than a symbol file may be, in a source of this kind: the path to ask for, by number from 0 on.
 * False: there are no more. */
enum { SYMFILE_PATH_MAX = BUCKET_PLAIN_MAX + 1 };
typedef bool symfile_path(const void *arg, enum bucket_kind kind, unsigned number, char out[SYMFILE_PATH_MAX]);

/* Which file: hash names it in every cache. */
struct symfile {
	struct str name, id;
	struct module_hash hash;
	enum symfile_sort {
		SYMFILE_SYM,
		SYMFILE_BY_CODE, /* a symbol file of which only the code file and the code id are known */
		SYMFILE_FILE,    /* an executable or a debug file */
		SYMFILE_PACKED,  /* such a file in a cabinet */
		SYMFILE_SORTS
	} sort;             /* each counts apart among what is missing */
	symfile_path *path; /* of the last two */
	const void *path_arg;
};

/* Who reads a file. */
struct symfiles_reader {
	struct bucket_raw_sink sink;
	bool zstd;  /* takes what is packed so */
	char **url; /* not NULL: may get a URL instead, which the caller frees; then the outcome is BUCKET_OK, and sink
	               has nothing */
	const atomic_bool *cancel; /* ends the transfer within about a second; may be NULL */
};

/* Searches the sources (source_search.h), with retries as long as nothing has come. BUCKET_OK: sink has it all.
 * BUCKET_MISSING: no source has it. ERR_NO_MEMORY: nothing was asked; else ERR_OK. */
enum err symfiles_get(struct symfiles *s, const struct symfile *file, const struct symfiles_reader *reader,
        struct bucket_result *result, struct error *e);

/* Where things stood when a file was asked for; a miss is not remembered if they have changed meanwhile. */
struct symfiles_since {
	uint64_t marker;    /* of the file, in memcached */
	uint64_t forgotten; /* by symfiles_forgotten */
};

/* How often anything was forgotten. */
uint64_t symfiles_forgotten(struct symfiles *s);
/* Whether it is known to be missing, as long as its marker in memcached is this one. */
bool symfiles_is_missing(struct symfiles *s, const struct symfile *file, uint64_t marker);
void symfiles_set_missing(struct symfiles *s, const struct symfile *file, const struct symfiles_since *since);
/* In this process, whatever the marker. */
void symfiles_forget(struct symfiles *s, const struct module_hash *hash);

/* What requests of any kind asked for in vain. */
struct missing_list *symfiles_missing(struct symfiles *s);

#endif
