/* SPDX-License-Identifier: Apache-2.0 */
/* /symbolicate/text: takes any text that contains stacks, and returns it with names added or, if the client accepts
 * JSON, its frames. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "api/inquiry.h"
#include "api/services.h"
#include "api/sym_path.h"
#include "api/writer.h"
#include "base/array.h"
#include "base/clock.h"
#include "text/around.h"
#include "text/known_name.h"
#include "text/reader.h"
#include "text/write_names.h"

enum {
	CHUNK_FRAMES = 256,
	PIECE = 256 << 10, /* of the text, read at a time */
	TURN_LINES = 1024,
	MODULES_MAX = 100000, /* whatever max_modules is: tables are this large */
};

struct text {
	struct inquiry *inquiry;
	struct text_reader *reader;
	size_t held;                /* bytes of it that are charged */
	struct text_frame **chunks; /* frames as the reader gives them, in the order of the text, in the arena */
	uint32_t chunk_cap;
	uint64_t count;
	bool full;        /* more frames than a request may have; otherwise out of memory */
	bool json, edits; /* edits: with what the reply as text has in place of what, and what is around lines */
	bool in_files;    /* some frames are offsets in files */
	bool *confirmed;  /* by want: its offsets in the file are such in the image */
	bool asked;       /* sources, where executables are loaded */
	/* Used by the reply. Counting grows them to the size they need, so that writing needs no memory. */
	struct buffer piece, escaped;
	struct text_call *calls;
	uint32_t call_cap;
};

static struct text_frame *frame_at(const struct text *t, uint64_t i)
{
	return &t->chunks[i / CHUNK_FRAMES][i % CHUNK_FRAMES];
}

/* ---- the request ---- */

