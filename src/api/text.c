/* SPDX-License-Identifier: Apache-2.0 */
/* /symbolicate/text: takes any text that contains stacks, and returns it with names added or, if the client accepts
 * JSON, its frames.
 *
 *   body ──► the reader of text/ ──► frames ──► a request: one job with one stack     read_text
 *                                                 │
 *                                                 ▼
 *                                              inquiry.c: modules, symbols
 *                                                 │   ▲ for modules that lack symbols or segments:
 *                                                 │   │ other names, where their file is loaded   look_further
 *                                                 ▼   │
 *   reply ◄── names in place of what the text has, or JSON ◄── symbols                reply, write_text, write_json */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "api/inquiry.h"
#include "api/services.h"
#include "api/sym_path.h"
#include "api/writer.h"
#include "base/array.h"
#include "base/clock.h"
#include "text/file_offsets.h"
#include "text/module_table.h"
#include "text/reader.h"
#include "text/unescape.h"
#include "text/write_names.h"

enum {
	CHUNK_FRAMES = 256,
	PIECE = 256 << 10,    /* of the text, read at a time */
	FRAMES_HEADER = 64,   /* bytes */
	MODULES_MAX = 100000, /* whatever max_modules is: tables are this large */
};

struct text {
	struct inquiry *inquiry;
	struct text_reader *reader;
	size_t held;                /* bytes of it that are charged */
	struct text_frame **chunks; /* frames as the reader gives them, in the order of the text, in the arena */
	uint32_t chunk_cap;
	uint64_t count;
	struct text_frame **asked; /* those to look up, which are the frames of the request, in the arena */
	uint64_t asked_count;
	struct text_stack *stacks;
	uint32_t stack_cap, stack_count;
	bool full;        /* more frames than a request may have; otherwise out of memory */
	bool json, edits; /* edits: with what the reply as text has in place of what */
	enum { INLINES_LINE, INLINES_LINES, INLINES_NONE } inlines;
	bool in_files;       /* some frames are offsets in files */
	bool *confirmed;     /* by want: its offsets in the file are such in the image */
	bool asked_segments; /* of sources: where executables are loaded */
	uint8_t *names;      /* by want: under so many other names it was looked for */
	/* Used by the reply. Counting grows them to the size they need, so that writing needs no memory. */
	struct buffer piece, escaped;
	struct text_call *calls;
	uint32_t call_cap;
	struct text_unescaped *unescaped;
};

/* A text may have as many frames with names as others, and these are looked up. */
_Static_assert(2 * sizeof(struct text_frame) + sizeof(struct text_frame *) + sizeof(struct request_frame) +
                               sizeof(struct lookup) + sizeof(struct symbol *) <=
                       EXCHANGE_FRAME,
        "max_frames frames fit into the arena");

static struct text_frame *frame_at(const struct text *t, uint64_t i)
{
	return &t->chunks[i / CHUNK_FRAMES][i % CHUNK_FRAMES];
}

/* ---- the request ---- */

/* The stack of a frame, if it is the first of it. */
static bool take_stack(struct text *t, const struct text_frame *f)
{
	if (!t->json || f->stack != t->stack_count)
		return true;
	if (!array_reserve(&t->stacks, &t->stack_cap, t->stack_count + UINT64_C(1), sizeof *t->stacks))
		return false;
	t->stacks[t->stack_count++] = *text_reader_stack(t->reader);
	return true;
}

