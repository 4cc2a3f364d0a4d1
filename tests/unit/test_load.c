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
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/block_pool.h"
#include "base/clock.h"
#include "format/breakpad.h"
#include "modules/modules.h"
#include "store/bucket.h"

bool __real_breakpad_ask(struct breakpad *p, const uint64_t *offsets, size_t count);
bool __wrap_breakpad_ask(struct breakpad *p, const uint64_t *offsets, size_t count);
enum err __real_breakpad_feed(struct breakpad *p, const uint8_t *data, size_t len, struct error *e);
enum err __wrap_breakpad_feed(struct breakpad *p, const uint8_t *data, size_t len, struct error *e);
int __real_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex);
void __wrap_bucket_fetch(struct bucket_client *c, unsigned source, struct str name, struct str id,
        const struct bucket_sink *sink, const atomic_bool *cancel, struct bucket_result *result);
uint64_t __wrap_resident_bytes(void);

#define ID "0123456789ABCDEF0123456789ABCDEF0"

static void (*serve)(const struct bucket_sink *sink, struct bucket_result *result); /* every transfer of a test */

void __wrap_bucket_fetch(struct bucket_client *c, unsigned source, struct str name, struct str id,
        const struct bucket_sink *sink, const atomic_bool *cancel, struct bucket_result *result)
{
	(void)c, (void)source, (void)name, (void)id, (void)cancel;
	*result = (struct bucket_result){.outcome = BUCKET_OK};
	serve(sink, result);
}

static _Atomic uint64_t resident;

uint64_t __wrap_resident_bytes(void)
{
	return resident;
}

/* ---- a scanner that is slower than the parser ---- */

/* The text, in blocks. */
enum { RING = 512, TEXT_BLOCKS = RING + 100 };
static const char first_block[] = "MODULE Linux x86_64 0123456789ABCDEF0123456789ABCDEF0 f.so\nFUNC 1000 10 0 first\n",
                  last_block[] = "FUNC 2000 10 0 last\n";

static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER; /* of all below */
static pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
static struct breakpad *scanner;
static unsigned filled, parsed, scanned, most_ahead; /* blocks; of the scanner */
static bool scanner_may_go, over;
static _Thread_local bool transfers;

static void wait_until(const bool *done)
{
	pthread_mutex_lock(&lock);
	while (!*done)
		__real_pthread_cond_wait(&changed, &lock);
	pthread_mutex_unlock(&lock);
}

static void note(bool *what)
{
	pthread_mutex_lock(&lock);
	*what = true;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
}

bool __wrap_breakpad_ask(struct breakpad *p, const uint64_t *offsets, size_t count)
{
	scanner = p;
	return __real_breakpad_ask(p, offsets, count);
}

enum err __wrap_breakpad_feed(struct breakpad *p, const uint8_t *data, size_t len, struct error *e)
{
	if (p == scanner)
		wait_until(&scanner_may_go);
	enum err err = __real_breakpad_feed(p, data, len, e);
	pthread_mutex_lock(&lock);
	*(p == scanner ? &scanned : &parsed) += 1;
	pthread_cond_broadcast(&changed);
	pthread_mutex_unlock(&lock);
	return err;
}

/* The parser has all there is, so the transfer waits for the scanner. */
int __wrap_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
	if (transfers)
		note(&scanner_may_go);
	return __real_pthread_cond_wait(cond, mutex);
}

/* No faster than the parser. The scanner goes on when the transfer waits for it, or is lost. */
static bool keep_pace(void)
{
	pthread_mutex_lock(&lock);
	while (parsed < filled)
		__real_pthread_cond_wait(&changed, &lock);
	filled++;
	if (filled - scanned > most_ahead)
		most_ahead = filled - scanned;
	bool in_time = most_ahead <= RING;
	pthread_mutex_unlock(&lock);
	if (!in_time)
		note(&scanner_may_go);
	return in_time;
}

