/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/local_map.h"

#include "sym/symmap.h"
#include "symbfile/map.h"
#include "symbtool/file_kind.h"
#include "symbtool/input.h"
#include "symbtool/progress.h"

/* Memory is not scarce here. */
static const struct offmap_options map_options = {.memory_max = 0};

static enum err name_file(struct error *e, const char *path)
{
	struct error copy = *e;
	return error_set(e, copy.code, "%.120s: %s", path, copy.text);
}

static enum err add_symbfile(struct symbfile_map *map, const char *path, struct error *e)
{
	struct symbfile_sink sink = symbfile_map_sink(map);
	return input_symbfile(path, &sink, e) ? name_file(e, path) : ERR_OK;
}

/* Passes records into the map, counting them for the progress line. */
struct counted_sink {
	struct symbfile_sink sink;
	struct progress progress;
};

static enum err count_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct counted_sink *in = arg;
	progress_add(&in->progress, 1);
	return in->sink.range(in->sink.arg, r, e);
}

/* Return pads say of a call what the ranges say, so they are not made. */
static enum err add_executable(
        struct symbfile_map *map, const char *path, const struct extract_options *options, struct error *e)
{
	struct counted_sink in = {.sink = symbfile_map_sink(map)};
	struct symbfile_sink sink = {.range = count_range, .arg = &in};
	progress_begin(&in.progress, path, "records", 0);
	enum err err = extract_executable(path, options, &sink, NULL, e);
	progress_end(&in.progress);
	return file_kind_explain(path, TAKES_ELF, err, e);
}

static enum err feed_text(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return symmap_feed(arg, data, len, e);
}

static enum err read_text(struct symmap *m, const char *path, struct offmap **out, struct error *e)
{
	enum err err = input_read(path, feed_text, m, e);
	if (!err)
		err = symmap_finish(m, e);
	if (!err && !(*out = symmap_all(m)))
		err = no_memory(e);
	err = file_kind_explain(path, TAKES_ELF | TAKES_SYMBFILE | TAKES_SYM, err, e);
	return err ? name_file(e, path) : ERR_OK;
}

static enum err read_breakpad(const char *path, struct offmap **out, struct error *e)
{
	atomic_uint idle_makers = 0;
	struct symmap *m = symmap_new(&map_options, &idle_makers, (struct str){"", 0});
	enum err err = m ? read_text(m, path, out, e) : no_memory(e);
	symmap_unref(m);
	return err;
}

static enum err add_to_map(
        struct symbfile_map *map, const char *path, const struct extract_options *options, struct error *e)
{
	enum input_kind kind;
	if (input_kind_of(path, &kind, e))
		return name_file(e, path);
	if (kind == INPUT_ELF)
		return add_executable(map, path, options, e);
	if (kind == INPUT_SYMBFILE)
		return add_symbfile(map, path, e);
	error_set(e, ERR_CORRUPT, "%.200s: neither a symbfile nor an executable", path);
	return file_kind_explain(path, TAKES_ELF | TAKES_SYMBFILE, ERR_CORRUPT, e);
}

enum err local_map_new(
        char *const *paths, size_t count, const struct extract_options *options, struct offmap **out, struct error *e)
{
	enum input_kind kind;
	if (count == 1 && input_kind_of(paths[0], &kind, e))
		return name_file(e, paths[0]);
	if (count == 1 && kind == INPUT_OTHER)
		return read_breakpad(paths[0], out, e);
	struct symbfile_map *map = symbfile_map_new(&map_options);
	enum err err = map ? ERR_OK : no_memory(e);
	for (size_t i = 0; i < count && !err; i++)
		err = add_to_map(map, paths[i], options, e);
	if (!err && symbfile_map_all(map, out))
		err = no_memory(e);
	symbfile_map_free(map);
	return err;
}

/* The string itself, where it lies in a string page. */
static enum err resolve_string(const struct offmap *m, struct offmap_string *s)
{
	if (!s->external)
		return ERR_OK;
	int64_t page = offmap_string_page(m, s->external);
	return page < 0 ? ERR_CORRUPT : offmap_string_lookup(m->strings[page], s->external, s);
}

static enum err resolve_call(const struct offmap *m, struct offmap_call *c)
{
	enum err err = resolve_string(m, &c->function);
	return err ? err : resolve_string(m, &c->file);
}

enum err local_map_look_up(const struct offmap *m, uint64_t address, struct arena *arena, struct offmap_answer *a)
{
	int64_t page = offmap_code_page(m, address);
	*a = (struct offmap_answer){0};
	if (page < 0)
		return ERR_OK;
	enum err err = offmap_lookup(m->code[page], address, arena, a);
	if (!err && a->found)
		err = resolve_call(m, &a->frame);
	for (uint32_t i = 0; i < a->inline_count && a->found && !err; i++)
		err = resolve_call(m, &a->inlines[i]);
	return err;
}