/* Frames with names are limited like the others: each takes as much memory. */
static bool take_frame(void *arg, const struct text_frame *f)
{
	struct text *t = arg;
	uint64_t named = t->count - t->asked_count;
	if (f->named && !t->json)
		return true; /* it was only to be told apart */
	t->full = (f->named ? named : t->asked_count) == t->inquiry->exchange->config->max_frames;
	if (t->full || !take_stack(t, f))
		return false;
	uint64_t chunk = t->count / CHUNK_FRAMES;
	if (t->count % CHUNK_FRAMES == 0) {
		if (!array_reserve(&t->chunks, &t->chunk_cap, chunk + 1, sizeof *t->chunks))
			return false;
		t->chunks[chunk] = arena_alloc(t->inquiry->exchange->arena, CHUNK_FRAMES * sizeof **t->chunks);
		if (!t->chunks[chunk])
			return false;
	}
	*frame_at(t, t->count++) = *f;
	t->asked_count += !f->named;
	t->in_files = t->in_files || f->base == TEXT_FILE;
	if (t->count % CHUNK_FRAMES == 0)
		exchange_turn(t->inquiry->exchange);
	return true;
}

static uint32_t max_modules(const struct inquiry *s)
{
	uint64_t max = s->exchange->config->max_modules;
	return max < MODULES_MAX ? (uint32_t)max : MODULES_MAX;
}

/* Charges what the reader has taken since. False: no room. */
static bool charge_reader(struct text *t)
{
	size_t bytes = text_reader_memory(t->reader) + t->stack_cap * sizeof *t->stacks;
	if (!arena_hold(t->inquiry->exchange->arena, (int64_t)bytes - (int64_t)t->held))
		return false;
	t->held = bytes;
	return true;
}

/* Reads the text in pieces of whole lines, so that others get their turn; a piece that holds no line end grows. */
static enum text_result read_pieces(struct text *t)
{
	const struct inquiry *s = t->inquiry;
	const char *text = s->body.len ? (const char *)s->body.data : "";
	enum text_result result = TEXT_OK;
	size_t size = PIECE, used;
	for (size_t at = 0, left; (left = s->body.len - at) && result == TEXT_OK; at += used) {
		bool last = left <= size;
		result = text_reader_read(t->reader, (struct str){text + at, last ? left : size}, last, &used);
		size = used ? PIECE : 2 * size;
		if (result == TEXT_OK && !charge_reader(t))
			return TEXT_NO_MEMORY;
		if (!exchange_turn(s->exchange))
			return TEXT_STOPPED;
	}
	return result;
}

static enum err too_many_modules(const struct inquiry *s, struct error *e)
{
	return error_set(e, ERR_BAD_REQUEST, "more than %u modules", (unsigned)max_modules(s));
}

/* Frames that are only addresses, by the memory maps of the text. A made-up address that no map has is not shown. */
static enum err place_frames(struct text *t, struct error *e)
{
	t->asked = arena_alloc(t->inquiry->exchange->arena, (t->asked_count + 1) * sizeof *t->asked);
	if (!t->asked)
		return no_memory(e);
	for (uint64_t i = 0, n = 0; i < t->count; i++) {
		struct text_frame *f = frame_at(t, i);
		if (f->named)
			continue;
		t->asked[n++] = f;
		enum text_result result = text_reader_place(t->reader, f);
		if (result)
			return result == TEXT_NO_MEMORY ? no_memory(e) : too_many_modules(t->inquiry, e);
		if (f->module == TEXT_NO_MODULE)
			f->address = f->offset - ((f->offset - f->address) & 1);
	}
	return ERR_OK;
}

static enum err read_frames(struct text *t, struct error *e)
{
	const struct inquiry *s = t->inquiry;
	switch (read_pieces(t)) {
	case TEXT_OK:
		return place_frames(t, e);
	case TEXT_TOO_MANY_MODULES:
		return too_many_modules(s, e);
	case TEXT_NO_MEMORY:
		return no_memory(e);
	case TEXT_STOPPED:
		break;
	}
	if (t->full)
		return error_set(e, ERR_BAD_REQUEST, "more than %llu frames",
		        (unsigned long long)s->exchange->config->max_frames);
	return exchange_gone(s->exchange) ? error_set(e, ERR_GONE, "the client went away") : no_memory(e);
}

