/* SPDX-License-Identifier: Apache-2.0 */
/* What the parts of an asker share: ask.c, ask_modules.c, ask_server.c. */
#ifndef SYMBTOOL_ASKER_H
#define SYMBTOOL_ASKER_H

#include "symbtool/ask.h"

enum { ASK_IDS = 5 };

/* What a server is asked for. */
struct ask_id {
	char *key; /* NAME/ID */
	size_t name_len;
	bool own;       /* a FileID: addresses are those of the file; otherwise they are in the image */
	int32_t number; /* in the request's memory map; -1: it is not there */
};

struct asked_module {
	bool decided;
	enum reason why; /* once it is decided; REASON_NONE: it has symbols */
	/* from files */
	char *path;         /* NULL: a server answers */
	char *const *parts; /* with others, which are the caller's; NULL: it is the only one */
	size_t part_count;
	const struct offmap *map; /* for the batch in which it was opened */
	uint64_t opened;
	/* from a server */
	struct ask_id ids[ASK_IDS]; /* in order */
	unsigned id_count, by;      /* by: which one the server has, once it is decided */
	uint64_t image_base;        /* as the server says; 0 if there is a place */
	struct file_map file;       /* likewise */
	struct local_place *place;  /* of its file; NULL: only the server may know it */
};

struct asker {
	enum ask_for what;
	struct local_symbols *local;
	struct server_connection *connection; /* NULL: files answer */
	struct asked_module *modules;
	uint32_t count, cap;
	uint64_t batch; /* counted from 1 */
};

static inline struct asked_module *asked_module_of(const struct asker *a, const struct ask_frame *f)
{
	return f->module < 0 ? NULL : &a->modules[f->module];
}

/* Whether it is known what the frame's address is relative to: only a file says where its sections and segments begin.
 */
bool asker_knows_base(const struct asked_module *m, const struct ask_frame *f);

/* Asks the server, in one request, or two if its first reply says where modules are loaded. The answers of modules that
 * it lacks say why. Errors are connection_ask's, and ERR_CORRUPT. */
enum err ask_server(
        struct asker *a, struct ask_frame *const *frames, size_t count, struct arena *arena, struct error *e);

#endif
