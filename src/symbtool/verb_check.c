/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool check: tells whether symbfiles and symbol files are whole, and which lines of them are damaged. */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <stdio.h>

#include "symbtool/check_sym.h"
#include "symbtool/file_kind.h"
#include "symbtool/input.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

static const char usage[] =
        "Usage: symbtool check [--json] FILE...\n"
        "\n"
        "Checks symbfiles and Breakpad symbol files (also gzip and zstd). Prints what they contain, the first error "
        "of\n"
        "a symbfile with its place, and each damaged line of a symbol file with its number. The exit code is 1 if\n"
        "anything is wrong.\n";

struct record_counts {
	uint64_t ranges, pads, lines, frames;
};

static enum err count_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct record_counts *c = arg;
	(void)e;
	c->ranges++;
	c->lines += r->line_count;
	return ERR_OK;
}

static enum err count_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct record_counts *c = arg;
	(void)e;
	c->pads++;
	c->frames += p->count;
	return ERR_OK;
}

static void print_symbfile(const char *path, const struct record_counts *c, const char *problem, bool json)
{
	if (!json) {
		print_visible(stdout, path);
		printf(": symbfile, %" PRIu64 " ranges with %" PRIu64 " lines, %" PRIu64 " return pads with %" PRIu64
		       " frames: ",
		        c->ranges, c->lines, c->pads, c->frames);
		print_visible(stdout, problem ? problem : "sound");
		putchar('\n');
		return;
	}
	json_t *o = json_pack("{s:o, s:s, s:I, s:I, s:I, s:I, s:o}", "path", json_of_bytes(path), "kind", "symbfile",
	        "ranges", (json_int_t)c->ranges, "lines", (json_int_t)c->lines, "returnpads", (json_int_t)c->pads,
	        "frames", (json_int_t)c->frames, "error", json_of_bytes(problem));
	print_json_line(o);
	json_decref(o);
}

/* ERR_CORRUPT is the result we look for, and is printed; other errors are left to the caller. */
static enum err check_symbfile(const char *path, bool json, bool *sound, struct error *e)
{
	struct record_counts c = {0};
	struct symbfile_sink sink = {count_range, count_pad, &c};
	enum err err = input_symbfile(path, &sink, e);
	*sound = !err;
	if (err && err != ERR_CORRUPT)
		return err;
	print_symbfile(path, &c, err ? e->text : NULL, json);
	return ERR_OK;
}

/* A file that starts with neither a MODULE line nor text is more likely a broken symbfile. */
static bool is_symbfile(const char *path, enum input_kind kind)
{
	static const char suffix[] = ".symbfile";
	size_t len = strlen(path), n = sizeof suffix - 1;
	return kind == INPUT_SYMBFILE || (len > n && strcmp(path + len - n, suffix) == 0);
}

/* What is wrong inside a file goes to standard output. */
static bool check_file(void *arg, const char *path, bool json, struct error *e)
{
	enum input_kind kind;
	bool sound = false;
	(void)arg;
	if (input_kind_of(path, &kind, e))
		return false;
	if (file_kind_check(path, TAKES_SYMBFILE | TAKES_SYM | TAKES_LINES, e))
		return false;
	if ((is_symbfile(path, kind) ? check_symbfile : check_sym)(path, json, &sound, e))
		return false;
	e->text[0] = 0;
	return sound;
}

static int run_check(const struct verb *v, int argc, char **argv)
{
	return each_file(v, argc, argv, check_file, NULL);
}

const struct verb verb_check = {"check", "report errors in symbfiles and symbol files", usage, run_check, NULL};