/* Where a section or segment begins is only known to who has the file. */
static enum offset_kind kind_of(enum text_base base)
{
	if (base == TEXT_CODE || base == TEXT_EXEC || base == TEXT_FIXED)
		return OFFSET_NONE;
	if (base == TEXT_FILE)
		return OFFSET_FILE;
	return base == TEXT_ELF ? OFFSET_ELF : OFFSET_ADDRESS;
}

/* The request that the text stands for: one job with one stack. */
static enum err make_request(struct text *t, struct error *e)
{
	struct arena *arena = t->inquiry->exchange->arena;
	struct request *r = &t->inquiry->request;
	uint32_t modules = text_reader_modules(t->reader);
	struct request_job *job = arena_calloc(arena, 1, sizeof *job);
	struct request_stack *stack = arena_calloc(arena, 1, sizeof *stack);
	struct request_module *module = arena_calloc(arena, (size_t)modules + 1, sizeof *module);
	struct request_frame *frames = arena_calloc(arena, t->asked_count + 1, sizeof *frames);
	t->confirmed = arena_calloc(arena, (size_t)modules + 1, sizeof *t->confirmed); /* wants are no more */
	t->names = arena_calloc(arena, (size_t)modules + 1, sizeof *t->names);
	if (!job || !stack || !module || !frames || !t->confirmed || !t->names)
		return no_memory(e);
	for (uint32_t i = 0; i < modules; i++) {
		const struct text_module *m = text_reader_module(t->reader, i);
		module[i].name = m->name;
		module[i].id = m->id;
		module[i].build_id = m->build_id;
	}
	for (uint64_t i = 0; i < t->asked_count; i++) {
		const struct text_frame *f = t->asked[i];
		frames[i] = (struct request_frame){f->address, f->module, kind_of(f->base)};
	}
	*stack = (struct request_stack){frames, (uint32_t)t->asked_count};
	*job = (struct request_job){.modules = module, .stacks = stack, .module_count = modules, .stack_count = 1};
	*r = (struct request){job, 1, t->asked_count, modules};
	return ERR_OK;
}

static bool accepts_json(const struct exchange *x)
{
	const char *accept = exchange_param(x, "HTTP_ACCEPT");
	return accept && strstr(accept, "application/json");
}

/* ?module=NAME=ID or NAME=DEBUGNAME/ID, which may be repeated: as a line MODULE in the text, but it counts more. */
static enum err read_module(struct text *t, struct str id, struct error *e)
{
	const char *value = id.data;
	struct str name = str_cut(&id, '=');
	if (!name.len || !id.len || id.data[id.len - 1] == '/' || name.len > TEXT_NAME_MAX || id.len > TEXT_NAME_MAX)
		return error_set(e, ERR_BAD_REQUEST, "module=%.100s: not NAME=ID", value);
	return text_reader_know(t->reader, name, id) ? ERR_OK : too_many_modules(t->inquiry, e);
}

/* ?inlines=: where inlined calls stand in the reply as text. */
static enum err read_inlines(struct text *t, struct str word, struct error *e)
{
	static const char *const words[] = {
	        [INLINES_LINE] = "line", [INLINES_LINES] = "lines", [INLINES_NONE] = "none"};
	for (unsigned i = 0; i < sizeof words / sizeof *words; i++)
		if (str_equal(word, str_from(words[i]))) {
			t->inlines = i;
			return ERR_OK;
		}
	return error_set(e, ERR_BAD_REQUEST, "inlines=%.30s: not line, lines or none", word.data);
}

static enum err read_query(struct text *t, struct error *e)
{
	struct exchange *x = t->inquiry->exchange;
	struct str rest = x->query, value;
	while (rest.len) {
		struct str part = str_cut(&rest, '&'), key = str_cut(&part, '=');
		bool module = str_equal(key, str_from("module"));
		if (!module && !str_equal(key, str_from("inlines")))
			continue;
		enum err err = sym_path_decode(x, part, &value);
		if (err)
			return err == ERR_NO_MEMORY ? no_memory(e)
			                            : error_set(e, err, "%.*s is not percent-encoded", STR_FMT(key));
		err = module ? read_module(t, value, e) : read_inlines(t, value, e);
		if (err)
			return err;
	}
	return ERR_OK;
}

