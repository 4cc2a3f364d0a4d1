/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/filter.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/clock.h"
#include "base/hex.h"
#include "symbtool/ask.h"
#include "symbtool/cli.h"
#include "symbtool/file_kind.h"
#include "symbtool/filter_tally.h"
#include "symbtool/function_address.h"
#include "symbtool/text_input.h"
#include "symbtool/visible.h"
#include "text/file_offsets.h"
#include "text/module_table.h"
#include "text/signs.h"

enum {
	BATCH_BYTES = 4 << 20, /* of text, before it is written */
	TEXT_BYTES = BATCH_BYTES + TEXT_LINE_MAX + TEXT_INPUT_LEAST,
	READ_BYTES = 128 << 10, /* given to the reader at a time, which bounds the frames of a batch */
	BATCH_FRAMES = 1 << 18, /* no more text is read with this many, as a heap profile of 4 MiB has */
	MODULES_MAX = 32768,    /* of a batch; half of them are more than READ_BYTES can contain */
	OUT_BYTES = 1 << 20,    /* written at a time */
};

/* From the first bytes of a batch. A memory map that follows a stack comes a little later, if by a pipe. */
static const int64_t patience = 200 * MS;

struct filter_module {
	bool confirmed;                   /* offsets in its file are such in the image, as a frame told */
	struct function_table *functions; /* of its file; NULL: not needed so far */
};

struct filter {
	struct text_reader *reader;
	struct local_symbols *local;
	struct asker *asker;
	struct filter_module *modules; /* of the text */
	uint32_t module_count, module_cap;
	struct arena arena; /* of a batch */
	char *text;
	size_t len, used; /* bytes there, and read so far */
	uint64_t base;    /* position of text[0] in the whole input */
	uint64_t passed;  /* up to there, text was written before its line was whole */
	struct text_frame *frames;
	size_t frame_count;
	uint32_t frame_cap;
	struct ask_frame *asked; /* for each of the frames */
	struct buffer out;
	bool coloured;
	int failed; /* the error of standard output that ends it, such as ENOSPC; 0: none */
	struct error trouble;
	struct filter_tally tally;
	const struct filter_options *options;
};

/* Ctrl+C ends the program that writes the text, which still has to say why; the next one ends this program, too. */
static volatile sig_atomic_t interrupted;

static void note_interrupt(int number)
{
	interrupted = number;
}

static void catch_interrupts(void)
{
	struct sigaction now, catching = {.sa_handler = note_interrupt, .sa_flags = (int)SA_RESETHAND};
	if (sigaction(SIGINT, NULL, &now) == 0 && now.sa_handler == SIG_DFL)
		sigaction(SIGINT, &catching, NULL);
}

static bool take_frame(void *arg, const struct text_frame *frame)
{
	struct filter *f = arg;
	if (frame->named) {
		f->tally.why[REASON_NONE]++;
		f->tally.named++;
		return true;
	}
	if (!array_reserve(&f->frames, &f->frame_cap, f->frame_count + 1, sizeof *f->frames))
		return false;
	f->frames[f->frame_count++] = *frame;
	return true;
}

/* ---- out ---- */

static void write_out(struct filter *f, const void *data, size_t len)
{
	const char *at = data;
	while (len && !f->failed) {
		ssize_t n = write(STDOUT_FILENO, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0 && errno == EAGAIN) {
			poll(&(struct pollfd){.fd = STDOUT_FILENO, .events = POLLOUT}, 1, -1);
			continue;
		}
		f->failed = n < 0 ? errno : 0;
		at += n > 0 ? n : 0;
		len -= n > 0 ? (size_t)n : 0;
	}
}

static void flush_out(struct filter *f)
{
	write_out(f, f->out.data, f->out.len);
	buffer_reset(&f->out);
}

/* Long stretches without a frame are written straight from where they are. */
static void put_text(struct filter *f, const char *from, size_t len)
{
	if (len >= OUT_BYTES) {
		flush_out(f);
		write_out(f, from, len);
	} else {
		buffer_append(&f->out, from, len);
	}
	if (f->out.len >= OUT_BYTES)
		flush_out(f);
}

/* ---- modules ---- */

