/* SPDX-License-Identifier: Apache-2.0 */
/* The reply to a question, in the form of /symbolicate/v5, whoever gives it. */
#ifndef SYMBTOOL_ANSWER_H
#define SYMBTOOL_ANSWER_H

#include "base/buffer.h"
#include "base/reason.h"
#include "map/offmap.h"
#include "map/read.h"
#include "symbtool/naming.h"
#include "symbtool/question.h"
#include "symbtool/server.h"

/* maps: one for each module; NULL where there is none. */
enum err answer_local(const struct question *q, struct offmap *const *maps, struct buffer *reply, struct error *e);
/* What is known of the modules of a question, from one answer to the next. Zeroed at first. */
struct server_modules {
	struct server_module *items;
	size_t count;
	uint32_t cap;
};
void server_modules_release(struct server_modules *s);
/* Modules are NAME/ID, an ID alone, or files. Files are asked for by FileID and, if the server does not know it, by
 * build id, for which addresses count from the start of the image. */
enum err answer_server(const struct question *q, struct server_modules *modules, struct server_connection *c,
        struct buffer *reply, struct error *e);
/* Complains once of each module that the server did not find, with the server's reason. told: a JSON object of the
 * caller's. *lacking: there was one. */
enum err answer_missing(
        struct server_connection *c, const struct buffer *reply, json_t *told, bool *lacking, struct error *e);

/* Asks /symbolicate/v5; debug: also for what only the header Debug brings. Errors are those of connection_send. */
enum err answer_send(
        struct server_connection *c, bool debug, const struct buffer *body, struct buffer *reply, struct error *e);
/* Appends a module to the memory map of a request: ["name","id"]. */
void answer_put_module(struct buffer *out, bool first, struct str name, struct str id);
/* A reply, which the caller releases; NULL: it is no JSON. *result: what it says of the only question in it. */
json_t *answer_parse(const struct buffer *reply, const json_t **result);

/* What an address is, with all strings; m may be NULL. ERR_CORRUPT, ERR_NO_MEMORY. */
enum err answer_look_up(const struct offmap *m, uint64_t address, struct arena *arena, struct offmap_answer *a);
/* Why it has no name. The map may hold no more than what was read for the addresses that were asked, so that nothing
 * is known of their surroundings. */
enum reason answer_reason(const struct offmap *m, uint64_t address, const struct offmap_answer *a);
/* Sets and returns an error of answer_look_up. */
enum err answer_failed(enum err err, struct error *e);
/* How answers name the module of a file. */
const char *answer_module(const char *path);

/* What replies had, over all that were printed. */
struct answer_tally {
	uint64_t stacks; /* printed: an empty line stands between two */
	uint64_t frames, named;
	uint64_t nameless;  /* frames in no function, in modules that were found */
	uint64_t in_memory; /* frames outside their modules, which have addresses in memory */
};

/* For people: one line for each frame, and one for each inlined call. ERR_CORRUPT: the reply has another form. */
enum err answer_print(
        const struct buffer *reply, const struct naming *naming, struct answer_tally *tally, struct error *e);
/* The same from maps, without a reply in between. ERR_CORRUPT, ERR_NO_MEMORY. */
enum err answer_print_local(const struct question *q, struct offmap *const *maps, const struct naming *naming,
        struct answer_tally *tally, struct error *e);

#endif
