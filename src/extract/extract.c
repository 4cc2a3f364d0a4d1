/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/extract.h"

#include <elfutils/libdwelf.h>
#include <inttypes.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "extract/calls.h"
#include "extract/go_records.h"
#include "extract/ids.h"
#include "extract/join.h"
#include "extract/large_stack.h"
#include "extract/pdb_module.h"
#include "extract/symbols.h"
#include "extract/unit_reader.h"

enum { THREADS_MAX = 64 };

struct extraction {
	const char *path;
	const struct extract_options *options;
	const struct symbfile_sink *sink;
	struct extract_stats *stats;
	struct error *error;
	enum err err;
	struct elf_file file;
	struct view_wanted wanted; /* of its debug file */
	struct code_map code;
	struct coverage coverage;
	uint64_t *units;
	size_t unit_count;
	atomic_size_t next; /* the unit that no thread has yet */
	const char *dwarf_path;
	struct dwarf_source dwarf;
	struct pdb pdb; /* its units are modules, numbered by their place in it */
	bool has_pdb;
	struct symbol_files symbols;
	struct elf_file whole; /* the file, with symbols that nobody asks for: for names; and its symbol tables */
	struct symbol_files all_symbols;
	pthread_mutex_t names_lock; /* of the reading of symbol_names */
	struct error names_error;   /* why that failed; it is not tried again */
	struct symbol_names symbol_names;
	struct name_symbols name_symbols;
	char absence[EXTRACT_NOTE_LENGTH]; /* that there are no debug data, and what helps */
	bool pads;
	bool lacks_pdb; /* the program names one that is not there */
	bool go;        /* Go's table was read */
	bool others;    /* there are functions that nobody asked for */
	struct join join;
};

/* A thread that reads units. Its strings live until all records have been handed on. */
struct worker {
	pthread_t thread;
	struct extraction *x;
	struct unit_reader reader;
	struct pdb_reader pdb;
};

__attribute__((format(printf, 2, 3))) static void add_note(struct extract_stats *s, const char *format, ...)
{
	va_list args;
	if (s->note_count == EXTRACT_NOTES)
		return;
	va_start(args, format);
	vsnprintf(s->notes[s->note_count++], EXTRACT_NOTE_LENGTH, format, args);
	va_end(args);
}

static void *run_worker(void *arg)
{
	struct worker *w = arg;
	struct extraction *x = w->x;
	struct error error = {0};
	enum err err = ERR_OK;
	if (x->has_pdb)
		pdb_reader_open(&w->pdb, &x->pdb, &x->code, x->pads);
	else if (!w->reader.handle.dwarf)
		err = unit_reader_open(&w->reader, &x->dwarf, &x->code, x->pads, &x->name_symbols, &error);
	for (size_t i; !err && (i = atomic_fetch_add(&x->next, 1)) < x->unit_count;) {
		if (!join_wait(&x->join, i))
			break;
		struct result *r = x->has_pdb ? pdb_reader_read(&w->pdb, (uint32_t)x->units[i])
		                              : unit_reader_read(&w->reader, x->units[i]);
		if (r)
			join_add(&x->join, i, r);
		else
			err = no_memory(&error);
	}
	if (err)
		join_fail(&x->join, err, &error);
	return NULL;
}

/* This thread is the first worker. It goes on alone if others cannot be started. */
static void run_workers(struct worker *workers, size_t count)
{
	size_t started = 1;
	while (started < count && large_stack_start(&workers[started].thread, run_worker, &workers[started]))
		started++;
	run_worker(&workers[0]);
	for (size_t i = 1; i < started; i++)
		pthread_join(workers[i].thread, NULL);
}

static size_t thread_count(const struct extraction *x)
{
	long n = x->options->threads > 0 ? (long)x->options->threads : sysconf(_SC_NPROCESSORS_ONLN);
	size_t count = n < 1 ? 1 : n > THREADS_MAX ? THREADS_MAX : (size_t)n;
	return count > x->unit_count && x->unit_count > 0 ? x->unit_count : count;
}

