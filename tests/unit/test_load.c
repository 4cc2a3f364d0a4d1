/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads as modules.h gives them, with a transfer and threads that the test holds still where a bug depends on who is
 * faster. The linker sends the calls below to it (--wrap).
 */
#include <config.h>

#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "api/symbolicate.h"
#include "base/account.h"
#include "base/clock.h"
#include "base/metrics.h"
#include "modules/modules.h"
#include "objects/bucket.h"
#include "records/pages.h"
#include "seed.h"

struct page *__real_sympages_code(struct sympages *m, uint32_t number);
struct page *__wrap_sympages_code(struct sympages *m, uint32_t number);
void __wrap_bucket_fetch(struct bucket_client *c, unsigned source, struct bucket_object object,
        const struct bucket_sink *sink, const atomic_bool *cancel, struct bucket_result *result);
uint64_t __wrap_resident_bytes(void);
struct bucket_client *__real_bucket_client_new(struct bucket_sources *s);
struct bucket_client *__wrap_bucket_client_new(struct bucket_sources *s);

bool __real_account_take_small(enum account_kind kind, uint64_t bytes);
bool __wrap_account_take_small(enum account_kind kind, uint64_t bytes);

void __real_mc_client_free(struct mc_client *c);
void __wrap_mc_client_free(struct mc_client *c);

#define ID "0123456789ABCDEF0123456789ABCDEF0"

static void (*serve)(const struct bucket_sink *sink, struct bucket_result *result); /* every transfer of a test */
static _Atomic(const atomic_bool *) cancelled;
static atomic_uint transfers;
static const char *only_id; /* the spelling under which the file is there; NULL: any */
static _Thread_local struct bucket_object fetched;

void __wrap_bucket_fetch(struct bucket_client *c, unsigned source, struct bucket_object object,
        const struct bucket_sink *sink, const atomic_bool *cancel, struct bucket_result *result)
{
	(void)c, (void)source;
	cancelled = cancel;
	fetched = object;
	*result = (struct bucket_result){.outcome = BUCKET_OK};
	transfers++;
	if (only_id && !str_equal(object.id, str_from(only_id)))
		result->outcome = BUCKET_MISSING;
	else
		serve(sink, result);
}

static _Atomic uint64_t resident;
static atomic_uint looks; /* at it */

uint64_t __wrap_resident_bytes(void)
{
	looks++;
	return resident;
}

static atomic_bool no_clients;

struct bucket_client *__wrap_bucket_client_new(struct bucket_sources *s)
{
	return no_clients ? NULL : __real_bucket_client_new(s);
}

static atomic_uint memory_refused;

bool __wrap_account_take_small(enum account_kind kind, uint64_t bytes)
{
	bool taken = __real_account_take_small(kind, bytes);
	memory_refused += !taken;
	return taken;
}

/* ---- threads that stand still ---- */

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static bool over;
static enum who { NOBODY, FINISHER, REQUEST } held; /* who makes a page, and waits before that */
static bool is_held, may_go;
static _Thread_local bool is_request, is_finisher;
static atomic_uint finishers_gone, made_by_requests;

