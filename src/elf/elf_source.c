/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/elf_source.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/hex.h"
#include "elf/layouts.h"

enum { BLOCK = 256 << 10, THREADS = 2, HEADERS = 64 << 10 /* bytes that have those of a program, and its build id */ };

/* One module that is being loaded. */
struct elf_load {
	const struct elf_sources *sources;
	struct bucket_client *client;
	unsigned source;
	enum bucket_kind kind;
	const struct build_id_question *question;
	const struct elf_taker *taker;
	struct job_limits limits;
	struct bucket_result *result; /* sums up what all transfers took */
	struct elf_source_report *report;
	char path[LAYOUT_PATH_MAX];   /* of the file that is read */
	char named[LAYOUT_NAMED_MAX]; /* the same, by its name */
	int file;                     /* that is being fetched */
	int in_place;                 /* the same where the source has it; -1: it is copied */
	int problem;                  /* errno of writing it */
	uint64_t left;                /* bytes of it that are wanted; then the transfer is stopped */
	uint64_t charged;             /* bytes of all files */
	struct visit reads;           /* the place for reading, if it */
	bool has_place;
	uint8_t *block;
};

bool elf_sources_wanted(const struct config *c)
{
	for (unsigned i = 0; i < c->sources.count; i++)
		if (bucket_kind_of_url(c->sources.items[i]) != BUCKET_SYMS)
			return true;
	return *c->sym_store && c->sym_store_files;
}

/* ---- files ---- */

static uint8_t *file_space(void *arg, size_t *room)
{
	struct elf_load *l = arg;
	*room = BLOCK;
	return l->block;
}

static bool file_commit(void *arg, size_t n)
{
	struct elf_load *l = arg;
	const bool room = extractors_charge(l->sources->extractors, n, l->sources->config->executable_max_size);
	l->charged += room ? n : 0;
	if (!room || !write_all(l->file, l->block, n)) {
		l->problem = room ? errno : ENOSPC;
		return false;
	}
	l->left -= n < l->left ? n : l->left;
	return l->left > 0;
}

/* Files of a directory are read where they are, unless their file system cannot map them. */
static bool file_in_place(void *arg, int file)
{
	struct elf_load *l = arg;
	void *mapped = mmap(NULL, 1, PROT_READ, MAP_SHARED, file, 0);
	if (mapped == MAP_FAILED)
		return false;
	munmap(mapped, 1);
	l->in_place = fcntl(file, F_DUPFD_CLOEXEC, 0);
	return l->in_place >= 0;
}

enum err elf_sources_check(const struct config *c, struct error *e)
{
	enum err err = elf_sources_wanted(c) ? extractors_check(e) : ERR_OK;
	if (err || !elf_sources_wanted(c))
		return err;
	int fd = file_open_unnamed(c->executable_folder);
	if (fd < 0)
		return error_set(e, ERR_CONFIG, "executable_folder %.100s: %s", c->executable_folder, strerror(errno));
	close(fd);
	return ERR_OK;
}

static enum bucket_outcome folder_failed(struct elf_load *l, int problem)
{
	return bucket_result_set(l->result, BUCKET_FAILED, "executable_folder %.100s: %s",
	        l->sources->config->executable_folder, strerror(problem));
}

/* Adds one transfer to what all took; its outcome is that of all so far. */
static void add_result(struct bucket_result *all, const struct bucket_result *one)
{
	struct bucket_result sum = *one;
	sum.wire_bytes += all->wire_bytes;
	sum.text_bytes += all->text_bytes;
	sum.elapsed += all->elapsed;
	*all = sum;
}

