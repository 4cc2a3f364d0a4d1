/* SPDX-License-Identifier: Apache-2.0 */
/* The code ids of symbol files that are loaded, whatever source has them: kept beside those of uploaded files, by a
 * thread that no load waits for; and which module any of these belongs to. One for the process. */
#ifndef SYMFILES_CODE_NOTES_H
#define SYMFILES_CODE_NOTES_H

#include "base/str.h"
#include "objects/store.h"
#include "symfiles/code_ids.h"

/* Starts the thread; without it nothing is kept. The store must outlive it. kept is called, by that thread, after a
 * code id was written that was not known before. */
void code_notes_start(struct symbfile_store *store, void (*kept)(struct str code_file, struct str code_id));
/* Ends it; what it has not done yet is dropped. */
void code_notes_stop(void);
/* The file of this module says that it belongs to this code file and code id. Waits for nothing: if too many wait, it
 * is dropped, and told again by the next load. What was uploaded stays the answer. */
void code_note(struct str name, struct str id, struct str code_file, struct str code_id);
/* The module that a code file and code id belong to, whoever said so. Errors are those of code_id_get; ERR_MISSING also
 * without a store. */
enum err code_note_find(
        struct str code_file, struct str code_id, struct code_module *m, const atomic_bool *cancel, struct error *e);

#endif
