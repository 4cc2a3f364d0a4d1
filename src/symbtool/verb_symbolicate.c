#include <config.h>

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "symbtool/answer.h"
#include "symbtool/debuginfod.h"
#include "symbtool/filter.h"
#include "symbtool/local_map.h"
#include "symbtool/verbs.h"
#include "symbtool/visible.h"

static const char usage[] =
        "Usage: symbtool symbolicate [OPTION]... --url URL MODULE ADDRESS...\n"
        "       symbtool symbolicate [OPTION]... FILE ADDRESS...\n"
        "       symbtool symbolicate --filter [OPTION]... [FILE]...\n"
        "\n"
        "Prints function, file and line of addresses, inlined functions included; asks a server, or without --url "
        "reads\n"
        "FILE itself: an executable, a symbfile or a Breakpad symbol file.\n"
        "\n"
        "MODULE is an executable, NAME/ID (of a symbol file, or with a FileID), or a FileID. An ADDRESS is 0x and hex\n"
        "digits, or decimal; MODULE+ADDRESS is of another module. With - stacks are read from standard input, one a\n"
        "line, addresses separated by blanks.\n"
        "\n"
        "With --filter text is copied from files or standard input, and names are put in where it has frames of "
        "stacks:\n"
        "reports of sanitizers, backtraces of glibc, coredumpctl, perf script, Firefox, Android, macOS, "
        "minidump-stackwalk.\n"
        "\n"
        "  --url URL             the server\n"
        "  --filter              copy text, with names\n"
        "  --module NAME=ID      which build a module of the text is: its build id, debug id or FileID\n"
        "  --module NAME=FILE    the file of a module of the text; may be given again and again\n"
        "  --return-addresses    a stack's first address is that of an instruction, all others are return addresses,\n"
        "                        which are looked up one byte below\n"
        "  --debug-file FILE     where the debug information of the one executable is\n"
        "  --debug-dir DIR       where such files are looked for (/usr/lib/debug)\n"
        "  --debuginfod URLS     servers that are asked for those that are not there (DEBUGINFOD_URLS)\n"
        "  --retry-time SECONDS  how long a request that fails is tried again (30)\n"
        "  --ca-file FILE        certificates to trust instead of the system's\n"
        "  --insecure            trust any certificate\n"
        "  --json                the reply of /symbolicate/v5\n";

struct symbolicate {
	struct question q;
	struct server server;
	struct extract_options extract;
	struct option_list modules;
	uint64_t retry_time;
	bool json, filter;
	const char *debuginfod; /* URLs */
};

/* Reads each module itself. */
static enum err answer_from_files(struct symbolicate *s, struct buffer *reply, struct error *e)
{
	struct offmap **maps = calloc(s->q.module_count, sizeof(struct offmap *));
	enum err err = maps ? ERR_OK : error_set(e, ERR_NO_MEMORY, "out of memory");
	for (size_t i = 0; i < s->q.module_count && !err; i++)
		err = local_map_new(&s->q.modules[i], 1, &s->extract, &maps[i], e);
	if (!err)
		err = answer_local(&s->q, maps, reply, e);
	for (size_t i = 0; maps && i < s->q.module_count; i++)
		offmap_free(maps[i]);
	free(maps);
	return err;
}

static enum err answer(struct symbolicate *s, struct buffer *reply, struct error *e)
{
	if (!s->server.url)
		return answer_from_files(s, reply, e);
	s->server.retry_time = (int64_t)s->retry_time * SECOND;
	enum err err = server_check(&s->server, e);
	return err ? err : answer_server(&s->q, &s->server, reply, e);
}

static enum err print(const struct symbolicate *s, const struct buffer *reply, struct error *e)
{
	if (!s->json)
		return answer_print(reply, e);
	print_json_text(stdout, (struct str){(const char *)reply->data, reply->len});
	putchar('\n');
	return ERR_OK;
}

