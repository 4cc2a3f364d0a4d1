/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Every allocation fails once: whatever is under way then ends with ERR_NO_MEMORY, or with the right result; nothing is
 * lost, nothing is wrong, and the next try succeeds. The linker sends the allocations of all objects through
 * alloc_fail.c.
 */
#include <config.h>

#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "alloc_fail.h"
#include "api/symbolicate.h"
#include "base/account.h"
#include "base/config.h"
#include "base/gzip.h"
#include "cache/hot_frames.h"
#include "cache/page_cache.h"
#include "elf/source_code.h"
#include "json/reply.h"
#include "json/request.h"
#include "map/value.h"
#include "modules/modules.h"
#include "objects/bucket_backend.h"
#include "objects/s3.h"
#include "objects/store.h"
#include "offmap_tools.h"
#include "symbfile/map.h"
#include "symfiles/symfiles.h"
#include "text/reader.h"

/* Checks what an attempt has got, without failing. */
#define check(...)                          \
	do {                                \
		alloc_pause();              \
		assert_true((__VA_ARGS__)); \
		alloc_go_on();              \
	} while (0)

/* ---- symbol files ---- */

struct sym {
	struct buffer text;
	struct offmap_options options;
	struct offmap *want; /* what is built when nothing fails */
};

/* Of every kind of record; `late`: in an order that has to be sorted. */
static struct buffer sym_text(bool late)
{
	struct buffer t = text_new();
	text_add(&t, "MODULE Linux x86_64 0 a.so\nINFO CODE_ID 0 a.dll\n");
	for (unsigned i = 0; i < 12; i++)
		text_add(&t, "FILE %u a%u.c\nINLINE_ORIGIN %u in%u\n", i, i, i * 1000, i);
	text_add(&t, "FILE 99 %0200u\n", 7);
	for (unsigned i = 0; i < 40; i++) {
		unsigned at = 0x1000 + 0x100 * (late ? (i * 7) % 40 : i);
		text_add(&t, "FUNC %x 80 0 f%u\n", at, i);
		for (unsigned k = 0; k < 12; k++)
			text_add(&t, "INLINE %u %u %u %u %x %x\n", k, i + k, k, k * 1000, at + k, 0x40 - 2 * k);
		for (unsigned k = 0; k < 16; k++)
			text_add(&t, "%x 8 %u %u\n", at + 8 * k, i * k + 1, k < 12 ? k : 99);
		text_add(&t, "PUBLIC %x 0 p%u_%0300u\n", at + 0xf0, i, i);
		text_add(&t, "FUNC %x 10 0 inner%u\n", at + 0x20, i);
	}
	text_add(&t, "FILE 3 other.c\nFUNC 1000 0 0 empty\nFUNC 1000 40 0 second\n");
	return t;
}

static bool parse(const struct sym *s, struct offmap **out)
{
	struct error e = {0};
	enum err err = map_try(text_str(&s->text), 1000, &s->options, out, &e);
	check(err == ERR_OK || err == ERR_NO_MEMORY);
	check(!err == !!*out);
	return !err;
}

static bool parse_and_compare(void *arg)
{
	const struct sym *s = arg;
	struct offmap *m;
	if (!parse(s, &m))
		return false;
	alloc_pause();
	if (s->want)
		assert_same_maps(m, s->want);
	alloc_go_on();
	offmap_free(m);
	return true;
}

static void check_parse(bool late, bool nearest)
{
	struct sym s = {.text = sym_text(late), .options = nearest ? nearest_options : plain_options};
	assert_true(parse(&s, &s.want));
	print_message("%zu allocations\n", fail_each_allocation(parse_and_compare, &s));
	offmap_free(s.want);
	buffer_release(&s.text);
}

static void test_parse(void **state)
{
	(void)state;
	check_parse(false, false);
	check_parse(true, false);
	check_parse(true, true);
}

/* ---- symbfiles ---- */

struct symbfile {
	struct buffer bytes;
	struct offmap *want;
};

static enum err append(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	return buffer_append(arg, data, len) ? ERR_OK : error_set(e, ERR_NO_MEMORY, "out of memory");
}