/* A function may begin far from what is asked for, where a view has no symbols. */
static enum err read_all_symbols(struct extraction *x, struct error *e)
{
	struct view_wanted all = x->wanted;
	all.asked_count = 0;
	enum err err = elf_file_open_as(&x->whole, x->path, &all, e);
	if (!err)
		err = symbol_files_open(&x->all_symbols, x->whole.elf, x->stats->debug_file, &all, e);
	return err ? err : symbol_names_read(&x->symbol_names, &x->all_symbols, &x->code, e);
}

/* Symbols are read when the first function comes whose name the debug data do not have, or not whole. */
static enum err read_symbol_names(struct extraction *x, struct error *e)
{
	struct error *why = &x->names_error;
	pthread_mutex_lock(&x->names_lock);
	if (!x->symbol_names.names.strings && !why->code && x->wanted.asked_count && elf_view_kind(x->file.elf))
		read_all_symbols(x, why);
	else if (!x->symbol_names.names.strings && !why->code)
		symbol_names_read(&x->symbol_names, &x->symbols, &x->code, why);
	pthread_mutex_unlock(&x->names_lock);
	return why->code ? error_set(e, why->code, "%s", why->text) : ERR_OK;
}

/* For join_init. */
static enum err name_of_symbol(void *arg, uint64_t address, struct str *name, struct error *e)
{
	struct extraction *x = arg;
	enum err err = read_symbol_names(x, e);
	return err ? err : symbol_names_find(&x->symbol_names, address, name, e);
}

/* For names. */
static enum err symbol_at(void *arg, uint64_t address, size_t number, const char **symbol, struct error *e)
{
	struct extraction *x = arg;
	enum err err = read_symbol_names(x, e);
	*symbol = err ? NULL : symbol_names_at(&x->symbol_names, address, number);
	return err;
}

/* Units whose entries are in files that are not there. */
static void note_split(struct extraction *x)
{
	const struct split_source *s = &x->dwarf.split;
	if (x->has_pdb)
		return;
	x->stats->lacking = (x->dwarf.missing[0] ? x->unit_count : s->missing) + x->lacks_pdb;
	if (s->missing > 0)
		add_note(x->stats,
		        "the entries of %" PRIu64 " of %" PRIu64
		        " units are in missing split files, such as %.120s: their functions have names but no "
		        "inlined calls; give --debug-dir, or put the .dwo files or a .dwp beside the executable",
		        s->missing, x->stats->units, s->first_name);
}

/* A malformed unit costs only that unit; if none can be read, the debug data are refused. */
static enum err judge_damage(struct extraction *x)
{
	const struct join *j = &x->join;
	if (j->lost > 0 && j->lost == x->unit_count)
		return error_set(x->error, ERR_CORRUPT, "%s", j->damage.text);
	if (j->damaged > 0)
		add_note(x->stats,
		        "%" PRIu64 " of %" PRIu64 " units of debug data are malformed, the functions of %" PRIu64
		        " cannot be read; the first: %s",
		        j->damaged, x->stats->units, j->lost, j->damage.text);
	return ERR_OK;
}

static enum err read_units(struct extraction *x, struct worker *workers)
{
	enum err err = join_init(&x->join, x->unit_count, &x->coverage, x->sink, x->error);
	if (err)
		return err;
	x->join.name = name_of_symbol;
	x->join.name_arg = x;
	size_t count = thread_count(x);
	for (size_t i = 0; i < count; i++)
		workers[i].x = x;
	if (x->unit_count > 0)
		run_workers(workers, count);
	x->stats->units = x->unit_count;
	if (x->join.err)
		return error_set(x->error, x->join.err, "%s", x->join.error.text);
	note_split(x);
	return judge_damage(x);
}

/* What Go's own table says about code that no unit has described. */
static enum err add_go_functions(struct extraction *x)
{
	struct go_reader *g = calloc(1, sizeof *g);
	struct error e = {0};
	enum err err = g ? go_reader_open(g, x->file.elf, &x->code, &x->coverage, x->pads, &e) : no_memory(&e);
	if (err == ERR_MISSING && e.text[0])
		add_note(x->stats, "%s: most of its functions are unknown", e.text);
	for (size_t next = 0; !err && next < g->table.count;) {
		struct result *r = result_new();
		err = r ? go_reader_read(g, &next, r, &e) : no_memory(&e);
		if (!err)
			err = join_emit_new(&x->join, r, &e);
		result_free(r);
	}
	x->go = !err;
	if (g)
		go_reader_close(g);
	free(g);
	return !err || err == ERR_MISSING ? ERR_OK : error_set(x->error, err, "%s", e.text);
}

