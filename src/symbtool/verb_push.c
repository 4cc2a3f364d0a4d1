/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool push-symbols: extracts the records of executables and uploads them. */
#include <config.h>

#include <inttypes.h>
#include <jansson.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>

#include "symbtool/debuginfod.h"
#include "symbtool/executables.h"
#include "symbtool/push_sym.h"
#include "symbtool/upload_parts.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

static const char usage[] =
        "Usage: symbtool push-symbols [OPTION]... --url URL FILE...\n"
        "       symbtool push-symbols [OPTION]... --url URL --build-id ID... --debuginfod URLS\n"
        "\n"
        "Extracts the symbols of executables and uploads them. What the server already has is not sent again.\n"
        "Breakpad symbol files (.sym, .sym.gz, .sym.zst), and ZIPs of them, are uploaded as they are.\n";

struct push {
	struct cut_options cut;
	struct server server;
	uint64_t parallel, threads;
	bool recursive, force, json, to_try;
	struct executables files;
	unsigned pushed;
	unsigned failed, without; /* found below a directory, without any information about their code */
	bool hopeless;            /* the server refuses, or is unreachable */
	const char *debuginfod;   /* URLs */
	struct option_list build_ids;
	atomic_size_t next;   /* symbol file to be sent */
	pthread_mutex_t lock; /* of what several threads report */
};

static void print_pushed_json(const struct cut *c, const char *path, const struct upload_counts *n)
{
	char id[FILE_ID_HEX + 1];
	file_id_hex(id, &c->id);
	json_t *o = json_pack("{s:o, s:s, s:s, s:s, s:I, s:I, s:I, s:I, s:I, s:I, s:I}", "path", json_of_bytes(path),
	        "file_id", id, "ranges_set", c->kinds[SYMBFILE_RANGES].set, "returnpads_set",
	        c->kinds[SYMBFILE_RETURNPADS].set, "ranges", (json_int_t)c->stats.ranges, "returnpads",
	        (json_int_t)c->stats.pads, "ranges_parts", (json_int_t)n->parts[SYMBFILE_RANGES], "returnpads_parts",
	        (json_int_t)n->parts[SYMBFILE_RETURNPADS], "sent", (json_int_t)n->sent, "there", (json_int_t)n->there,
	        "bytes", (json_int_t)n->bytes);
	print_json_line(o);
	json_decref(o);
}

static void print_pushed_text(const struct cut *c, const char *path, const struct upload_counts *n)
{
	char id[FILE_ID_HEX + 1];
	file_id_hex(id, &c->id);
	print_visible(stdout, path);
	printf(": FileID %s, %" PRIu64 " ranges, %" PRIu64 " return pads, parts: %u + %u; ", id, c->stats.ranges,
	        c->stats.pads, n->parts[SYMBFILE_RANGES], n->parts[SYMBFILE_RETURNPADS]);
	if (n->sent || !n->there)
		printf("sent %u, %" PRIu64 " bytes%s", n->sent, n->bytes, n->there ? ", " : "");
	if (n->there)
		printf("%u already there", n->there);
	putchar('\n');
}

/* The next executable would not fare better. */
static bool is_hopeless(enum err err)
{
	return err == ERR_FORBIDDEN || err == ERR_UNAVAILABLE || err == ERR_MISSING || err == ERR_IO;
}

/* Nothing was there to be pushed: in a build that is hardly meant. */
static void tell_nothing(struct push *p)
{
	char others[OTHERS_TEXT];
	executables_others(others, &p->files);
	complain("push-symbols", "nothing to push: %u file%s without symbols%s%s", p->without,
	        p->without == 1 ? "" : "s", *others ? ", " : "", others);
	p->failed++;
}

static void fail_file(struct push *p, const char *path, const struct error *e)
{
	complain(path, "%s", e->text);
	p->failed++;
}