static enum err see_modules(struct filter *f, struct error *e)
{
	uint32_t known = asker_count(f->asker), count = text_reader_modules(f->reader);
	enum err err = ERR_OK;
	if (!array_reserve(&f->modules, &f->module_cap, count, sizeof *f->modules))
		return no_memory(e);
	for (; f->module_count < count; f->module_count++)
		f->modules[f->module_count] = (struct filter_module){.confirmed = false};
	for (uint32_t i = 0; i < known && !err; i++)
		err = asker_tell_id(f->asker, i, text_reader_module(f->reader, i), e);
	for (uint32_t i = known; i < count && !err; i++)
		err = asker_add_text(f->asker, text_reader_module(f->reader, i), e);
	return err;
}

static void forget_modules(struct filter *f)
{
	for (uint32_t i = 0; i < f->module_count; i++)
		function_table_free(f->modules[i].functions);
	f->module_count = 0;
	asker_forget(f->asker);
}

/* Gives a frame of the kernel the address in its file. */
static void place_by_function(struct filter *f, const struct text_frame *frame, struct ask_frame *asked)
{
	char path[PATH_MAX];
	struct filter_module *m = &f->modules[frame->module];
	struct str name = {f->text + (frame->own.function.at - f->base), frame->own.function.len};
	uint64_t address;
	if (!m->functions && local_symbols_find(f->local, text_reader_module(f->reader, (uint32_t)frame->module),
	                             path) == LOCAL_FOUND)
		m->functions = function_table_read(path);
	if (!m->functions || !function_table_find(m->functions, name, frame->function_size, &address))
		return;
	asked->address += address;
	asked->base = TEXT_ELF;
}

/* ---- offsets in files ---- */

static const struct text_frame *guessed_frame(void *arg, size_t i)
{
	return &((struct filter *)arg)->frames[i];
}

static bool *confirmed(void *arg, size_t i)
{
	struct filter *filter = arg;
	const struct ask_frame *f = &filter->asked[i];
	bool looked_up = f->module >= 0 &&
	                 (!f->names.why || (reason_is_of_offset(f->names.why) && f->names.why != REASON_NO_SEGMENTS &&
	                                           f->names.why != REASON_NOT_LOADED));
	bool guess = looked_up && !asker_knows_file(filter->asker, (uint32_t)f->module);
	return guess ? &filter->modules[f->module].confirmed : NULL;
}

static struct text_answer found_function(void *arg, size_t i)
{
	struct filter *filter = arg;
	const struct frame_names *names = &filter->asked[i].names;
	struct text_answer none = {{"", 0}, 0};
	return names->count ? (struct text_answer){names->calls[names->count - 1].function, names->behind} : none;
}

static void drop_guess(void *arg, size_t i)
{
	struct filter *filter = arg;
	filter->asked[i].names = (struct frame_names){.why = REASON_NO_SEGMENTS};
}

static void drop_guesses(struct filter *f)
{
	struct text_guesses guesses = {.count = f->frame_count,
	        .arg = f,
	        .frame = guessed_frame,
	        .confirmed = confirmed,
	        .found = found_function,
	        .text = {f->text, SIZE_MAX},
	        .base = f->base};
	text_confirm_guesses(&guesses);
	text_drop_guesses(&guesses, drop_guess);
}

/* ---- names ---- */

static enum err ask_for_names(struct filter *f, struct error *e)
{
	for (size_t i = 0; i < f->frame_count; i++)
		f->asked[i] = (struct ask_frame){.module = f->frames[i].module,
		        .address = f->frames[i].address,
		        .base = f->frames[i].base,
		        .names = {.why = REASON_NO_ANSWER}};
	enum err err = see_modules(f, e);
	for (size_t i = 0; i < f->frame_count && !err; i++)
		if (f->frames[i].base == TEXT_FUNCTION)
			place_by_function(f, &f->frames[i], &f->asked[i]);
	return err ? err : asker_ask(f->asker, f->asked, f->frame_count, &f->arena, e);
}

/* The first error is reported; frames that it leaves without an answer stay as they are. */
static void find_names(struct filter *f)
{
	struct error trouble = {0};
	if (ask_for_names(f, &trouble) && !f->trouble.code) {
		f->trouble = trouble;
		complain("", "%s", trouble.text);
	}
	drop_guesses(f);
}

