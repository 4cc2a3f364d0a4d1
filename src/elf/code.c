/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/code.h"

#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "base/hash.h"
#include "elf/source_code.h"
#include "objects/source_search.h"

enum { KNOWN = 256 }; /* programs whose segments are remembered; a power of two */

/* What was found out of a program; count 0: nothing. */
struct known_segments {
	char question[BUILD_ID_QUESTION_TEXT + 1];
	int64_t until; /* clock_now() */
	struct file_map loaded;
};

struct elf_code {
	const struct config *config;
	struct bucket_sources *buckets; /* not owned */
	struct elf_sources sources;
	struct source_code *source_code;
	pthread_mutex_t lock; /* of known */
	struct known_segments known[KNOWN];
};

void elf_code_free(struct elf_code *code)
{
	if (!code)
		return;
	source_code_free(code->source_code);
	pthread_mutex_destroy(&code->lock);
	free(code);
}

struct elf_code *elf_code_new(
        const struct config *c, struct bucket_sources *buckets, struct extractors *x, struct error *e)
{
	struct elf_code *code = calloc(1, sizeof *code);
	no_memory(e);
	if (!code)
		return NULL;
	code->config = c;
	pthread_mutex_init(&code->lock, NULL);
	code->buckets = buckets;
	code->sources = (struct elf_sources){c, x, buckets};
	code->source_code = source_code_new(c, buckets, e);
	if (code->source_code)
		return code;
	elf_code_free(code);
	return NULL;
}

static enum err judge(const struct bucket_result *r, const struct elf_source_report *report, struct error *e)
{
	if (r->outcome == BUCKET_OK)
		return ERR_OK;
	if (r->outcome == BUCKET_MISSING)
		return error_set(e, ERR_MISSING, "%s", r->text);
	if (r->outcome == BUCKET_BROKEN || r->outcome == BUCKET_TOO_LARGE)
		return error_set(e, ERR_CORRUPT, "%s", r->text);
	return error_set(e, report->error.code == ERR_NO_MEMORY ? ERR_NO_MEMORY : ERR_UNAVAILABLE,
	        "a source cannot be read right now; try again");
}

struct executable_search {
	struct elf_code *code;
	struct bucket_client *client;
	const struct build_id_question *question;
	const struct elf_taker *taker;
	struct elf_source_report *report;
	struct error last, corrupt; /* why the last attempt gave nothing; the same of the last corrupt file */
};

/* What a taker has got cannot be taken back. */
static enum source_answer ask(void *arg, unsigned source, struct str id)
{
	struct executable_search *a = arg;
	struct bucket_result result;
	(void)id;
	elf_source_load(&a->code->sources, a->client, source, a->question, a->taker, &result, a->report);
	const enum err err = judge(&result, a->report, &a->last);
	if (!err)
		return SOURCE_GOOD;
	if (err == ERR_MISSING)
		return SOURCE_MISSING;
	if (a->report->sent || result.outcome == BUCKET_ABORTED)
		return SOURCE_STOP;
	if (err != ERR_CORRUPT)
		return SOURCE_FAILED;
	a->corrupt = a->last;
	return SOURCE_CORRUPT;
}

/* *passed: whether a source that failed may have another file. */
static enum err ask_sources(struct elf_code *code, const struct build_id_question *question,
        const struct elf_taker *taker, struct elf_source_report *report, bool *passed, struct error *e)
{
	struct executable_search a = {.code = code,
	        .client = bucket_client_take(code->buckets),
	        .question = question,
	        .taker = taker,
	        .report = report};
	struct source_search search = {.kinds = 1u << BUCKET_DEBUGINFOD | 1u << BUCKET_ELF,
	        .tries = code->config->bucket_retries,
	        .cancel = taker->cancel,
	        .ask = ask,
	        .arg = &a};
	*passed = false;
	if (!a.client)
		return no_memory(e);
	error_set(&a.last, ERR_MISSING, "no source has the module");
	const enum source_answer answer = source_search(code->buckets, &search);
	bucket_client_give(a.client);
	*passed = search.passed;
	if (answer == SOURCE_GOOD)
		return ERR_OK;
	if (answer == SOURCE_FAILED || (answer == SOURCE_STOP && a.last.code == ERR_MISSING))
		return error_set(e, ERR_UNAVAILABLE, "a source cannot be read right now; try again");
	*e = answer == SOURCE_CORRUPT ? a.corrupt : a.last;
	return e->code;
}

