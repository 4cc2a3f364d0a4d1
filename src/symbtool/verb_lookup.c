/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool lookup: looks addresses up in symbfiles, without a server. */
#include <config.h>

#include <stdio.h>

#include "symbtool/answer.h"
#include "symbtool/local_map.h"
#include "symbtool/verbs.h"

static const char usage[] =
        "Usage: symbtool lookup [--json] FILE... ADDRESS...\n"
        "\n"
        "Looks up addresses in symbfiles of one executable, all files together: ranges, return pads and\n"
        "parts in any order. An address is 0x and hex digits, or decimal.\n";

/* Files and addresses may be mixed; files move to the front. */
static enum err sort_operands(struct operands *o, struct question *q, struct error *e)
{
	size_t files = 0;
	uint32_t module = 0;
	uint64_t address;
	enum err err = ERR_OK;
	for (size_t i = 0; i < o->count && !err; i++) {
		if (!parse_address(o->items[i], &address)) {
			o->items[files++] = o->items[i];
			continue;
		}
		if (!q->module_count)
			err = question_module(q, files ? o->items[0] : "", &module, e);
		if (!err)
			err = question_frame(q, o->items[i], e);
	}
	o->count = files;
	return err ? err : question_end_stack(q, e);
}

static enum err look_up(const struct question *q, const struct operands *files, bool json, struct error *e)
{
	struct offmap *map = NULL;
	struct answer_tally tally = {0};
	struct buffer reply;
	buffer_init(&reply, SIZE_MAX);
	enum err err = local_map_new(files->items, files->count, &(struct extract_options){0}, &map, e);
	if (!err)
		err = answer_local(q, &map, &reply, e);
	if (!err)
		err = json ? answer_print_lines(&reply, e) : answer_print(&reply, &tally, e);
	buffer_release(&reply);
	offmap_free(map);
	return err;
}

static int run_lookup(const struct verb *v, int argc, char **argv)
{
	bool json = false;
	const struct option_row rows[] = {
	        {"--json", OPTION_FLAG, &json, 0, 0, "as in replies of /symbolicate/v5, one object on each line"}};
	struct operands operands;
	struct question q = {0};
	struct error e;
	int code = options_read_files(v, rows, 1, argc, argv, &operands);
	if (code != OPTIONS_GO_ON)
		return code;
	enum err err = sort_operands(&operands, &q, &e);
	if (!err && (!operands.count || !q.count))
		code = complain_usage(v, operands.count ? "no address" : "no file");
	else if (!err)
		err = look_up(&q, &operands, json, &e);
	if (err)
		complain("", "%s", e.text);
	question_release(&q);
	return err ? EXIT_FAILED : code == OPTIONS_GO_ON ? EXIT_DONE : code;
}

const struct verb verb_lookup = {"lookup", "look up addresses in symbfiles", usage, run_lookup};
