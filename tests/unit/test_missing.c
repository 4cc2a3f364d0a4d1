/* SPDX-License-Identifier: Apache-2.0 */
/* The list of modules that were not found, as time passes, and what it logs. Over the wire: wire/test_missing.py. */
#include <config.h>

#include "symfiles/missing.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <unistd.h>

#include "base/log.h"

enum { MINUTE = 60, HOUR = 3600, DAY = 24 * HOUR, START = 20000 * DAY, LINES_A_MINUTE = 60 };

static struct missing_list *list;
static char log_path[] = "/tmp/test-missing-XXXXXX";
static char last_line[400];

/* How many lines the log has. */
static unsigned lines(void)
{
	unsigned count = 0;
	FILE *log = fopen(log_path, "r");
	assert_non_null(log);
	while (fgets(last_line, sizeof last_line, log))
		count++;
	fclose(log);
	return count;
}

static int open_log(void **state)
{
	(void)state;
	struct error e;
	int fd = mkstemp(log_path);
	return fd < 0 || close(fd) || log_open(log_path, LOG_LEVEL_INFO, &e) ? -1 : 0;
}

static int remove_log(void **state)
{
	(void)state;
	return unlink(log_path);
}

static int setup(void **state)
{
	(void)state;
	list = missing_list_new(1);
	return list ? 0 : -1;
}

static int teardown(void **state)
{
	(void)state;
	missing_list_free(list);
	return 0;
}

/* Returns how many lines it logs. */
static unsigned note(const char *name, const char *agent, int64_t now)
{
	unsigned before = lines();
	missing_note(list, str_from(name), str_from("ab1"), str_from(agent), 1, now);
	return lines() - before;
}

static void a_module_is_logged_once_a_day(void **state)
{
	(void)state;
	assert_int_equal(note("a.so", "who\n", START), 1);
	assert_non_null(strstr(
	        last_line, "\"level\":\"info\",\"event\":\"missing\",\"text\":\"a.so/ab1, asked for by who?\"}\n"));
	assert_int_equal(note("b.so", "who", START + HOUR), 1);
	for (int64_t now = START + 1; now < START + DAY; now += HOUR)
		assert_int_equal(note("a.so", "who", now), 0);
	assert_int_equal(note("a.so", "who", START + DAY - 1), 0);
	assert_int_equal(note("a.so", "who", START + DAY), 1);
	assert_int_equal(note("a.so", "who", START + 2 * DAY - 1), 0);
	assert_int_equal(note("b.so", "who", START + DAY + HOUR), 1);
}

static void of_many_in_a_minute_the_rest_is_logged_later(void **state)
{
	char name[20];
	(void)state;
	for (unsigned i = 0; i < LINES_A_MINUTE + 2; i++) {
		sprintf(name, "%u.so", i);
		assert_int_equal(note(name, "", START + i % MINUTE), i < LINES_A_MINUTE);
	}
	assert_int_equal(note(name, "", START + MINUTE), 1);
	assert_int_equal(note("0.so", "", START + MINUTE), 0);
}

static void what_was_asked_for_is_copied(void **state)
{
	struct missing_module m[3];
	(void)state;
	note("a.so", "one", START);
	note("a.so", "two", START + 5);
	note("b.so", "", START + 9);
	note("", "", START);
	assert_int_equal(missing_copy(list, m, 3, START), 2);
	assert_int_equal(missing_copy(list, m, 1, START), 1);
	assert_int_equal(missing_copy(list, m, 3, START + 10), 0);
	assert_int_equal(missing_copy(list, m, 3, START + 9), 1);
	assert_string_equal(m[0].name, "b.so");
	missing_note(list, str_from("b.so"), str_from("AB1"), str_from(""), 1, START + 3);
	assert_int_equal(missing_copy(list, m, 3, START + 5), 1);
	assert_string_equal(m[0].name, "a.so");
	assert_string_equal(m[0].id, "AB1");
	assert_string_equal(m[0].agent, "two");
	assert_int_equal(m[0].count, 2);
	assert_true(m[0].first == START && m[0].last == START + 5);
}

static bool is_listed(const char *name, unsigned clients)
{
	static struct missing_module m[MISSING_MAX];
	size_t n = missing_copy(list, m, MISSING_MAX, 0);
	for (size_t i = 0; i < n; i++)
		if (strcmp(m[i].name, name) == 0)
			return missing_clients(&m[i]) == clients;
	return false;
}

/* However many it makes up, and however often it asks for each. */
static void names_of_one_client_displace_nothing_that_several_want(void **state)
{
	char name[20];
	(void)state;
	for (uint64_t client = 5; client < 8; client++) {
		missing_note(list, str_from("wanted.so"), str_from("1"), str_from(""), client, START);
		missing_note(list, str_from("wanted.so"), str_from("1"), str_from(""), client, START);
	}
	for (unsigned i = 0; i < 10 * MISSING_MAX; i++) {
		sprintf(name, "%u.so", i / 10);
		missing_note(list, str_from(name), str_from("1"), str_from(""), 9, START + i % DAY);
	}
	for (unsigned i = 0; i < 4 * MISSING_MAX; i++) {
		sprintf(name, "%u.dll", i);
		missing_note(list, str_from(name), str_from("1"), str_from(""), 9, START + DAY);
	}
	assert_true(is_listed("wanted.so", 3));
	/* nor do those of several that come later */
	for (unsigned i = 0; i < 8 * MISSING_MAX; i++) {
		sprintf(name, "%u.so", i / 2);
		missing_note(list, str_from(name), str_from("2"), str_from(""), 10 + i % 2, START + DAY);
	}
	assert_true(is_listed("wanted.so", 3));
}

static void news_is_told_once(void **state)
{
	(void)state;
	assert_false(missing_has_news(list));
	note("a.so", "", START);
	assert_true(missing_has_news(list));
	assert_false(missing_has_news(list));
	note("a.so", "", START + 1);
	assert_true(missing_has_news(list));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(a_module_is_logged_once_a_day, setup, teardown),
	        cmocka_unit_test_setup_teardown(of_many_in_a_minute_the_rest_is_logged_later, setup, teardown),
	        cmocka_unit_test_setup_teardown(what_was_asked_for_is_copied, setup, teardown),
	        cmocka_unit_test_setup_teardown(
	                names_of_one_client_displace_nothing_that_several_want, setup, teardown),
	        cmocka_unit_test_setup_teardown(news_is_told_once, setup, teardown),
	};
	return cmocka_run_group_tests_name("missing", tests, open_log, remove_log);
}