/* The functions of one symbol table that nothing before has described; section NULL: stubs. */
static enum err add_symbols(struct extraction *x, Elf *elf, const char *section)
{
	struct intern strings = {0};
	struct names names;
	struct result *r = result_new();
	names_init(&names, &strings);
	struct symbols_wanted wanted = {&x->coverage, &x->join.lines, &names, x->pads, &x->others};
	enum err err = !r        ? no_memory(x->error)
	               : section ? symbols_read(elf, section, &wanted, r, x->error)
	                         : symbols_read_stubs(elf, &wanted, r, x->error);
	if (!err)
		err = join_emit(&x->join, r, x->error);
	result_free(r);
	names_release(&names);
	intern_release(&strings);
	return err;
}

/* Whether anything was found so far, also where nobody asked. */
static bool describes_code(const struct extraction *x)
{
	return x->join.ranges > 0 || x->others || (x->code.asked_count && (x->unit_count || x->go));
}

static enum err add_symbol_tables(struct extraction *x)
{
	enum err err = ERR_OK;
	line_table_sort(&x->join.lines);
	for (size_t i = 0; i < x->symbols.count && !err; i++)
		err = add_symbols(x, x->symbols.tables[i].elf, x->symbols.tables[i].section);
	/* A file in which nothing but stubs has a name is stripped. */
	return err || !describes_code(x) ? err : add_symbols(x, x->file.elf, NULL);
}

static const char *debug_dir(const struct extraction *x)
{
	return x->options->debug_dir ? x->options->debug_dir : "/usr/lib/debug";
}

/* Fetches the file of this build id from elsewhere. It is not reported if nobody has it. */
static bool fetch(struct extraction *x, const uint8_t *id, size_t len, const char *name, char found[PATH_MAX])
{
	struct error e = {0};
	if (len == 0 || !x->options->fetch)
		return false;
	enum err err = x->options->fetch(x->options->fetch_arg, id, len, name, found, &e);
	if (err && err != ERR_MISSING)
		add_note(x->stats, "%s", e.text);
	return !err;
}

static bool fetch_debug_file(struct extraction *x, char found[PATH_MAX])
{
	GElf_Word unused;
	const char *pdb =
	        elf_view_kind(x->file.elf) == VIEW_WINDOWS ? dwelf_elf_gnu_debuglink(x->file.elf, &unused) : NULL;
	bool fetched = fetch(x, x->wanted.id.bytes, x->wanted.id.len, pdb, found);
	x->lacks_pdb = pdb && !fetched;
	return fetched;
}

/* The file of shared entries. */
static void complete_dwarf(struct extraction *x)
{
	char found[PATH_MAX];
	if (fetch(x, x->dwarf.missing_id, x->dwarf.missing_id_len, x->dwarf.missing, found))
		dwarf_source_complete(&x->dwarf, found);
	if (x->dwarf.missing[0])
		add_note(x->stats,
		        "the file of shared debug entries %s is neither there nor below %s: some functions have the "
		        "names of symbols, some inlined calls none",
		        x->dwarf.missing, debug_dir(x));
}

/* other: a debug file that is not of this build, or empty. */
static void note_absence(struct extraction *x, const char *other)
{
	if (other[0])
		snprintf(x->absence, sizeof x->absence,
		        "no debug data: %.200s is of another build; install the one of this build, or give "
		        "--debug-file",
		        other);
	else
		snprintf(x->absence, sizeof x->absence,
		        "no debug data, nor below %.200s: install them, or give --debug-file or --debug-dir",
		        debug_dir(x));
}

/* Where the DWARF is: dwarf_path stays NULL when there is none. */
static void find_debug_data(struct extraction *x)
{
	char *found = x->stats->debug_file;
	if (x->options->debug_file) {
		strncat(found, x->options->debug_file, PATH_MAX - 1);
	} else if (elf_has_dwarf(x->file.elf)) {
		x->dwarf_path = x->path;
		return;
	} else if (!debug_file_find(&x->file, x->path, debug_dir(x), found)) {
		char other[PATH_MAX];
		memcpy(other, found, sizeof other);
		found[0] = 0;
		if (!fetch_debug_file(x, found)) {
			found[0] = 0;
			note_absence(x, other);
			return;
		}
	}
	x->dwarf_path = found;
}