/* The module comes first, unless each address has its own. */
static enum err read_operands(struct question *q, const struct operands *o, struct error *e)
{
	enum err err = ERR_OK;
	uint32_t module;
	size_t i = 0;
	struct question probe = {0};
	bool is_frame = strcmp(o->items[0], "-") == 0 || question_frame(&probe, o->items[0], e) == ERR_OK;
	question_release(&probe);
	if (!is_frame)
		err = question_module(q, o->items[i++], &module, e);
	for (; i < o->count && !err; i++) {
		if (strcmp(o->items[i], "-") != 0) {
			err = question_frame(q, o->items[i], e);
			continue;
		}
		err = question_end_stack(q, e);
		if (!err)
			err = question_read(q, stdin, e);
	}
	return err ? err : question_end_stack(q, e);
}

static enum err filter(struct symbolicate *s, const struct operands *files, struct error *e)
{
	enum err err = ERR_OK;
	struct filter_options o = {
	        .extract = &s->extract, .modules = s->modules.items, .module_count = s->modules.count};
	if (s->server.url) {
		s->server.retry_time = (int64_t)s->retry_time * SECOND;
		o.server = &s->server;
		err = server_check(&s->server, e);
	}
	return err ? err : filter_run(&o, files->items, files->count, e);
}

static int run_filter(const struct verb *v, struct symbolicate *s, const struct operands *files)
{
	struct error e = {0};
	if (s->json || s->q.return_addresses || s->extract.debug_file)
		return complain_usage(v, "--filter takes neither --json, --return-addresses nor --debug-file");
	enum err err = filter(s, files, &e);
	free(s->modules.items);
	if (e.text[0])
		complain("", "%s", e.text);
	return err == ERR_BAD_REQUEST || err == ERR_CONFIG ? EXIT_USAGE : err ? EXIT_FAILED : EXIT_DONE;
}

static int run(const struct verb *v, int argc, char **argv)
{
	struct symbolicate s = {.retry_time = 30};
	const struct option_row rows[] = {
	        {"url", 0, OPTION_TEXT, &s.server.url, 0, 0},
	        {"return-addresses", 0, OPTION_FLAG, &s.q.return_addresses, 0, 0},
	        {"debug-file", 0, OPTION_TEXT, &s.extract.debug_file, 0, 0},
	        {"debug-dir", 0, OPTION_TEXT, &s.extract.debug_dir, 0, 0},
	        {"debuginfod", 0, OPTION_TEXT, &s.debuginfod, 0, 0},
	        {"retry-time", 0, OPTION_NUMBER, &s.retry_time, 0, 86400},
	        {"ca-file", 0, OPTION_TEXT, &s.server.ca_file, 0, 0},
	        {"insecure", 0, OPTION_FLAG, &s.server.insecure, 0, 0},
	        {"json", 0, OPTION_FLAG, &s.json, 0, 0},
	        {"filter", 0, OPTION_FLAG, &s.filter, 0, 0},
	        {"module", 0, OPTION_LIST, &s.modules, 0, 0},
	};
	struct operands operands;
	struct buffer reply;
	struct error e = {0};
	int code = options_read(v, rows, sizeof rows / sizeof *rows, argc, argv, &operands);
	if (code != OPTIONS_GO_ON)
		return code;
	debuginfod_use(s.debuginfod);
	debuginfod_serve(&s.extract);
	if (s.filter)
		return run_filter(v, &s, &operands);
	if (s.modules.count)
		return complain_usage(v, "--module goes with --filter");
	if (!operands.count)
		return complain_usage(v, "no module");
	buffer_init(&reply, SIZE_MAX);
	enum err err = read_operands(&s.q, &operands, &e);
	if (!err && !s.q.count)
		err = error_set(&e, ERR_BAD_REQUEST, "no address");
	if (!err && s.extract.debug_file && s.q.module_count > 1)
		err = error_set(&e, ERR_CONFIG, "--debug-file is of one executable");
	bool called_wrongly = err == ERR_BAD_REQUEST || err == ERR_CONFIG;
	if (!err)
		err = answer(&s, &reply, &e);
	if (!err)
		err = print(&s, &reply, &e);
	if (err)
		complain("", "%s", e.text);
	buffer_release(&reply);
	question_release(&s.q);
	return called_wrongly ? EXIT_USAGE : err ? EXIT_FAILED : EXIT_DONE;
}

const struct verb verb_symbolicate = {"symbolicate", "function, file and line of addresses", usage, run};
