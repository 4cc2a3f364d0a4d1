/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/code.h"

#include <stdlib.h>

#include "base/permits.h"
#include "elf/source_code.h"

struct elf_code {
	const struct config *config;
	struct bucket_sources *buckets;
	struct elf_sources sources;
	struct source_code *source_code;
	atomic_uint asking;
};

void elf_code_free(struct elf_code *code)
{
	if (!code)
		return;
	source_code_free(code->source_code);
	bucket_sources_free(code->buckets);
	free(code);
}

struct elf_code *elf_code_new(const struct config *c, struct extractors *x, struct error *e)
{
	struct elf_code *code = calloc(1, sizeof *code);
	no_memory(e);
	if (!code)
		return NULL;
	code->config = c;
	code->buckets = bucket_sources_new(c, e);
	code->sources = elf_sources_of(c, x, code->buckets);
	if (code->buckets)
		code->source_code = source_code_new(c, code->buckets, e);
	if (code->source_code)
		return code;
	elf_code_free(code);
	return NULL;
}

static enum err judge(const struct bucket_result *r, const struct elf_source_report *report, struct error *e)
{
	switch (r->outcome) {
	case BUCKET_OK:
		return ERR_OK;
	case BUCKET_MISSING:
		return error_set(e, ERR_MISSING, "%s", r->text);
	case BUCKET_BROKEN:
	case BUCKET_TOO_LARGE:
		return error_set(e, ERR_CORRUPT, "%s", r->text);
	default:
		return error_set(e, report->error.code == ERR_NO_MEMORY ? ERR_NO_MEMORY : ERR_UNAVAILABLE,
		        "a source cannot be read at present; try again");
	}
}

static enum err ask_sources(struct elf_code *code, struct bucket_client *client,
        const struct build_id_question *question, const struct code_range *range, const struct code_sink *sink,
        uint64_t *size, struct error *e)
{
	enum err err = error_set(e, ERR_MISSING, "no source has the module");
	for (unsigned i = 0; i < bucket_sources_count(code->buckets) && err == ERR_MISSING; i++) {
		struct bucket_result result;
		struct elf_source_report report;
		if (bucket_source_kind(code->buckets, i) == BUCKET_SYMS)
			continue;
		elf_source_code(&code->sources, client, i, question, range, sink, &result, &report);
		*size = report.code_size;
		err = judge(&result, &report, e);
	}
	return err;
}

/* A client for one question; NULL: too many ask at a time, or out of memory. To be given back in any case. */
static struct bucket_client *enter(struct elf_code *code, struct error *e)
{
	struct bucket_client *client = NULL;
	permit_give(); /* it waits for transfers and the helper */
	if (atomic_fetch_add(&code->asking, 1) >= code->config->executables_parallel)
		error_set(e, ERR_UNAVAILABLE, "too many ask for code at a time; try again");
	else if (!(client = bucket_client_new(code->buckets)))
		no_memory(e);
	return client;
}

static void leave(struct elf_code *code, struct bucket_client *client)
{
	bucket_client_free(client);
	atomic_fetch_sub(&code->asking, 1);
}

enum err elf_code_get(struct elf_code *code, const struct build_id_question *question, const struct code_range *range,
        const struct code_sink *sink, uint64_t *size, struct error *e)
{
	if (!code->sources.extractors)
		return error_set(e, ERR_MISSING, "the server has no source of executables");
	struct bucket_client *client = enter(code, e);
	enum err err = client ? ask_sources(code, client, question, range, sink, size, e) : e->code;
	leave(code, client);
	return err;
}

enum err elf_code_source(
        struct elf_code *code, const struct build_id *id, struct str file, struct buffer *out, struct error *e)
{
	struct bucket_client *client = enter(code, e);
	enum err err = client ? source_code_get(code->source_code, client, id, file, out, e) : e->code;
	leave(code, client);
	return err;
}