/* The modules of a PDB file that are needed become the units. */
static enum err open_pdb(struct extraction *x, int fd)
{
	x->has_pdb = true;
	enum err err = pdb_open(&x->pdb, fd, x->wanted.base, x->error);
	if (!err)
		err = pdb_types_open(&x->pdb, x->error);
	if (!err)
		err = pdb_sources_open(&x->pdb, x->error);
	if (err)
		return err;
	size_t count = x->pdb.module_count;
	bool *needed = calloc(count + 1, sizeof *needed);
	x->units = calloc(count + 1, sizeof *x->units);
	if (!needed || !x->units)
		err = no_memory(x->error);
	else
		pdb_needed(&x->pdb, x->options->asked, x->options->asked_count, needed);
	for (size_t i = 0; i < count && !err; i++)
		if (needed[i] && x->pdb.modules[i].symbols > 0)
			x->units[x->unit_count++] = i;
	free(needed);
	return err;
}

/* Whether the file at dwarf_path has debug data, and those of this executable. */
static enum err check_debug_file(struct extraction *x, bool *has)
{
	*has = false;
	struct elf_file debug;
	struct view_wanted alone = x->wanted;
	alone.no_symbols = true;
	enum err err = elf_file_open_as(&debug, x->dwarf_path, &alone, x->error);
	if (err)
		return err;
	*has = elf_has_dwarf(debug.elf);
	if (!debug_file_fits(&x->file, &debug))
		err = error_set(x->error, ERR_CORRUPT,
		        "%.180s is the debug file of another build: its build id is not the executable's",
		        x->dwarf_path);
	else if (file_format_of_fd(debug.fd) == FORMAT_PDB)
		err = open_pdb(x, debug.fd);
	else if (!*has)
		add_note(
		        x->stats, "no debug data in %.200s: names of symbol tables only, without lines", x->dwarf_path);
	elf_file_close(&debug);
	return err;
}

static void tell(const struct extraction *x, const char *what)
{
	if (x->options->doing)
		x->options->doing(x->options->doing_arg, what);
}

/* Opens the first reader, and has it list the units. */
static enum err open_dwarf(struct extraction *x, struct worker *first)
{
	if (file_format_of_fd(x->file.fd) == FORMAT_PDB)
		return open_pdb(x, x->file.fd);
	find_debug_data(x);
	if (!x->dwarf_path)
		return ERR_OK;
	bool has;
	enum err err = check_debug_file(x, &has);
	if (err || !has || x->has_pdb)
		return err;
	err = dwarf_source_open(&x->dwarf, x->dwarf_path, &x->wanted, debug_dir(x), x->error);
	if (!err && x->dwarf.missing[0])
		complete_dwarf(x);
	if (!err) {
		split_source_open(&x->dwarf.split, x->path, x->dwarf_path, debug_dir(x));
		x->dwarf.split.fetch = x->options->fetch_package;
		x->dwarf.split.fetch_arg = x->options->fetch_arg;
		err = unit_reader_open(&first->reader, &x->dwarf, &x->code, x->pads, &x->name_symbols, x->error);
	}
	return err ? err : unit_reader_list(&first->reader, &x->units, &x->unit_count, x->error);
}

/* The executable, whose id its debug file must have, too. */
static enum err open_file(struct extraction *x)
{
	struct ids ids;
	x->wanted = (struct view_wanted){
	        .id = x->options->slice, .asked = x->options->asked, .asked_count = x->options->asked_count};
	enum err err = elf_file_open_as(&x->file, x->path, &x->wanted, x->error);
	if (err)
		return err;
	ids_read(&ids, x->file.elf);
	x->wanted.id = ids.build_id;
	x->wanted.base = ids.image_base;
	return ERR_OK;
}