/* ---- a batch ---- */

/* Text up to `used`, with names. */
static void compose(struct filter *f)
{
	uint64_t done = f->base; /* an object may have begun in earlier text */
	if (f->passed > done)
		done = f->passed < f->base + f->used ? f->passed : f->base + f->used;
	for (size_t i = 0; i < f->frame_count; i++) {
		const struct frame_names *n = &f->asked[i].names;
		if (!f->options->one_line)
			text_put_inlines_below(&f->frames[i], i ? f->frames[i - 1].line : 0,
			        i + 1 < f->frame_count ? f->frames[i + 1].line : 0, (struct str){f->text, f->used},
			        f->base);
		f->tally.why[n->why] += f->frames[i].stack != TEXT_NO_STACK;
		if (reason_is_of_module(n->why))
			filter_tally_lacking(&f->tally, text_reader_module(f->reader, (uint32_t)f->frames[i].module));
		for (unsigned k = 0; k < f->frames[i].edit_count && n->why == REASON_NONE; k++) {
			const struct text_edit *edit = &f->frames[i].edits[k];
			const char *from = f->text + (done - f->base);
			if (!text_edit_applies(edit, &done))
				continue;
			put_text(f, from, (size_t)(f->text + (edit->at - f->base) - from));
			unsigned form = edit->style & ~(unsigned)(TEXT_INNERMOST | TEXT_BELOW);
			bool bold = f->coloured && form < TEXT_FIELDS && !(edit->style & TEXT_BELOW && n->count < 2);
			put_text(f, "\033[1m", bold ? 4 : 0);
			text_write_names(&f->out, edit, n->calls, n->count);
			put_text(f, "\033[0m", bold ? 4 : 0);
		}
	}
	put_text(f, f->text + (done - f->base), f->used - (size_t)(done - f->base));
	flush_out(f);
}

/* What the user does not want to see is left out. */
static bool cut_names(struct filter *f, struct frame_names *names)
{
	const struct naming *n = &f->options->naming;
	size_t count = n->no_inlines && names->count ? 1 : names->count;
	struct text_call *calls = arena_alloc(&f->arena, count * sizeof *calls);
	if (!calls)
		return false;
	for (size_t i = 0; i < count; i++)
		calls[i] = (struct text_call){naming_function(n, names->calls[i].function, &f->arena),
		        naming_file(n, names->calls[i].file), names->calls[i].line};
	names->calls = calls;
	names->count = count;
	return true;
}

/* Writes what was read, then forgets it. */
static enum err end_batch(struct filter *f, struct error *e)
{
	f->asked = arena_alloc(&f->arena, f->frame_count * sizeof *f->asked + 1);
	if (!f->asked)
		return no_memory(e);
	for (size_t i = 0; i < f->frame_count; i++) {
		text_reader_place(f->reader, &f->frames[i]);
		text_reader_find_path(f->reader, &f->frames[i]);
	}
	find_names(f);
	const struct naming *n = &f->options->naming;
	for (size_t i = 0; i < f->frame_count && (n->basenames || n->no_inlines || n->short_names); i++)
		if (!cut_names(f, &f->asked[i].names))
			return no_memory(e);
	compose(f);
	local_symbols_settle(f->local);
	if (f->out.failed)
		return no_memory(e);
	arena_reset(&f->arena);
	f->frame_count = 0;
	f->len -= f->used;
	memmove(f->text, f->text + f->used, f->len);
	f->base += f->used;
	f->used = 0;
	text_reader_trim(f->reader);
	if (text_reader_is_crowded(f->reader)) {
		text_reader_forget(f->reader);
		forget_modules(f);
	}
	return f->failed ? error_set(e, ERR_IO, "cannot write to standard output: %s", strerror(f->failed)) : ERR_OK;
}