/* Fetches the object at path into a file without a name, *file; or that is the object itself. */
static enum bucket_outcome fetch_path(struct elf_load *l, const char *path, int *file)
{
	struct bucket_sink sink = {.space = file_space, .commit = file_commit, .file = file_in_place, .arg = l};
	struct bucket_result one;
	l->problem = 0;
	l->in_place = -1;
	l->left = l->limits.segments ? HEADERS : UINT64_MAX;
	l->file = file_open_unnamed(l->sources->config->executable_folder);
	if (l->file < 0)
		return folder_failed(l, errno);
	bucket_fetch_path(l->client, l->source, path, l->limits.file_size, &sink, l->taker->cancel, &one);
	if (!l->left)
		one.outcome = BUCKET_OK;
	add_result(l->result, &one);
	if (one.outcome == BUCKET_OK && l->in_place < 0) {
		*file = l->file;
		return BUCKET_OK;
	}
	close(l->file);
	*file = l->in_place;
	if (one.outcome == BUCKET_OK)
		return BUCKET_OK;
	return l->problem ? folder_failed(l, l->problem) : one.outcome;
}

/* The first file of a build id from the path `*number` on, which becomes that of the next one. path: the file's. */
static enum bucket_outcome find_file(struct elf_load *l, enum layout_use use, const struct build_id *id,
        unsigned *number, char path[LAYOUT_PATH_MAX], int *file)
{
	while (layout_path(path, l->kind, use, (*number)++, id)) {
		enum bucket_outcome outcome = fetch_path(l, path, file);
		if (outcome != BUCKET_MISSING)
			return outcome;
	}
	/* What an earlier file said is worth more. */
	return l->result->outcome == BUCKET_MISSING && l->report->error.code
	               ? BUCKET_MISSING
	               : bucket_result_set(l->result, BUCKET_MISSING, "no file of this build id");
}

static enum bucket_outcome find_package(struct elf_load *l, int *file)
{
	char path[LAYOUT_PATH_MAX];
	enum bucket_outcome outcome = BUCKET_MISSING;
	for (unsigned n = 0; outcome == BUCKET_MISSING && layout_package_path(path, l->kind, n, l->path); n++)
		outcome = fetch_path(l, path, file);
	return outcome;
}

static bool is_folder(const struct elf_load *l)
{
	return bucket_source_is_folder(l->sources->buckets, l->source);
}

/* A dwz file has a build id as long, but another name. */
static enum bucket_outcome find_pdb(struct elf_load *l, struct str file_name, const struct build_id *id, int *file)
{
	char name[LAYOUT_NAME_MAX], path[LAYOUT_NAMED_MAX];
	enum bucket_outcome outcome = BUCKET_MISSING;
	bool wanted = l->kind == BUCKET_ELF && layout_name(name, file_name) && strcasestr(name, ".pdb");
	for (unsigned n = 0; wanted && outcome == BUCKET_MISSING && layout_windows_path(path, n, name, id); n++)
		outcome = fetch_path(l, path, file);
	if (wanted && outcome == BUCKET_MISSING && is_folder(l) && layout_flat_path(path, 0, name, id))
		outcome = fetch_path(l, path, file);
	return outcome;
}

/* For struct extraction: what shares its entries with others (dwz -m) needs one more file, and so do split units. Its
 * reader looks whether it has the build id, or these units. */
static int find_more(struct elf_load *l, const struct build_id *id, struct str name)
{
	struct bucket_result before = *l->result;
	char path[LAYOUT_SHARED_MAX];
	unsigned number = 0;
	int file = -1;
	enum bucket_outcome outcome = BUCKET_MISSING;
	if (id->len == WINDOWS_ID_BYTES && name.len > 0)
		outcome = find_pdb(l, name, id, &file);
	if (id->len > 0 && outcome == BUCKET_MISSING)
		outcome = find_file(l, LAYOUT_DEBUG, id, &number, path, &file);
	else if (name.len == 0)
		outcome = find_package(l, &file);
	if (outcome == BUCKET_MISSING && layout_shared_path(path, l->kind, name))
		outcome = fetch_path(l, path, &file);
	l->result->outcome = before.outcome;
	memcpy(l->result->text, before.text, sizeof before.text);
	return outcome == BUCKET_OK ? file : outcome == BUCKET_FAILED ? PROVIDE_FAILED : PROVIDE_NONE;
}