static enum err extract_all(struct extraction *x, struct worker *workers)
{
	x->name_symbols = (struct name_symbols){x, symbol_at};
	tell(x, "reading its sections");
	enum err err = open_file(x);
	if (!err)
		err = code_map_read(&x->code, x->file.elf, x->error);
	x->code.asked = x->options->asked;
	x->code.asked_count = x->options->asked_count;
	if (!err)
		err = coverage_init(&x->coverage, &x->code, x->error);
	if (err)
		return err;
	x->stats->pads_known = calls_known(x->code.machine);
	x->pads = x->stats->pads_known && x->sink->pad;
	tell(x, "opening its debug data");
	err = open_dwarf(x, &workers[0]);
	if (!err)
		err = symbol_files_open(&x->symbols, x->file.elf, x->stats->debug_file, &x->wanted, x->error);
	if (!err && x->symbols.mini_error.code)
		add_note(x->stats, "its .gnu_debugdata is left out: %s", x->symbols.mini_error.text);
	tell(x, "reading its debug data");
	if (!err)
		err = read_units(x, workers);
	tell(x, "reading Go's table");
	if (!err)
		err = add_go_functions(x);
	tell(x, "reading its symbols");
	if (!err)
		err = add_symbol_tables(x);
	x->stats->dynamic = !x->unit_count && !x->go && !symbol_files_have_symtab(&x->symbols);
	x->stats->ranges = x->join.ranges;
	x->stats->pads = x->join.pads;
	const char *why = x->stats->note_count ? x->stats->notes[0] : x->absence;
	if (!err && !describes_code(x))
		err = error_set(x->error, ERR_MISSING,
		        "stripped: neither debug data nor symbols describe any code%s%.170s", *why ? "; " : "", why);
	else if (!err && x->absence[0] && !x->go)
		add_note(x->stats, "%s; names of symbol tables only, without lines", x->absence);
	return err;
}

static void release_extraction(struct extraction *x, struct worker *workers)
{
	join_release(&x->join);
	for (size_t i = 0; workers && i < THREADS_MAX; i++)
		unit_reader_close(&workers[i].reader);
	for (size_t i = 0; workers && i < THREADS_MAX; i++)
		pdb_reader_close(&workers[i].pdb);
	free(workers);
	dwarf_source_close(&x->dwarf);
	pdb_close(&x->pdb);
	symbol_names_release(&x->symbol_names);
	symbol_files_close(&x->symbols);
	symbol_files_close(&x->all_symbols);
	if (x->whole.elf)
		elf_file_close(&x->whole);
	free(x->units);
	coverage_release(&x->coverage);
	code_map_release(&x->code);
	if (x->file.elf)
		elf_file_close(&x->file);
}

/* Puts the path before the text of an error that does not have it. */
static void name_file(struct error *e, const char *path)
{
	char text[sizeof e->text];
	if (strncmp(e->text, path, strlen(path)) == 0)
		return;
	memcpy(text, e->text, sizeof text);
	error_set(e, e->code, "%s: %s", path, text);
}

/* What is asked for, on a thread with a large stack. */
static void *run(void *arg)
{
	struct extraction *x = arg;
	struct extract_stats unwanted;
	struct worker *workers = calloc(THREADS_MAX, sizeof *workers);
	if (!x->stats)
		x->stats = &unwanted;
	*x->stats = (struct extract_stats){0};
	*x->error = (struct error){0};
	x->err = workers ? extract_all(x, workers) : no_memory(x->error);
	release_extraction(x, workers);
	if (x->err)
		name_file(x->error, x->path);
	return NULL;
}

enum err extract_here(const char *path, const struct extract_options *options, const struct symbfile_sink *sink,
        struct extract_stats *stats, struct error *e)
{
	struct extraction x = {path, options, sink, stats, e, .file = {.fd = -1}, .all_symbols = {.debug = {.fd = -1}},
	        .names_lock = PTHREAD_MUTEX_INITIALIZER};
	run(&x);
	return x.err;
}

enum err extract_executable(const char *path, const struct extract_options *options, const struct symbfile_sink *sink,
        struct extract_stats *stats, struct error *e)
{
	struct extraction x = {path, options, sink, stats, e, .file = {.fd = -1}, .all_symbols = {.debug = {.fd = -1}},
	        .names_lock = PTHREAD_MUTEX_INITIALIZER};
	pthread_t thread;
	if (!large_stack_start(&thread, run, &x))
		return error_set(e, ERR_IO, "%s: cannot start a thread", path);
	pthread_join(thread, NULL);
	return x.err;
}
