/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool dump: prints the records of symbfiles. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "extract/record_json.h"
#include "symbtool/file_kind.h"
#include "symbtool/input.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

static const char usage[] = "Usage: symbtool dump [--json] SYMBFILE...\n"
                            "\n"
                            "Prints the records of symbfiles, in their order.\n";

enum { LINE_MAX_BYTES = 1 << 30 }; /* a record's JSON; messages end at 16 MiB, strings are shared */

struct dump {
	struct buffer line;
	bool json;
};

/* line is empty where text is printed. */
static enum err end_record(struct dump *d, struct error *e)
{
	if (d->line.failed)
		return error_set(e, ERR_NO_MEMORY, "a record is too large to print");
	print_json_text(stdout, (struct str){(const char *)d->line.data, d->line.len});
	putchar('\n');
	buffer_reset(&d->line);
	return ERR_OK;
}

static void print_place(struct str file, uint32_t line)
{
	if (file.len) {
		fputs(" at ", stdout);
		print_visible_str(stdout, file);
	}
	if (line)
		printf(":%u", line);
}

static void print_range(const struct symbfile_range *r)
{
	printf("range 0x%" PRIx64 " +%" PRIu64 " depth %u  ", r->va, r->length, r->depth);
	print_visible_str(stdout, r->func);
	print_place(r->has_file ? r->file : str_from(""), 0);
	if (r->call_line || r->has_call_file) {
		fputs(", called", stdout);
		print_place(r->has_call_file ? r->call_file : str_from(""), r->call_line);
	}
	for (size_t i = 0; i < r->line_count; i++)
		printf("\n  0x%" PRIx64 " line %u", r->va + r->lines[i].offset, r->lines[i].line);
}

static void print_pad(const struct symbfile_pad *p)
{
	printf("pad 0x%" PRIx64, p->va);
	for (size_t i = 0; i < p->count; i++) {
		fputs("\n  ", stdout);
		print_visible_str(stdout, p->frames[i].func);
		print_place(p->frames[i].file, p->frames[i].line);
	}
}

static enum err dump_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct dump *d = arg;
	if (d->json)
		record_json_range(&d->line, r);
	else
		print_range(r);
	return end_record(d, e);
}

static enum err dump_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct dump *d = arg;
	if (d->json)
		record_json_pad(&d->line, p);
	else
		print_pad(p);
	return end_record(d, e);
}

static bool dump_file(void *arg, const char *path, bool json, struct error *e)
{
	struct dump *d = arg;
	d->json = json;
	struct symbfile_sink sink = {dump_range, dump_pad, d};
	return !file_kind_explain(path, TAKES_SYMBFILE, input_symbfile(path, &sink, e), e);
}

static int run_dump(const struct verb *v, int argc, char **argv)
{
	struct dump d = {0};
	buffer_init(&d.line, LINE_MAX_BYTES);
	int code = each_file(v, argc, argv, dump_file, &d);
	buffer_release(&d.line);
	return code;
}

const struct verb verb_dump = {"dump", "print the records of symbfiles", usage, run_dump, NULL};