static bool write_symbfile(void *arg)
{
	struct error e = {0};
	struct buffer *out = arg;
	static const struct symbfile_line lines[] = {{0, 5}, {4, 6}, {8, 0}, {12, 900}};
	struct symbfile_writer *w = symbfile_writer_new(append, out);
	bool good = w;
	for (unsigned i = 0; good && i < 60; i++) {
		char name[100];
		snprintf(name, sizeof name, "function %u, %0*u", i / 3, 40 + (int)i % 3 * 20, i / 3);
		struct symbfile_range r = {.va = 0x1000 + i / 3 * 64 + i % 3 * 8,
		        .length = 64 - i % 3 * 16,
		        .depth = i % 3,
		        .call_line = i,
		        .func = str_from(name),
		        .file = str_from(i % 2 ? "a.c" : "b.c"),
		        .has_file = true,
		        .lines = lines,
		        .line_count = 4};
		struct symbfile_frame frames[] = {
		        {str_from(name), str_from("a.c"), i}, {str_from("x"), str_from(""), 0}};
		struct symbfile_pad p = {0x1000 + i * 16, frames, i % 3};
		good = symbfile_write_range(w, &r, &e) == ERR_OK && symbfile_write_pad(w, &p, &e) == ERR_OK;
	}
	good = good && symbfile_writer_finish(w, &e) == ERR_OK;
	symbfile_writer_free(w);
	check(good || !w || (e.code == ERR_NO_MEMORY && strcmp(e.text, "out of memory") == 0));
	return good;
}

static bool write_and_release(void *arg)
{
	struct buffer out;
	(void)arg;
	buffer_init(&out, 1 << 20);
	bool good = write_symbfile(&out);
	buffer_release(&out);
	return good;
}

static bool map_symbfile(const struct buffer *bytes, struct offmap **out)
{
	struct error e = {0};
	*out = NULL;
	struct symbfile_map *m = symbfile_map_new(&plain_options);
	if (!m)
		return false;
	struct symbfile_sink sink = symbfile_map_sink(m);
	struct symbfile_reader *r = symbfile_reader_new(&sink);
	enum err err = r ? ERR_OK : ERR_NO_MEMORY;
	for (size_t at = 0; at < bytes->len && !err; at += 300)
		err = symbfile_reader_feed(r, bytes->data + at, bytes->len - at < 300 ? bytes->len - at : 300, &e);
	if (!err)
		err = symbfile_reader_finish(r, &e);
	symbfile_reader_free(r);
	if (!err)
		err = symbfile_map_all(m, out);
	symbfile_map_free(m);
	check(err == ERR_OK || err == ERR_NO_MEMORY);
	check(!err == !!*out);
	return !err;
}

static bool map_and_compare(void *arg)
{
	const struct symbfile *s = arg;
	struct offmap *m;
	if (!map_symbfile(&s->bytes, &m))
		return false;
	alloc_pause();
	assert_same_pages(m, s->want);
	alloc_go_on();
	offmap_free(m);
	return true;
}

static void test_symbfile(void **state)
{
	struct symbfile s;
	(void)state;
	buffer_init(&s.bytes, 1 << 20);
	print_message("writer: %zu allocations\n", fail_each_allocation(write_and_release, NULL));
	assert_true(write_symbfile(&s.bytes));
	alloc_pause();
	assert_true(map_symbfile(&s.bytes, &s.want));
	print_message("reader and map: %zu allocations\n", fail_each_allocation(map_and_compare, &s));
	offmap_free(s.want);
	buffer_release(&s.bytes);
}

/* ---- requests ---- */

static bool read_request(void *arg)
{
	static const struct request_limits limits = {100, 100000, 10000, 100000};
	const struct buffer *body = arg;
	struct arena arena;
	struct request r;
	struct error e = {0};
	arena_init(&arena, SIZE_MAX);
	enum err err = request_read(&r, text_str(body), REQUEST_V5, &limits, NULL, &arena, &e);
	check(err == ERR_OK || (err == ERR_NO_MEMORY && e.code == err && *e.text));
	check(err || (r.job_count == 30 && r.frame_count == 30 * 80 && r.module_count == 30 * 41));
	arena_release(&arena);
	return !err;
}

