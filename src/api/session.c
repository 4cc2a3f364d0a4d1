/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/session.h"

#include <stdio.h>
#include <strings.h>

#include "api/missing.h"
#include "api/writer.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "api/services.h"

enum { PAGES_MAX = 128 << 20 }; /* bytes of pages that one request may hold */
enum { RESTARTS_MAX = 8 };      /* a page may be lost again while its module is reloaded */

static void session_resumed(struct exchange *x);

static const char busy[] = "too many requests are loading symbols or hold too much memory; try again";
static const char late[] = "symbols did not arrive in time; what has arrived is kept: try again";

static void release_session(struct session *s)
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

/* Of memory that the account would not give. */
static void say_busy(const struct session *s, struct error *e)
{
	if (e->code == ERR_NO_MEMORY && (s->exchange->arena->refused || s->exchange->scratch->refused))
		error_set(e, ERR_UNAVAILABLE, "%s", busy);
}

void session_fail(struct session *s, enum err code, unsigned retry_after, const char *text)
{
	struct error e;
	struct exchange *x = s->exchange;
	error_set(&e, code, "%s", text);
	say_busy(s, &e);
	release_session(s);
	exchange_reply_error(x, &e, retry_after);
}

static void count_results(struct session *s)
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

static void too_large(struct session *s)
{
	session_fail(s, ERR_BAD_REQUEST, 0, "reply too large: ask for fewer frames");
}

void session_reply(struct session *s, const char *content_type, uint64_t size,
        void (*write)(struct writer *w, void *arg), void *arg)
{
	struct exchange *x = s->exchange;
	struct writer w = {.exchange = x, .size = size};
	write(&w, arg);
	if (w.size > x->config->max_reply) {
		too_large(s);
	} else if (w.failed || !writer_make_block(&w, s->symbols.largest)) {
		session_fail(s, ERR_NO_MEMORY, 1, "out of memory");
	} else {
		count_results(s);
		exchange_reply_begin(x, 200, content_type, w.size);
		write(&w, arg);
		writer_flush(&w);
		release_session(s);
		exchange_reply_end(x);
		missing_share_soon();
	}
}

/* Nobody sees it but the log and the metrics. */
static void gone(struct session *s)
{
	session_fail(s, ERR_GONE, 0, "the client went away");
}

static bool take_turn(void *arg)
{
	return exchange_turn(arg);
}

struct yield session_yield(const struct session *s)
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

/* A temporary failure of one module fails the request. */
static bool refuse_temporary(struct session *s)
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
	session_fail(s, ERR_UNAVAILABLE, retry_after, text);
	return true;
}

static void wait_done(struct load_wait *wait)
{
	struct session *s = (struct session *)wait;
	exchange_resume(s->exchange, session_resumed);
}

static void drop(struct exchange *x)
{
	release_session(x->user);
}

static bool is_gone(const struct load_wait *wait)
{
	return exchange_gone(((const struct session *)wait)->exchange);
}

/* Looks up and answers, repeating while pages turn out to be lost. Returns true if modules must be loaded first. */
static bool answer(struct session *s)
{
	symbols_release(&s->symbols);
	s->stats.found = 0;
	if (!wants_lookups(s)) {
		session_fail(s, ERR_NO_MEMORY, 1, "out of memory");
		return false;
	}
	const struct symbolication in = {.modules = s->modules,
	        .wants = s->wants,
	        .want_count = s->want_count,
	        .lookups = s->lookups,
	        .lookup_count = s->lookup_count,
	        .functions_only = s->kind->functions_only,
	        .hot = s->kind->in_json && !s->debug ? modules_hot_frames(s->modules) : NULL,
	        .symbols = &s->symbols,
	        .symbol_of = s->symbol_of,
	        .stats = &s->stats,
	        .yield = session_yield(s),
	        .help = {offer, take_back, s->exchange}};
	switch (symbolicate(&in)) {
	case SYMBOLICATE_OK:
		s->kind->reply(s);
		return false;
	case SYMBOLICATE_LOAD:
		if (++s->restarts <= RESTARTS_MAX)
			return true;
		session_fail(
		        s, ERR_UNAVAILABLE, 1, "parts of a module's symbols kept vanishing from the cache; try again");
		return false;
	case SYMBOLICATE_GONE:
		gone(s);
		return false;
	case SYMBOLICATE_TOO_LATE:
		session_fail(s, ERR_UNAVAILABLE, 1, late);
		return false;
	case SYMBOLICATE_TOO_LARGE:
		too_large(s);
		return false;
	default:
		session_fail(s, ERR_NO_MEMORY, 1, "out of memory");
		return false;
	}
}