static bool enter_reads(struct elf_load *l)
{
	return extractors_enter(l->sources->extractors, PLACE_READ, l->taker->client, &l->reads, l->taker->cancel);
}

/* While it is fetched, another file may be read. */
static int provide(void *arg, const struct build_id *id, struct str name)
{
	struct elf_load *l = arg;
	extractors_leave(l->sources->extractors, PLACE_READ, &l->reads);
	int file = find_more(l, id, name);
	l->has_place = enter_reads(l);
	if (l->has_place)
		return file;
	if (file >= 0)
		close(file);
	return PROVIDE_FAILED;
}

/* ---- build ids ---- */

/* A search for the one build id that answers a question. */
struct id_search {
	const struct build_id_question *question;
	uint8_t first; /* byte, of the folder's build ids */
	struct build_id found;
	bool several;
};

static bool take_entry(void *arg, struct str entry, uint64_t size, int64_t time)
{
	(void)size;
	(void)time;
	struct id_search *s = arg;
	struct build_id id;
	if (!layout_entry(&id, s->first, entry.data) || !build_id_answers(&id, s->question))
		return true;
	s->several = s->found.len > 0 && (s->found.len != id.len || memcmp(s->found.bytes, id.bytes, id.len) != 0);
	s->found = id;
	return !s->several;
}

/* ERR_CONFIG: the source cannot be searched. */
static enum err search_folders(struct elf_load *l, struct id_search *s, struct error *e)
{
	char folder[LAYOUT_PATH_MAX];
	enum err err = ERR_CONFIG;
	for (unsigned number = 0; !s->several && layout_folder(folder, l->kind, number, s->first); number++)
		if ((err = bucket_list(l->client, l->source, folder, take_entry, s, e)))
			break;
	return err;
}

/* ---- a module ---- */

static enum bucket_outcome judge(struct elf_load *l, enum err err)
{
	bool cancelled = l->taker->cancel && atomic_load(l->taker->cancel);
	if (!err)
		return l->result->outcome = BUCKET_OK;
	return bucket_result_set(l->result,
	        err == ERR_MISSING                     ? BUCKET_MISSING
	        : err == ERR_CORRUPT                   ? BUCKET_BROKEN
	        : err == ERR_UNAVAILABLE && !cancelled ? BUCKET_FAILED
	                                               : BUCKET_ABORTED,
	        "%.190s", l->report->error.text);
}

static enum bucket_outcome read_file(struct elf_load *l, int file)
{
	struct extraction job = {.file = file,
	        .limits = l->limits,
	        .question = l->question,
	        .sink = l->taker->sink,
	        .code = l->taker->code,
	        .section = l->taker->section,
	        .provide = provide,
	        .provide_arg = l,
	        .take = l->taker->take,
	        .take_arg = l->taker->take_arg,
	        .cancel = l->taker->cancel};
	if (!(l->has_place = enter_reads(l)))
		return bucket_result_set(l->result, BUCKET_ABORTED, "cancelled");
	int64_t start = clock_now();
	enum err err = extract_file(l->sources->extractors, &job, &l->report->error);
	if (l->has_place)
		extractors_leave(l->sources->extractors, PLACE_READ, &l->reads);
	l->report->loaded = job.loaded;
	l->report->hash = job.hash;
	l->report->lacking = job.lacking;
	l->report->code_size = job.code_size;
	l->report->sent |= job.sent;
	l->report->read_time += clock_now() - start;
	return judge(l, err);
}

/* Asks for one file after the other until one says anything. */
static void load_files(struct elf_load *l, enum layout_use use, const struct build_id *id)
{
	enum bucket_outcome outcome = BUCKET_MISSING;
	for (unsigned number = 0; outcome == BUCKET_MISSING;) {
		int file;
		if (find_file(l, use, id, &number, l->path, &file) != BUCKET_OK)
			break;
		outcome = read_file(l, file);
		close(file);
	}
}

static void load_whole(struct elf_load *l, const struct build_id *id)
{
	load_files(l, l->taker->executable ? LAYOUT_CODE : LAYOUT_DEBUG, id);
	if (l->taker->section_name && l->result->outcome == BUCKET_MISSING)
		load_files(l, LAYOUT_CODE, id);
}

