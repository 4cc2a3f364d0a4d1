/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool symbolicate: names addresses of the command line, of standard input line by line, or of any text with
 * --filter. */
#include <config.h>

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "symbtool/answer_print.h"
#include "symbtool/debuginfod.h"
#include "symbtool/file_kind.h"
#include "symbtool/filter.h"
#include "symbtool/function_address.h"
#include "symbtool/input.h"
#include "symbtool/lines.h"
#include "symbtool/cli.h"

static const char usage[] =
        "Usage: symbtool symbolicate [OPTION]... --url URL MODULE ADDRESS...\n"
        "       symbtool symbolicate [OPTION]... FILE... ADDRESS...\n"
        "       symbtool symbolicate --filter [OPTION]... [FILE]...\n"
        "\n"
        "Prints function, file and line of addresses, including inlined functions. With --url it asks a server;\n"
        "otherwise it reads FILE: an executable, a Breakpad symbol file, or all symbfiles of one executable.\n"
        "\n"
        "MODULE is an executable, NAME/ID, or an ID: a FileID, a debug id or a build id. With NAME/ID or ID,\n"
        "addresses count from the start of the image in memory; otherwise they are those of the file. An ADDRESS\n"
        "is 0x and hex digits, or decimal; FUNCTION+ADDRESS counts from a function of the executable, and\n"
        "MODULE+ADDRESS is in another module. Without an address, or with -, it reads stacks from standard input,\n"
        "one per line: addresses separated by blanks, or MODULE ADDRESS.\n"
        "\n"
        "With --filter it copies text from files or standard input, and adds names to stack frames of the formats\n"
        "below, also after log prefixes, quoted in mails, in JSON strings and in HTML.\n"
        "\n"
        "The exit code is 1 if a module was not found, nothing had a name, or a line of standard input was "
        "malformed.\n";

enum {
	BATCH = 8192,     /* frames answered at a time */
	HELP_WIDTH = 100, /* columns */
	HEX_TRIED = 64,   /* addresses of a batch that are tried as hex when they say nothing as decimal */
};

struct symbolicate {
	struct question q;
	struct server server;
	struct extract_options extract;
	struct option_list modules;
	const char *executable; /* -e */
	char *const *files;     /* the operands that are files, if there are several: of module 0, all together */
	size_t file_count;
	bool json, filter, one_line;
	struct naming naming;
	const char *debuginfod; /* URLs */
	struct local_symbols *local;
	struct asker *asker;
	struct arena arena; /* of the answers to a batch */
	struct answer_tally tally;
	bool asked, bad_line;
	bool warned; /* of decimal addresses */
	bool failed; /* answering failed, not reading the question */
};

/* What stands before + may have been meant as a function, if it is no path. */
static bool is_no_function(const struct symbolicate *s, const char *name)
{
	return s->q.function && !strchr(name, '/') && access(name, F_OK) != 0;
}

static enum err know_module(struct symbolicate *s, char **name, struct error *e)
{
	bool first = name == s->q.modules;
	if (s->server.url)
		return asker_add_word(s->asker, *name, e);
	if (first && s->file_count > 1)
		return asker_add_files(s->asker, s->files, s->file_count, e);
	if (first || !is_no_function(s, *name))
		return asker_add_files(s->asker, name, 1, e);
	complain(*name, "neither a function of %s nor a file", s->q.modules[0]);
	return asker_add_nothing(s->asker, *name, e);
}

static enum err answer_batch(struct symbolicate *s, struct error *e)
{
	enum err err = ERR_OK;
	for (uint32_t i = asker_count(s->asker); i < s->q.module_count && !err; i++)
		err = know_module(s, &s->q.modules[i], e);
	return err ? err : asker_ask(s->asker, s->q.frames, s->q.count, &s->arena, e);
}

static bool has_decimal(const struct question *q)
{
	for (size_t i = 0; i < q->count; i++)
		if (q->as_hex[i])
			return true;
	return false;
}