/* Reads the lines that are there. */
static enum err read_text_lines(struct filter *f, bool last, struct error *e)
{
	for (size_t piece = READ_BYTES; f->used < f->len;) {
		size_t left = f->len - f->used, n = left < piece ? left : piece, used;
		struct str text = {f->text + f->used, n};
		enum text_result result = text_reader_read(f->reader, text, last && n == left, &used);
		f->used += used;
		enum err err = ERR_OK;
		if (result == TEXT_STOPPED)
			return no_memory(e);
		if (result == TEXT_TOO_MANY_MODULES || result == TEXT_NO_MEMORY) {
			err = end_batch(f, e);
			text_reader_forget(f->reader);
			forget_modules(f);
		} else if (f->frame_count >= BATCH_FRAMES || text_reader_is_crowded(f->reader)) {
			err = end_batch(f, e);
		} else if (!used && n == left) {
			break; /* an incomplete line */
		}
		if (err)
			return err;
		piece = used ? READ_BYTES : 2 * piece;
	}
	return ERR_OK;
}

/* ---- in ---- */

/* Until then at most. */
static bool wait_for_input(struct text_input *in, int64_t until)
{
	int64_t left = until - clock_now();
	return text_input_wait(in, left > 0 ? (int)((left + MS - 1) / MS) : 0);
}

/* What waits for the end of its line, such as a prompt, unless it may be a frame: then it gets its name first. */
static void pass_prompt(struct filter *f)
{
	unsigned signs;
	size_t from = f->passed > f->base ? (size_t)(f->passed - f->base) : 0;
	if (from >= f->len)
		return;
	text_scan_line(f->text, f->text + f->len, &signs);
	if (signs & SIGN_HEX)
		return;
	put_text(f, f->text + from, f->len - from);
	flush_out(f);
	f->passed = f->base + f->len;
}

static enum err copy_input(struct filter *f, struct text_input *in, bool is_pipe, const char *name, struct error *e)
{
	enum err err = ERR_OK;
	bool bad = false;
	int64_t until = 0; /* when the batch is written, unless more is there */
	for (bool end = false; !end && !err;) {
		size_t n = 0;
		struct error why;
		bool stop = interrupted && !is_pipe; /* a pipe ends when its writers have ended */
		enum err problem = stop ? ERR_OK : text_input_read(in, f->text + f->len, TEXT_BYTES - f->len, &n, &why);
		stop = interrupted && !is_pipe;
		if (problem == ERR_BUSY && !stop)
			continue;
		if (problem == ERR_NO_MEMORY)
			return no_memory(e);
		if (problem && problem != ERR_BUSY) {
			complain(name, "%s", why.text);
			bad = true;
		}
		end = !n || stop || bad;
		f->len += n;
		if (!until)
			until = clock_now() + patience;
		err = read_text_lines(f, end, e);
		bool late = !err && !end && !wait_for_input(in, until);
		if (!err && (end || f->used >= BATCH_BYTES || late)) {
			err = end_batch(f, e);
			until = 0;
		}
		if (!err && late)
			pass_prompt(f);
	}
	return err || !bad ? err : ERR_IO;
}

static enum err copy_file(struct filter *f, const char *path, struct error *e)
{
	struct error why;
	bool standard = strcmp(path, "-") == 0;
	if (!standard && file_kind_check(path, TAKES_TEXT, &why)) {
		complain(path, "%s", why.text);
		return ERR_IO;
	}
	int fd = standard ? STDIN_FILENO : open(path, O_RDONLY | O_CLOEXEC);
	if (fd < 0) {
		complain(path, "%s", strerror(errno));
		return ERR_IO;
	}
	struct stat st;
	bool is_pipe = fstat(fd, &st) == 0 && (S_ISFIFO(st.st_mode) || S_ISSOCK(st.st_mode));
	struct text_input *in = text_input_new(fd);
	enum err err = in ? copy_input(f, in, is_pipe, standard ? "standard input" : path, e) : no_memory(e);
	text_input_free(in);
	if (!standard)
		close(fd);
	return err;
}

/* ---- what the user knows ---- */

/* As file-id prints them, or readelf; a debug id also as a UUID with dashes. */
static bool is_id(struct str id)
{
	size_t digits = 0, dashes = 0;
	for (size_t i = 0; i < id.len; i++) {
		digits += hex_value(id.data[i]) >= 0;
		dashes += id.data[i] == '-';
	}
	return ask_is_id(id) || (dashes == 4 && digits == 32 && digits + dashes == id.len);
}