static void test_request(void **state)
{
	struct buffer body = text_new();
	(void)state;
	text_add(&body, "{\"jobs\":[");
	for (unsigned i = 0; i < 30; i++) {
		text_add(&body, "%s{\"memoryMap\":[[\"\\u00e9\",\"0\"]", i ? "," : "");
		for (unsigned k = 0; k < 40; k++)
			text_add(&body, ",[\"m%u\\n\",\"%x\"]", k, k);
		text_add(&body, "],\"stacks\":[[[0,1]");
		for (unsigned k = 1; k < 80; k++)
			text_add(&body, ",[%u,%s]", k % 41, k % 3 ? "18446744073709551615" : "\"odd\"");
		text_add(&body, "]]}");
	}
	text_add(&body, "]}");
	print_message("%zu allocations\n", fail_each_allocation(read_request, &body));
	buffer_release(&body);
}

/* ---- lookup and reply ---- */

enum { LOOKUPS = 200 };

struct answering {
	struct modules *modules;
	struct module *module;
	struct buffer want; /* the text of all frames */
};

static struct module_hash a_hash(unsigned number)
{
	struct module_hash h = {.bytes = {1, 2, (uint8_t)number}};
	return h;
}

static void write_symbols(const struct symbol *const *of_frame, struct buffer *out)
{
	for (unsigned i = 0; i < LOOKUPS; i++) {
		assert_true(buffer_reserve(out, of_frame[i]->size));
		uint8_t *end = put_v5_tail(out->data + out->len, of_frame[i]->offset, &of_frame[i]->answer);
		assert_int_equal(end - (out->data + out->len), of_frame[i]->size);
		out->len += of_frame[i]->size;
	}
}

/* Pages without what the first lookup adds to them. */
static void renew_strings(struct offmap *m)
{
	for (uint32_t i = 0; i < m->string_count; i++) {
		struct page *old = m->strings[i];
		alloc_pause();
		struct page *p = page_new(PAGE_STRINGS, old->len);
		assert_non_null(p);
		memcpy(p->bytes, old->bytes, p->len);
		m->strings[i] = p;
		alloc_go_on();
		page_unref(old);
	}
}

static bool look_up(void *arg)
{
	struct answering *a = arg;
	struct lookup lookups[LOOKUPS];
	const struct symbol *of_frame[LOOKUPS];
	struct symbolicate_stats stats = {0};
	struct symbols symbols;
	struct arena arena;
	struct module_want want = {.state = WANT_FOUND, .module = a->module};
	module_ref(a->module);
	for (uint32_t i = 0; i < LOOKUPS; i++)
		lookups[i] = (struct lookup){0x1000 + i * 7919 % 0x3000, 0, i};
	arena_init(&arena, SIZE_MAX);
	symbols_init(&symbols, &arena, 1 << 20, 4096, INT64_MAX); /* so few that strings are copied, too */
	const struct symbolication in = {.modules = a->modules,
	        .wants = &want,
	        .want_count = 1,
	        .lookups = lookups,
	        .lookup_count = LOOKUPS,
	        .symbols = &symbols,
	        .symbol_of = of_frame,
	        .stats = &stats};
	enum symbolicate_result result = symbolicate(&in);
	alloc_pause();
	assert_true(result == SYMBOLICATE_OK || result == SYMBOLICATE_NO_MEMORY || result == SYMBOLICATE_LOAD);
	if (!result) {
		struct buffer got = text_new();
		write_symbols(of_frame, &got);
		if (!a->want.len)
			assert_true(buffer_append(&a->want, got.data, got.len));
		assert_int_equal(got.len, a->want.len);
		assert_memory_equal(got.data, a->want.data, got.len);
		buffer_release(&got);
	}
	alloc_go_on();
	symbols_release(&symbols);
	arena_release(&arena);
	module_want_release(&want);
	renew_strings(a->module->map);
	return !result;
}

