/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/inquiry.h"

#include <stdio.h>
#include <strings.h>

#include "api/missing.h"
#include "api/writer.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "api/services.h"

enum { PAGES_MAX = 128 << 20 }; /* bytes of pages that one request may hold */
enum { RESTARTS_MAX = 8 };      /* a page may be lost again while its module is reloaded */
enum { LARGE = 4096 };          /* frames of a request that keeps no texts of them */

static void proceed_unless_gone(struct exchange *x);

static const char busy[] = "too many requests are loading symbols or hold too much memory; try again";

static void release_inquiry(struct inquiry *s)
{
	modules_leave(s->modules, &s->wait);
	for (uint32_t i = 0; i < s->want_count; i++)
		module_want_release(&s->wants[i]);
	if (s->kind->release)
		s->kind->release(s);
	buffer_release(&s->body);
	symbols_release(&s->symbols);
	exchange_uncharge_body(s->exchange);
}

static void fail_with(struct inquiry *s, struct error *e, unsigned retry_after)
{
	struct exchange *x = s->exchange;
	if (e->code == ERR_NO_MEMORY && (x->arena->refused || x->scratch->refused)) /* the account has no room */
		error_set(e, ERR_UNAVAILABLE, "%s", busy);
	release_inquiry(s);
	exchange_reply_error(x, e, retry_after);
}

void inquiry_fail(struct inquiry *s, enum err code, unsigned retry_after, const char *text)
{
	struct error e;
	error_set(&e, code, "%s", text);
	fail_with(s, &e, retry_after);
}

static void count_results(struct inquiry *s)
{
	uint64_t found = 0, missing = 0, skipped = 0;
	s->exchange->frames = s->request.frame_count;
	s->exchange->modules = s->want_count;
	for (uint32_t i = 0; i < s->want_count; i++) {
		*(s->wants[i].state == WANT_FOUND ? &found : &missing) += 1;
		s->exchange->loads += s->wants[i].loaded;
		if (s->wants[i].state == WANT_FAILED && s->wants[i].failure == FAILURE_MISSING)
			missing_note_request(s->exchange, s->wants[i].name, s->wants[i].id);
	}
	for (uint32_t j = 0; j < s->request.job_count; j++)
		skipped += s->request.jobs[j].text_count;
	metric_add(M_MODULES_FOUND, (int64_t)found);
	metric_add(M_MODULES_MISSING, (int64_t)missing);
	metric_add(M_FRAMES_TOTAL, (int64_t)s->stats.found);
	metric_add(M_FRAMES_UNKNOWN, (int64_t)(s->request.frame_count - skipped - s->stats.found));
	metric_add(M_FRAMES_SKIPPED, (int64_t)skipped);
}

/* What failed lookups are to a client. */
static const struct {
	enum err code;
	const char *text;
} failures[] = {
        [SYMBOLICATE_LOAD] = {ERR_UNAVAILABLE, "parts of a module's symbols kept vanishing from the cache; try again"},
        [SYMBOLICATE_GONE] = {ERR_GONE, "the client went away"}, /* seen by nobody but log and metrics */
        [SYMBOLICATE_TOO_LATE] = {ERR_UNAVAILABLE,
                "symbols did not arrive in time; those that did are kept: try again"},
        [SYMBOLICATE_TOO_LARGE] = {ERR_BAD_REQUEST, "reply too large: ask for fewer frames"},
        [SYMBOLICATE_NO_MEMORY] = {ERR_NO_MEMORY, "out of memory"},
        [SYMBOLICATE_NO_SEGMENTS] = {ERR_UNAVAILABLE,
                "the sources that know where a file is loaded cannot be asked right now; try again"},
};

static void fail(struct inquiry *s, enum symbolicate_result result)
{
	inquiry_fail(s, failures[result].code, 1, failures[result].text);
}

void inquiry_reply(struct inquiry *s, const char *content_type, uint64_t size,
        void (*write)(struct writer *w, void *arg), void *arg)
{
	struct exchange *x = s->exchange;
	struct writer w = {.exchange = x, .size = size};
	write(&w, arg);
	if (w.size > x->config->max_reply) {
		fail(s, SYMBOLICATE_TOO_LARGE);
	} else if (w.failed || !writer_make_block(&w, s->symbols.largest)) {
		fail(s, SYMBOLICATE_NO_MEMORY);
	} else {
		modules_leave(s->modules, &s->wait); /* its reader may be slow: others get its place */
		exchange_reply_begin(x, 200, content_type, w.size);
		write(&w, arg);
		count_results(s); /* before the end of the reply can be seen */
		writer_flush(&w);
		release_inquiry(s);
		(w.failed ? exchange_reply_cut : exchange_reply_end)(x);
	}
}

static bool take_turn(void *arg)
{
	return exchange_turn(arg);
}

struct yield inquiry_yield(const struct inquiry *s)
{
	return (struct yield){take_turn, s->exchange};
}

static void offer(void *arg, struct help_work *w)
{
	exchange_offer(arg, w);
}

static void take_back(void *arg, struct help_work *w)
{
	exchange_take_back(arg, w);
}

/* A temporary failure of one module, even a remembered one, fails the request: then nothing is loaded. */
static bool refuse_temporary(struct inquiry *s)
{
	unsigned retry_after = 0;
	const struct module_want *first = NULL;
	for (uint32_t i = 0; i < s->want_count; i++) {
		const struct module_want *w = &s->wants[i];
		if (w->state == WANT_FAILED && w->failure == FAILURE_TEMPORARY) {
			first = first ? first : w;
			retry_after = w->retry_after > retry_after ? w->retry_after : retry_after;
		}
	}
	if (!first)
		return false;
	char text[200];
	snprintf(text, sizeof text, "the symbols of %.*s/%.*s cannot be fetched right now; try again",
	        first->name.len > 80 ? 80 : (int)first->name.len, first->name.data,
	        first->id.len > 50 ? 50 : (int)first->id.len, first->id.data);
	inquiry_fail(s, ERR_UNAVAILABLE, retry_after, text);
	return true;
}