/* An address without 0x that has a name: perhaps not the one that was meant. */
static void tell_decimal(struct symbolicate *s)
{
	for (size_t i = 0; i < s->q.count && !s->warned; i++) {
		if (!s->q.as_hex[i] || !s->q.frames[i].names.count)
			continue;
		complain("",
		        "addresses without 0x are read as decimal: 0x%" PRIx64 "; for 0x%" PRIx64
		        " write 0x, or give --hex",
		        s->q.frames[i].address, s->q.as_hex[i]);
		s->warned = true;
	}
}

/* Addresses without 0x that say nothing, and would as hex. Changes the question. */
static enum err warn_of_decimal(struct symbolicate *s, struct error *e)
{
	tell_decimal(s);
	if (s->warned || !question_read_as_hex(&s->q, HEX_TRIED))
		return ERR_OK;
	enum err err = answer_batch(s, e);
	for (size_t i = 0; i < s->q.count && !err && !s->warned; i++) {
		const struct ask_frame *f = &s->q.frames[i];
		struct str function;
		if (!f->names.count || !answer_text(f->names.calls[f->names.count - 1].function, &s->arena, &function))
			continue;
		complain("",
		        "addresses without 0x are read as decimal, and %" PRIx64 " has no name; 0x%" PRIx64
		        " is in %.*s: write 0x, or give --hex",
		        f->address, f->address, (int)(function.len < 100 ? function.len : 100), function.data);
		s->warned = true;
	}
	return err;
}

/* Answers what was asked so far. */
static enum err answer_stacks(struct symbolicate *s, struct error *e)
{
	enum err err = question_end_stack(&s->q, e);
	if (err || !s->q.count)
		return err;
	s->asked = true;
	err = answer_batch(s, e);
	if (!err && s->json)
		err = answer_print_json(&s->q, s->asker, e);
	else if (!err)
		err = answer_print(&s->q, s->asker, s->server.url, &s->naming, &s->tally, e);
	flush_output();
	if (!err && !s->warned && has_decimal(&s->q))
		err = warn_of_decimal(s, e);
	question_reset(&s->q);
	arena_reset(&s->arena);
	s->failed = err;
	return err;
}

/* Reads one stack per line. A malformed line is reported with its number. What has arrived is answered before waiting
 * for more; as JSON, each reply has as much as a server accepts. */
static enum err read_stacks(struct symbolicate *s, struct error *e)
{
	struct line_input lines = {0};
	char *line = NULL;
	enum err err = question_end_stack(&s->q, e);
	size_t most = s->json ? QUESTION_FRAMES / 2 : BATCH;
	while (!err && !(err = lines_next(&lines, &line, e)) && line) {
		char place[64];
		err = question_line(&s->q, line, e);
		if (err == ERR_BAD_REQUEST) {
			snprintf(place, sizeof place, "standard input:%" PRIu64, lines.number);
			complain(place, "%s", e->text);
			s->bad_line = true;
			err = ERR_OK;
		}
		if (!err && (s->q.count >= most || (!s->json && lines_wait(&lines))))
			err = answer_stacks(s, e);
	}
	lines_release(&lines);
	return err;
}

static bool is_frame(const struct symbolicate *s, const char *text)
{
	struct error ignored;
	struct question probe = {.hex = s->q.hex};
	bool frame = strcmp(text, "-") == 0 || !question_frame(&probe, 0, text, &ignored) ||
	             (probe.module_count == 0 && !read_address(text, s->q.hex, &(uint64_t){0}, &ignored));
	question_release(&probe);
	return frame;
}

/* The module comes first, unless each address names its own. Several files are parts of one executable. */
static size_t count_files(const struct symbolicate *s, const struct operands *o)
{
	size_t n = 0;
	while (n < o->count && !s->executable && !is_frame(s, o->items[n]) &&
	        (n == 0 || access(o->items[n], F_OK) == 0))
		n++;
	return n;
}

/* Before it waits for addresses. */
static enum err check_files(const struct symbolicate *s, struct error *e)
{
	struct error why;
	for (size_t i = 0; i < s->file_count; i++) {
		const char *path = s->files[i];
		enum input_kind kind;
		enum err err = input_kind_of(path, &kind, &why);
		if (!err) /* an executable must not be packed */
			err = file_kind_check(
			        path, kind == INPUT_ELF ? TAKES_ELF : TAKES_ELF | TAKES_SYMBFILE | TAKES_SYM, &why);
		if (err)
			return error_set(e, err, "%.100s: %s", path, why.text);
	}
	return ERR_OK;
}

