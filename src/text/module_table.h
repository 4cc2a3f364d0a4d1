/* SPDX-License-Identifier: Apache-2.0 */
/* The modules that a text names, and what it says about their ids, before or after their frames. */
#ifndef TEXT_MODULE_TABLE_H
#define TEXT_MODULE_TABLE_H

#include "base/arena.h"
#include "base/map64.h"
#include "text/reader.h"

enum text_id {
	TEXT_ID_GIVEN, /* in the form in which symbol servers are asked for it */
	TEXT_ID_BUILD, /* a GNU build id in hex */
	TEXT_ID_UUID,  /* of a Mach-O file, with or without dashes */
};

struct text_modules {
	struct arena arena;
	struct text_entry *entries; /* modules, in the order of the text */
	uint32_t count, max;
	struct text_known *known; /* by the last segment of the path */
	uint32_t known_count, report;
	bool windows; /* a name that is known has an ending of Windows */
	/* Index + 1, by hash; those of one hash have neighbouring keys. */
	struct map64 by_path, known_by_name;
	uint64_t seed;
};

/* false if out of memory. */
bool text_modules_init(struct text_modules *t, uint32_t max);
void text_modules_release(struct text_modules *t);
void text_modules_forget(struct text_modules *t);
/* Bytes in use. */
size_t text_modules_memory(const struct text_modules *t);

/* A new report begins: what earlier text said is about other processes. */
void text_modules_begin_report(struct text_modules *t);
/* From here on, modules whose path ends in the last segment of this one have this id, and so do those of the current
 * report that were named without one. symbols: the name of the symbol file; empty: the same as the module's. *told:
 * what is known thereby; NULL: the id is none, or the user has given another. False if there is no room. */
bool text_modules_know(struct text_modules *t, struct str path, struct str symbols, struct str id, enum text_id kind,
        bool user, const struct text_module **told);
/* The user says that this is a module, without an id. False if there is no room. */
bool text_modules_know_name(struct text_modules *t, struct str name);
bool text_modules_is_known(const struct text_modules *t, struct str path);
/* The number of a module, which is added if it is new; an empty id: use what is known. -1: no room. */
int32_t text_modules_find(struct text_modules *t, struct str path, struct str id, enum text_id kind);
/* The same of a module of which this is known, unless the user has given its id; NULL: use what is known of its name.
 */
int32_t text_modules_find_told(struct text_modules *t, struct str path, const struct text_module *told);
/* Valid until the next text_modules_find. */
const struct text_module *text_modules_at(const struct text_modules *t, uint32_t index);
/* The same module under another path. */
int32_t text_modules_find_at(struct text_modules *t, uint32_t index, struct str path);
/* Whether half of the room is used. */
bool text_modules_crowded(const struct text_modules *t);
/* Whether all of it is used: otherwise what found no room found no memory. */
bool text_modules_full(const struct text_modules *t);

/* The name without the ending of a program of Windows, such as ".dll"; empty: it has none. */
struct str text_windows_stem(struct str name);
/* Another name under which the symbols of a module of Windows may be stored or told, from 0 on: "app.pdb" and "app" for
 * "app.exe", "app.pdb", "app.exe" and "app.dll" for "app". False: there is no further one. */
bool text_other_name(struct str name, unsigned number, char room[TEXT_NAME_MAX], struct str *out);
/* Whether an id is one of Windows: a debug id with an age, or a code id. */
bool text_is_windows_id(struct str id);

/* The part after the last slash, backslash or, in an archive, exclamation mark. */
struct str text_base_name(struct str path);
/* The debug id that Breakpad makes from a build id (2 or more hex digits) on little-endian machines: 33 characters. */
bool text_debug_id(char out[34], struct str build_id);

#endif