static const char utf16[] =
        "the text is UTF-16: send it as UTF-8 (iconv -f UTF-16 -t UTF-8; symbtool and the page do it)";

/* By its byte order mark, which is no UTF-8. */
static bool is_utf16(const struct buffer *body)
{
	return body->len >= 2 &&
	       ((body->data[0] == 0xff && body->data[1] == 0xfe) || (body->data[0] == 0xfe && body->data[1] == 0xff));
}

static enum err read_text(struct inquiry *s, struct error *e)
{
	struct text *t = arena_calloc(s->exchange->arena, 1, sizeof *t);
	if (!t)
		return no_memory(e);
	*t = (struct text){.inquiry = s, .json = accepts_json(s->exchange)};
	t->edits = t->json && inquiry_asks_for(s->exchange, "HTTP_EDITS");
	buffer_init(&t->piece, SIZE_MAX);
	buffer_init(&t->escaped, SIZE_MAX);
	t->reader = text_reader_new(max_modules(s), take_frame, t);
	s->user = t;
	enum err err = is_utf16(&s->body) ? error_set(e, ERR_BAD_REQUEST, "%s", utf16)
	               : t->reader        ? read_query(t, e)
	                                  : no_memory(e);
	if (!err && (t->json || t->inlines == INLINES_LINES))
		text_reader_tell_named(t->reader, t->json);
	if (!err)
		err = read_frames(t, e);
	return err ? err : make_request(t, e);
}

static void release_text(struct inquiry *s)
{
	struct text *t = s->user;
	if (!t)
		return;
	arena_hold(s->exchange->arena, -(int64_t)t->held);
	text_reader_free(t->reader);
	buffer_release(&t->piece);
	buffer_release(&t->escaped);
	free(t->unescaped);
	free(t->calls);
	free(t->stacks);
	free(t->chunks);
}

/* ---- offsets in files ---- */

/* A source of executables may tell where a module's file is loaded. Else what was found is a guess. */

static const struct text_frame *asked_frame(void *arg, size_t i)
{
	const struct text *t = arg;
	return t->asked[i];
}

/* The want whose frame was looked up by a guess; MODULE_UNUSED: it was not. */
static int32_t guessed_want(const struct text *t, size_t i)
{
	const struct inquiry *s = t->inquiry;
	int32_t want = s->symbol_of[i] ? s->want_of[0][t->asked[i]->module] : MODULE_UNUSED;
	return want < 0 || inquiry_file_map(&s->wants[want])->count ? MODULE_UNUSED : want;
}

static bool *confirmed(void *arg, size_t i)
{
	struct text *t = arg;
	int32_t want = guessed_want(t, i);
	return want < 0 ? NULL : &t->confirmed[want];
}

static struct text_answer found_function(void *arg, size_t i)
{
	const struct text *t = arg;
	const struct offmap_answer *a = &t->inquiry->symbol_of[i]->answer;
	struct text_answer none = {{"", 0}, 0};
	return a->found ? (struct text_answer){{(const char *)a->frame.function.data, a->frame.function.len},
	                          a->function_offset}
	                : none;
}

static struct text_guesses guesses_of(struct text *t)
{
	const struct buffer *body = &t->inquiry->body;
	return (struct text_guesses){.count = t->in_files ? t->asked_count : 0,
	        .arg = t,
	        .frame = asked_frame,
	        .confirmed = confirmed,
	        .found = found_function,
	        .text = {(const char *)body->data, body->len}};
}