/* Of layouts.h: paths by name and id, by number from 0 on. */
typedef bool named_layout(char *out, unsigned number, const char *name, const struct build_id *id);

/* The file at a path, if it is there. */
static enum bucket_outcome load_path(struct elf_load *l, const char *path)
{
	int file;
	enum bucket_outcome outcome = fetch_path(l, path, &file);
	if (outcome != BUCKET_OK)
		return outcome;
	outcome = read_file(l, file);
	close(file);
	return outcome;
}

/* Asks for one file after the other, by name and id, until one says anything. */
static void load_named(struct elf_load *l, named_layout *layout, const char *name, const struct build_id *id)
{
	unsigned number = 0;
	for (; layout(l->named, number, name, id); number++)
		if (load_path(l, l->named) != BUCKET_MISSING || l->report->error.code)
			return;
	if (number > 0) /* else it is no id of such a file */
		bucket_result_set(l->result, BUCKET_MISSING, "no file of this id");
}

/* What a file said is worth more. */
static void tell_missing(struct elf_load *l, const char *text)
{
	if (l->report->error.code)
		return;
	error_set(&l->report->error, ERR_MISSING, "%s", text);
	bucket_result_set(l->result, BUCKET_MISSING, "%s", text);
}

/* In a folder by names alone, where a file of another build does not stand for its neighbours. */
static void load_flat(struct elf_load *l, const char *name, const struct build_id *id)
{
	for (unsigned n = 0; layout_flat_path(l->named, n, name, id); n++) {
		struct error before = l->report->error;
		struct bucket_result result = *l->result;
		enum bucket_outcome outcome = load_path(l, l->named);
		if (outcome != BUCKET_MISSING && outcome != BUCKET_BROKEN)
			return;
		if (before.code && outcome == BUCKET_MISSING) { /* the first tells why */
			l->report->error = before;
			l->result->outcome = result.outcome;
			memcpy(l->result->text, result.text, sizeof result.text);
		}
	}
}

static bool is_missing(const struct elf_load *l)
{
	return l->result->outcome == BUCKET_MISSING && !l->report->error.code;
}

/* A program of Windows or its PDB file. */
static void load_windows(struct elf_load *l, const char *name, const struct build_id *id)
{
	int file;
	load_named(l, layout_windows_path, name, id);
	if (!is_missing(l) || !is_folder(l))
		return;
	load_flat(l, name, id);
	if (!is_missing(l))
		return;
	const bool points = layout_pointer_path(l->named, name, id) && fetch_path(l, l->named, &file) == BUCKET_OK;
	if (!points && is_missing(l))
		bucket_result_set(l->result, BUCKET_MISSING, "no file of this id");
	if (!points)
		return;
	close(file);
	tell_missing(l, "its place in the source has a file.ptr, which leads elsewhere and is not followed: put the "
	                "file there");
}

/* A debug id is made of the first bytes of a build id, in one of two orders: a folder tells the rest, unless several
 * build ids begin like this. */
static void load_debug_id(struct elf_load *l)
{
	const struct build_id_question *question = l->question;
	struct id_search s = {.question = question, .first = question->first[0]};
	struct error e;
	enum err err = search_folders(l, &s, &e);
	s.first = question->first[guid_order[0]];
	if (!err && s.first != question->first[0] && !s.several)
		err = search_folders(l, &s, &e);
	if (err == ERR_NO_MEMORY || err == ERR_UNAVAILABLE)
		bucket_result_set(l->result, err == ERR_NO_MEMORY ? BUCKET_ABORTED : BUCKET_FAILED, "%.190s", e.text);
	else if (err)
		tell_missing(l, "a source needs the whole build id; a debug id is only a part of it");
	else if (s.several)
		tell_missing(l, "several build ids begin with this debug id: give the whole build id");
	else if (s.found.len > 0)
		load_whole(l, &s.found);
}

