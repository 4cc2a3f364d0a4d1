/* SPDX-License-Identifier: Apache-2.0 */
/* Executables are read by a helper, symbolicated-extract, since a file from a network may break its reader: each file
 * by a process of its own, with limits, that can do nothing but this. */
#ifndef ELF_EXTRACTORS_H
#define ELF_EXTRACTORS_H

#include <stdatomic.h>
#include <stdbool.h>

#include "base/error.h"
#include "base/turnstile.h"
#include "elf/packet.h"
#include "elf/reader_process.h"
#include "symbfile/build_id.h"
#include "symbfile/segments.h"
#include "symbfile/symbfile.h"

/* The helper. Its functions may be called by any thread. */
struct extractors;

/* Starts the program at path; NULL: "symbolicated-extract" beside this process's own. prefix: bits of an IPv6 address
 * that are one client. To be called before there are
 * threads, and before the sandbox is entered. The helper ends when the process does. ERR_CONFIG: there is no such
 * program, it does not start, or is of another version. */
enum err extractors_start(struct extractors **x, const char *path, unsigned parallel, unsigned prefix, struct error *e);
void extractors_stop(struct extractors *x);
/* Whether the program that extractors_start would start is there. */
enum err extractors_check(struct error *e);

/* Fetching waits for a distant source, and reading for the cores: so more may fetch than read. */
enum extractors_place {
	PLACE_FETCH, /* to have files of a module: EXTRACTORS_FETCH times `parallel` of them */
	PLACE_READ,  /* to have one read: `parallel` */
	EXTRACTORS_PLACES,
};
enum { EXTRACTORS_FETCH = 12 };

/* Waits for a place for the client. Take PLACE_FETCH first. False: *cancel, which may be NULL, was set, or out of
 * memory. */
bool extractors_enter(struct extractors *x, enum extractors_place place, struct client_key client, struct visit *visit,
        const atomic_bool *cancel);
void extractors_leave(struct extractors *x, enum extractors_place place, struct visit *visit);
/* Charges bytes of a file that is fetched: all together may have those of four of the largest for each that is read.
 * False: there is no room. */
bool extractors_charge(struct extractors *x, uint64_t bytes, uint64_t largest);
void extractors_uncharge(struct extractors *x, uint64_t bytes);

/* Receives instructions, as `struct disassembly` has them; texts are printable ASCII. */
struct code_sink {
	enum err (*begin)(void *arg, struct str arch, struct error *e);
	enum err (*instruction)(void *arg, uint32_t offset, uint64_t target, struct str text, struct error *e);
	void *arg;
};

/* Receives the bytes of a section. */
struct section_sink {
	enum err (*add)(void *arg, const uint8_t *data, size_t len, struct error *e);
	void *arg;
};

enum { PROVIDE_NONE = -1, PROVIDE_FAILED = -2 };

/* One file. */
struct extraction {
	int file; /* open for reading; stays the caller's */
	struct job_limits limits;
	const struct build_id_question *question; /* the file must have a build id that answers it */
	struct symbfile_sink sink;                /* for records */
	struct code_sink code;                    /* for instructions, if limits.code is set */
	struct section_sink section;              /* if limits.section is set */
	/* Returns a descriptor, which extract_file closes, of the file with the debug data of a build id; or
	 * PROVIDE_NONE; or PROVIDE_FAILED, which ends the job with ERR_UNAVAILABLE. name: of a file of shared entries,
	 * of any bytes, as the file says; empty: it is none. Neither: the package of the file's split units (.dwp). May
	 * be NULL. */
	int (*provide)(void *arg, const struct build_id *id, struct str name);
	void *provide_arg;
	reader_take *take; /* for its reader's memory; NULL: account_take_small */
	void *take_arg;
	const atomic_bool *cancel; /* ends it within about a second; may be NULL */
	struct file_map loaded;    /* out: where the file is loaded in the image, if it tells */
	bool known;                /* out: it has such an id, whatever else failed */
	bool sent;                 /* out: code or section has got something */
	uint64_t hash;             /* out: of all records, in order */
	uint64_t lacking;   /* out: units of which entries are in files that could not be provided: their functions have
	                       no inlined calls, some no name */
	uint64_t code_size; /* out: bytes of the instructions */
};

/* Passes what the file says about its code to the sink, at addresses relative to the image. ERR_MISSING: it says
 * nothing; ERR_CORRUPT: it is malformed, another file than asked for, or its reader died: the text says of what, and
 * what it was doing; ERR_TOO_LARGE: there is no room for its reader's memory; ERR_UNAVAILABLE: cancelled, there is no
 * helper, a file changed meanwhile, or this host cannot read one either, or lacks what a reader may take; ERR_NO_MEMORY
 * of this process; what the sink returns. In any case its reader has ended. */
enum err extract_file(struct extractors *x, struct extraction *job, struct error *e);

#endif
