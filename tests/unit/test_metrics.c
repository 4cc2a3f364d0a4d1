/* SPDX-License-Identifier: Apache-2.0 */
/* Counters from many threads, and the form of the Prometheus text. */
#include <config.h>

#include <fcntl.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/metrics.h"

/* The text, NUL-terminated; the caller frees it. */
static char *printed(void)
{
	struct buffer b;
	buffer_init(&b, 1 << 20);
	metrics_print(&b);
	assert_true(buffer_append(&b, "", 1));
	return (char *)b.data;
}

/* The value of a sample, which must be there exactly once; its name may hold labels. */
static double sample(const char *text, const char *name)
{
	char start[200];
	snprintf(start, sizeof start, "\n%s ", name);
	const char *at = strstr(text, start);
	if (!at)
		fail_msg("no sample %s", name);
	assert_null(strstr(at + 1, start));
	return strtod(at + strlen(start), NULL);
}

static double open_descriptors(void)
{
	double n = 0;
	for (int fd = 0; fd < 1024; fd++)
		n += fcntl(fd, F_GETFD) != -1;
	return n;
}

static double sample_now(const char *name)
{
	char *text = printed();
	double value = sample(text, name);
	free(text);
	return value;
}

static void counters_and_gauges(void **state)
{
	(void)state;
	metric_add(M_FRAMES_TOTAL, 5);
	metric_add(M_FRAMES_TOTAL, 2);
	metric_add(M_LOADS_IN_FLIGHT, 3);
	metric_add(M_LOADS_IN_FLIGHT, -1);
	metric_set(M_CACHE_BYTES, 1ll << 40);
	metric_set(M_CACHE_BYTES, 77);
	assert_int_equal(metric_get(M_FRAMES_TOTAL), 7);
	assert_int_equal(metric_get(M_LOADS_IN_FLIGHT), 2);
	assert_int_equal(metric_get(M_CACHE_BYTES), 77);
	assert_true(sample_now("symbolicated_frames_total{result=\"symbolicated\"}") == 7);
	assert_true(sample_now("symbolicated_frames_total{result=\"unknown\"}") == 0);
	assert_true(sample_now("symbolicated_loads_in_flight") == 2);
}

static void requests_by_route_and_status(void **state)
{
	(void)state;
	metric_name_route(0, "v5");
	metric_name_route(3, "upload");
	metric_request(0, 200);
	metric_request(0, 200);
	metric_request(0, 503);
	metric_request(0, 418);
	metric_request(0, 999);
	metric_request(3, 404);
	char *text = printed();
	assert_true(sample(text, "symbolicated_requests_total{route=\"v5\",status=\"200\"}") == 2);
	assert_true(sample(text, "symbolicated_requests_total{route=\"v5\",status=\"503\"}") == 1);
	assert_true(sample(text, "symbolicated_requests_total{route=\"v5\",status=\"other\"}") == 2);
	assert_true(sample(text, "symbolicated_requests_total{route=\"upload\",status=\"404\"}") == 1);
	assert_null(strstr(text, "{route=\"\""));
	free(text);
}

static void statuses_that_a_route_may_give_are_there_from_the_start(void **state)
{
	static const int some[] = {200, 500, 418}, more[] = {503};
	(void)state;
	metric_name_route(5, "five");
	metric_route_may_give(5, some, 3);
	metric_route_may_give(5, more, 1);
	char *text = printed();
	assert_true(sample(text, "symbolicated_requests_total{route=\"five\",status=\"200\"}") == 0);
	assert_true(sample(text, "symbolicated_requests_total{route=\"five\",status=\"500\"}") == 0);
	assert_true(sample(text, "symbolicated_requests_total{route=\"five\",status=\"503\"}") == 0);
	assert_true(sample(text, "symbolicated_requests_total{route=\"five\",status=\"other\"}") == 0);
	assert_null(strstr(text, "{route=\"five\",status=\"400\"}"));
	assert_true(sample(text, "symbolicated_request_seconds_count{route=\"five\"}") == 0);
	free(text);
}