static enum err read_operands(struct symbolicate *s, const struct operands *o, struct error *e)
{
	uint32_t number;
	s->files = o->items;
	s->file_count = count_files(s, o);
	const char *module = s->executable ? s->executable : s->file_count ? s->files[0] : NULL;
	enum err err = module ? question_module(&s->q, module, &number, e) : ERR_OK;
	if (s->file_count > 1 && s->server.url)
		err = error_set(e, ERR_CONFIG, "%.100s: with --url, give one module", s->files[1]);
	if (!s->server.url)
		s->q.function = function_address;
	for (size_t i = s->file_count; i < o->count && !err; i++)
		err = strcmp(o->items[i], "-") == 0 ? read_stacks(s, e) : question_frame(&s->q, 0, o->items[i], e);
	if (err || s->file_count < o->count)
		return err;
	err = s->server.url ? ERR_OK : check_files(s, e);
	return err ? err : read_stacks(s, e);
}

/* The program of -e is a module of the text, too. *module: "NAME=FILE", which the caller frees. */
static enum err know_program(struct symbolicate *s, char **module, struct error *e)
{
	struct error why;
	if (access(s->executable, R_OK) != 0)
		return error_set(e, ERR_BAD_REQUEST, "%.150s: %s", s->executable, strerror(errno));
	if (file_kind_check(s->executable, TAKES_ELF, &why))
		return error_set(e, ERR_BAD_REQUEST, "%.150s: %s", s->executable, why.text);
	*module = text_printf("%s=%s", basename(s->executable), s->executable);
	if (!*module ||
	        !array_reserve(&s->modules.items, &s->modules.cap, s->modules.count + 1, sizeof *s->modules.items))
		return no_memory(e);
	s->modules.items[s->modules.count++] = *module;
	return ERR_OK;
}

static enum err filter(struct symbolicate *s, const struct operands *files, struct error *e)
{
	char *program = NULL;
	enum err err = s->executable ? know_program(s, &program, e) : ERR_OK;
	struct filter_options o = {.extract = &s->extract,
	        .modules = s->modules.items,
	        .module_count = s->modules.count,
	        .naming = s->naming,
	        .one_line = s->one_line,
	        .program = s->executable};
	if (!err && s->server.url) {
		o.server = &s->server;
		err = server_open(&s->server, e);
	}
	err = err ? err : filter_run(&o, files->items, files->count, e);
	free(program);
	return err;
}

static int run_filter(const struct verb *v, struct symbolicate *s, const struct operands *files)
{
	struct error e = {0};
	if (s->json || s->q.return_addresses || s->extract.debug_file)
		return complain_usage(v, "--filter cannot be combined with --json, --return-addresses or --debug-file");
	enum err err = filter(s, files, &e);
	if (e.text[0])
		complain("", "%s", e.text);
	return err == ERR_BAD_REQUEST || err == ERR_CONFIG ? EXIT_USAGE : err ? EXIT_FAILED : EXIT_DONE;
}

static enum err make_asker(struct symbolicate *s, struct error *e)
{
	enum err err = s->server.url ? server_open(&s->server, e) : ERR_OK;
	if (err)
		return err;
	s->local = local_symbols_new(&s->extract, NULL, 0);
	s->asker = s->local ? asker_new(ASK_ADDRESSES, s->local, s->server.url ? &s->server : NULL) : NULL;
	return s->asker ? ERR_OK : no_memory(e);
}

static enum err symbolicate(struct symbolicate *s, const struct operands *operands, struct error *e)
{
	enum err err = make_asker(s, e);
	if (!err)
		err = read_operands(s, operands, e);
	if (!err && s->extract.debug_file && s->q.module_count > 1)
		err = error_set(e, ERR_CONFIG, "--debug-file takes a single executable");
	if (!err)
		err = answer_stacks(s, e);
	if (!err && !s->asked && !s->bad_line)
		err = error_set(e, ERR_BAD_REQUEST, "no address, either as an argument or on standard input");
	if (s->tally.nameless)
		complain("", "addresses in no function: %" PRIu64, s->tally.nameless);
	const struct reason_row *row = reason_row(REASON_WRONG_OFFSET);
	if (s->tally.in_memory)
		complain("", "%s: %s %s", row->word, row->means, row->help);
	return err;
}