static void test_lookup(void **state)
{
	struct config c;
	struct error e;
	struct sym s = {.text = sym_text(false), .options = plain_options};
	struct answering a = {.want = text_new()};
	struct offmap *m;
	struct module_hash h = a_hash(0);
	(void)state;
	assert_true(parse(&s, &m));
	alloc_pause();
	assert_int_equal(config_init(&c, &e), ERR_OK);
	struct bucket_sources *sources = bucket_sources_new(&c, &e);
	assert_non_null(sources);
	a.modules = modules_start(&c, sources, NULL, &e);
	assert_non_null(a.modules);
	a.module = module_new(&h, m, LIFE_LOADED);
	assert_non_null(a.module);
	print_message("%zu allocations\n", fail_each_allocation(look_up, &a));
	module_unref(a.module);
	modules_stop(a.modules);
	bucket_sources_free(sources);
	config_release(&c);
	buffer_release(&a.want);
	buffer_release(&s.text);
}

/* The services start, or say that they cannot. */
static bool start_modules(void *arg)
{
	struct error e = {0};
	struct bucket_sources *sources = bucket_sources_new(arg, &e);
	check(sources || (e.code && *e.text));
	struct modules *m = sources ? modules_start(arg, sources, NULL, &e) : NULL;
	check(m || (e.code && *e.text));
	if (m)
		modules_stop(m);
	bucket_sources_free(sources);
	enum err err = source_code_check(arg, &e);
	check(err == ERR_OK || err == ERR_NO_MEMORY);
	struct source_code *code = source_code_new(arg, NULL, &e);
	source_code_free(code);
	return m && !err && code;
}

static void test_start(void **state)
{
	struct config c;
	struct error e;
	(void)state;
	assert_int_equal(config_init(&c, &e), ERR_OK);
	assert_int_equal(config_set(&c, "source", "http://127.0.0.1:1/ s3://bucket/p/ file:///tmp/", &e), ERR_OK);
	assert_int_equal(config_set(&c, "memcached", "127.0.0.1:1", &e), ERR_OK);
	assert_int_equal(config_set(&c, "symbfile_store", "file:///tmp/", &e), ERR_OK);
	assert_int_equal(
	        config_set(&c, "source_code", "a=http://127.0.0.1:1/{repository}/{path}/{revision}", &e), ERR_OK);
	c.bucket_parallel = 2;
	print_message("%zu allocations\n", fail_each_allocation(start_modules, &c));
	config_release(&c);
}

/* ---- a store in S3 that does not answer ---- */

/* Whether it failed since nobody answers, and not without memory. */
static bool is_gone(enum err err, const struct error *e)
{
	check((err == ERR_UNAVAILABLE || err == ERR_NO_MEMORY) && e->code == err && *e->text);
	return err == ERR_UNAVAILABLE;
}

/* More than one piece. */
static bool put_large(struct store_client *c)
{
	static const uint8_t data[(8 << 20) + 1];
	struct error e = {0};
	struct store_put *p = store_put_begin(c, &e);
	bool gone = is_gone(p ? store_put_write(p, data, sizeof data, &e) : e.code, &e);
	store_put_abort(p);
	return gone;
}

static bool presign(const char *url, const struct config *c)
{
	struct error e;
	struct s3_place *p = s3_place_new(url, "symbfile_store", c, &e);
	char object[256] = "";
	if (p)
		snprintf(object, sizeof object, "%sc", p->base);
	char *signed_url = p ? s3_presign(p, object, 60, "gzip") : NULL;
	bool good = signed_url;
	check(!good || strstr(signed_url, "&X-Amz-Signature="));
	free(signed_url);
	s3_place_free(p);
	return good;
}

static bool use_store(void *arg)
{
	struct error e = {0};
	struct store_objects listed = {0};
	const struct config *config = arg;
	struct symbfile_store *s = symbfile_store_new(config, &e);
	struct store_client *c = s ? store_client_take(s) : NULL;
	bool good = c;
	if (c) {
		good = is_gone(store_put_object(c, "a", str_from("b"), &e), &e) && good;
		good = is_gone(store_objects_list(&listed, c, "a", &e), &e) && good;
		good = is_gone(store_remove(c, "a", &e), &e) && good;
		good = is_gone(store_probe(c, &e), &e) && good;
		good = put_large(c) && good;
	}
	check(listed.count == 0);
	store_objects_release(&listed);
	store_client_give(c);
	symbfile_store_free(s);
	return presign(config->symbfile_store, config) && good;
}