/* *entered: whether the exchange has a place to ask for segments. */
static enum symbolicate_result find_segments(struct exchange *x, struct module_want *w, bool *entered)
{
	struct build_id_question question = w->question;
	const struct elf_asker asker = {x->client, exchange_cancel(x)};
	struct error e;
	if (w->kind != WANT_SYM || !(question.whole.len || build_id_question_parse(&question, w->id)))
		return SYMBOLICATE_OK;
	if (!*entered && !elf_code_knows_segments(services_code(), &question)) {
		enum err err = exchange_enter(x, services_turnstile(TURNSTILE_SEGMENTS), &e);
		if (err)
			return err == ERR_GONE ? SYMBOLICATE_GONE : SYMBOLICATE_NO_SEGMENTS;
		*entered = true;
	}
	switch (elf_code_segments(services_code(), &asker, &question, &w->file, &e)) {
	case ERR_OK:
		return SYMBOLICATE_LOAD;
	case ERR_UNAVAILABLE:
		return SYMBOLICATE_NO_SEGMENTS;
	case ERR_NO_MEMORY:
		return SYMBOLICATE_NO_MEMORY;
	default:
		return SYMBOLICATE_OK;
	}
}

/* As for symbols, a temporary failure of one module fails the request: a frame of it would seem to have no name. */
static enum symbolicate_result ask_for_each(struct inquiry *s, bool *entered)
{
	struct text *t = s->user;
	enum symbolicate_result result = SYMBOLICATE_OK, one = SYMBOLICATE_OK;
	int64_t now = clock_now(), until = now + (s->wait.deadline - now) / 2;
	bool *asked = arena_calloc(s->exchange->arena, s->want_count + (size_t)1, sizeof *asked);
	if (!asked)
		return SYMBOLICATE_NO_MEMORY;
	for (uint64_t i = 0; i < t->asked_count; i++) {
		int32_t want = t->asked[i]->base == TEXT_FILE ? guessed_want(t, i) : MODULE_UNUSED;
		if (want < 0 || t->confirmed[want] || asked[want])
			continue;
		asked[want] = true;
		one = clock_now() < until ? find_segments(s->exchange, &s->wants[want], entered)
		                          : SYMBOLICATE_NO_SEGMENTS;
		if (one > SYMBOLICATE_LOAD)
			return one;
		result = one ? one : result;
	}
	return result;
}

static enum symbolicate_result ask_for_segments(struct inquiry *s)
{
	struct text *t = s->user;
	bool entered = false;
	if (!t->in_files || t->asked_segments)
		return SYMBOLICATE_OK;
	t->asked_segments = true;
	struct text_guesses guesses = guesses_of(t);
	text_confirm_guesses(&guesses);
	enum symbolicate_result result = ask_for_each(s, &entered);
	if (entered)
		exchange_leave(s->exchange);
	return result;
}

/* ---- names of Windows ---- */

/* "app.exe" of the text is "app.pdb" where symbols are stored. *more: it is to be looked for. */
static enum symbolicate_result try_another_name(struct inquiry *s, uint32_t want, bool *more)
{
	struct text *t = s->user;
	struct module_want *w = &s->wants[want];
	char room[TEXT_NAME_MAX];
	struct str other, build_id = {"", 0}, id = w->id;
	if (w->state != WANT_FAILED || w->failure != FAILURE_MISSING || !text_is_windows_id(id) ||
	        !text_other_name(w->name, t->names[want], room, &other))
		return SYMBOLICATE_OK;
	char *name = arena_alloc(s->exchange->arena, other.len);
	if (!name)
		return SYMBOLICATE_NO_MEMORY;
	memcpy(name, room, other.len);
	t->names[want]++;
	module_want_release(w);
	*w = (struct module_want){.state = WANT_FAILED};
	if (!modules_want(s->modules, w, (struct str){name, other.len}, id, build_id))
		return SYMBOLICATE_NO_MEMORY;
	modules_resolve(s->modules, w, 1, s->wait.deadline);
	*more = true;
	return SYMBOLICATE_OK;
}

static enum symbolicate_result try_other_names(struct inquiry *s)
{
	bool more = false;
	for (uint32_t i = 0; i < s->want_count; i++) {
		enum symbolicate_result result = try_another_name(s, i, &more);
		if (result)
			return result;
	}
	return more ? SYMBOLICATE_LOAD : SYMBOLICATE_OK;
}