/* Whether all modules had symbols, and something had a name. */
static bool all_found(const struct symbolicate *s)
{
	for (uint32_t i = 0; i < asker_count(s->asker); i++)
		if (asker_found(s->asker, i) == ASK_LACKING)
			return false;
	return !s->tally.frames || s->tally.named;
}

static void release_all(struct symbolicate *s)
{
	asker_free(s->asker);
	local_symbols_free(s->local);
	arena_release(&s->arena);
	question_release(&s->q);
}

static int run_with(const struct verb *v, struct symbolicate *s, int argc, char **argv)
{
	const struct option_row rows[] = {
	        SERVER_ROWS(s->server),
	        {"--retry-time SECONDS", OPTION_NUMBER, &s->server.retry_time, 0, 86400,
	                "how long to retry a failing request (30)"},
	        {"-e, --exe MODULE", OPTION_TEXT, &s->executable, 0, 0,
	                "the module, as in addr2line; with --filter, the program that the text comes from"},
	        {"--filter", OPTION_FLAG, &s->filter, 0, 0, "copy text, adding names"},
	        {"--module NAME=ID|FILE", OPTION_LIST, &s->modules, 0, 0,
	                "the id (build id, debug id or FileID) or file of a module in the text; may be repeated"},
	        {"--one-line", OPTION_FLAG, &s->one_line, 0, 0,
	                "with --filter, inlined calls on the line of their frame, not below it"},
	        NAMING_ROWS(s->naming),
	        {"--return-addresses", OPTION_FLAG, &s->q.return_addresses, 0, 0,
	                "look up all but the first address of a stack one byte lower"},
	        DEBUG_FILE_ROWS(s->extract, s->debuginfod),
	        {"--hex", OPTION_FLAG, &s->q.hex, 0, 0, "addresses without 0x are hex, as in addr2line and perf"},
	        {"--json", OPTION_FLAG, &s->json, 0, 0, "print the reply of /symbolicate/v5"},
	};
	struct operands operands;
	struct error e = {0};
	int code = options_read(v, rows, sizeof rows / sizeof *rows, argc, argv, &operands);
	if (code != OPTIONS_GO_ON)
		return code;
	s->server.url = server_url(s->server.url);
	debug_files_serve(&s->extract, s->debuginfod);
	if (s->filter)
		return run_filter(v, s, &operands);
	if (s->modules.count || s->one_line)
		return complain_usage(v, "--%s needs --filter", s->modules.count ? "module" : "one-line");
	enum err err = symbolicate(s, &operands, &e);
	if (err)
		complain("", "%s", e.text);
	code = err || s->bad_line || !all_found(s) ? EXIT_FAILED : EXIT_DONE;
	release_all(s);
	return (err == ERR_BAD_REQUEST || err == ERR_CONFIG) && !s->failed ? EXIT_USAGE : code;
}

static int run_symbolicate(const struct verb *v, int argc, char **argv)
{
	struct symbolicate s = {.server = {.retry_time = 30}};
	arena_init(&s.arena, SIZE_MAX);
	int code = run_with(v, &s, argc, argv);
	free(s.modules.items);
	server_release(&s.server);
	return code;
}

static void print_formats(void)
{
	const char *names;
	size_t column = HELP_WIDTH;
	printf("Formats of --filter:");
	for (unsigned i = 0; (names = text_format_names(i)); i++)
		for (struct str rest = str_from(names); rest.len;) {
			struct str name = trimmed(str_cut(&rest, ','));
			bool fits = column + name.len + 2 < HELP_WIDTH;
			printf("%s%.*s", fits ? ", " : "\n  ", STR_FMT(name));
			column = (fits ? column : 0) + name.len + 2;
		}
	printf("\n\n");
}

const struct verb verb_symbolicate = {
        "symbolicate", "print function, file and line of addresses", usage, run_symbolicate, print_formats};