enum err elf_code_get(struct elf_code *code, const struct elf_asker *asker, const struct build_id_question *question,
        const struct code_range *range, const struct code_sink *sink, uint64_t *size, struct error *e)
{
	*size = 0;
	if (!code->sources.extractors)
		return error_set(e, ERR_MISSING, "this server has no source of executables");
	const struct elf_taker taker = {
	        .client = asker->client, .cancel = asker->cancel, .executable = true, .range = range, .code = *sink};
	struct elf_source_report report = {.code_size = 0};
	bool passed;
	enum err err = ask_sources(code, question, &taker, &report, &passed, e);
	*size = report.code_size;
	return err;
}

/* ---- segments ---- */

static bool look_in_known(
        struct elf_code *code, const struct known_segments *known, const char *question, struct file_map *loaded)
{
	pthread_mutex_lock(&code->lock);
	bool is_known = clock_now() < known->until && strcmp(known->question, question) == 0;
	*loaded = is_known ? known->loaded : (struct file_map){.count = 0};
	pthread_mutex_unlock(&code->lock);
	return is_known;
}

static struct known_segments *known_for(struct elf_code *code, const char *question)
{
	return &code->known[name_hash_seeded(str_from(question), str_from(""), 0) & (KNOWN - 1)];
}

bool elf_code_knows_segments(struct elf_code *code, const struct build_id_question *question)
{
	char text[BUILD_ID_QUESTION_TEXT + 1];
	struct file_map loaded;
	build_id_question_text(text, question);
	return !code->sources.extractors || look_in_known(code, known_for(code, text), text, &loaded);
}

enum err elf_code_segments(struct elf_code *code, const struct elf_asker *asker,
        const struct build_id_question *question, struct file_map *loaded, struct error *e)
{
	static const char none[] = "no source tells where the module is loaded";
	const struct config *c = code->config;
	struct known_segments found;
	build_id_question_text(found.question, question);
	struct known_segments *known = known_for(code, found.question);
	*loaded = (struct file_map){.count = 0};
	if (!code->sources.extractors || look_in_known(code, known, found.question, loaded))
		return loaded->count > 0 ? ERR_OK : error_set(e, ERR_MISSING, none);
	const struct elf_taker taker = {.client = asker->client, .cancel = asker->cancel, .executable = true};
	struct elf_source_report report = {.code_size = 0};
	bool passed = false;
	enum err err = ask_sources(code, question, &taker, &report, &passed, e);
	*loaded = report.loaded;
	if (err && err != ERR_MISSING && err != ERR_CORRUPT)
		return err;
	found.loaded = *loaded;
	found.until = clock_now() + (passed ? c->revalidate_after : err ? c->missing_ttl : c->root_max_age);
	pthread_mutex_lock(&code->lock);
	*known = found;
	pthread_mutex_unlock(&code->lock);
	return loaded->count > 0 ? ERR_OK : error_set(e, ERR_MISSING, none);
}

/* ---- checks ---- */

static enum err drop_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)arg;
	(void)r;
	(void)e;
	return ERR_OK;
}

static enum err drop_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)arg;
	(void)p;
	(void)e;
	return ERR_OK;
}