static bool take_frame(void *arg, const struct text_frame *f)
{
	struct text *t = arg;
	t->full = t->count == t->inquiry->exchange->config->max_frames;
	if (t->full)
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
	size_t bytes = text_reader_memory(t->reader);
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
	for (uint64_t i = 0; i < t->count; i++) {
		struct text_frame *f = frame_at(t, i);
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
	struct request_frame *frames = arena_calloc(arena, t->count + 1, sizeof *frames);
	t->confirmed = arena_calloc(arena, (size_t)modules + 1, sizeof *t->confirmed); /* wants are no more */
	if (!job || !stack || !module || !frames || !t->confirmed)
		return no_memory(e);
	for (uint32_t i = 0; i < modules; i++) {
		const struct text_module *m = text_reader_module(t->reader, i);
		module[i].name = m->name;
		module[i].id = m->id;
		module[i].build_id = m->build_id;
	}
	for (uint64_t i = 0; i < t->count; i++) {
		const struct text_frame *f = frame_at(t, i);
		frames[i] = (struct request_frame){f->address, f->module, kind_of(f->base)};
	}
	*stack = (struct request_stack){frames, (uint32_t)t->count};
	*job = (struct request_job){.modules = module, .stacks = stack, .module_count = modules, .stack_count = 1};
	*r = (struct request){job, 1, t->count, modules};
	return ERR_OK;
}

static bool accepts_json(const struct exchange *x)
{
	const char *accept = exchange_param(x, "HTTP_ACCEPT");
	return accept && strstr(accept, "application/json");
}

/* ?module=NAME=ID, which may be repeated: as a line MODULE in the text, but it counts more. */
static enum err read_modules(struct text *t, struct error *e)
{
	struct exchange *x = t->inquiry->exchange;
	struct str rest = x->query, id;
	while (rest.len) {
		struct str part = str_cut(&rest, '&'), key = str_cut(&part, '=');
		if (!str_equal(key, str_from("module")))
			continue;
		enum err err = sym_path_decode(x, part, &id);
		if (err)
			return err == ERR_NO_MEMORY ? no_memory(e) : error_set(e, err, "module is not percent-encoded");
		const char *value = id.data;
		struct str name = str_cut(&id, '=');
		if (!name.len || !id.len || name.len > TEXT_NAME_MAX || id.len > TEXT_NAME_MAX)
			return error_set(e, ERR_BAD_REQUEST, "module=%.100s: not NAME=ID", value);
		if (!text_reader_know(t->reader, name, id))
			return too_many_modules(t->inquiry, e);
	}
	return ERR_OK;
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
	enum err err = t->reader ? read_modules(t, e) : no_memory(e);
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
	free(t->calls);
	free(t->chunks);
}

/* ---- offsets in files ---- */

/* Of most modules nobody knows at first where their file is loaded. Their offsets in the file were looked up as if they
 * were offsets in the image, as they are after GNU ld, but not after lld and mold. What was found counts only if a
 * frame of the module, which already had its name, confirms it; else a source of executables may tell more. */

/* Sets those wants of which a frame confirms that. */
static void find_confirmed(struct text *t)
{
	const struct inquiry *s = t->inquiry;
	for (uint64_t i = 0; i < t->count; i++) {
		const struct text_frame *f = frame_at(t, i);
		const struct symbol *symbol = s->symbol_of[i];
		if (f->base != TEXT_FILE || !f->edit_count || !symbol || !symbol->answer.found)
			continue;
		struct str name = {(const char *)s->body.data + f->edits[0].at, f->edits[0].cut};
		const struct offmap_string *function = &symbol->answer.frame.function;
		if (text_confirms(f, name, (struct str){(const char *)function->data, function->len},
		            symbol->answer.function_offset))
			t->confirmed[s->want_of[0][f->module]] = true;
	}
}

/* The want whose frame was looked up by a guess; NULL: it was not. */
static struct module_want *guessed_want(const struct text *t, uint64_t i)
{
	const struct inquiry *s = t->inquiry;
	const struct text_frame *f = frame_at(t, i);
	int32_t want = f->base == TEXT_FILE && s->symbol_of[i] ? s->want_of[0][f->module] : MODULE_UNUSED;
	bool known = want < 0 || t->confirmed[want] || inquiry_file_map(&s->wants[want])->count;
	return known ? NULL : &s->wants[want];
}

static enum symbolicate_result find_segments(struct module_want *w)
{
	struct build_id_question question = w->question;
	struct error e;
	if (w->kind != WANT_SYM || !(question.whole.len || build_id_question_parse(&question, w->id)))
		return SYMBOLICATE_OK;
	switch (elf_code_segments(services_code(), &question, &w->file, &e)) {
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
static enum symbolicate_result ask_for_segments(struct inquiry *s)
{
	struct text *t = s->user;
	enum symbolicate_result result = SYMBOLICATE_OK, one = SYMBOLICATE_OK;
	int64_t now = clock_now(), until = now + (s->wait.deadline - now) / 2;
	if (!t->in_files || t->asked)
		return SYMBOLICATE_OK;
	t->asked = true;
	find_confirmed(t);
	bool *asked = arena_calloc(s->exchange->arena, s->want_count + (size_t)1, sizeof *asked);
	if (!asked)
		return SYMBOLICATE_NO_MEMORY;
	for (uint64_t i = 0; i < t->count; i++) {
		struct module_want *w = guessed_want(t, i);
		if (!w || asked[w - s->wants])
			continue;
		asked[w - s->wants] = true;
		one = clock_now() < until ? find_segments(w) : SYMBOLICATE_NO_SEGMENTS;
		if (one > SYMBOLICATE_LOAD)
			return one;
		result = one ? one : result;
	}
	return result;
}

static void drop_guesses(struct text *t)
{
	struct inquiry *s = t->inquiry;
	for (uint64_t i = 0; t->in_files && i < t->count; i++) {
		if (!guessed_want(t, i))
			continue;
		s->stats.found -= s->symbol_of[i]->answer.found;
		s->symbols.size -= s->symbol_of[i]->size;
		s->symbol_of[i] = NULL;
	}
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
static void make_names(struct writer *w, struct text *t, enum text_style style, const struct offmap_answer *a)
{
	buffer_reset(&t->piece);
	bool taken = take_calls(t, a);
	if (taken)
		text_write_names(&t->piece, style, t->calls, a->inline_count + (size_t)1);
	w->failed = w->failed || !taken || t->piece.failed;
}

static void write_text(struct writer *w, void *arg)
{
	struct text *t = arg;
	const struct inquiry *s = t->inquiry;
	const char *body = s->body.len ? (const char *)s->body.data : "";
	uint64_t at = 0;
	for (uint64_t i = 0; i < t->count; i++) {
		const struct text_frame *f = frame_at(t, i);
		const struct symbol *symbol = s->symbol_of[i];
		if (i)
			exchange_turn(s->exchange);
		for (unsigned k = 0; symbol && symbol->answer.found && k < f->edit_count; k++) {
			const struct text_edit *edit = &f->edits[k];
			if (edit->at < at)
				continue; /* an object inside another */
			write_bytes(w, body + at, edit->at - at);
			make_names(w, t, edit->style, &symbol->answer);
			write_buffer(w, &t->piece);
			at = edit->at + edit->cut;
		}
	}
	write_bytes(w, body + at, s->body.len - at);
}

/* ---- the reply as JSON ---- */

static void write_json_string(struct writer *w, struct text *t, struct str s)
{
	buffer_reset(&t->escaped);
	buffer_append_json(&t->escaped, s);
	write_buffer(w, &t->escaped);
}

/* "edits":[[at,cut,"names"]...], each in place of `cut` bytes of the text. */
static void write_edits(struct writer *w, struct text *t, const struct text_frame *f, const struct offmap_answer *a)
{
	WRITE(w, "\"edits\":[");
	for (unsigned k = 0; k < f->edit_count; k++) {
		const struct text_edit *edit = &f->edits[k];
		write_str(w, str_from(k ? ",[" : "["));
		write_number(w, edit->at);
		WRITE(w, ",");
		write_number(w, edit->cut);
		WRITE(w, ",");
		make_names(w, t, edit->style, a);
		write_json_string(w, t, (struct str){(const char *)t->piece.data, t->piece.len});
		WRITE(w, "]");
	}
	WRITE(w, "],");
}

static void write_frame(struct writer *w, struct text *t, const struct text_frame *f, const struct inquiry_reason *why,
        const struct symbol *symbol)
{
	WRITE(w, "{\"text_line\":");
	write_number(w, f->line);
	if (f->module >= 0) {
		const struct text_module *m = text_reader_module(t->reader, (uint32_t)f->module);
		WRITE(w, ",\"module\":");
		write_json_string(w, t, m->name);
		WRITE(w, ",\"id\":");
		write_json_string(w, t, m->id);
	}
	WRITE(w, ",\"offset\":\"");
	write_hex(w, f->offset);
	WRITE(w, "\",");
	inquiry_write_reason(w, why);
	if (t->edits && symbol && symbol->answer.found)
		write_edits(w, t, f, &symbol->answer);
	if (symbol) {
		write_symbol(w, symbol, false);
		return;
	}
	WRITE(w, "\"module_offset\":\"");
	write_hex(w, f->address);
	WRITE(w, "\"}");
}

/* When nothing is understood: what looks most like a frame, what it lacks, and what would be understood. */
static void write_guess(struct writer *w, struct text *t)
{
	const struct guess *guess = text_reader_guess(t->reader);
	WRITE(w, ",\"guess\":{");
	if (guess) {
		WRITE(w, "\"text_line\":");
		write_number(w, guess->line);
		WRITE(w, ",\"line\":");
		write_json_string(w, t, (struct str){guess->text, guess->len});
		WRITE(w, ",\"missing\":");
		write_json_string(w, t, str_from(guess->missing));
		WRITE(w, ",\"named\":");
		write_number(w, guess->named);
		if (guess->is_named)
			WRITE(w, ",\"is_named\":true");
		WRITE(w, ",");
	}
	WRITE(w, "\"formats\":");
	write_json_string(w, t, str_from(text_formats));
	WRITE(w, "}");
}

/* ,"around":[[line,before,after]...]: from this line on. Left out if no line has anything around it. */
static void write_around(struct writer *w, const struct text *t)
{
	struct str rest = {t->inquiry->body.len ? (const char *)t->inquiry->body.data : "", t->inquiry->body.len};
	struct text_around last = {0, 0};
	bool any = false;
	for (uint64_t number = 1; rest.len; number++) {
		struct text_around a = text_around_line(str_cut(&rest, '\n'));
		if (number % TURN_LINES == 0)
			exchange_turn(t->inquiry->exchange);
		if (a.before == last.before && a.after == last.after)
			continue;
		write_str(w, str_from(any ? ",[" : ",\"around\":[["));
		write_number(w, number);
		WRITE(w, ",");
		write_number(w, a.before);
		WRITE(w, ",");
		write_number(w, a.after);
		WRITE(w, "]");
		last = a;
		any = true;
	}
	write_str(w, str_from(any ? "]" : ""));
}

static void write_json(struct writer *w, void *arg)
{
	struct text *t = arg;
	const struct inquiry *s = t->inquiry;
	const struct request_frame *frames = s->request.jobs[0].stacks[0].frames;
	uint32_t seen = 0;
	WRITE(w, "{\"frames\":[");
	for (uint64_t i = 0; i < t->count; i++) {
		const struct text_frame *f = frame_at(t, i);
		struct inquiry_reason why = inquiry_reason(s, 0, &frames[i], i);
		seen |= UINT32_C(1) << why.reason;
		if (i)
			WRITE(w, ",");
		write_frame(w, t, f, &why, s->symbol_of[i]);
	}
	WRITE(w, "],");
	inquiry_write_reasons(w, seen);
	if (t->edits)
		write_around(w, t);
	if (!t->count)
		write_guess(w, t);
	WRITE(w, "}");
}

static void reply(struct inquiry *s)
{
	struct text *t = s->user;
	drop_guesses(t);
	if (t->json)
		inquiry_reply(s, "application/json", s->symbols.size, write_json, t);
	else
		inquiry_reply(s, "text/plain", 0, write_text, t);
}

static const struct inquiry_kind text = {
        .read = read_text, .again = ask_for_segments, .reply = reply, .release = release_text};

void symbolicate_text_handle(struct exchange *x)
{
	inquiry_start(x, &text);
}
