/* SPDX-License-Identifier: Apache-2.0 */
/* One way to ask for the names at offsets of modules:
 *
 *   a word of the command line,  ─► asker_add_…: files of this machine, or ids to ask a server by (ask_modules.c)
 *   a module of a text
 *   addresses, frames of a text  ─► ask ─┬─ files: local_symbols.c finds and keeps them, local_map.c reads them
 *                                        └─ a server: ask_server.c
 */
#ifndef SYMBTOOL_ASK_H
#define SYMBTOOL_ASK_H

#include "base/arena.h"
#include "base/reason.h"
#include "symbtool/local_symbols.h"
#include "symbtool/server.h"
#include "text/write_names.h"

/* Without calls unless why is REASON_NONE. In the arena, with strings that may be of an open file. */
struct frame_names {
	enum reason why;
	const struct text_call *calls;
	size_t count;
	uint64_t behind; /* bytes from the start of the function, the last of the calls */
	bool has_size;
	uint64_t size; /* of the function */
};

/* A question with its answer. */
struct ask_frame {
	int32_t module; /* its number; negative: none is known */
	enum text_base base;
	uint64_t address;
	struct frame_names names; /* the answer */
};

enum ask_for {
	ASK_ADDRESSES, /* of a command line: of a file only what they need is read, at first, so that nothing is known
	                  of what is around them; it is told of each module that has no symbols */
	ASK_FRAMES,    /* of a text */
};

struct asker;
/* server: checked; NULL: files answer. With one, they only say by which ids it is asked. Both must outlive it. NULL if
 * out of memory. */
struct asker *asker_new(enum ask_for what, struct local_symbols *local, struct server *server);
void asker_free(struct asker *a); /* NULL is fine */

/* Modules are numbered from 0 on, as they are added. ERR_NO_MEMORY. */
uint32_t asker_count(const struct asker *a);
/* Files of one executable, read together; without a server. */
enum err asker_add_files(struct asker *a, char *const *paths, size_t count, struct error *e);
/* FILE, NAME/ID or an ID, for a server. Addresses are those of the file, or in the image. ERR_BAD_REQUEST, ERR_IO. */
enum err asker_add_word(struct asker *a, const char *word, struct error *e);
/* Whether a text is an ID. */
bool ask_is_id(struct str text);
/* A module of a text. Its file is looked for in any case. */
enum err asker_add_text(struct asker *a, const struct text_module *m, struct error *e);
/* One that is nowhere. */
enum err asker_add_nothing(struct asker *a, const char *name, struct error *e);
/* A module of a text had no id so far; perhaps the text has told one by now. */
enum err asker_tell_id(struct asker *a, uint32_t module, const struct text_module *m, struct error *e);
/* Forgets the modules; what files had stays for those of the same files. */
void asker_forget(struct asker *a);

/* How frames call the module: its file's name, or that on the server. */
struct str asker_name(const struct asker *a, uint32_t module);
/* The file, or NAME/ID as the server has it; if it does not, the last that was asked for. */
const char *asker_key(const struct asker *a, uint32_t module);
enum ask_found { ASK_UNKNOWN, ASK_FOUND, ASK_LACKING };
/* Whether it has symbols. */
enum ask_found asker_found(const struct asker *a, uint32_t module);
/* Whether it is known where the parts of its file are loaded. */
bool asker_knows_file(const struct asker *a, uint32_t module);

/* Answers all frames; each distinct one is looked up once. ERR_NO_MEMORY; or the server's error: frames that it did not
 * answer then have REASON_NO_ANSWER. What is wrong with a module has been reported. Answers are valid until the arena
 * is reset, or local_symbols_settle. */
enum err asker_ask(struct asker *a, struct ask_frame *frames, size_t count, struct arena *arena, struct error *e);

#endif