static enum err check_here(struct extractors *x, struct extraction *job, bool is_program, struct error *e)
{
	struct error why;
	enum err err = extract_file(x, job, &why);
	if (err == ERR_MISSING && is_program && job->known)
		return ERR_OK;
	if (err == ERR_MISSING || err == ERR_CORRUPT || err == ERR_TOO_LARGE)
		err = ERR_BAD_REQUEST;
	return err ? error_set(e, err, "%s", why.text) : ERR_OK;
}

enum err elf_code_check(struct elf_code *code, int file, const struct build_id_question *question, bool is_program,
        const atomic_bool *cancel, struct error *e)
{
	const struct client_key uploads = {0, 0}; /* all together are one client */
	struct extractors *x = code->sources.extractors;
	struct visit fetches, reads;
	struct extraction job = {.file = file,
	        .limits = elf_job_limits(code->config),
	        .question = question,
	        .sink = {drop_range, drop_pad, NULL},
	        .cancel = cancel};
	enum err err = ERR_UNAVAILABLE;
	if (!x)
		return error_set(e, ERR_UNAVAILABLE, "this server has no reader of executables");
	error_set(e, err, "cancelled");
	if (!extractors_enter(x, PLACE_FETCH, uploads, &fetches, cancel))
		return err;
	if (extractors_enter(x, PLACE_READ, uploads, &reads, cancel)) {
		err = check_here(x, &job, is_program, e);
		extractors_leave(x, PLACE_READ, &reads);
	}
	extractors_leave(x, PLACE_FETCH, &fetches);
	return err;
}

/* ---- sections ---- */

struct section_bytes {
	struct elf_code *code;
	int file;
	uint64_t size;
};

static enum err add_section(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct section_bytes *s = arg;
	const uint64_t most = s->code->config->executable_max_size;
	/* its reader may send more than the file has */
	if (len > most - s->size)
		return error_set(e, ERR_CORRUPT, "the section is larger than executable_max_size");
	if (!extractors_charge(s->code->sources.extractors, len, most))
		return error_set(e, ERR_UNAVAILABLE, "too many files are being read; try again");
	s->size += len;
	return write_all(s->file, data, len)
	               ? ERR_OK
	               : error_set(e, ERR_UNAVAILABLE, "executable_folder cannot be written: %s", strerror(errno));
}

static enum err load_section(struct elf_code *code, const struct elf_asker *asker, const struct build_id *id,
        const char *name, struct section_bytes *s, struct error *e)
{
	const struct build_id_question question = {.whole = *id};
	const struct elf_taker taker = {
	        .client = asker->client, .cancel = asker->cancel, .section_name = name, .section = {add_section, s}};
	struct elf_source_report report = {.code_size = 0};
	bool passed;
	return ask_sources(code, &question, &taker, &report, &passed, e);
}

enum err elf_code_section(struct elf_code *code, const struct elf_asker *asker, const struct build_id *id,
        const char *name, enum err (*send)(void *arg, int file, uint64_t size), void *arg, struct error *e)
{
	struct section_bytes s = {.code = code, .file = -1};
	if (!code->sources.extractors)
		return error_set(e, ERR_MISSING, "this server has no source of executables");
	enum err err = ERR_OK;
	if ((s.file = file_open_unnamed(code->config->executable_folder)) < 0)
		err = error_set(e, ERR_UNAVAILABLE, "executable_folder: %s", strerror(errno));
	if (!err)
		err = load_section(code, asker, id, name, &s, e);
	if (!err)
		err = send(arg, s.file, s.size);
	if (s.file >= 0)
		close(s.file);
	extractors_uncharge(code->sources.extractors, s.size);
	return err;
}

/* ---- source code ---- */

enum err elf_code_source(struct elf_code *code, const struct elf_asker *asker, const struct build_id *id,
        struct str file, struct buffer *out, struct error *e)
{
	struct bucket_client *client = bucket_client_take(code->buckets);
	enum err err =
	        client ? source_code_get(code->source_code, client, id, file, asker->cancel, out, e) : no_memory(e);
	bucket_client_give(client);
	return err;
}