static void wait_done(struct load_wait *wait)
{
	exchange_resume(((struct inquiry *)wait)->exchange, proceed_unless_gone);
}

static void drop(struct exchange *x)
{
	release_inquiry(x->user);
}

static bool is_gone(const struct load_wait *wait)
{
	return exchange_gone(((const struct inquiry *)wait)->exchange);
}

/* ---- lookups ---- */

/* Whether texts of frames are worth keeping. A large request has more frames than places: it would find few of its own,
 * and drop those of others. */
static bool keeps_hot(const struct inquiry *s)
{
	return s->kind->in_json && !s->debug && s->request.frame_count < LARGE;
}

static enum symbolicate_result look_up(struct inquiry *s)
{
	symbols_release(&s->symbols);
	if (!wants_lookups(s))
		return SYMBOLICATE_NO_MEMORY;
	const struct symbolication in = {.modules = s->modules,
	        .wants = s->wants,
	        .want_count = s->want_count,
	        .lookups = s->lookups,
	        .lookup_count = s->lookup_count,
	        .functions_only = s->kind->functions_only,
	        .hot = keeps_hot(s) ? modules_hot_frames(s->modules) : NULL,
	        .symbols = &s->symbols,
	        .symbol_of = s->symbol_of,
	        .stats = &s->stats,
	        .yield = inquiry_yield(s),
	        .help = {offer, take_back, s->exchange}};
	return symbolicate(&in);
}

/* Looks up and answers, repeating while pages turn out to be lost. Returns true if modules must be loaded first. */
static bool answer(struct inquiry *s)
{
	enum symbolicate_result result = look_up(s);
	if (!result && s->kind->again)
		result = s->kind->again(s);
	if (result == SYMBOLICATE_LOAD && ++s->restarts <= RESTARTS_MAX)
		return true;
	if (result)
		fail(s, result);
	else
		s->kind->reply(s);
	return false;
}

/* Continues the request from wherever it is until it is answered or must wait. */
static void proceed(struct inquiry *s)
{
	if (s->wait.refused) {
		inquiry_fail(s, ERR_UNAVAILABLE, 2, busy);
		return;
	}
	if (s->wait.timed_out || clock_now() >= s->wait.deadline) {
		fail(s, SYMBOLICATE_TOO_LATE);
		return;
	}
	do {
		switch (modules_load(s->modules, &s->wait, s->wants, s->want_count)) {
		case LOAD_WAIT:
			return;
		case LOAD_REFUSED:
			inquiry_fail(s, ERR_UNAVAILABLE, 2, busy);
			return;
		case LOAD_READY:
			break;
		}
		if (refuse_temporary(s))
			return;
	} while (answer(s));
}

/* Asks whether the client is still there only if the request has waited or is about to: for other requests, answering
 * costs little more than asking. */
static void proceed_unless_gone(struct exchange *x)
{
	if (exchange_gone(x))
		fail(x->user, SYMBOLICATE_GONE);
	else
		proceed(x->user);
}

bool inquiry_asks_for(const struct exchange *x, const char *header)
{
	static const char *const off[] = {"", "0", "false", "no"};
	const char *value = exchange_param(x, header);
	bool on = value != NULL;
	for (unsigned i = 0; on && i < sizeof off / sizeof *off; i++)
		on = strcasecmp(value, off[i]) != 0;
	return on;
}

/* A large body is not kept while the request waits, if little of it is needed. */
static void leave_body(struct inquiry *s)
{
	struct str body = {(const char *)s->body.data, s->body.len};
	if (s->kind->in_json && body.len > EXCHANGE_SMALL &&
	        request_leave_body(&s->request, body, body.len / 4, s->exchange->arena)) {
		buffer_release(&s->body);
		exchange_uncharge_body(s->exchange);
	}
}

void inquiry_start(struct exchange *x, const struct inquiry_kind *kind)
{
	struct error e;
	const struct config *c = x->config;
	struct inquiry *s = arena_calloc(x->arena, 1, sizeof *s);
	if (!s) {
		no_memory(&e);
		exchange_reply_error(x, &e, 1);
		return;
	}
	s->exchange = x;
	s->modules = services_modules();
	s->kind = kind;
	s->debug = inquiry_asks_for(x, "HTTP_DEBUG");
	s->wait.done = wait_done;
	s->wait.gone = is_gone;
	s->wait.deadline = x->started + c->request_timeout;
	s->wait.client = x->client;
	s->wait.client_prefix = (unsigned)c->client_ipv6_prefix;
	x->user = s;
	x->dropped = drop;
	buffer_init(&s->body, c->max_body_inflated);
	symbols_init(&s->symbols, x->scratch, c->max_reply,
	        c->cache_size / 4 < PAGES_MAX ? c->cache_size / 4 : PAGES_MAX, s->wait.deadline);
	enum err err = exchange_read_body(x, &s->body, &e);
	if (!err)
		err = kind->read(s, &e);
	if (err) {
		e.code = err;
		fail_with(s, &e, 2);
		return;
	}
	leave_body(s);
	if (!wants_collect(s)) {
		fail(s, SYMBOLICATE_NO_MEMORY);
	} else {
		exchange_turn(x); /* of many frames, collecting takes long */
		modules_resolve(s->modules, s->wants, s->want_count, s->wait.deadline);
		if (wants_need_load(s->wants, s->want_count))
			proceed_unless_gone(x);
		else
			proceed(s);
	}
}