static void fill(uint8_t *data, size_t len, unsigned number)
{
	memset(data, 'x', len);
	memcpy(data, "STACK ", 6);
	data[len - 1] = '\n';
	if (number == 0)
		memcpy(data, first_block, sizeof first_block - 1);
	if (number == 0)
		memcpy(data + sizeof first_block - 1, "STACK ", 6);
	if (number == TEXT_BLOCKS - 1)
		memcpy(data + len - sizeof last_block, "\n", 1);
	if (number == TEXT_BLOCKS - 1)
		memcpy(data + len - sizeof last_block + 1, last_block, sizeof last_block - 1);
}

static void serve_with_parser(const struct bucket_sink *sink, struct bucket_result *result)
{
	transfers = true;
	for (unsigned i = 0; i < TEXT_BLOCKS && result->outcome == BUCKET_OK; i++) {
		size_t room = 0;
		uint8_t *data = sink->space(sink->arg, &room);
		if (data && room == BLOCK_SIZE && keep_pace()) {
			fill(data, room, i);
			sink->commit(sink->arg, room);
		} else {
			result->outcome = BUCKET_FAILED;
		}
	}
	transfers = false;
}

/* ---- a service, and one request ---- */

static struct config config;

static struct modules *start(const char *cache_size)
{
	struct error e;
	assert_int_equal(config_init(&config, &e), ERR_OK);
	assert_int_equal(config_set(&config, "source", "file:///nowhere", &e), ERR_OK);
	assert_int_equal(config_set(&config, "bucket_retries", "0", &e), ERR_OK);
	assert_int_equal(config_set(&config, "cache_size", cache_size, &e), ERR_OK);
	struct modules *m = modules_start(&config, &e);
	assert_non_null(m);
	return m;
}

static void stop(struct modules *m)
{
	modules_stop(m);
	config_release(&config);
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

static void test_a_scanner_that_stands_still_is_waited_for(void **state)
{
	(void)state;
	const uint64_t asked[] = {0x1008, 0x2008};
	struct load_wait wait;
	struct module_want want;
	struct modules *m = start("1G");
	serve = serve_with_parser;
	assert_true(module_want_init(&want, m, str_from("f.so"), str_from(ID)));
	want.asked = asked;
	want.asked_count = 2;
	load(m, &wait, &want, 1);
	assert_true(most_ahead > RING / 2);
	assert_in_range(most_ahead, 1, RING);
	assert_int_equal(want.state, WANT_FOUND);
	assert_int_equal(want.module->map->funcs, 2);
	release(m, &wait, &want, 1);
	stop(m);
}

/* ---- memory ---- */

static bool fills_memory;

static void serve_small(const struct bucket_sink *sink, struct bucket_result *result)
{
	size_t room = 0;
	uint8_t *data = sink->space(sink->arg, &room);
	if (!data || room < sizeof first_block) {
		result->outcome = BUCKET_FAILED;
		return;
	}
	memcpy(data, first_block, sizeof first_block - 1);
	sink->commit(sink->arg, sizeof first_block - 1);
	if (fills_memory)
		resident = UINT64_MAX;
}

/* Two modules and a cache that has room for none. Returns how many are found. */
static unsigned load_two(struct modules *m, const char *one, const char *other)
{
	struct load_wait wait;
	struct module_want wants[2];
	assert_true(module_want_init(&wants[0], m, str_from(one), str_from(ID)));
	assert_true(module_want_init(&wants[1], m, str_from(other), str_from(ID)));
	load(m, &wait, wants, 2);
	unsigned found = (wants[0].state == WANT_FOUND) + (wants[1].state == WANT_FOUND);
	release(m, &wait, wants, 2);
	return found;
}

static void test_what_a_request_needs_is_kept_within_max_memory(void **state)
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

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_a_scanner_that_stands_still_is_waited_for),
	        cmocka_unit_test(test_what_a_request_needs_is_kept_within_max_memory),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