static enum err check_module(const char *text, struct str id, bool is_file, struct error *e)
{
	struct error why;
	if (is_file && file_kind_check(id.data, TAKES_ELF | TAKES_SYMBFILE | TAKES_SYM, &why))
		return error_set(e, ERR_BAD_REQUEST, "--module %.60s: %s", text, why.text);
	const char *slash = strrchr(id.data, '/'); /* DEBUGNAME/ID */
	if (is_file || is_id(id) || (slash && slash > id.data && is_id(str_from(slash + 1))))
		return ERR_OK;
	if (access(id.data, F_OK) == 0)
		return error_set(e, ERR_BAD_REQUEST, "--module %.150s: not a regular file", text);
	return error_set(e, ERR_BAD_REQUEST,
	        "--module %.60s: neither a file nor an id. A build id has an even number of hex digits, a debug id 33 "
	        "to 40, a FileID 32 or 22 letters of base64; symbtool file-id FILE prints them",
	        text);
}

/* Modules that are files go to the front of `files`. */
static enum err read_modules(
        struct filter *f, const struct filter_options *o, const char **files, size_t *file_count, struct error *e)
{
	for (size_t i = 0; i < o->module_count; i++) {
		const char *equals = strchr(o->modules[i], '=');
		struct stat st;
		if (!equals || equals == o->modules[i] || !equals[1])
			return error_set(
			        e, ERR_BAD_REQUEST, "--module %.150s: not NAME=ID or NAME=FILE", o->modules[i]);
		struct str name = {o->modules[i], (size_t)(equals - o->modules[i])}, id = str_from(equals + 1);
		bool file = stat(id.data, &st) == 0 && S_ISREG(st.st_mode);
		enum err err = check_module(o->modules[i], id, file, e);
		if (err)
			return err;
		if (file)
			files[(*file_count)++] = o->modules[i];
		if (!text_reader_know(f->reader, name, file ? str_from("") : id))
			return no_memory(e);
	}
	return ERR_OK;
}

static enum err copy_all(struct filter *f, char *const *paths, size_t count, struct error *e)
{
	enum err err = ERR_OK;
	size_t unreadable = 0;
	for (size_t i = 0; !interrupted && (i < count || (!count && !i)); i++) {
		if (i) { /* ids, maps and stacks of one file are not those of another */
			text_reader_begin(f->reader);
			forget_modules(f);
		}
		err = copy_file(f, count ? paths[i] : "-", e);
		if (err == ERR_IO && !f->failed) {
			unreadable++;
			err = ERR_OK;
		}
		if (err)
			break;
	}
	if (!count || unreadable < count)
		filter_tally_print(&f->tally, text_reader_guess(f->reader), f->options->program);
	if (!err && f->trouble.code)
		err = f->trouble.code;
	return err ? err : unreadable ? ERR_IO : ERR_OK;
}

enum err filter_run(const struct filter_options *o, char *const *paths, size_t count, struct error *e)
{
	struct filter f = {.text = malloc(TEXT_BYTES), .coloured = is_coloured(), .options = o};
	const char **files = calloc(o->module_count + 1, sizeof *files);
	size_t file_count = 0;
	arena_init(&f.arena, SIZE_MAX);
	buffer_init(&f.out, SIZE_MAX);
	buffer_init(&f.tally.lacking, 1 << 20);
	f.reader = text_reader_new(MODULES_MAX, take_frame, &f);
	enum err err = f.text && files && f.reader ? ERR_OK : no_memory(e);
	if (!err)
		err = read_modules(&f, o, files, &file_count, e);
	if (!err)
		text_reader_tell_named(f.reader, false);
	if (!err)
		text_reader_use_fixed(f.reader, str_from(o->program ? o->program : ""));
	if (!err) {
		f.local = local_symbols_new(o->extract, files, file_count);
		f.asker = f.local ? asker_new(ASK_FRAMES, f.local, o->server) : NULL;
		catch_interrupts();
		err = f.asker ? copy_all(&f, paths, count, e) : no_memory(e);
	}
	if (f.asker)
		forget_modules(&f);
	asker_free(f.asker);
	local_symbols_free(f.local);
	free(f.modules);
	text_reader_free(f.reader);
	arena_release(&f.arena);
	buffer_release(&f.out);
	buffer_release(&f.tally.lacking);
	free(f.frames);
	free(f.text);
	free(files);
	if (interrupted) { /* as if it had not been caught */
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
	}
	return err;
}