/* Continues the request from wherever it is until it is answered or must wait. */
static void proceed(struct session *s)
{
	if (s->wait.refused) {
		session_fail(s, ERR_UNAVAILABLE, 2, busy);
		return;
	}
	if (s->wait.timed_out || clock_now() >= s->wait.deadline) {
		session_fail(s, ERR_UNAVAILABLE, 1, late);
		return;
	}
	/* a remembered failure is answered at once, whatever else would have to be loaded */
	if (refuse_temporary(s))
		return;
	do {
		switch (modules_load(s->modules, &s->wait, s->wants, s->want_count)) {
		case LOAD_WAIT:
			return;
		case LOAD_REFUSED:
			session_fail(s, ERR_UNAVAILABLE, 2, busy);
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
static void proceed_unless_gone(struct session *s)
{
	if (exchange_gone(s->exchange))
		gone(s);
	else
		proceed(s);
}

static void session_resumed(struct exchange *x)
{
	proceed_unless_gone(x->user);
}

static bool must_load(const struct session *s)
{
	for (uint32_t i = 0; i < s->want_count; i++)
		if (s->wants[i].state == WANT_LOAD)
			return true;
	return false;
}

bool session_asks_for(const struct exchange *x, const char *header)
{
	static const char *const off[] = {"", "0", "false", "no"};
	const char *value = exchange_param(x, header);
	bool on = value != NULL;
	for (unsigned i = 0; on && i < sizeof off / sizeof *off; i++)
		on = strcasecmp(value, off[i]) != 0;
	return on;
}

/* A large body is not kept while the request waits, if little of it is needed. */
static void leave_body(struct session *s)
{
	struct str body = {(const char *)s->body.data, s->body.len};
	if (s->kind->in_json && body.len > EXCHANGE_SMALL &&
	        request_leave_body(&s->request, body, body.len / 4, s->exchange->arena)) {
		buffer_release(&s->body);
		exchange_uncharge_body(s->exchange);
	}
}

void session_start(struct exchange *x, const struct session_kind *kind)
{
	struct error e;
	const struct config *c = x->config;
	struct session *s = arena_calloc(x->arena, 1, sizeof *s);
	if (!s) {
		no_memory(&e);
		exchange_reply_error(x, &e, 1);
		return;
	}
	s->exchange = x;
	s->modules = services_modules();
	s->kind = kind;
	s->debug = session_asks_for(x, "HTTP_DEBUG");
	s->wait.done = wait_done;
	s->wait.gone = is_gone;
	s->wait.deadline = x->started + c->request_timeout;
	s->wait.client = x->client;
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
		say_busy(s, &e);
		release_session(s);
		exchange_reply_error(x, &e, 2);
		return;
	}
	leave_body(s);
	if (!wants_collect(s)) {
		session_fail(s, ERR_NO_MEMORY, 1, "out of memory");
	} else {
		exchange_turn(x); /* of many frames, collecting takes long */
		modules_resolve(s->modules, s->wants, s->want_count, s->wait.deadline);
		(must_load(s) ? proceed_unless_gone : proceed)(s);
	}
}
