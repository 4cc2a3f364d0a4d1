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
#include "symbtool/cli.h"
#include "symbtool/file_kind.h"
#include "symbtool/filter_names.h"
#include "symbtool/text_input.h"
#include "symbtool/visible.h"
#include "text/module_table.h"
#include "text/signs.h"

enum {
	BATCH_BYTES = 4 << 20, /* of text, before it is written */
	TEXT_BYTES = BATCH_BYTES + TEXT_LINE_MAX + TEXT_INPUT_LEAST,
	READ_BYTES = 128 << 10, /* given to the reader at a time, which bounds the frames of a batch */
	BATCH_FRAMES = 1 << 18, /* no more text is read with this many, as a heap profile of 4 MiB has */
	MODULES_MAX = 32768,    /* of a batch; half of them are more than READ_BYTES can contain */
	OUT_BYTES = 1 << 20,    /* written at a time */
	NAMES_MAX = 4,          /* modules without symbols that are listed at the end */
};

/* From the first bytes of a batch. A memory map that follows a stack comes a little later, if by a pipe. */
static const int64_t patience = 200 * MS;

struct filter {
	struct text_reader *reader;
	struct filter_names *names;
	struct arena arena; /* of a batch */
	char *text;
	size_t len, used; /* bytes there, and read so far */
	uint64_t base;    /* position of text[0] in the whole input */
	uint64_t passed;  /* up to there, text was written before its line was whole */
	struct text_frame *frames;
	size_t frame_count;
	uint32_t frame_cap;
	struct buffer out;
	bool coloured;
	int failed; /* the error of standard output that ends it, such as ENOSPC; 0: none */
	struct error trouble;
	uint64_t why[REASONS]; /* of the frames of stacks */
	uint64_t named;        /* those that had names */
	struct buffer lacking; /* names of modules that lack symbols, NUL-terminated each */
	unsigned lacking_count;
	const char *program; /* of -e */
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
		f->why[REASON_NONE]++;
		f->named++;
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

/* ---- the tally ---- */

static void note_lacking(struct filter *f, int32_t module)
{
	struct str name = text_base_name(text_reader_module(f->reader, (uint32_t)module)->path);
	if (f->lacking_count > NAMES_MAX || memchr(name.data, 0, name.len))
		return;
	for (const char *p = (char *)f->lacking.data; p && p < (char *)f->lacking.data + f->lacking.len;
	        p += strlen(p) + 1)
		if (str_equal(str_from(p), name))
			return;
	f->lacking_count++;
	buffer_append_str(&f->lacking, name);
	buffer_append(&f->lacking, "", 1);
}

static void print_lacking(const struct filter *f)
{
	const char *p = (const char *)f->lacking.data;
	for (unsigned i = 0; i < f->lacking_count && i < NAMES_MAX; i++, p += strlen(p) + 1) {
		fputs(i ? ", " : " (", stderr);
		print_visible(stderr, p);
	}
	fputs(f->lacking_count > NAMES_MAX ? ", ...)" : f->lacking_count ? ")" : "", stderr);
}

/* Of a text in which there was nothing to look up. */
static void print_guess(const struct guess *guess)
{
	fprintf(stderr, "symbtool: line %" PRIu64 " looks most like a frame: ", guess->line);
	print_visible_str(stderr, (struct str){guess->text, guess->len});
	fprintf(stderr, "\nsymbtool: %s\n", guess->missing);
}

/* Why a bare address is not in the program of -e. */
static const char *why_not_there(const char *program)
{
	struct local_place *place = local_place_read(program);
	bool fixed = place && place->fixed;
	free(place);
	return fixed ? "none of these addresses is in its code, or their lines name another file"
	             : "position-independent: only a memory map says where it was loaded";
}

static void print_tally(const struct filter *f)
{
	uint64_t all = 0;
	const struct guess *guess = text_reader_guess(f->reader);
	for (unsigned i = 0; i < REASONS; i++)
		all += f->why[i];
	bool nameless = guess && !guess->is_named;
	uint64_t named = f->named ? f->named : guess ? guess->named : 0;
	if (named && all == f->named && !nameless) {
		fprintf(stderr, "symbtool: all frames have names already: %" PRIu64 "\n", named);
		return;
	}
	fprintf(stderr, "symbtool: %" PRIu64 " frame%s, %" PRIu64 " named", all, all == 1 ? "" : "s",
	        f->why[REASON_NONE]);
	const char *before = "; no name: ";
	for (unsigned i = 1; i < REASONS; i++) {
		if (!f->why[i])
			continue;
		fprintf(stderr, "%s%" PRIu64 " %s", before, f->why[i], reason_row((enum reason)i)->word);
		before = ", ";
	}
	print_lacking(f);
	fputc('\n', stderr);
	if (guess)
		print_guess(guess);
	for (unsigned i = 1; i < REASONS; i++) {
		const struct reason_row *row = reason_row((enum reason)i);
		if (f->why[i])
			fprintf(stderr, "symbtool: %s: %s %s\n", row->word, row->means, row->help);
	}
	if (f->program && f->why[REASON_NO_MODULE])
		fprintf(stderr, "symbtool: %s: %s\n", f->program, why_not_there(f->program));
}

/* ---- a batch ---- */

/* Text up to `used`, with names. */
static void compose(struct filter *f, const struct ask_frame *asked)
{
	uint64_t done = f->base; /* an object may have begun in earlier text */
	if (f->passed > done)
		done = f->passed < f->base + f->used ? f->passed : f->base + f->used;
	for (size_t i = 0; i < f->frame_count; i++) {
		const struct frame_names *n = &asked[i].names;
		if (!f->options->one_line)
			text_put_inlines_below(&f->frames[i], i ? f->frames[i - 1].line : 0,
			        i + 1 < f->frame_count ? f->frames[i + 1].line : 0, (struct str){f->text, f->used},
			        f->base);
		f->why[n->why] += f->frames[i].stack != TEXT_NO_STACK;
		if (reason_is_of_module(n->why))
			note_lacking(f, f->frames[i].module);
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

static void find_names(struct filter *f, struct ask_frame *asked)
{
	struct error trouble = {0};
	struct frame_batch batch = {f->reader, f->frames, f->text, f->base, asked, f->frame_count, &f->arena};
	if (filter_names_find(f->names, &batch, &trouble) && !f->trouble.code) {
		f->trouble = trouble;
		complain("", "%s", trouble.text);
	}
}

/* Writes what was read, then forgets it. */
static enum err end_batch(struct filter *f, struct error *e)
{
	struct ask_frame *asked = arena_alloc(&f->arena, f->frame_count * sizeof *asked + 1);
	if (!asked)
		return no_memory(e);
	for (size_t i = 0; i < f->frame_count; i++) {
		text_reader_place(f->reader, &f->frames[i]);
		text_reader_find_path(f->reader, &f->frames[i]);
	}
	find_names(f, asked);
	const struct naming *n = &f->options->naming;
	for (size_t i = 0; i < f->frame_count && (n->basenames || n->no_inlines || n->short_names); i++)
		if (!cut_names(f, &asked[i].names))
			return no_memory(e);
	compose(f, asked);
	filter_names_settle(f->names);
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
		filter_names_forget(f->names);
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
			filter_names_forget(f->names);
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
			filter_names_forget(f->names);
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
		print_tally(f);
	if (!err && f->trouble.code)
		err = f->trouble.code;
	return err ? err : unreadable ? ERR_IO : ERR_OK;
}

enum err filter_run(const struct filter_options *o, char *const *paths, size_t count, struct error *e)
{
	struct filter f = {.text = malloc(TEXT_BYTES), .coloured = is_coloured(), .program = o->program, .options = o};
	const char **files = calloc(o->module_count + 1, sizeof *files);
	size_t file_count = 0;
	struct local_symbols *local = NULL;
	arena_init(&f.arena, SIZE_MAX);
	buffer_init(&f.out, SIZE_MAX);
	buffer_init(&f.lacking, 1 << 20);
	f.reader = text_reader_new(MODULES_MAX, take_frame, &f);
	enum err err = f.text && files && f.reader ? ERR_OK : no_memory(e);
	if (!err)
		err = read_modules(&f, o, files, &file_count, e);
	if (!err)
		text_reader_tell_named(f.reader, false);
	if (!err)
		text_reader_use_fixed(f.reader, str_from(o->program ? o->program : ""));
	if (!err) {
		local = local_symbols_new(o->extract, files, file_count);
		f.names = local ? filter_names_new(local, o->server) : NULL;
		catch_interrupts();
		err = f.names ? copy_all(&f, paths, count, e) : no_memory(e);
	}
	filter_names_free(f.names);
	local_symbols_free(local);
	text_reader_free(f.reader);
	arena_release(&f.arena);
	buffer_release(&f.out);
	buffer_release(&f.lacking);
	free(f.frames);
	free(f.text);
	free(files);
	if (interrupted) { /* as if it had not been caught */
		signal(SIGINT, SIG_DFL);
		raise(SIGINT);
	}
	return err;
}