static enum symbolicate_result look_further(struct inquiry *s)
{
	enum symbolicate_result result = try_other_names(s);
	return result ? result : ask_for_segments(s);
}

static void drop_guess(void *arg, size_t i)
{
	struct inquiry *s = ((struct text *)arg)->inquiry;
	s->stats.found -= s->symbol_of[i]->answer.found;
	s->symbols.size -= s->symbol_of[i]->size;
	s->symbol_of[i] = NULL;
}

/* ---- the reply as text ---- */

static struct text_call call_of(const struct offmap_call *c)
{
	return (struct text_call){
	        {(const char *)c->function.data, c->function.len}, {(const char *)c->file.data, c->file.len}, c->line};
}

/* The calls of an answer, innermost first. false if out of memory. */
static bool take_calls(struct text *t, const struct offmap_answer *a)
{
	if (!array_reserve(&t->calls, &t->call_cap, a->inline_count + 1, sizeof *t->calls))
		return false;
	for (uint32_t i = 0; i < a->inline_count; i++)
		t->calls[i] = call_of(&a->inlines[i]);
	t->calls[a->inline_count] = call_of(&a->frame);
	return true;
}

static void write_buffer(struct writer *w, const struct buffer *b)
{
	w->failed = w->failed || b->failed;
	if (!w->failed)
		write_bytes(w, b->data, b->len);
}

/* The names as they stand in the text, in t->piece. */
static void make_names(struct writer *w, struct text *t, const struct text_edit *edit, const struct offmap_answer *a)
{
	buffer_reset(&t->piece);
	bool taken = take_calls(t, a);
	if (taken)
		text_write_names(
		        &t->piece, edit, t->calls, t->inlines == INLINES_NONE ? 1 : a->inline_count + (size_t)1);
	w->failed = w->failed || !taken || t->piece.failed;
}

static void write_text(struct writer *w, void *arg)
{
	struct text *t = arg;
	const struct inquiry *s = t->inquiry;
	const char *body = s->body.len ? (const char *)s->body.data : "";
	uint64_t done = 0;
	for (uint64_t i = 0; i < t->asked_count; i++) {
		const struct text_frame *f = t->asked[i];
		const struct symbol *symbol = s->symbol_of[i];
		if (i)
			exchange_turn(s->exchange);
		for (unsigned k = 0; symbol && symbol->answer.found && k < f->edit_count; k++) {
			const struct text_edit *edit = &f->edits[k];
			uint64_t from = done;
			if (!text_edit_applies(edit, &done))
				continue;
			write_bytes(w, body + from, edit->at - from);
			make_names(w, t, edit, &symbol->answer);
			write_buffer(w, &t->piece);
		}
	}
	write_bytes(w, body + done, s->body.len - done);
}

/* ---- the reply as JSON ---- */

static void write_json_string(struct writer *w, struct text *t, struct str s)
{
	buffer_reset(&t->escaped);
	buffer_append_json(&t->escaped, s);
	write_buffer(w, &t->escaped);
}

/* "edits":[[at,cut,"names"]...], each in place of `cut` bytes of the text. */
static void write_edits(
        struct writer *w, struct text *t, const struct text_frame *f, const struct offmap_answer *a, uint64_t *done)
{
	bool any = false;
	WRITE(w, "\"edits\":[");
	for (unsigned k = 0; k < f->edit_count; k++) {
		const struct text_edit *edit = &f->edits[k];
		if (!text_edit_applies(edit, done))
			continue;
		write_str(w, str_from(any ? ",[" : "["));
		write_number(w, edit->at);
		WRITE(w, ",");
		write_number(w, edit->cut);
		WRITE(w, ",");
		make_names(w, t, edit, a);
		write_json_string(w, t, (struct str){(const char *)t->piece.data, t->piece.len});
		WRITE(w, "]");
		any = true;
	}
	WRITE(w, "],");
}

