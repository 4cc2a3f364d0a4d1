/* SPDX-License-Identifier: Apache-2.0 */
/* A request for symbols from its body to its reply: modules are had, loaded where they must be, and frames looked up.
 * What is read and what is written is of its kind: v5, v4, text. */
#ifndef API_SESSION_H
#define API_SESSION_H

#include "format/request_json.h"
#include "front/exchange.h"
#include "modules/symbolicate.h"

enum { MODULE_UNUSED = -1 }; /* in place of the index of a want: no frame refers to the module, or it has no id */

struct session;

struct session_kind {
	bool functions_only; /* neither files, lines nor inlined calls are looked up */
	/* Reads s->body into s->request, whose memory is of the exchange's arena. */
	enum err (*read)(struct session *s, struct error *e);
	/* Replies, when all is looked up, by session_reply or session_fail. */
	void (*reply)(struct session *s);
	/* Frees what is not of the arena; may be NULL. Also called when reading has failed. */
	void (*release)(struct session *s);
};

struct session {
	struct load_wait wait; /* first: done finds the session by it */
	const struct session_kind *kind;
	struct exchange *exchange;
	struct modules *modules;
	bool debug;
	void *user; /* of the kind */
	struct buffer body;
	struct request request;
	struct module_want *wants;
	uint32_t want_count;
	int32_t **want_of;   /* by job and module */
	uint32_t *stacks_of; /* frames that refer to each want, for debug */
	struct lookup *lookups;
	const struct symbol **symbol_of; /* by frame, counted through all jobs; NULL: it was not looked up */
	size_t lookup_count;
	struct symbols symbols;
	struct symbolicate_stats stats;
	unsigned restarts;
};

/* Handles a request whole: replies or parks it. */
void session_start(struct exchange *x, const struct session_kind *kind);

/* The want of a module of a job; NULL: it has none. */
const struct module_want *session_want(const struct session *s, uint32_t job, int32_t module);

/* Why a frame of a module has no name; NULL: it has one. symbol: NULL when it was not looked up, since the module could
 * not be had; then want is NULL for a module without name or id. *detail: more of it, or "". */
const char *session_reason(const struct module_want *want, const struct symbol *symbol, char detail[FAILURE_WHY_SIZE]);

struct writer;
/* Replies with what write(w, arg) writes: it is called twice, first to count. size: what of it symbols.size says
 * already. The session is gone. */
void session_reply(struct session *s, const char *content_type, uint64_t size,
        void (*write)(struct writer *w, void *arg), void *arg);
/* The session is gone. */
void session_fail(struct session *s, enum err code, unsigned retry_after, const char *text);

/* wants.c. false: no memory */
bool wants_collect(struct session *s);
/* The frames to look up: those with an address in a module that was found. */
bool wants_lookups(struct session *s);
/* Modules that are not where they were looked for may be elsewhere, since an id may be of several kinds. *again: there
 * are new wants. */
bool wants_look_further(struct session *s, bool *again);

#endif