/* The whole id of a Mach-O file, which a debug id has in the order of its bytes. */
static bool uuid_of(const struct build_id_question *q, struct build_id *uuid)
{
	*uuid = q->whole;
	if (!q->whole.len && q->has_first) {
		uuid->len = GUID_BYTES;
		for (unsigned i = 0; i < GUID_BYTES; i++)
			uuid->bytes[i] = q->first[guid_order[i]];
	}
	return uuid->len == GUID_BYTES;
}

/* libc.so.6, drm.ko, [vdso]: no Mach-O file is called so, and asking for one takes several requests. */
static bool is_elf_name(struct str name)
{
	const char *so = name.len > 0 ? memmem(name.data, name.len, ".so", 3) : NULL;
	const char *behind = so ? so + 3 : NULL;
	bool library = so && (behind == name.data + name.len || *behind == '.');
	return library || (name.len > 3 && memcmp(name.data + name.len - 3, ".ko", 3) == 0) ||
	       (name.len > 0 && name.data[0] == '[');
}

static void load(struct elf_load *l)
{
	char name[LAYOUT_NAME_MAX];
	struct build_id uuid;
	const struct build_id_question *question = l->question;
	const struct code_range *range = l->taker->range;
	bucket_result_set(l->result, BUCKET_MISSING, "no file of this id");
	layout_name(name, l->taker->name);
	if (question->windows) {
		if (l->kind == BUCKET_ELF && !l->taker->executable)
			load_windows(l, name, &question->whole);
		return;
	}
	if (question->whole.len > 0)
		load_whole(l, &question->whole);
	if (is_missing(l) && l->kind == BUCKET_ELF && !is_elf_name(l->taker->name) && uuid_of(question, &uuid))
		load_named(l, layout_mac_path, name, &uuid);
	if (is_missing(l) && question->has_first)
		load_debug_id(l);
	/* A code id. Build ids of ELF may be as long as those of PDB files. */
	bool windows = question->whole.len != WINDOWS_ID_BYTES || strcasestr(name, ".pdb");
	if (is_missing(l) && l->kind == BUCKET_ELF && windows)
		load_windows(l, range ? range->pe_name : name, &question->whole);
}

struct job_limits elf_job_limits(const struct config *c)
{
	return (struct job_limits){.memory = c->executable_memory,
	        .file_size = c->executable_max_size,
	        .seconds = (unsigned)((c->executable_timeout + SECOND - 1) / SECOND),
	        .threads = THREADS,
	        .sandbox = c->seccomp == SANDBOX_ON};
}

void elf_source_load(const struct elf_sources *s, struct bucket_client *c, unsigned source,
        const struct build_id_question *question, const struct elf_taker *taker, struct bucket_result *result,
        struct elf_source_report *report)
{
	const struct code_range *range = taker->range;
	struct elf_load l = {.sources = s,
	        .client = c,
	        .source = source,
	        .kind = bucket_source_kind(s->buckets, source),
	        .question = question,
	        .taker = taker,
	        .limits = elf_job_limits(s->config),
	        .result = result,
	        .report = report};
	l.limits.segments = taker->executable && !range;
	if (taker->section_name)
		snprintf(l.limits.section, sizeof l.limits.section, "%s", taker->section_name);
	if (range) {
		l.limits.code = true;
		l.limits.code_start = range->start;
		l.limits.code_size = range->size;
		l.limits.to_function_end = range->to_function_end;
	}
	*result = (struct bucket_result){0};
	*report = (struct elf_source_report){0};
	struct visit fetches;
	if (!extractors_enter(s->extractors, PLACE_FETCH, taker->client, &fetches, taker->cancel)) {
		bucket_result_set(result, BUCKET_ABORTED, "cancelled");
		return;
	}
	l.block = malloc(BLOCK);
	if (l.block)
		load(&l);
	else
		bucket_result_set(result, BUCKET_FAILED, "out of memory");
	free(l.block);
	extractors_uncharge(s->extractors, l.charged);
	extractors_leave(s->extractors, PLACE_FETCH, &fetches);
}