static void print_sym(const struct push *p, const char *path, const struct push_sym_counts *n)
{
	if (p->json) {
		json_t *o = json_pack("{s:o, s:I, s:I}", "path", json_of_bytes(path), "files", (json_int_t)n->files,
		        "bytes", (json_int_t)n->bytes);
		print_json_line(o);
		json_decref(o);
		return;
	}
	print_visible(stdout, path);
	printf(": sent %" PRIu64 " symbol file%s, %" PRIu64 " bytes\n", n->files, n->files == 1 ? "" : "s", n->bytes);
}

/* What became of one. After a failure that ends all, the others' are its consequence. */
static void note_sym(
        struct push *p, const char *path, const struct push_sym_counts *n, enum err err, const struct error *e)
{
	pthread_mutex_lock(&p->lock);
	p->pushed += !err;
	if (!err)
		print_sym(p, path, n);
	else if (!p->hopeless)
		fail_file(p, path, e);
	if (err == ERR_FORBIDDEN || err == ERR_UNAVAILABLE || err == ERR_MISSING) {
		p->hopeless = true;
		atomic_store(&p->server.cancel, true);
	}
	flush_output();
	pthread_mutex_unlock(&p->lock);
}

static void *push_syms(void *arg)
{
	struct push *p = arg;
	struct server_connection *c = connection_new(&p->server);
	struct buffer all;
	buffer_init(&all, SIZE_MAX / 2);
	for (size_t i; !atomic_load(&p->server.cancel) && (i = atomic_fetch_add(&p->next, 1)) < p->files.count;) {
		const struct executable *file = &p->files.items[i];
		struct push_sym_counts counts;
		struct error e;
		if (!file->sym)
			continue;
		enum err err = c ? push_sym(c, file->path, p->to_try, &all, &counts, &e) : no_memory(&e);
		note_sym(p, file->path, &counts, err, &e);
	}
	buffer_release(&all);
	connection_free(c);
	return NULL;
}

static void push_all_syms(struct push *p)
{
	size_t count = 0;
	for (size_t i = 0; i < p->files.count; i++)
		count += p->files.items[i].sym;
	if (count)
		send_in_parallel(push_syms, p, count < p->parallel ? count : (size_t)p->parallel);
}

static void push_one(struct push *p, const struct executable *file)
{
	struct cut cut;
	struct upload_counts counts;
	struct error e;
	struct cut_options options = p->cut;
	options.extract.slice = file->slice;
	if (file->debug_file && !options.extract.debug_file)
		options.extract.debug_file = file->debug_file;
	enum err err = cut_executable(&cut, file->path, &options, &e);
	if (err == ERR_MISSING && file->found)
		p->without++;
	else if (err)
		fail_file(p, file->path, &e);
	if (err)
		return;
	cut_warn(&cut, file->path);
	err = upload_cut(
	        &p->server, &cut, &(struct upload_options){file->path, (unsigned)p->parallel, p->force}, &counts, &e);
	p->hopeless = is_hopeless(err);
	p->pushed += !err;
	if (err)
		fail_file(p, file->path, &e);
	else if (p->json)
		print_pushed_json(&cut, file->path, &counts);
	else
		print_pushed_text(&cut, file->path, &counts);
	flush_output();
	cut_release(&cut);
}

/* An executable that is not on this machine. */
static enum err add_build_id(struct push *p, const char *text, struct error *e)
{
	struct build_id id;
	char path[PATH_MAX];
	enum err err =
	        build_id_parse(&id, str_from(text))
	                ? debuginfod_fetch(DEBUGINFOD_EXECUTABLE, id.bytes, id.len, path, e)
	                : error_set(e, ERR_BAD_REQUEST, "not a build id, which has an even number of hex digits");
	return err ? err : executables_add(&p->files, path, false, e);
}