/* A part of the text, without escapes. */
static void append_span(struct writer *w, struct text *t, struct buffer *out, const struct text_span *span)
{
	const struct buffer *body = &t->inquiry->body;
	struct str whole = {(const char *)body->data, body->len};
	bool escaped = span->len && (span->escaped || memchr(whole.data + span->at, ESCAPE, span->len));
	if (escaped && !t->unescaped && !(t->unescaped = malloc(sizeof *t->unescaped)))
		w->failed = true;
	else if (span->len)
		buffer_append_str(out, text_span_read(t->unescaped, whole, span));
	w->failed = w->failed || out->failed;
}

/* ,"key":"..."; nothing if the text does not tell it. */
static void write_span(struct writer *w, struct text *t, const char *key, const struct text_span *span)
{
	if (!span->len)
		return;
	WRITE(w, ",\"");
	write_str(w, str_from(key));
	WRITE(w, "\":");
	buffer_reset(&t->piece);
	append_span(w, t, &t->piece, span);
	write_json_string(w, t, (struct str){(const char *)t->piece.data, t->piece.len});
}

/* ,"named":true,"function":...: what the text says itself. */
static void write_own(struct writer *w, struct text *t, const struct text_own *own)
{
	WRITE(w, ",\"named\":true");
	write_span(w, t, "function", &own->function);
	write_span(w, t, "file", &own->file);
	if (own->file.len && own->line) {
		WRITE(w, ",\"line\":");
		write_number(w, own->line);
	}
}

static void write_place(struct writer *w, const struct text_frame *f)
{
	WRITE(w, "{\"text_line\":");
	write_number(w, f->line);
	if (f->stack == TEXT_NO_STACK)
		return;
	WRITE(w, ",\"stack\":");
	write_number(w, f->stack);
	WRITE(w, ",\"frame\":");
	write_number(w, f->number);
}

/* The path of its module, if the text tells more than a name. */
static void write_module(struct writer *w, struct text *t, const struct text_module *m)
{
	WRITE(w, ",\"module\":");
	write_json_string(w, t, m->name);
	WRITE(w, ",\"id\":");
	write_json_string(w, t, m->id);
	if (m->build_id.len) {
		WRITE(w, ",\"build_id\":");
		write_json_string(w, t, m->build_id);
	}
	if (memchr(m->path.data, '/', m->path.len) || memchr(m->path.data, '\\', m->path.len)) {
		WRITE(w, ",\"path\":");
		write_json_string(w, t, m->path);
	}
}

static void write_frame(struct writer *w, struct text *t, const struct text_frame *f, const struct inquiry_reason *why,
        const struct symbol *symbol, uint64_t *done)
{
	bool found = symbol && symbol->answer.found;
	write_place(w, f);
	if (f->module >= 0)
		write_module(w, t, text_reader_module(t->reader, (uint32_t)f->module));
	if (!found && f->own.function.len)
		write_own(w, t, &f->own);
	if (f->named) {
		write_span(w, t, "module", &f->own.module);
		WRITE(w, "}");
		return;
	}
	WRITE(w, ",\"offset\":\"");
	write_hex(w, f->offset);
	WRITE(w, "\",");
	inquiry_write_reason(w, why);
	if (t->edits && found)
		write_edits(w, t, f, &symbol->answer, done);
	if (symbol) {
		write_symbol(w, symbol, false);
		return;
	}
	WRITE(w, "\"module_offset\":\"");
	write_hex(w, f->address);
	WRITE(w, "\"}");
}