static void test_store(void **state)
{
	struct config c;
	struct error e;
	(void)state;
	setenv("AWS_ACCESS_KEY_ID", "key", 1);
	setenv("AWS_SECRET_ACCESS_KEY", "secret", 1);
	setenv("AWS_SESSION_TOKEN", "token", 1);
	assert_int_equal(config_init(&c, &e), ERR_OK);
	assert_int_equal(config_set(&c, "symbfile_store", "s3://bucket/p/", &e), ERR_OK);
	assert_int_equal(config_set(&c, "s3_endpoint", "http://localhost:1", &e), ERR_OK);
	for (unsigned addressing = 0; addressing < 2; addressing++) {
		assert_int_equal(config_set(&c, "s3_addressing", addressing ? "virtual" : "path", &e), ERR_OK);
		c.bucket_retries = 0;
		print_message("%zu allocations\n", fail_each_allocation(use_store, &c));
	}
	config_release(&c);
}

/* ---- downloads ---- */

/* The second begins while the first is read, so that each has a client of its own. */
struct downloads {
	struct symfiles *files;
	unsigned open;
	bool good;
};

static void download(struct downloads *d);

static bool begin_download(void *arg, const struct bucket_head *head)
{
	(void)arg;
	return head;
}

static bool add_download(void *arg, const uint8_t *data, size_t len)
{
	struct downloads *d = arg;
	(void)data;
	if (len && d->open == 1)
		download(d);
	return true;
}

static void download(struct downloads *d)
{
	struct error e = {0};
	struct bucket_result result = {0};
	struct symfile file = {.name = str_from("ceph-osd"), .id = str_from("CEB366FBF2C5A264F863D96FA875EB4A0")};
	struct symfiles_reader reader = {{begin_download, add_download, d}, false, NULL, NULL};
	d->open++;
	enum err err = symfiles_get(d->files, &file, &reader, &result, &e);
	check(err == ERR_OK || err == ERR_NO_MEMORY);
	d->good = d->good && !err && result.outcome == BUCKET_OK;
}

static bool download_two(void *arg)
{
	struct error e = {0};
	struct bucket_sources *sources = bucket_sources_new(arg, &e);
	struct downloads d = {.files = sources ? symfiles_new(arg, sources, &e) : NULL, .good = true};
	check(d.files || (e.code && *e.text));
	if (d.files)
		download(&d);
	symfiles_free(d.files);
	bucket_sources_free(sources);
	return d.good && d.open == 2;
}

static void test_downloads(void **state)
{
	struct config c;
	struct error e;
	char source[4096];
	char *top = realpath(getenv("srcdir") ? getenv("srcdir") : ".", NULL);
	(void)state;
	assert_non_null(top);
	snprintf(source, sizeof source, "file://%s/tests/data/symbols/", top);
	assert_int_equal(config_init(&c, &e), ERR_OK);
	assert_int_equal(config_set(&c, "source", source, &e), ERR_OK);
	c.bucket_retries = 0;
	print_message("%zu allocations\n", fail_each_allocation(download_two, &c));
	config_release(&c);
	free(top);
}

/* ---- the cache ---- */

static struct page *filled_page(uint8_t kind, uint32_t len)
{
	struct page *p = page_new(kind, len);
	for (uint32_t i = 0; p && i < len; i++)
		p->bytes[i] = (uint8_t)(i / 16);
	return p;
}

static struct offmap *small_map(void)
{
	static const uint8_t root[] = {
	        1, 2, 3, 4, 5, 6, 7, 8, 0, 0, 0, 0, 0, 0, 0, 0, 2, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 5, 1};
	struct offmap *m;
	return offmap_root_decode(root, sizeof root, &m) ? NULL : m;
}

