/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the answers to a question: for people, or as the reply of /symbolicate/v5. */
#ifndef SYMBTOOL_ANSWER_PRINT_H
#define SYMBTOOL_ANSWER_PRINT_H

#include "symbtool/naming.h"
#include "symbtool/question.h"

/* What answers had, over all that were printed. */
struct answer_tally {
	uint64_t stacks; /* printed: an empty line stands between two */
	uint64_t frames, named;
	uint64_t nameless;  /* frames in no function, in modules that have symbols */
	uint64_t in_memory; /* frames outside their modules, which have addresses in memory */
};

/* One line for each frame, and one for each inlined call. asker: who answered, of which all_reasons tells whether
 * frames say of modules without symbols why. ERR_NO_MEMORY. */
enum err answer_print(const struct question *q, const struct asker *asker, bool all_reasons,
        const struct naming *naming, struct answer_tally *tally, struct error *e);
/* ERR_NO_MEMORY. */
enum err answer_print_json(const struct question *q, const struct asker *asker, struct error *e);

/* A string of an answer, without the escapes of JSON; in the arena, or its own. False: no memory. */
bool answer_text(struct str s, struct arena *arena, struct str *out);

#endif