static void wait_until(const bool *done)
{
	pthread_mutex_lock(&lock);
	while (!*done)
		pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void note(bool *what)
{
	pthread_mutex_lock(&lock);
	*what = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

struct page *__wrap_sympages_code(struct sympages *m, uint32_t number)
{
	is_finisher = !is_request;
	made_by_requests += is_request;
	if (held == (is_request ? REQUEST : FINISHER)) {
		note(&is_held);
		wait_until(&may_go);
	} else if (held == REQUEST) {
		wait_until(&is_held);
	}
	return __real_sympages_code(m, number);
}

void __wrap_mc_client_free(struct mc_client *c)
{
	finishers_gone += is_finisher;
	__real_mc_client_free(c);
}

/* ---- a service, and one request ---- */

static struct config config;
static struct bucket_sources *sources;

static struct modules *start(const char *cache_size)
{
	struct error e;
	assert_int_equal(config_init(&config, &e), ERR_OK);
	assert_int_equal(config_set(&config, "source", "file:///nowhere", &e), ERR_OK);
	assert_int_equal(config_set(&config, "bucket_retries", "0", &e), ERR_OK);
	assert_int_equal(config_set(&config, "finish_after", "0", &e), ERR_OK);
	assert_int_equal(config_set(&config, "cache_size", cache_size, &e), ERR_OK);
	config_fit_memory(&config, (uint64_t)4 << 30);
	sources = bucket_sources_new(&config, &e);
	assert_non_null(sources);
	struct modules *m = modules_start(&config, sources, NULL, &e);
	assert_non_null(m);
	return m;
}

static void stop(struct modules *m)
{
	modules_stop(m);
	bucket_sources_free(sources);
	config_release(&config);
	assert_null(account_unbalanced());
}

static void wait_over(struct load_wait *w)
{
	(void)w;
	note(&over);
}

static bool nobody_gone(const struct load_wait *w)
{
	(void)w;
	return false;
}

/* Loads them, and waits until that has ended. */
static void load(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count)
{
	*wait = (struct load_wait){.done = wait_over, .gone = nobody_gone, .deadline = INT64_MAX};
	over = false;
	enum load_result result;
	while ((result = modules_load(m, wait, wants, count)) == LOAD_REFUSED)
		nanosleep(&(struct timespec){0, 10 * MS}, NULL); /* memory that was full is looked at now and then */
	assert_int_equal(result, LOAD_WAIT);
	wait_until(&over);
}

static void release(struct modules *m, struct load_wait *wait, struct module_want *wants, size_t count)
{
	modules_leave(m, wait);
	for (size_t i = 0; i < count; i++)
		module_want_release(&wants[i]);
}

/* ---- large files ---- */

static const char first_lines[] = "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 f.so\nFUNC 1000 10 0 first\n",
                  last_line[] = "\nFUNC 90000000 10 0 last\n";

/* Puts a text into the sink, whatever room that gives. */
static bool put(const struct bucket_sink *sink, const char *text, size_t len)
{
	for (size_t n; len; text += n, len -= n) {
		uint8_t *data = sink->space(sink->arg, &n);
		if (!data)
			return false;
		n = n < len ? n : len;
		memcpy(data, text, n);
		if (!sink->commit(sink->arg, n))
			return false;
	}
	return true;
}

static unsigned stack_lines, covering;

/* 192 and 16 MB, less where a sanitizer watches; with LARGE in the environment 4 GiB and 700 MB, which take minutes. */
static int choose_sizes(void **state)
{
	bool large = getenv("LARGE");
	(void)state;
	stack_lines = large ? 66 << 20 : rounds(3 << 20) / slowness();
	covering = large ? 17000000 : rounds(400000) / slowness();
	return 0;
}

/* Lines that nobody wants, between two functions. */
static void serve_stack_lines(const struct bucket_sink *sink, struct bucket_result *result)
{
	static const char line[] = "STACK CFI INIT 804c4b0 40 .cfa: $esp 4 + $ebp 8 + .ra: .cfa 4 -\n";
	bool ok = put(sink, first_lines, sizeof first_lines - 1);
	for (unsigned i = 0; i < stack_lines && ok; i++)
		ok = put(sink, line, sizeof line - 1);
	if (!ok || !put(sink, last_line, sizeof last_line - 1))
		result->outcome = BUCKET_FAILED;
}

/* Functions that all cover one offset, the last one innermost. */
static void serve_covering_funcs(const struct bucket_sink *sink, struct bucket_result *result)
{
	char line[64];
	bool ok = put(sink, first_lines, sizeof first_lines - 1);
	for (unsigned i = 0; i < covering && ok; i++)
		ok = put(sink, line,
		        (size_t)snprintf(line, sizeof line, "FUNC %x %x 0 f%u\n%x 1 %u 0\n", 0x10000 + i,
		                2 * covering - 2 * i, i, 0x10000 + covering, i));
	if (!ok || !put(sink, last_line, sizeof last_line - 1))
		result->outcome = BUCKET_FAILED;
}

struct answer {
	uint64_t offset;
	const char *function; /* NULL: none */
};

static void assert_answers(struct modules *m, struct module_want *want, const struct answer *answers, uint32_t count)
{
	struct lookup lookups[8];
	const struct symbol *found[8];
	struct symbols symbols;
	struct symbolicate_stats stats = {0};
	struct arena arena;
	arena_init(&arena, SIZE_MAX);
	symbols_init(&symbols, &arena, UINT64_MAX, UINT64_MAX, INT64_MAX);
	for (uint32_t i = 0; i < count; i++)
		lookups[i] = (struct lookup){answers[i].offset, 0, i};
	is_request = true;
	const struct symbolication in = {.modules = m,
	        .wants = want,
	        .want_count = 1,
	        .lookups = lookups,
	        .lookup_count = count,
	        .symbols = &symbols,
	        .symbol_of = found,
	        .stats = &stats};
	assert_int_equal(symbolicate(&in), SYMBOLICATE_OK);
	is_request = false;
	for (uint32_t i = 0; i < count; i++) {
		const struct offmap_string *name = &found[i]->answer.frame.function;
		assert_int_equal(found[i]->answer.found, answers[i].function != NULL);
		if (answers[i].function)
			assert_true(str_equal(
			        (struct str){(const char *)name->data, name->len}, str_from(answers[i].function)));
	}
	symbols_release(&symbols);
	arena_release(&arena);
}

struct asking {
	struct modules *modules;
	struct module_want *want;
	const struct answer *answers;
	uint32_t count;
};

static void *ask(void *arg)
{
	struct asking *a = arg;
	assert_answers(a->modules, a->want, a->answers, a->count);
	return NULL;
}

/* The threads that make pages are held still in turn: the one behind the reply until all is answered, the one of a
 * request until all other pages are made and the text is let go. */
static void load_and_ask(const struct answer *answers, uint32_t count)
{
	for (enum who who = NOBODY; who <= REQUEST; who++) {
		struct load_wait wait;
		struct module_want want;
		struct modules *m = start("1G");
		struct asking asking = {m, &want, answers, count};
		pthread_t thread;
		held = who;
		is_held = may_go = false;
		assert_true(module_want_init(&want, LOOKUP_COVERING, str_from("f.so"), str_from(ID)));
		load(m, &wait, &want, 1);
		assert_int_equal(want.state, WANT_FOUND);
		assert_int_equal(pthread_create(&thread, NULL, ask, &asking), 0);
		if (who == REQUEST) {
			wait_until(&is_held);
			while (metric_get(M_LOADS_IN_FLIGHT))
				nanosleep(&(struct timespec){0, MS}, NULL);
			note(&may_go);
		}
		pthread_join(thread, NULL);
		note(&may_go);
		assert_answers(m, &want, answers, count);
		release(m, &wait, &want, 1);
		stop(m);
	}
	held = NOBODY;
}

static void test_two_functions_in_hundreds_of_megabytes(void **state)
{
	static const struct answer answers[] = {
	        {0x1008, "first"}, {0x2008, NULL}, {0x90000008, "last"}, {0x90000010, NULL}};
	(void)state;
	serve = serve_stack_lines;
	load_and_ask(answers, 4);
}

static void test_all_functions_cover_the_offset(void **state)
{
	char last[16];
	snprintf(last, sizeof last, "f%u", covering - 1);
	const struct answer answers[] = {
	        {0x1008, "first"}, {0x10000, "f0"}, {0x10000 + covering, last}, {0x10000 + 2 * covering - 1, "f0"}};
	(void)state;
	serve = serve_covering_funcs;
	load_and_ask(answers, 4);
}

/* ---- a client that leaves ---- */

enum { FUNCTIONS = 200000, PAGES = 96 };

static void serve_functions(const struct bucket_sink *sink, struct bucket_result *result)
{
	char line[64];
	bool ok = put(sink, first_lines, sizeof first_lines - 1);
	for (unsigned i = 0; i < FUNCTIONS && ok; i++)
		ok = put(sink, line, (size_t)snprintf(line, sizeof line, "FUNC %x 10 0 f%u\n", 0x10000 + 16 * i, i));
	if (!ok || !put(sink, last_line, sizeof last_line - 1))
		result->outcome = BUCKET_FAILED;
}

struct client {
	unsigned stays, asked; /* it is there so many times */
};

static bool is_there(void *arg)
{
	struct client *c = arg;
	return c->asked++ < c->stays;
}

static enum symbolicate_result look_up_pages(struct modules *m, struct module_want *want, struct client *client)
{
	struct lookup lookups[PAGES];
	const struct symbol *found[PAGES];
	struct symbols symbols;
	struct symbolicate_stats stats = {0};
	struct arena arena;
	arena_init(&arena, SIZE_MAX);
	symbols_init(&symbols, &arena, UINT64_MAX, UINT64_MAX, INT64_MAX);
	for (uint32_t i = 0; i < PAGES; i++)
		lookups[i] = (struct lookup){want->module->map->code_first[i], 0, i};
	const struct symbolication in = {.modules = m,
	        .wants = want,
	        .want_count = 1,
	        .lookups = lookups,
	        .lookup_count = PAGES,
	        .symbols = &symbols,
	        .symbol_of = found,
	        .stats = &stats,
	        .yield = {is_there, client}};
	is_request = true;
	made_by_requests = 0;
	enum symbolicate_result result = symbolicate(&in);
	is_request = false;
	symbols_release(&symbols);
	arena_release(&arena);
	return result;
}

static void test_a_client_that_leaves_ends_its_lookups(void **state)
{
	struct load_wait wait;
	struct module_want want;
	struct modules *m = start("1G");
	struct client stays = {.stays = 1000};
	(void)state;
	serve = serve_functions;
	held = FINISHER;
	is_held = may_go = false;
	assert_true(module_want_init(&want, LOOKUP_COVERING, str_from("f.so"), str_from(ID)));
	load(m, &wait, &want, 1);
	assert_int_equal(want.state, WANT_FOUND);
	assert_true(want.module->map->code_count >= PAGES);
	struct client leaves = {0};
	enum symbolicate_result first = look_up_pages(m, &want, &leaves);
	unsigned asked = leaves.asked, made = made_by_requests;
	enum symbolicate_result whole = look_up_pages(m, &want, &stays);
	unsigned ended = 0;
	for (unsigned i = 0; i < stays.asked; i++) {
		leaves = (struct client){.stays = i};
		ended += look_up_pages(m, &want, &leaves) == SYMBOLICATE_GONE && leaves.asked == i + 1;
	}
	note(&may_go); /* before anything fails, as other tests would wait for it */
	assert_int_equal(first, SYMBOLICATE_GONE);
	assert_int_equal(asked, 1);
	assert_in_range(made, 1, PAGES / 2);
	assert_int_equal(whole, SYMBOLICATE_OK);
	/* every 32 steps, while pages are got, symbols are looked up and strings are put in */
	assert_true(stays.asked >= 3 * PAGES / 32);
	assert_int_equal(ended, stays.asked);
	release(m, &wait, &want, 1);
	stop(m);
	held = NOBODY;
}

/* ---- answers that take much memory ---- */

enum { DEEP = 900, DEEP_SIZE = 1024, DEEP_ANSWERS = 32 << 20 };

static void serve_deep(const struct bucket_sink *sink, struct bucket_result *result)
{
	static const char head[] = "INLINE_ORIGIN 0 in\nFUNC 2000 400 0 deep\n", end[] = "2000 400 7 0\n";
	char line[64];
	bool ok = put(sink, first_lines, sizeof first_lines - 1) && put(sink, head, sizeof head - 1);
	for (unsigned i = 0; i < DEEP && ok; i++)
		ok = put(sink, line, (size_t)snprintf(line, sizeof line, "INLINE %u 1 0 0 2000 400\n", i));
	if (!ok || !put(sink, end, sizeof end - 1) || !put(sink, last_line, sizeof last_line - 1))
		result->outcome = BUCKET_FAILED;
}

/* Lookups that are done together are done in parts if their answers take much: each has its own answer. */
static void test_lookups_whose_answers_take_much_memory(void **state)
{
	static struct lookup lookups[DEEP_SIZE];
	static const struct symbol *found[DEEP_SIZE];
	struct load_wait wait;
	struct module_want want;
	struct symbols symbols;
	struct symbolicate_stats stats = {0};
	struct arena arena;
	struct modules *m = start("1G");
	(void)state;
	serve = serve_deep;
	assert_true(module_want_init(&want, LOOKUP_COVERING, str_from("f.so"), str_from(ID)));
	load(m, &wait, &want, 1);
	arena_init(&arena, SIZE_MAX);
	symbols_init(&symbols, &arena, UINT64_MAX, UINT64_MAX, INT64_MAX);
	for (uint32_t i = 0; i < DEEP_SIZE; i++)
		lookups[i] = (struct lookup){0x2000 + i, 0, i};
	const struct symbolication in = {.modules = m,
	        .wants = &want,
	        .want_count = 1,
	        .lookups = lookups,
	        .lookup_count = DEEP_SIZE,
	        .symbols = &symbols,
	        .symbol_of = found,
	        .stats = &stats};
	is_request = true;
	assert_int_equal(symbolicate(&in), SYMBOLICATE_OK);
	is_request = false;
	assert_true(arena.used > DEEP_ANSWERS);
	assert_int_equal(stats.found, DEEP_SIZE);
	for (uint32_t i = 0; i < DEEP_SIZE; i++) {
		assert_int_equal(found[i]->answer.function_offset, i);
		assert_int_equal(found[i]->answer.inline_count, DEEP);
	}
	symbols_release(&symbols);
	arena_release(&arena);
	release(m, &wait, &want, 1);
	stop(m);
}

/* ---- memory ---- */

static bool fills_memory;

static void serve_small(const struct bucket_sink *sink, struct bucket_result *result)
{
	size_t room = 0;
	uint8_t *data = sink->space(sink->arg, &room);
	if (!data || room < sizeof first_lines) {
		result->outcome = BUCKET_FAILED;
		return;
	}
	memcpy(data, first_lines, sizeof first_lines - 1);
	sink->commit(sink->arg, sizeof first_lines - 1);
	if (fills_memory)
		resident = UINT64_MAX;
}

/* Two modules and a cache that has room for none. Returns how many are found. */
static unsigned load_two(struct modules *m, const char *one, const char *other)
{
	struct load_wait wait;
	struct module_want wants[2];
	assert_true(module_want_init(&wants[0], LOOKUP_COVERING, str_from(one), str_from(ID)));
	assert_true(module_want_init(&wants[1], LOOKUP_COVERING, str_from(other), str_from(ID)));
	load(m, &wait, wants, 2);
	unsigned found = (wants[0].state == WANT_FOUND) + (wants[1].state == WANT_FOUND);
	release(m, &wait, wants, 2);
	return found;
}

static void test_what_a_request_needs_is_kept_within_memory(void **state)
{
	(void)state;
	struct modules *m = start("0");
	serve = serve_small;
	fills_memory = true;
	assert_int_equal(load_two(m, "a.so", "b.so"), 1);
	fills_memory = false;
	resident = 0;
	assert_int_equal(load_two(m, "c.so", "d.so"), 2);
	stop(m);
}

/* ---- one load for a module ---- */

enum { SPELLINGS = 4 };
static const char *const spellings[SPELLINGS] = {"0123456789abcdef0123456789ABCDEF0",
        "0123456789ABCDEF0123456789ABCDEF0", "0123456789aBCDEF0123456789ABCDEF0", "0123456789abcdef0123456789abcdef0"};

/* Asks for one module in all spellings at once. Returns how many transfers that took. */
static unsigned load_spellings(struct modules *m, enum want_state state)
{
	struct load_wait wait;
	struct module_want wants[SPELLINGS];
	for (unsigned i = 0; i < SPELLINGS; i++)
		assert_true(module_want_init(&wants[i], LOOKUP_COVERING, str_from("f.so"), str_from(spellings[i])));
	transfers = 0;
	load(m, &wait, wants, SPELLINGS);
	enum load_result result = LOAD_WAIT;
	while (result == LOAD_WAIT) { /* those that the first load did not settle */
		over = false;
		result = modules_load(m, &wait, wants, SPELLINGS);
		if (result == LOAD_WAIT)
			wait_until(&over);
	}
	for (unsigned i = 0; i < SPELLINGS; i++)
		assert_int_equal(wants[i].state, state);
	release(m, &wait, wants, SPELLINGS);
	return transfers;
}

static void test_one_load_however_the_id_is_spelled(void **state)
{
	(void)state;
	struct modules *m = start("1G");
	serve = serve_small;
	assert_int_equal(load_spellings(m, WANT_FOUND), 1);
	stop(m);
}

static void test_the_file_may_be_there_in_another_spelling(void **state)
{
	(void)state;
	for (unsigned i = 0; i < SPELLINGS; i++) {
		struct modules *m = start("1G");
		serve = serve_small;
		only_id = spellings[i];
		struct load_wait wait;
		struct module_want wants[2];
		/* the spelling that is there joins the load of one that is not */
		assert_true(module_want_init(&wants[0], LOOKUP_COVERING, str_from("f.so"), str_from(spellings[!i])));
		assert_true(module_want_init(&wants[1], LOOKUP_COVERING, str_from("f.so"), str_from(spellings[i])));
		load(m, &wait, wants, 2);
		for (over = false; modules_load(m, &wait, wants, 2) == LOAD_WAIT; over = false)
			wait_until(&over);
		assert_int_equal(wants[1].state, WANT_FOUND);
		release(m, &wait, wants, 2);
		stop(m);
	}
	only_id = "none";
	struct modules *m = start("1G");
	/* as it is spelled, in upper case, in lower case, and without the age 0 in both; one is in upper case, one in
	 * lower */
	assert_int_equal(load_spellings(m, WANT_FAILED), 5 * SPELLINGS - 2);
	stop(m);
	only_id = NULL;
}

/* The request looked in the caches before another's load has failed: what is remembered by then is its answer, too, if
 * it spells the id alike. */
static void test_a_failure_remembered_meanwhile(void **state)
{
	(void)state;
	struct modules *m = start("1G");
	struct load_wait waits[3] = {0};
	struct module_want wants[3];
	static const unsigned spelled[3] = {0, 0, 2};
	serve = serve_small;
	only_id = "none";
	transfers = 0;
	for (unsigned i = 0; i < 3; i++) {
		assert_true(module_want_init(
		        &wants[i], LOOKUP_COVERING, str_from("f.so"), str_from(spellings[spelled[i]])));
		modules_resolve(m, &wants[i], 1, INT64_MAX);
		assert_int_equal(wants[i].state, WANT_LOAD);
	}
	load(m, &waits[0], &wants[0], 1);
	unsigned asked = transfers;
	assert_int_equal(asked, 5);
	waits[1] = (struct load_wait){.done = wait_over, .gone = nobody_gone, .deadline = INT64_MAX};
	assert_int_equal(modules_load(m, &waits[1], &wants[1], 1), LOAD_READY);
	assert_int_equal(transfers, asked);
	load(m, &waits[2], &wants[2], 1);
	assert_int_equal(transfers, 2 * asked);
	for (unsigned i = 0; i < 3; i++) {
		assert_int_equal(wants[i].state, WANT_FAILED);
		assert_int_equal(wants[i].failure, FAILURE_MISSING);
		assert_int_equal(wants[i].loaded, i != 1);
		release(m, &waits[i], &wants[i], 1);
	}
	stop(m);
	only_id = NULL;
}

/* ---- memory that a request lets go ---- */

static bool is_served;
static atomic_bool second_served;

/* The first transfer stands still; the second notes that it has begun. */
static void serve_two(const struct bucket_sink *sink, struct bucket_result *result)
{
	if (transfers == 1) {
		note(&is_served);
		wait_until(&may_go);
	} else {
		second_served = true;
	}
	serve_small(sink, result);
}

/* Memory is full while one load runs, so that the next one waits. A request that lets a text go tells nobody; still the
 * load begins, long before the first one ends. */
static void test_a_load_begins_when_a_request_lets_memory_go(void **state)
{
	enum { LIMIT = 64 << 20 };
	struct load_wait waits[2];
	struct module_want wants[2];
	static const char *const names[] = {"a.so", "b.so"};
	(void)state;
	struct modules *m = start("1G");
	serve = serve_two;
	transfers = 0;
	is_served = over = false;
	may_go = false;
	second_served = false;
	account_start(LIMIT);
	for (unsigned i = 0; i < 2; i++) {
		assert_true(module_want_init(&wants[i], LOOKUP_COVERING, str_from(names[i]), str_from(ID)));
		waits[i] = (struct load_wait){.done = wait_over, .gone = nobody_gone, .deadline = INT64_MAX};
		assert_int_equal(modules_load(m, &waits[i], &wants[i], 1), LOAD_WAIT);
		if (i == 0) {
			wait_until(&is_served);
			account_add(ACCOUNT_TEXTS, LIMIT);
		}
	}
	for (unsigned before = looks; looks - before < 3;) /* the loaders were woken meanwhile if they ever are */
		nanosleep(&(struct timespec){0, MS}, NULL);
	assert_false(second_served);
	account_add(ACCOUNT_TEXTS, -LIMIT);
	for (unsigned i = 0; i < 3000 && !second_served; i++)
		nanosleep(&(struct timespec){0, 10 * MS}, NULL);
	assert_true(second_served);
	wait_until(&over);
	over = false;
	note(&may_go);
	wait_until(&over);
	for (unsigned i = 0; i < 2; i++) {
		assert_int_equal(wants[i].state, WANT_FOUND);
		release(m, &waits[i], &wants[i], 1);
	}
	stop(m);
	account_start(0);
}

/* ---- memory that is full for a moment ---- */

/* Functions with names that cannot be compressed, so that about as much is kept as comes. */
static bool put_funcs(const struct bucket_sink *sink, size_t len)
{
	char name[1000];
	uint64_t seed = 1;
	bool ok = true;
	for (size_t at = 0; at < len && ok; at += sizeof name) {
		char line[32];
		for (size_t i = 0; i < sizeof name; i++)
			name[i] = (char)('0' + next_random(&seed) % 64);
		ok = put(sink, line, (size_t)snprintf(line, sizeof line, "FUNC %zx 10 0 ", 0x10000 + at)) &&
		     put(sink, name, sizeof name) && put(sink, "\n", 1);
	}
	return ok;
}

static size_t text_behind; /* the first lines */

static void serve_after_first_lines(const struct bucket_sink *sink, struct bucket_result *result)
{
	bool ok = put(sink, first_lines, sizeof first_lines - 1);
	note(&is_served);
	wait_until(&may_go);
	if (!ok || !put_funcs(sink, text_behind))
		result->outcome = BUCKET_FAILED;
}

/* A load for which there is no memory until the count has grown so far. Returns its transfers. */
static unsigned load_without_memory_until(atomic_uint *count, unsigned enough)
{
	enum { LIMIT = 256 << 20 };
	struct load_wait wait = {.done = wait_over, .gone = nobody_gone, .deadline = INT64_MAX};
	struct module_want want;
	struct modules *m = start("1G");
	serve = serve_after_first_lines;
	transfers = 0;
	memory_refused = 0;
	is_served = may_go = over = false;
	account_start(LIMIT);
	assert_true(module_want_init(&want, LOOKUP_COVERING, str_from("a.so"), str_from(ID)));
	assert_int_equal(modules_load(m, &wait, &want, 1), LOAD_WAIT);
	wait_until(&is_served);
	account_add(ACCOUNT_TEXTS, LIMIT);
	note(&may_go);
	for (int64_t until = clock_now() + 60 * SECOND; *count < enough; nanosleep(&(struct timespec){0, MS}, NULL))
		assert_true(clock_now() < until);
	account_add(ACCOUNT_TEXTS, -LIMIT);
	wait_until(&over);
	assert_int_equal(want.state, WANT_FOUND);
	release(m, &wait, &want, 1);
	stop(m);
	account_start(0);
	return transfers;
}

/* It lacks memory several times in a row, and goes on where it was. */
static void test_a_load_waits_until_there_is_memory(void **state)
{
	(void)state;
	text_behind = 32 << 20;
	assert_int_equal(load_without_memory_until(&memory_refused, 4), 1);
}

/* Requests, replies and uploads may hold all of it for longer than a load waits: that does not make a small one too
 * large. It runs again. */
static void test_a_small_load_outlasts_its_wait(void **state)
{
	(void)state;
	text_behind = 1 << 20;
	load_without_memory_until(&transfers, 2);
}

static unsigned both; /* of two loads, those that have begun */

static void wait_for_both(void)
{
	while (both < 2)
		pthread_cond_wait(&changed, &lock);
}

static void serve_few_functions(const struct bucket_sink *sink, struct bucket_result *result)
{
	bool ok = put(sink, first_lines, sizeof first_lines - 1);
	pthread_mutex_lock(&lock);
	both++;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	wait_until(&may_go);
	if (!ok || !put_funcs(sink, 1 << 20))
		result->outcome = BUCKET_FAILED;
}

/* One waits; the other gives way although neither has much, and runs again: it is not too large. */
static void test_two_small_loads_outlast_a_lack_of_memory(void **state)
{
	enum { LIMIT = 256 << 20 };
	struct load_wait wait = {.done = wait_over, .gone = nobody_gone, .deadline = INT64_MAX};
	struct module_want wants[2];
	(void)state;
	struct modules *m = start("1G");
	serve = serve_few_functions;
	both = 0;
	memory_refused = 0;
	may_go = over = false;
	account_start(LIMIT);
	assert_true(module_want_init(&wants[0], LOOKUP_COVERING, str_from("a.so"), str_from(ID)));
	assert_true(module_want_init(&wants[1], LOOKUP_COVERING, str_from("b.so"), str_from(ID)));
	assert_int_equal(modules_load(m, &wait, wants, 2), LOAD_WAIT);
	pthread_mutex_lock(&lock);
	wait_for_both();
	pthread_mutex_unlock(&lock);
	account_add(ACCOUNT_TEXTS, LIMIT);
	note(&may_go);
	for (int64_t until = clock_now() + 60 * SECOND; memory_refused < 8; nanosleep(&(struct timespec){0, MS}, NULL))
		assert_true(clock_now() < until);
	account_add(ACCOUNT_TEXTS, -LIMIT);
	wait_until(&over);
	assert_int_equal(wants[0].state, WANT_FOUND);
	assert_int_equal(wants[1].state, WANT_FOUND);
	release(m, &wait, wants, 2);
	stop(m);
	account_start(0);
}

/* ---- two that do not fit together ---- */

enum { ROOM = 64 << 20, FITS = 28 << 20, MOST = 36 << 20 };

/* "large.so" does not fit even alone. Neither goes on before they have what leaves room for neither. */
static void serve_much(const struct bucket_sink *sink, struct bucket_result *result)
{
	bool large = str_equal(fetched.name, str_from("large.so"));
	bool ok = put(sink, first_lines, sizeof first_lines - 1) && put_funcs(sink, large ? MOST : FITS / 2);
	pthread_mutex_lock(&lock);
	both++; /* memory is nearly full with what they have */
	pthread_cond_broadcast(&changed);
	wait_for_both();
	pthread_mutex_unlock(&lock);
	if (!ok || !put_funcs(sink, large ? ROOM : FITS / 2))
		result->outcome = BUCKET_FAILED;
}

/* One gives its memory back for the other's sake and runs again; the one that lacks memory even then is refused, and
 * told how much there is. */
static void test_of_two_that_do_not_fit_together_the_one_that_fits_is_loaded(void **state)
{
	struct load_wait wait;
	struct module_want wants[2];
	char why[FAILURE_WHY_SIZE];
	(void)state;
	struct modules *m = start("1G");
	serve = serve_much;
	transfers = both = 0;
	account_start(ROOM);
	account_note_resident(0);
	assert_true(module_want_init(&wants[0], LOOKUP_COVERING, str_from("large.so"), str_from(ID)));
	assert_true(module_want_init(&wants[1], LOOKUP_COVERING, str_from("fits.so"), str_from(ID)));
	load(m, &wait, wants, 2);
	assert_int_equal(wants[1].state, WANT_FOUND);
	assert_int_equal(wants[0].state, WANT_FAILED);
	assert_int_equal(wants[0].failure, FAILURE_TOO_LARGE);
	snprintf(why, sizeof why, "it needs more than the %d MB that one module may take here", (ROOM >> 20) / 8 * 7);
	assert_string_equal(wants[0].why, why);
	assert_true(transfers > 2); /* one ran again */
	release(m, &wait, wants, 2);
	stop(m);
	account_start(0);
}

/* ---- the end ---- */

/* The transfer ends when the process is stopping and, if they end before the loaders, the finishers have gone. */
static void serve_last(const struct bucket_sink *sink, struct bucket_result *result)
{
	note(&is_served);
	while (!atomic_load(cancelled))
		nanosleep(&(struct timespec){0, MS}, NULL);
	note(&may_go);
	for (unsigned i = 0; i < 50 && finishers_gone < 2; i++)
		nanosleep(&(struct timespec){0, 10 * MS}, NULL);
	serve_small(sink, result);
}

/* Two loads are being finished, the third is in transfer when the process stops. */
static void test_a_load_that_ends_after_the_stop_is_let_go(void **state)
{
	(void)state;
	struct modules *m = start("1G");
	struct load_wait wait[3];
	struct module_want wants[3];
	static const char *const names[] = {"a.so", "b.so", "c.so"};
	held = FINISHER;
	is_held = may_go = is_served = false;
	finishers_gone = 0;
	for (unsigned i = 0; i < 3; i++)
		assert_true(module_want_init(&wants[i], LOOKUP_COVERING, str_from(names[i]), str_from(ID)));
	serve = serve_small;
	load(m, &wait[0], &wants[0], 1);
	load(m, &wait[1], &wants[1], 1);
	serve = serve_last;
	wait[2] = (struct load_wait){.done = wait_over, .gone = nobody_gone, .deadline = INT64_MAX};
	assert_int_equal(modules_load(m, &wait[2], &wants[2], 1), LOAD_WAIT);
	wait_until(&is_served);
	for (unsigned i = 0; i < 3; i++)
		release(m, &wait[i], &wants[i], 1);
	stop(m);
	held = NOBODY;
	assert_int_equal(metric_get(M_LOADS_IN_FLIGHT), 0);
}

/* A request that has read the module's marker takes that result, too. */
static void test_a_loader_without_memory_for_its_clients(void **state)
{
	struct load_wait wait;
	struct module_want want;
	struct modules *m = start("1G");
	(void)state;
	no_clients = true;
	assert_true(module_want_init(&want, LOOKUP_COVERING, str_from("f.so"), str_from(ID)));
	want.own.marker = 1;
	want.own.marker_seen = clock_now();
	load(m, &wait, &want, 1);
	assert_int_equal(want.state, WANT_FAILED);
	assert_int_equal(want.failure, FAILURE_TEMPORARY);
	release(m, &wait, &want, 1);
	no_clients = false;
	stop(m);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_two_functions_in_hundreds_of_megabytes),
	        cmocka_unit_test(test_all_functions_cover_the_offset),
	        cmocka_unit_test(test_a_client_that_leaves_ends_its_lookups),
	        cmocka_unit_test(test_lookups_whose_answers_take_much_memory),
	        cmocka_unit_test(test_what_a_request_needs_is_kept_within_memory),
	        cmocka_unit_test(test_one_load_however_the_id_is_spelled),
	        cmocka_unit_test(test_the_file_may_be_there_in_another_spelling),
	        cmocka_unit_test(test_a_failure_remembered_meanwhile),
	        cmocka_unit_test(test_a_load_begins_when_a_request_lets_memory_go),
	        cmocka_unit_test(test_a_load_waits_until_there_is_memory),
	        cmocka_unit_test(test_two_small_loads_outlast_a_lack_of_memory),
	        cmocka_unit_test(test_a_small_load_outlasts_its_wait),
	        cmocka_unit_test(test_of_two_that_do_not_fit_together_the_one_that_fits_is_loaded),
	        cmocka_unit_test(test_a_load_that_ends_after_the_stop_is_let_go),
	        cmocka_unit_test(test_a_loader_without_memory_for_its_clients),
	};
	return cmocka_run_group_tests(tests, choose_sizes, NULL);
}
