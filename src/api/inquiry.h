/* SPDX-License-Identifier: Apache-2.0 */
/* An inquiry: a request for symbols, from its body to its reply: finds the modules, loads them if needed, and looks up
 * the frames. Each kind (v5, v4, text) has its own reader and writer. */
#ifndef API_INQUIRY_H
#define API_INQUIRY_H

#include "api/symbolicate.h"
#include "base/reason.h"
#include "front/exchange.h"
#include "json/request.h"

enum { MODULE_UNUSED = -1 }; /* instead of the index of a want: no frame refers to the module, or it has no id */

struct inquiry;
struct writer;

struct inquiry_kind {
	bool functions_only; /* look up no files, lines and inlined calls */
	/* After reading, of the body only the texts of s->request are needed; and of symbols only their texts, unless
	 * the request has a header Debug. */
	bool in_json;
	/* Reads s->body into s->request, with memory from the exchange's arena. */
	enum err (*read)(struct inquiry *s, struct error *e);
	/* After everything is looked up: SYMBOLICATE_OK; SYMBOLICATE_LOAD if that is to be done once more, since more
	 * is known about where modules are loaded; or what fails the request. May be NULL. */
	enum symbolicate_result (*again)(struct inquiry *s);
	/* Replies, after everything is looked up, by inquiry_reply or inquiry_fail. */
	void (*reply)(struct inquiry *s);
	/* Frees what is not in the arena; may be NULL. Also called if reading has failed. */
	void (*release)(struct inquiry *s);
};

struct inquiry {
	struct load_wait wait; /* first: done() finds the inquiry through it */
	const struct inquiry_kind *kind;
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

/* Lets others have their turn; for work that takes long. */
struct yield inquiry_yield(const struct inquiry *s);

/* Handles a request: replies or parks it. */
void inquiry_start(struct exchange *x, const struct inquiry_kind *kind);

/* The want for a module of a job; NULL if it has none. */
const struct module_want *inquiry_want(const struct inquiry *s, uint32_t job, int32_t module);

/* Where a module's file is loaded: of what was uploaded, at the file's own addresses; of other executables, at
 * addresses in the image. Its count is 0 if nobody knows: then an OFFSET_FILE is looked up as if it were one in the
 * image. */
const struct file_map *inquiry_file_map(const struct module_want *want);

/* Why a frame has no name. */
struct inquiry_reason {
	enum reason reason;
	char detail[FAILURE_WHY_SIZE]; /* more about it in printable ASCII, or "" */
};
/* number: of the frame, counted through all jobs. */
struct inquiry_reason inquiry_reason(
        const struct inquiry *s, uint32_t job, const struct request_frame *f, uint64_t number);
/* Why frames of a module have no names, whatever their offsets are; REASON_NONE: the module has all its symbols. */
struct inquiry_reason inquiry_module_reason(const struct module_want *want);
/* "reason":"...", and "detail":"..." if there is one, each with a comma behind it; nothing for REASON_NONE. */
void inquiry_write_reason(struct writer *w, const struct inquiry_reason *r);
/* "reasons":{...}: what the words mean, and what to do. seen: bit i stands for reason i. */
void inquiry_write_reasons(struct writer *w, uint32_t seen);

/* "debug" of a reply, in JSON, after everything is looked up. The caller frees it; NULL: out of memory. */
char *inquiry_debug(const struct inquiry *s);

/* Whether a header such as HTTP_DEBUG is there and has another value than none, 0, false or no. */
bool inquiry_asks_for(const struct exchange *x, const char *header);

/* Replies with what write(w, arg) writes. write is called twice, first to count. size:
 * bytes that symbols.size already counts. The inquiry is gone. */
void inquiry_reply(struct inquiry *s, const char *content_type, uint64_t size,
        void (*write)(struct writer *w, void *arg), void *arg);
/* The inquiry is gone. */
void inquiry_fail(struct inquiry *s, enum err code, unsigned retry_after, const char *text);

/* wants.c. false if out of memory */
bool wants_collect(struct inquiry *s);
/* The frames to look up: those with an address in a module that was found. None is looked up yet. */
bool wants_lookups(struct inquiry *s);

#endif