static void histogram_edges(void **state)
{
	static const struct {
		const char *le;
		double count;
	} expected[] = {
	        {"0.0001", 3},
	        {"0.00025", 4},
	        {"0.001", 4},
	        {"1", 5},
	        {"50", 5},
	        {"100", 6},
	        {"+Inf", 8},
	};
	(void)state;
	histogram_observe(H_PARSE, 0);
	histogram_observe(H_PARSE, 1);
	histogram_observe(H_PARSE, 100000);
	histogram_observe(H_PARSE, 100001);
	histogram_observe(H_PARSE, SECOND);
	histogram_observe(H_PARSE, 100 * SECOND);
	histogram_observe(H_PARSE, 100 * SECOND + 1);
	histogram_observe(H_PARSE, 1000 * SECOND);
	char *text = printed();
	for (unsigned i = 0; i < sizeof expected / sizeof expected[0]; i++) {
		char name[100];
		snprintf(name, sizeof name, "symbolicated_parse_seconds_bucket{le=\"%s\"}", expected[i].le);
		assert_true(sample(text, name) == expected[i].count);
	}
	assert_true(sample(text, "symbolicated_parse_seconds_count") == 8);
	double sum = sample(text, "symbolicated_parse_seconds_sum");
	assert_true(sum > 1201.0002 && sum < 1201.0003);
	metric_name_route(0, "v5");
	metric_name_route(1, "v4");
	metric_request_seconds(1, 2 * SECOND);
	assert_true(sample_now("symbolicated_request_seconds_bucket{route=\"v4\",le=\"2.5\"}") == 1);
	assert_true(sample_now("symbolicated_request_seconds_bucket{route=\"v4\",le=\"1\"}") == 0);
	assert_true(sample_now("symbolicated_request_seconds_count{route=\"v4\"}") == 1);
	assert_true(sample_now("symbolicated_request_seconds_count{route=\"v5\"}") == 0);
	free(text);
}

static void process_values(void **state)
{
	(void)state;
	char *text = printed();
	assert_true(sample(text, "process_resident_memory_bytes") > 100000);
	assert_true(sample(text, "process_threads") >= 1);
	assert_true(sample(text, "symbolicated_uptime_seconds") >= 0);
	assert_true(sample(text, "symbolicated_uptime_seconds") < 3600);
	assert_true(sample(text, "symbolicated_build_info{version=\"" FULL_VERSION "\"}") == 1);
	double cpu = sample(text, "process_cpu_seconds_total"), start = sample(text, "process_start_time_seconds");
	assert_true(cpu > 0 && cpu < 3600);
	assert_true(start <= (double)time(NULL) + 1 && start > (double)time(NULL) - 3600);
	struct rlimit files;
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &files), 0);
	assert_true(sample(text, "process_max_fds") == (double)files.rlim_cur);
	assert_true(sample(text, "process_virtual_memory_bytes") >= sample(text, "process_resident_memory_bytes"));
	sample(text, "process_virtual_memory_max_bytes");
	assert_true(sample_now("process_start_time_seconds") == start);
	double before = sample(text, "process_open_fds");
	assert_true(before == open_descriptors());
	FILE *one = fopen("/dev/null", "r");
	assert_non_null(one);
	assert_true(sample_now("process_open_fds") == before + 1);
	fclose(one);
	assert_true(sample_now("process_open_fds") == before);
	free(text);
}

enum { FAMILIES_MAX = 100 };

/* Which families were announced, and as what. */
struct families {
	char names[FAMILIES_MAX][80], types[FAMILIES_MAX][16];
	unsigned count;
};

static void announce(struct families *f, const char *help, const char *type)
{
	char name[80], text[200];
	assert_int_equal(sscanf(help, "# HELP %79[a-z_] %199[^\n]", name, text), 2);
	assert_true(strlen(text) > 5);
	for (unsigned i = 0; i < f->count; i++)
		assert_string_not_equal(f->names[i], name);
	assert_true(f->count < FAMILIES_MAX);
	assert_int_equal(sscanf(type, "# TYPE %79[a-z_] %15s", f->names[f->count], f->types[f->count]), 2);
	assert_string_equal(f->names[f->count], name);
	f->count++;
}