static int push_all(struct push *p, const struct operands *operands)
{
	struct error e;
	for (size_t i = 0; i < p->build_ids.count; i++)
		if (add_build_id(p, p->build_ids.items[i], &e))
			fail_file(p, p->build_ids.items[i], &e);
	for (size_t i = 0; i < operands->count; i++)
		if (executables_add(&p->files, operands->items[i], p->recursive, &e))
			fail_file(p, operands->items[i], &e);
	executables_pair(&p->files);
	push_all_syms(p);
	for (size_t i = 0; i < p->files.count && !p->hopeless; i++)
		if (!p->files.items[i].sym)
			push_one(p, &p->files.items[i]);
	if (p->recursive && !p->json)
		printf("%zu files, %u without symbols, %u failed; %zu other files\n", p->files.count, p->without,
		        p->failed, p->files.others);
	if (!p->pushed && !p->failed && !p->hopeless)
		tell_nothing(p);
	return p->failed ? EXIT_FAILED : EXIT_DONE;
}

static int run_with(const struct verb *v, struct push *p, int argc, char **argv)
{
	const struct option_row rows[] = {
	        SERVER_ROWS(p->server),
	        {"--retry-time SECONDS", OPTION_NUMBER, &p->server.retry_time, 0, 86400,
	                "how long to retry a failing request (300)"},
	        KEY_ROWS(p->server),
	        DEBUG_FILE_ROWS(p->cut.extract, p->debuginfod),
	        {"--build-id ID", OPTION_LIST, &p->build_ids, 0, 0,
	                "an executable to fetch from debuginfod servers; may be repeated"},
	        {"-r, --recursive", OPTION_FLAG, &p->recursive, 0, 0,
	                "push all executables, libraries, symbol files and ZIPs below the directories"},
	        {"--try", OPTION_FLAG, &p->to_try, 0, 0, "use symbol files only where no other source has one"},
	        {"--force", OPTION_FLAG, &p->force, 0, 0,
	                "send everything, and answer from this upload even if another is better"},
	        {"--parallel N", OPTION_NUMBER, &p->parallel, 1, PARALLEL_MAX,
	                "parts or symbol files to send at a time (2)"},
	        {"--threads N", OPTION_NUMBER, &p->threads, 1, 64,
	                "threads for the extraction (one for each processor)"},
	        {"--part-size SIZE", OPTION_SIZE, &p->cut.part_size, 1024, 0, "largest size of a part (32M)"},
	        {"--json", OPTION_FLAG, &p->json, 0, 0, "one object for each executable on standard output"},
	};
	struct operands operands;
	struct error e;
	int code = options_read_files(v, rows, sizeof rows / sizeof *rows, argc, argv, &operands);
	if (code != OPTIONS_GO_ON)
		return code;
	p->server.url = server_url(p->server.url);
	if (!p->server.url || !(operands.count + p->build_ids.count))
		return complain_usage(v, !p->server.url ? "--url is missing" : "no file");
	if (p->cut.extract.debug_file && (operands.count + p->build_ids.count > 1 || p->recursive))
		return complain_usage(v, "--debug-file takes a single executable");
	if (p->build_ids.count && !p->debuginfod && !debuginfod_wanted())
		return complain_usage(v, "--build-id needs --debuginfod or DEBUGINFOD_URLS");
	p->cut.extract.threads = (unsigned)p->threads;
	debug_files_serve(&p->cut.extract, p->debuginfod);
	if (server_open(&p->server, &e)) {
		complain(v->name, "%s", e.text);
		code = e.code == ERR_CONFIG ? EXIT_USAGE : EXIT_FAILED;
	} else {
		code = push_all(p, &operands);
	}
	server_release(&p->server);
	executables_release(&p->files);
	return code;
}

static int run_push(const struct verb *v, int argc, char **argv)
{
	struct push p = {.cut = {.part_size = PART_SIZE}, .parallel = 2, .server = {.keyed = true, .retry_time = 300}};
	pthread_mutex_init(&p.lock, NULL);
	int code = run_with(v, &p, argc, argv);
	pthread_mutex_destroy(&p.lock);
	free(p.build_ids.items);
	return code;
}

const struct verb verb_push = {"push-symbols", "upload the symbols of executables", usage, run_push, NULL};