/* Puts a page, compressed when `small`, and reads it again, unless it was evicted at once. false: no memory. */
static bool page_survives(struct page_cache *c, struct module *m, uint32_t number, bool small)
{
	struct page *p = filled_page(PAGE_CODE, 3000);
	if (p && small)
		p = page_compress(p, CODEC_LZ4);
	if (!p)
		return false;
	module_put_page(c, m, number, p);
	page_cache_evict(c);
	page_unref(p);
	struct page *got = module_page(c, m, PAGE_CODE, number);
	check(!got || (got->len == 3000 && got->codec == CODEC_RAW && got->bytes[2999] == (uint8_t)(2999 / 16)));
	page_unref(got);
	return true;
}

static bool use_cache(void *arg)
{
	struct page_cache *c = page_cache_new(20000); /* so little that it evicts */
	bool good = c;
	(void)arg;
	for (unsigned i = 0; c && i < 12; i++) {
		struct module_hash h = a_hash(i);
		struct offmap *map = small_map();
		struct module *m = map ? module_new(&h, map, LIFE_LOADED) : NULL;
		good = good && m;
		if (!m)
			continue;
		atomic_store(&m->life, i % 2 ? LIFE_STORED : LIFE_WHOLE);
		page_cache_add(c, m);
		page_cache_evict(c);
		good = page_survives(c, m, 0, false) && page_survives(c, m, 1, true) && good;
		module_unref(m);
		m = page_cache_get(c, &h);
		check(!m || module_hash_equal(&m->hash, &h));
		module_unref(m);
	}
	page_cache_free(c);
	return good;
}

static void test_cache(void **state)
{
	(void)state;
	print_message("%zu allocations\n", fail_each_allocation(use_cache, NULL));
}

/* ---- values ---- */

static bool convert(const struct value_id *id, enum page_codec codec)
{
	struct buffer value;
	struct page *p = filled_page(id->kind, 4000), *back = NULL;
	buffer_init(&value, 1 << 20);
	bool good = p && value_encode(&value, id, p, codec, NULL) == ERR_OK;
	if (good) {
		enum err err = value_decode(value.data, value.len, id, NULL, &back);
		check(err == ERR_OK || err == ERR_NO_MEMORY);
		check(!back || (back->len == p->len && memcmp(back->bytes, p->bytes, p->len) == 0));
	}
	good = back;
	page_unref(back);
	page_unref(p);
	buffer_release(&value);
	return good;
}

static bool convert_all(void *arg)
{
	static const struct value_id id = {{{1, 2, 3}}, 4, 5, PAGE_CODE};
	bool good = true;
	(void)arg;
	for (unsigned codec = CODEC_RAW; codec <= CODEC_ZSTD; codec++)
		good = convert(&id, codec) && good;
	struct offmap *m = small_map();
	struct page *root = m ? offmap_root_encode(m) : NULL;
	good = root && good;
	page_unref(root);
	offmap_free(m);
	return good;
}

static void test_values(void **state)
{
	(void)state;
	print_message("%zu allocations\n", fail_each_allocation(convert_all, NULL));
}

/* ---- gzip and objects ---- */

struct text {
	uint8_t bytes[8192];
	size_t len;
};

static uint8_t *text_space(void *arg, size_t *room)
{
	struct text *t = arg;
	*room = sizeof t->bytes - t->len;
	return t->bytes + t->len;
}

static bool text_commit(void *arg, size_t n)
{
	struct text *t = arg;
	t->len += n;
	return true;
}

/* Compressed twice, and read as an object of a bucket. */
static bool compress_and_read(void *arg)
{
	static char text[4000];
	static struct text got;
	uint8_t *once = NULL, *twice = NULL;
	size_t n;
	(void)arg;
	got.len = 0;
	bool good = gzip_compress(text, sizeof text, &once, &n) == ERR_OK;
	good = good && gzip_compress(once, n, &twice, &n) == ERR_OK;
	struct bucket_body b = {0};
	struct bucket_sink sink = {.space = text_space, .commit = text_commit, .arg = &got};
	if (good) {
		bucket_body_start(&b, &sink, sizeof got.bytes);
		enum bucket_outcome outcome = bucket_body_add(&b, twice, n);
		if (!outcome)
			outcome = bucket_body_end(&b);
		check(outcome || (got.len == sizeof text && memcmp(got.bytes, text, sizeof text) == 0));
		good = !outcome;
	}
	bucket_body_release(&b);
	free(once);
	free(twice);
	return good;
}