/* A sample belongs to the family that was announced last; a histogram's have endings. */
static void check_sample(const struct families *f, const char *line)
{
	char name[80], ending[80] = "", labels[200] = "", value[40], rest;
	assert_true(f->count > 0);
	const char *family = f->names[f->count - 1], *type = f->types[f->count - 1];
	assert_int_equal(sscanf(line, "%79[a-z_]", name), 1);
	assert_int_equal(strncmp(name, family, strlen(family)), 0);
	snprintf(ending, sizeof ending, "%s", name + strlen(family));
	line += strlen(name);
	if (*line == '{') {
		size_t n = strcspn(line, "}");
		assert_true(n < sizeof labels && line[n] == '}');
		memcpy(labels, line + 1, n - 1);
		line += n + 1;
	}
	assert_int_equal(sscanf(line, " %39[0-9.-]%c", value, &rest), 1);
	if (strcmp(type, "histogram") == 0)
		assert_true(strcmp(ending, "_sum") == 0 || strcmp(ending, "_count") == 0 ||
		            (strcmp(ending, "_bucket") == 0 && strstr(labels, "le=\"")));
	else
		assert_true(*ending == 0 && (strcmp(type, "counter") == 0 || strcmp(type, "gauge") == 0));
	if (strcmp(type, "counter") == 0)
		assert_string_equal(family + strlen(family) - 6, "_total");
}

static void text_is_valid(void **state)
{
	struct families f = {.count = 0};
	(void)state;
	char *text = printed(), *rest = text;
	assert_int_equal(text[strlen(text) - 1], '\n');
	for (char *line; (line = strtok_r(NULL, "\n", &rest));)
		if (*line == '#')
			announce(&f, line, strtok_r(NULL, "\n", &rest));
		else
			check_sample(&f, line);
	assert_true(f.count > 30);
	free(text);
}

enum { THREADS = 20, ROUNDS = 5000 };

static void *count_much(void *arg)
{
	(void)arg;
	for (int i = 0; i < ROUNDS; i++) {
		metric_add(M_PAGES_STORED, 2);
		metric_add(M_CONNECTIONS, i % 2 ? -1 : 1);
		histogram_observe(H_STORE, i * 1000);
		metric_request(7, 200);
	}
	return NULL;
}

/* More threads than shards; a reader beside them sees counters that only grow. */
static void threads_lose_nothing(void **state)
{
	pthread_t threads[THREADS];
	int64_t last = 0;
	(void)state;
	metric_name_route(7, "seven");
	for (unsigned i = 0; i < THREADS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, count_much, NULL), 0);
	for (unsigned i = 0; i < 20; i++) {
		free(printed());
		int64_t now = metric_get(M_PAGES_STORED);
		assert_true(now >= last);
		last = now;
	}
	for (unsigned i = 0; i < THREADS; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(metric_get(M_PAGES_STORED), 2 * THREADS * ROUNDS);
	assert_int_equal(metric_get(M_CONNECTIONS), 0);
	assert_true(sample_now("symbolicated_store_seconds_count") == THREADS * ROUNDS);
	assert_true(sample_now("symbolicated_store_seconds_bucket{le=\"+Inf\"}") == THREADS * ROUNDS);
	assert_true(sample_now("symbolicated_requests_total{route=\"seven\",status=\"200\"}") == THREADS * ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(counters_and_gauges),
	        cmocka_unit_test(requests_by_route_and_status),
	        cmocka_unit_test(statuses_that_a_route_may_give_are_there_from_the_start),
	        cmocka_unit_test(histogram_edges),
	        cmocka_unit_test(process_values),
	        cmocka_unit_test(text_is_valid),
	        cmocka_unit_test(threads_lose_nothing),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
