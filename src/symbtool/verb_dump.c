#include <config.h>

#include <inttypes.h>
#include <stdio.h>

#include "symbtool/input.h"
#include "extract/record_json.h"
#include "symbtool/verbs.h"

static const char usage[] = "Usage: symbtool dump [--json] SYMBFILE...\n"
                            "\n"
                            "Prints the records of symbfiles, in their order.\n"
                            "\n"
                            "  --json  an object a record, each on a line\n";

enum { LINE_MAX_BYTES = 1 << 30 }; /* a record's JSON; messages end at 16 MiB, strings are shared */

struct dump {
	struct buffer line;
	bool json;
};

static enum err print_line(struct dump *d, struct error *e)
{
	buffer_append(&d->line, "\n", 1);
	if (d->line.failed)
		return error_set(e, ERR_NO_MEMORY, "a record that is too large to be printed");
	fwrite(d->line.data, 1, d->line.len, stdout);
	buffer_reset(&d->line);
	return ERR_OK;
}

static void add_place(struct buffer *out, struct str file, uint32_t line)
{
	if (file.len)
		buffer_printf(out, " at %.*s", STR_FMT(file));
	if (line)
		buffer_printf(out, ":%u", line);
}

static void add_range(struct buffer *out, const struct symbfile_range *r)
{
	buffer_printf(
	        out, "range 0x%" PRIx64 " +%" PRIu64 " depth %u  %.*s", r->va, r->length, r->depth, STR_FMT(r->func));
	add_place(out, r->has_file ? r->file : str_from(""), 0);
	if (r->call_line || r->has_call_file) {
		buffer_printf(out, ", called");
		add_place(out, r->has_call_file ? r->call_file : str_from(""), r->call_line);
	}
	for (size_t i = 0; i < r->line_count; i++)
		buffer_printf(out, "\n  0x%" PRIx64 " line %u", r->va + r->lines[i].offset, r->lines[i].line);
}

static void add_pad(struct buffer *out, const struct symbfile_pad *p)
{
	buffer_printf(out, "pad 0x%" PRIx64, p->va);
	for (size_t i = 0; i < p->count; i++) {
		buffer_printf(out, "\n  %.*s", STR_FMT(p->frames[i].func));
		add_place(out, p->frames[i].file, p->frames[i].line);
	}
}

static enum err take_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct dump *d = arg;
	if (d->json)
		record_json_range(&d->line, r);
	else
		add_range(&d->line, r);
	return print_line(d, e);
}

static enum err take_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct dump *d = arg;
	if (d->json)
		record_json_pad(&d->line, p);
	else
		add_pad(&d->line, p);
	return print_line(d, e);
}

static enum err feed(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return symbfile_reader_feed(arg, data, len, e);
}

static bool dump_file(void *arg, const char *path, bool json, struct error *e)
{
	struct dump *d = arg;
	d->json = json;
	struct symbfile_sink sink = {take_range, take_pad, d};
	struct symbfile_reader *reader = symbfile_reader_new(&sink);
	if (!reader) {
		error_set(e, ERR_NO_MEMORY, "out of memory");
		return false;
	}
	enum err err = input_read(path, feed, reader, e);
	if (!err)
		err = symbfile_reader_finish(reader, e);
	symbfile_reader_free(reader);
	return err == ERR_OK;
}

static int run(const struct verb *v, int argc, char **argv)
{
	struct dump d = {0};
	buffer_init(&d.line, LINE_MAX_BYTES);
	int code = each_file(v, argc, argv, dump_file, &d);
	buffer_release(&d.line);
	return code;
}

const struct verb verb_dump = {"dump", "print the records of symbfiles", usage, run};
