/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/filter_names.h"

#include <stdlib.h>

#include "base/array.h"
#include "symbtool/function_address.h"
#include "text/file_offsets.h"

/* What only texts need to know of a module. */
struct filter_module {
	bool confirmed;                   /* offsets in its file are such in the image, as a frame told */
	struct function_table *functions; /* of its file; NULL: not needed so far */
};

struct filter_names {
	struct local_symbols *local;
	struct asker *asker;
	struct filter_module *modules;
	uint32_t count, cap;
};

struct filter_names *filter_names_new(struct local_symbols *local, struct server *server)
{
	struct filter_names *n = calloc(1, sizeof *n);
	if (!n)
		return NULL;
	*n = (struct filter_names){.local = local, .asker = asker_new(ASK_FRAMES, local, server)};
	if (n->asker)
		return n;
	free(n);
	return NULL;
}

void filter_names_free(struct filter_names *n)
{
	if (!n)
		return;
	filter_names_forget(n);
	asker_free(n->asker);
	free(n->modules);
	free(n);
}

void filter_names_forget(struct filter_names *n)
{
	for (uint32_t i = 0; i < n->count; i++)
		function_table_free(n->modules[i].functions);
	n->count = 0;
	asker_forget(n->asker);
}

void filter_names_settle(struct filter_names *n)
{
	local_symbols_settle(n->local);
}

static enum err see_modules(struct filter_names *n, const struct text_reader *r, struct error *e)
{
	uint32_t known = asker_count(n->asker), count = text_reader_modules(r);
	enum err err = ERR_OK;
	if (!array_reserve(&n->modules, &n->cap, count, sizeof *n->modules))
		return no_memory(e);
	for (; n->count < count; n->count++)
		n->modules[n->count] = (struct filter_module){.confirmed = false};
	for (uint32_t i = 0; i < known && !err; i++)
		err = asker_tell_id(n->asker, i, text_reader_module(r, i), e);
	for (uint32_t i = known; i < count && !err; i++)
		err = asker_add_text(n->asker, text_reader_module(r, i), e);
	return err;
}

/* Gives a frame of the kernel the address in its file. */
static void place_by_function(
        struct filter_names *n, const struct frame_batch *b, const struct text_frame *f, struct ask_frame *asked)
{
	char path[PATH_MAX];
	struct filter_module *m = &n->modules[f->module];
	struct str name = {b->text + (f->own.function.at - b->base), f->own.function.len};
	uint64_t address;
	if (!m->functions &&
	        local_symbols_find(n->local, text_reader_module(b->reader, (uint32_t)f->module), path) == LOCAL_FOUND)
		m->functions = function_table_read(path);
	if (!m->functions || !function_table_find(m->functions, name, f->function_size, &address))
		return;
	asked->address += address;
	asked->base = TEXT_ELF;
}

/* ---- offsets in files ---- */

/* A batch whose frames have been looked up. */
struct answered {
	const struct filter_names *names;
	const struct frame_batch *batch;
};

static const struct text_frame *answered_frame(void *arg, size_t i)
{
	const struct answered *a = arg;
	return &a->batch->frames[i];
}

static bool *confirmed(void *arg, size_t i)
{
	const struct answered *a = arg;
	const struct ask_frame *f = &a->batch->asked[i];
	bool looked_up = f->module >= 0 &&
	                 (!f->names.why || (reason_is_of_offset(f->names.why) && f->names.why != REASON_NO_SEGMENTS &&
	                                           f->names.why != REASON_NOT_LOADED));
	bool guess = looked_up && !asker_knows_file(a->names->asker, (uint32_t)f->module);
	return guess ? &a->names->modules[f->module].confirmed : NULL;
}

static struct text_answer found_function(void *arg, size_t i)
{
	const struct answered *a = arg;
	const struct frame_names *names = &a->batch->asked[i].names;
	struct text_answer none = {{"", 0}, 0};
	return names->count ? (struct text_answer){names->calls[names->count - 1].function, names->behind} : none;
}

static void drop_guess(void *arg, size_t i)
{
	const struct answered *a = arg;
	a->batch->asked[i].names = (struct frame_names){.why = REASON_NO_SEGMENTS};
}

static void drop_guesses(const struct filter_names *n, const struct frame_batch *b)
{
	struct answered answered = {n, b};
	struct text_guesses guesses = {.count = b->count,
	        .arg = &answered,
	        .frame = answered_frame,
	        .confirmed = confirmed,
	        .found = found_function,
	        .text = {b->text, SIZE_MAX},
	        .base = b->base};
	text_confirm_guesses(&guesses);
	text_drop_guesses(&guesses, drop_guess);
}

enum err filter_names_find(struct filter_names *n, const struct frame_batch *b, struct error *e)
{
	for (size_t i = 0; i < b->count; i++)
		b->asked[i] = (struct ask_frame){.module = b->frames[i].module,
		        .address = b->frames[i].address,
		        .base = b->frames[i].base,
		        .names = {.why = REASON_NO_ANSWER}};
	enum err err = see_modules(n, b->reader, e);
	for (size_t i = 0; i < b->count && !err; i++)
		if (b->frames[i].base == TEXT_FUNCTION)
			place_by_function(n, b, &b->frames[i], &b->asked[i]);
	if (!err)
		err = asker_ask(n->asker, b->asked, b->count, b->arena, e);
	drop_guesses(n, b);
	return err;
}