static void test_gzip(void **state)
{
	(void)state;
	print_message("%zu allocations\n", fail_each_allocation(compress_and_read, NULL));
}

/* ---- settings ---- */

static bool read_settings(void *arg)
{
	struct config c, copy = {0};
	struct error e = {0};
	(void)arg;
	enum err err = config_init(&c, &e);
	if (!err)
		err = config_set(&c, "source", "http://a/ http://b/", &e);
	if (!err)
		err = config_set(&c, "log_file", "/a", &e);
	if (!err)
		err = config_copy(&copy, &c);
	check(err == ERR_OK || err == ERR_NO_MEMORY);
	check(err || (copy.sources.count == 2 && strcmp(copy.sources.items[1], "http://b/") == 0));
	config_release(&copy);
	config_release(&c);
	return !err;
}

static void test_settings(void **state)
{
	(void)state;
	print_message("%zu allocations\n", fail_each_allocation(read_settings, NULL));
}

/* ---- stacks in texts ---- */

static bool count_frame(void *arg, const struct text_frame *f)
{
	*(uint64_t *)arg += f->module >= 0;
	return true;
}

/* Without memory for a module the reading ends, and says so. */
static bool read_stacks(void *arg)
{
	const struct buffer *text = arg;
	uint64_t frames = 0;
	size_t used = 0;
	struct text_reader *r = text_reader_new(1000, count_frame, &frames);
	if (!r)
		return false;
	bool known = text_reader_know(r, str_from("prog"), str_from("0123456789ABCDEF0123456789ABCDEF0"));
	enum text_result result = text_reader_read(r, text_str(text), true, &used);
	struct text_frame alone = {.module = TEXT_NO_MODULE, .offset = 0x11010, .address = 0x11010, .process = 1};
	enum text_result placed = result ? result : text_reader_place(r, &alone);
	check(placed == TEXT_OK || placed == TEXT_NO_MEMORY);
	check(placed || alone.module >= 0);
	check(result || (used == text->len && frames == (known ? 600 : 400)));
	text_reader_forget(r);
	check(text_reader_modules(r) == 0);
	text_reader_free(r);
	return known && !placed;
}

static void test_stacks(void **state)
{
	(void)state;
	struct buffer text = text_new();
	for (unsigned i = 0; i < 200; i++) {
		text_add(&text,
		        "prog+0x1\nMODULE Linux x86 %032XA m%u.so\nm%u.so+0x1\n"
		        "#1 0x1  (/%0300u/lib.so+0x27249) (BuildId: %040x)\n",
		        i + 1, i, i, i, i + 1);
		text_add(&text, "%x000-%x000 r-xp 00000000 fe:00 1 /map/%0300u.so\n", i + 16, i + 17, i);
	}
	print_message("%zu allocations\n", fail_each_allocation(read_stacks, &text));
	buffer_release(&text);
}

static bool make_hot_frame(void *arg)
{
	static const struct hot_key key = {.address = 0x1000};
	uint64_t before = account_used_for(ACCOUNT_PAGES);
	(void)arg;
	struct hot_frame *f = hot_frame_new(&key, 100);
	hot_frame_unref(f);
	check(account_used_for(ACCOUNT_PAGES) == before);
	return f;
}

static void test_hot_frame(void **state)
{
	(void)state;
	assert_int_equal(fail_each_allocation(make_hot_frame, NULL), 1);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_parse),
	        cmocka_unit_test(test_symbfile),
	        cmocka_unit_test(test_request),
	        cmocka_unit_test(test_stacks),
	        cmocka_unit_test(test_lookup),
	        cmocka_unit_test(test_start),
	        cmocka_unit_test(test_store),
	        cmocka_unit_test(test_downloads),
	        cmocka_unit_test(test_cache),
	        cmocka_unit_test(test_hot_frame),
	        cmocka_unit_test(test_values),
	        cmocka_unit_test(test_gzip),
	        cmocka_unit_test(test_settings),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