/* ,"stacks":[{"title":"...","lead":"..."}...] */
static void write_stacks(struct writer *w, struct text *t)
{
	WRITE(w, ",\"stacks\":[");
	for (uint32_t i = 0; i < t->stack_count; i++) {
		const struct text_stack *stack = &t->stacks[i];
		write_str(w, str_from(i ? ",{\"title\":" : "{\"title\":"));
		buffer_reset(&t->piece);
		buffer_append_str(&t->piece, str_from(stack->words));
		append_span(w, t, &t->piece, &stack->title);
		write_json_string(w, t, (struct str){(const char *)t->piece.data, t->piece.len});
		if (stack->lead.len)
			write_span(w, t, "lead", &stack->lead);
		WRITE(w, "}");
		if (i % CHUNK_FRAMES == 0)
			exchange_turn(t->inquiry->exchange);
	}
	WRITE(w, "]");
}

/* When nothing is understood: what looks most like a frame, and what it lacks. */
static void write_guess(struct writer *w, struct text *t)
{
	const struct guess *guess = text_reader_guess(t->reader);
	uint64_t named = t->count - t->asked_count;
	WRITE(w, ",\"guess\":{");
	if (!guess) {
		WRITE(w, "}");
		return;
	}
	WRITE(w, "\"text_line\":");
	write_number(w, guess->line);
	WRITE(w, ",\"line\":");
	write_json_string(w, t, (struct str){guess->text, guess->len});
	WRITE(w, ",\"missing\":");
	write_json_string(w, t, str_from(guess->missing));
	WRITE(w, ",\"named\":");
	write_number(w, named ? named : guess->named);
	if (guess->is_named)
		WRITE(w, ",\"is_named\":true");
	WRITE(w, "}");
}

static void write_json(struct writer *w, void *arg)
{
	struct text *t = arg;
	const struct inquiry *s = t->inquiry;
	const struct request_frame *frames = s->request.jobs[0].stacks[0].frames;
	uint32_t seen = 0;
	uint64_t done = 0;
	WRITE(w, "{\"frames\":[");
	for (uint64_t i = 0, n = 0; i < t->count; i++) {
		const struct text_frame *f = frame_at(t, i);
		struct inquiry_reason why = {.reason = REASON_NONE};
		write_str(w, str_from(i ? "," : ""));
		if (f->named) {
			write_frame(w, t, f, &why, NULL, &done);
			continue;
		}
		why = inquiry_reason(s, 0, &frames[n], n);
		seen |= UINT32_C(1) << why.reason;
		write_frame(w, t, f, &why, s->symbol_of[n++], &done);
	}
	WRITE(w, "]");
	write_stacks(w, t);
	WRITE(w, ",");
	inquiry_write_reasons(w, seen);
	if (!t->asked_count)
		write_guess(w, t);
	WRITE(w, "}");
}

/* For who sees the reply as text only: "X-Frames: 30 named=26". Frames that have names in the text are named. */
static void tell_frames(struct text *t)
{
	struct exchange *x = t->inquiry->exchange;
	uint64_t told = text_reader_named(t->reader);
	char *line = arena_alloc(x->arena, FRAMES_HEADER);
	if (line)
		snprintf(line, FRAMES_HEADER, "X-Frames: %" PRIu64 " named=%" PRIu64 "\r\n", t->asked_count + told,
		        t->inquiry->stats.found + told);
	x->frames_header = line;
}

static void reply(struct inquiry *s)
{
	struct text *t = s->user;
	struct text_guesses guesses = guesses_of(t);
	struct str body = {(const char *)s->body.data, s->body.len};
	text_drop_guesses(&guesses, drop_guess);
	for (uint64_t i = 0; t->inlines == INLINES_LINES && i < t->asked_count; i++)
		text_put_inlines_below(t->asked[i], i ? t->asked[i - 1]->line : 0,
		        i + 1 < t->asked_count ? t->asked[i + 1]->line : 0, body, 0);
	tell_frames(t);
	if (t->json)
		inquiry_reply(s, "application/json", s->symbols.size, write_json, t);
	else
		inquiry_reply(s, "text/plain", 0, write_text, t);
}

static const struct inquiry_kind text = {
        .read = read_text, .again = look_further, .reply = reply, .release = release_text};

void symbolicate_text_handle(struct exchange *x)
{
	inquiry_start(x, &text);
}
