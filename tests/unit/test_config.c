/* SPDX-License-Identifier: Apache-2.0 */
/* Settings: values, file, flags, what is copied and reloaded, and the documentation made from the table. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "base/clock.h"
#include "base/config.h"
#include "base/config_table.h"

static char folder[] = "/tmp/test-config-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/conf", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	unlink(path);
	return rmdir(folder);
}

static int setup(void **state)
{
	struct config *c = malloc(sizeof *c);
	*state = c;
	return config_init(c, NULL);
}

static int teardown(void **state)
{
	config_release(*state);
	config_release(*state); /* may be called again */
	free(*state);
	return 0;
}

static void write_bytes(const char *text, size_t n)
{
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	assert_int_equal(fwrite(text, 1, n, out), n);
	assert_int_equal(fclose(out), 0);
}

static enum err read_text(struct config *c, const char *text, struct error *e)
{
	write_bytes(text, strlen(text));
	return config_read_file(c, path, e);
}

static void defaults(void **state)
{
	const struct config *c = *state;
	assert_string_equal(c->listen, "");
	assert_int_equal(c->listen_mode, 0660);
	assert_string_equal(c->listen_group, "");
	assert_int_equal(c->listen_backlog, 4096);
	assert_false(c->listen_tcp_anywhere);
	assert_int_equal(c->workers, 0);
	assert_true(c->shutdown_timeout == 30 * SECOND);
	assert_true(c->io_timeout == 30 * SECOND);
	assert_true(c->request_timeout == 120 * SECOND);
	assert_int_equal(c->sources.count, 0);
	assert_int_equal(c->bucket_parallel, 16);
	assert_int_equal(c->bucket_parallel_request, 8);
	assert_int_equal(c->background_share, 5);
	assert_true(c->bucket_connect_timeout == 5 * SECOND);
	assert_true(c->bucket_stall_timeout == 10 * SECOND);
	assert_true(c->bucket_total_timeout == 300 * SECOND);
	assert_int_equal(c->bucket_retries, 2);
	assert_true(c->bucket_max_size == 4ull << 30);
	assert_true(c->executable_max_size == 2ull << 30);
	assert_true(c->executable_memory == 1ull << 30);
	assert_true(c->executable_timeout == 60 * SECOND);
	assert_true(c->executables_parallel == 2);
	assert_string_equal(c->executable_folder, "/var/tmp");
	assert_int_equal(c->source_code.count, 0);
	assert_false(c->bucket_allow_local_redirects);
	assert_int_equal(c->memory, 0);
	assert_true(c->cache_size == 64ull << 40);
	assert_true(c->load_memory_max == 64ull << 40);
	assert_int_equal(c->max_memory, 0);
	assert_int_equal(c->memcached.count, 0);
	assert_true(c->memcached_connect_timeout == 150 * MS);
	assert_true(c->memcached_timeout == 200 * MS);
	assert_int_equal(c->memcached_item_max, 1 << 20);
	assert_int_equal(c->codec, CODEC_CHOICE_LZ4);
	assert_true(c->revalidate_after == 5 * SECOND);
	assert_true(c->root_max_age == 86400 * SECOND);
	assert_true(c->finish_after == 30 * SECOND);
	assert_true(c->missing_ttl == 600 * SECOND);
	assert_true(c->corrupt_ttl == 3600 * SECOND);
	assert_true(c->failure_ttl_min == SECOND);
	assert_true(c->failure_ttl_max == 10 * SECOND);
	assert_int_equal(c->failures_max, 100000);
	assert_int_equal(c->lookup, LOOKUP_COVERING);
	assert_int_equal(c->max_body, 32 << 20);
	assert_int_equal(c->max_body_inflated, 128 << 20);
	assert_int_equal(c->max_reply, 192 << 20);
	assert_int_equal(c->max_jobs, 1000);
	assert_int_equal(c->max_frames, 200000);
	assert_int_equal(c->max_stacks, 1000000);
	assert_int_equal(c->max_modules, 10000);
	assert_int_equal(c->cold_modules, 1000);
	assert_int_equal(c->cold_requests, 64);
	assert_int_equal(c->cold_queue, 256);
	assert_true(c->cold_wait == 2 * SECOND);
	assert_int_equal(c->gzip_min_size, 1400);
	assert_string_equal(c->keys_file, "");
	assert_string_equal(c->log_file, "");
	assert_int_equal(c->log_level, LOG_LEVEL_INFO);
}

/* What is written to a field of another size is beside it. */
static void fields_have_the_size_of_their_type(void **state)
{
	static const size_t sizes[] = {
	        [TYPE_STRING] = sizeof(char *),
	        [TYPE_LIST] = sizeof(struct config_list),
	        [TYPE_BOOL] = sizeof(bool),
	        [TYPE_COUNT] = sizeof(uint64_t),
	        [TYPE_BYTES] = sizeof(uint64_t),
	        [TYPE_DURATION] = sizeof(int64_t),
	        [TYPE_OCTAL] = sizeof(uint64_t),
	        [TYPE_CHOICE] = sizeof(unsigned),
	};
	(void)state;
	for (const struct config_row *row = config_rows; row->key; row++)
		if (row->size != sizes[row->type])
			fail_msg("%s has %zu bytes", row->key, row->size);
}

static void sizes_and_times(void **state)
{
	static const struct {
		const char *text;
		uint64_t bytes;
	} sizes[] = {
	        {"0", 0},
	        {"17", 17},
	        {"2K", 2048},
	        {"2k", 2048},
	        {"3KiB", 3072},
	        {"64M", 64 << 20},
	        {"64MiB", 64 << 20},
	        {"2G", 2ull << 30},
	        {"1gib", 1 << 30},
	        {"3T", 3ull << 40},
	};
	static const struct {
		const char *text;
		int64_t ns;
	} times[] = {
	        {"0", 0},
	        {"7", 7 * SECOND},
	        {"250ms", 250 * MS},
	        {"3s", 3 * SECOND},
	        {"5m", 300 * SECOND},
	        {"2h", 7200 * SECOND},
	        {"1d", 86400 * SECOND},
	};
	struct config *c = *state;
	for (unsigned i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
		assert_int_equal(config_set(c, "cache_size", sizes[i].text, NULL), ERR_OK);
		assert_true(c->cache_size == sizes[i].bytes);
	}
	for (unsigned i = 0; i < sizeof times / sizeof times[0]; i++) {
		assert_int_equal(config_set(c, "missing_ttl", times[i].text, NULL), ERR_OK);
		assert_true(c->missing_ttl == times[i].ns);
	}
}

static void other_types(void **state)
{
	static const char *const yes[] = {"yes", "true", "1", "on", "YES"}, *const no[] = {
	                                                                            "no", "false", "0", "off", "No"};
	struct config *c = *state;
	for (unsigned i = 0; i < 5; i++) {
		assert_int_equal(config_set(c, "listen_tcp_anywhere", yes[i], NULL), ERR_OK);
		assert_true(c->listen_tcp_anywhere);
		assert_int_equal(config_set(c, "listen-tcp-anywhere", no[i], NULL), ERR_OK);
		assert_false(c->listen_tcp_anywhere);
	}
	assert_int_equal(config_set(c, "codec", "none", NULL), ERR_OK);
	assert_int_equal(c->codec, CODEC_CHOICE_NONE);
	assert_int_equal(config_set(c, "codec", "zstd", NULL), ERR_OK);
	assert_int_equal(c->codec, CODEC_CHOICE_ZSTD);
	assert_int_equal(config_set(c, "lookup", "nearest", NULL), ERR_OK);
	assert_int_equal(c->lookup, LOOKUP_NEAREST);
	assert_int_equal(config_set(c, "log_level", "debug", NULL), ERR_OK);
	assert_int_equal(c->log_level, LOG_LEVEL_DEBUG);
	assert_int_equal(config_set(c, "listen_mode", "600", NULL), ERR_OK);
	assert_int_equal(c->listen_mode, 0600);
	assert_int_equal(config_set(c, "source", "http://a/ \t http://b/", NULL), ERR_OK);
	assert_int_equal(config_set(c, "source", "file:///c", NULL), ERR_OK);
	assert_int_equal(c->sources.count, 3);
	assert_string_equal(c->sources.items[1], "http://b/");
	assert_string_equal(c->sources.items[2], "file:///c");
	assert_int_equal(config_set(c, "source", "", NULL), ERR_OK);
	assert_int_equal(c->sources.count, 0);
}

static void bad_values_are_refused_and_change_nothing(void **state)
{
	static const struct {
		const char *key, *value, *text;
	} cases[] = {
	        {"cache_size", "", "cache_size: \"\" is not a size: a number, then nothing, K, M, G or T"},
	        {"cache_size", "12X", "cache_size: \"12X\" is not a size: a number, then nothing, K, M, G or T"},
	        {"cache_size", "-1", "cache_size: \"-1\" is not a size: a number, then nothing, K, M, G or T"},
	        {"cache_size", "99999999999999999999",
	                "cache_size: \"99999999999999999999\" is not a size: a number, then nothing, K, M, G or T"},
	        {"cache_size", "17179869184G",
	                "cache_size: \"17179869184G\" is not a size: a number, then nothing, K, M, G or T"},
	        {"cache_size", "65T", "cache_size: 65T is not in 0 to 64T"},
	        {"cold_wait", "5x", "cold_wait: \"5x\" is not a time: a number, then ms, s, m, h or d"},
	        {"cold_wait", "2h", "cold_wait: 2h is not in 0 to 1h"},
	        {"io_timeout", "99ms", "io_timeout: 99ms is not in 100ms to 1h"},
	        {"max_jobs", "0", "max_jobs: 0 is not in 1 to 1000000"},
	        {"max_jobs", "1K", "max_jobs: \"1K\" is not a number"},
	        {"listen_mode", "0668", "listen_mode: \"0668\" is not a mode in octal digits"},
	        {"listen_mode", "1000", "listen_mode: 1000 is not in 0000 to 0777"},
	        {"listen_tcp_anywhere", "maybe", "listen_tcp_anywhere: \"maybe\" is neither yes nor no"},
	        {"codec", "gzip", "codec: \"gzip\" is none of: none lz4 zstd"},
	        {"codec", "lz", "codec: \"lz\" is none of: none lz4 zstd"},
	        {"codec", "", "codec: \"\" is none of: none lz4 zstd"},
	        {"log_level", "loud", "log_level: \"loud\" is none of: error warning info debug"},
	        {"max_bdy", "1", "unknown key \"max_bdy\""},
	        {"sources", "http://a/", "unknown key \"sources\""},
	        {"nothing_like_it", "1", "unknown key \"nothing_like_it\""},
	        {"", "1", "unknown key \"\""},
	};
	struct config *c = *state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct error e = {0};
		assert_int_equal(config_set(c, cases[i].key, cases[i].value, &e), ERR_CONFIG);
		assert_string_equal(e.text, cases[i].text);
		assert_int_equal(e.code, ERR_CONFIG);
	}
	defaults(state);
}

static void lists_are_bounded(void **state)
{
	struct config *c = *state;
	struct error e;
	for (int i = 0; i < CONFIG_LIST_MAX; i++)
		assert_int_equal(config_set(c, "memcached", "127.0.0.1:11211", &e), ERR_OK);
	assert_int_equal(config_set(c, "memcached", "127.0.0.1:11211", &e), ERR_CONFIG);
	assert_string_equal(e.text, "memcached: more than 32");
	assert_int_equal(c->memcached.count, CONFIG_LIST_MAX);
}

static void file_of_all_forms(void **state)
{
	struct config *c = *state;
	struct error e = {0};
	enum err err = read_text(c,
	        "# a comment\n"
	        "\n"
	        "  \t\n"
	        "source = https://user:p#w@host/a?b=c#d\n"
	        "cache_size=2G\r\n"
	        "\t cold-wait\t=\t5s   # a comment behind\n"
	        "log_file =\n"
	        "source = file:///srv/symbols http://b/\n"
	        "log_level = warning", /* no line end */
	        &e);
	assert_string_equal(e.text, "");
	assert_int_equal(err, ERR_OK);
	assert_int_equal(c->sources.count, 3);
	assert_string_equal(c->sources.items[0], "https://user:p#w@host/a?b=c#d");
	assert_string_equal(c->sources.items[2], "http://b/");
	assert_true(c->cache_size == 2ull << 30);
	assert_true(c->cold_wait == 5 * SECOND);
	assert_int_equal(c->log_level, LOG_LEVEL_WARNING);
}

static void file_errors_name_the_line(void **state)
{
	static const struct {
		const char *file, *text;
	} cases[] = {
	        {"\n\nfoo = 1\n", ":3: unknown key \"foo\""},
	        {"max_body 3\n", ":1: \"max_body 3\" is not of the form key = value"},
	        {"= 3\n", ":1: unknown key \"\""},
	        {"\nmax_jobs = many\n", ":2: max_jobs: \"many\" is not a number"},
	        {"max_jobs = 1\n\nmax-jobs = 2\n", ":3: max_jobs was set in line 1"},
	        {"#\n#\n#\ncodec = lz5", ":4: codec: \"lz5\" is none of: none lz4 zstd"},
	};
	char text[5000], expected[200];
	struct error e;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(read_text(*state, cases[i].file, &e), ERR_CONFIG);
		snprintf(expected, sizeof expected, "%s%s", path, cases[i].text);
		assert_string_equal(e.text, expected);
	}
	memset(text, 'x', sizeof text);
	write_bytes(text, sizeof text);
	assert_int_equal(config_read_file(*state, path, &e), ERR_CONFIG);
	assert_non_null(strstr(e.text, ":1: line is longer than"));
	static const char with_nul[] = "max_jobs = 5\0 5\nmax_frames = 1\n";
	write_bytes(with_nul, sizeof with_nul - 1);
	assert_int_equal(config_read_file(*state, path, &e), ERR_CONFIG);
	assert_non_null(strstr(e.text, "or holds a NUL"));
	assert_int_equal(config_read_file(*state, "/nonexistent/conf", &e), ERR_CONFIG);
	assert_string_equal(e.text, "/nonexistent/conf: No such file or directory");
	assert_int_equal(config_read_file(*state, folder, &e), ERR_CONFIG);
	assert_non_null(strstr(e.text, "cannot be read"));
}

static enum err parse(struct config *c, const char *const *args, unsigned *actions, struct error *e)
{
	char *argv[16] = {(char *)(uintptr_t) "symbolicated"};
	int argc = 1;
	for (; args[argc - 1]; argc++)
		argv[argc] = (char *)(uintptr_t)args[argc - 1];
	return config_parse_args(c, argc, argv, actions, e);
}

static void flags_replace_the_file(void **state)
{
	struct config *c = *state;
	struct error e = {0};
	unsigned actions;
	static const char file[] = "source = http://a/ http://b/\nmemcached = 127.0.0.1:1\n"
	                           "max_jobs = 5\nmax_frames = 6\n";
	write_bytes(file, sizeof file - 1);
	const char *args[] = {"--max-jobs", "7", "--source=http://c/", "--source", "http://d/", "--config", path,
	        "--check-config", "--listen", "--odd", "--keys_file=a=b", NULL};
	enum err err = parse(c, args, &actions, &e);
	assert_string_equal(e.text, "");
	assert_int_equal(err, ERR_OK);
	assert_int_equal(c->max_jobs, 7);
	assert_int_equal(c->max_frames, 6);
	assert_int_equal(c->sources.count, 2);
	assert_string_equal(c->sources.items[0], "http://c/");
	assert_string_equal(c->sources.items[1], "http://d/");
	assert_int_equal(c->memcached.count, 1);
	assert_string_equal(c->listen, "--odd");
	assert_string_equal(c->keys_file, "a=b");
	assert_int_equal(actions, CONFIG_CHECK);
}

static void flags_that_are_wrong(void **state)
{
	static const struct {
		const char *args[4], *text;
	} cases[] = {
	        {{"file", NULL},
	                "unexpected argument \"file\": settings are --NAME VALUE, a file of them --config FILE"},
	        {{"-h", NULL}, "unexpected argument \"-h\": settings are --NAME VALUE, a file of them --config FILE"},
	        {{"--", NULL}, "unexpected argument \"--\": settings are --NAME VALUE, a file of them --config FILE"},
	        {{"--max-jobs", NULL}, "--max-jobs needs a value"},
	        {{"--config", NULL}, "--config needs a value"},
	        {{"--help=yes", NULL}, "--help takes no value"},
	        {{"--max-job", "1", NULL}, "unknown key \"max-job\""},
	        {{"--max-jobs", "x", NULL}, "max_jobs: \"x\" is not a number"},
	        {{"--config=a", "--config=b", NULL}, "--config is given twice"},
	        {{"--config=/nonexistent", NULL}, "/nonexistent: No such file or directory"},
	        {{"--xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx", NULL},
	                "unknown flag --xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx"},
	};
	unsigned actions;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct error e = {0};
		assert_int_equal(parse(*state, cases[i].args, &actions, &e), ERR_CONFIG);
		assert_string_equal(e.text, cases[i].text);
	}
	const char *all[] = {"--help", "--version", "--print-config-markdown", "--print-config-example", NULL};
	assert_int_equal(parse(*state, all, &actions, NULL), ERR_OK);
	assert_int_equal(actions, CONFIG_HELP | CONFIG_VERSION | CONFIG_PRINT_MARKDOWN | CONFIG_PRINT_EXAMPLE);
}

static void check_finds_what_no_key_shows(void **state)
{
	static const struct {
		const char *key, *value, *text;
	} cases[] = {
	        {"memcached", "localhost:11211",
	                "memcached: \"localhost:11211\" is neither a path nor a numeric address:port"},
	        {"memcached", "127.0.0.1", "memcached: \"127.0.0.1\" is neither a path nor a numeric address:port"},
	        {"memcached", "127.0.0.1:0", "memcached: \"127.0.0.1:0\" is neither a path nor a numeric address:port"},
	        {"memcached", "127.0.0.1:65536",
	                "memcached: \"127.0.0.1:65536\" is neither a path nor a numeric address:port"},
	        {"memcached", "::1:11211", "memcached: \"::1:11211\" is neither a path nor a numeric address:port"},
	        {"memcached", "[]:11211", "memcached: \"[]:11211\" is neither a path nor a numeric address:port"},
	        {"failure_ttl_min", "11s", "failure_ttl_min is above failure_ttl_max"},
	        {"bucket_parallel", "7", "bucket_parallel_request is above bucket_parallel"},
	        {"max_body", "129M", "max_body is above max_body_inflated"},
	        {"max_memory", "63M", "memory is less than 64M"},
	        {"memory", "63M", "memory is less than 64M"},
	};
	struct config *c = *state;
	struct error e = {0};
	assert_int_equal(config_check(c, &e), ERR_CONFIG);
	assert_string_equal(e.text, "no source is set: there are no symbols to look up");
	assert_int_equal(config_set(c, "source", "HTTPS://a/", NULL), ERR_OK);
	assert_int_equal(config_set(c, "memcached", "/run/memcached.sock 10.0.0.1:11211 [::1]:11211", NULL), ERR_OK);
	assert_int_equal(config_check(c, &e), ERR_OK);
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct config other;
		assert_int_equal(config_copy(&other, c), ERR_OK);
		assert_int_equal(config_set(&other, cases[i].key, cases[i].value, NULL), ERR_OK);
		assert_int_equal(config_check(&other, &e), ERR_CONFIG);
		assert_string_equal(e.text, cases[i].text);
		config_release(&other);
	}
}

/* Sizes in megabytes. */
static void memory_is_fitted_to_the_machine(void **state)
{
	static const struct {
		const char *memory, *max_memory, *cache_size, *load_memory_max;
		uint64_t machine, of_memory, of_cache, of_load;
	} cases[] = {
	        {"0", "0", "64T", "64T", 1000, 700, 525, 525},
	        {"0", "0", "100M", "64T", 1000, 700, 100, 525},
	        {"0", "0", "64T", "200M", 1000, 700, 525, 200},
	        {"0", "0", "0", "64T", 1000, 700, 0, 525},
	        {"0", "0", "64T", "64T", 10, 64, 48, 48},
	        {"800M", "0", "64T", "64T", 1000, 800, 600, 600},
	        {"2000M", "0", "64T", "64T", 1000, 2000, 1500, 1500},
	        {"0", "400M", "64T", "64T", 1000, 400, 300, 300},
	        {"0", "800M", "64T", "64T", 1000, 700, 525, 525},
	        {"200M", "100M", "64T", "64T", 0, 100, 75, 75},
	};
	struct config *c = *state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		assert_int_equal(config_set(c, "memory", cases[i].memory, NULL), ERR_OK);
		assert_int_equal(config_set(c, "max_memory", cases[i].max_memory, NULL), ERR_OK);
		assert_int_equal(config_set(c, "cache_size", cases[i].cache_size, NULL), ERR_OK);
		assert_int_equal(config_set(c, "load_memory_max", cases[i].load_memory_max, NULL), ERR_OK);
		assert_int_equal(config_set(c, "executable_memory", "1T", NULL), ERR_OK);
		config_fit_memory(c, cases[i].machine << 20);
		assert_int_equal(c->memory >> 20, cases[i].of_memory);
		assert_int_equal(c->cache_size >> 20, cases[i].of_cache);
		assert_int_equal(c->load_memory_max >> 20, cases[i].of_load);
		assert_int_equal(c->executable_memory, c->memory / 4 * 3);
	}
}

static void bad_sources_are_shown_without_secrets(void **state)
{
	static const struct {
		const char *url, *shown;
	} cases[] = {
	        {"https://a.example/v1/", "https://a.example/v1/"},
	        {"https://user:secret@a.example/v1/", "https://***@a.example/v1/"},
	        {"https://a.example/v1/?token=secret", "https://a.example/v1/***"},
	        {"https://user:se?cr/et@a.example/?x=secret#secret", "https://***@a.example/***"},
	        {"https://user:sec@ret@a.example", "https://***@a.example"},
	        {"user:secret@a.example", "***@a.example"},
	        {"s3://bucket/prefix", "s3://bucket/prefix"},
	        {"debuginfod+https://user:secret@a.example/", "debuginfod+https://***@a.example/"},
	        {"nonsense", "nonsense"},
	        {"", ""},
	};
	char shown[CONFIG_SOURCE_SIZE], longest[3000];
	(void)state;
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		struct config c = {.sources = {.items = {(char *)(uintptr_t)cases[i].url}, .count = 1}};
		assert_string_equal(config_show_source(shown, &c, 0), cases[i].shown);
	}
	memset(longest, 'x', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	struct config c = {.sources = {.items = {longest}, .count = 1, .lines = {4294967295u}}};
	config_show_source(shown, &c, 0);
	assert_non_null(strstr(shown, "xxx*** (line 4294967295)"));
}

static void reload_takes_what_may_change(void **state)
{
	struct config *running = *state, fresh, copy;
	char names[64], few[12];
	assert_int_equal(config_set(running, "source", "http://a/", NULL), ERR_OK);
	assert_int_equal(config_copy(&fresh, running), ERR_OK);
	assert_int_equal(config_reload(running, &fresh, names, sizeof names), 0);
	assert_string_equal(names, "");
	config_set(&fresh, "source", "http://b/", NULL);
	config_set(&fresh, "workers", "9", NULL);
	config_set(&fresh, "listen", "/run/other", NULL);
	config_set(&fresh, "max_jobs", "9", NULL);
	config_set(&fresh, "client_ipv6_prefix", "56", NULL);
	config_set(&fresh, "log_level", "debug", NULL);
	config_set(&fresh, "drain_file", "/run/drain", NULL);
	/* A copy is changed; what other threads read stays as it was. */
	assert_int_equal(config_copy(&copy, running), ERR_OK);
	assert_int_equal(config_reload(&copy, &fresh, names, sizeof names), 3);
	assert_string_equal(names, "listen workers source");
	assert_int_equal(copy.max_jobs, 9);
	assert_int_equal(copy.client_ipv6_prefix, 56);
	assert_int_equal(copy.log_level, LOG_LEVEL_DEBUG);
	assert_string_equal(copy.drain_file, "/run/drain");
	assert_string_equal(copy.listen, "");
	assert_string_equal(copy.sources.items[0], "http://a/");
	assert_int_equal(copy.workers, 0);
	assert_int_equal(running->max_jobs, 1000);
	assert_int_equal(running->client_ipv6_prefix, 64);
	assert_int_equal(running->log_level, LOG_LEVEL_INFO);
	assert_string_equal(running->drain_file, "/run/symbolicated/drain");
	assert_int_equal(config_reload(&copy, &fresh, few, sizeof few), 3);
	assert_string_equal(few, "listen work");
	assert_int_equal(config_reload(&copy, &fresh, NULL, 0), 3);
	config_release(&copy);
	config_release(&fresh);
}

static char *printed(void (*print)(FILE *out))
{
	char *text = NULL;
	size_t size;
	FILE *out = open_memstream(&text, &size);
	assert_non_null(out);
	print(out);
	assert_int_equal(fclose(out), 0);
	return text;
}

/* With its settings uncommented the example is the defaults, all of them. */
static void example_is_the_defaults(void **state)
{
	struct config *c = *state;
	struct error e = {0};
	char *text = printed(config_print_example);
	unsigned settings = 0;
	for (char *at = text; (at = strstr(at, "\n#")); at++)
		if (at[2] != ' ') {
			at[1] = ' ';
			settings++;
		}
	config_set(c, "source", "http://a/", NULL);
	config_set(c, "max_jobs", "5", NULL);
	config_set(c, "log_level", "debug", NULL);
	enum err err = read_text(c, text, &e);
	free(text);
	assert_string_equal(e.text, "");
	assert_int_equal(err, ERR_OK);
	assert_true(settings > 40);
	defaults(state);
}

static void documentation_names_every_setting(void **state)
{
	char *example = printed(config_print_example), *markdown = printed(config_print_markdown),
	     *usage = printed(config_print_usage);
	char key[64], row[100], flag[100];
	unsigned settings = 0;
	(void)state;
	for (char *at = example; (at = strstr(at, "\n#")); at++) {
		if (at[2] == ' ' || sscanf(at + 2, "%63[a-z0-9_]", key) != 1)
			continue;
		settings++;
		snprintf(row, sizeof row, "\n| `%s` | ", key);
		assert_non_null(strstr(markdown, row));
		for (char *k = key; *k; k++)
			*k = *k == '_' ? '-' : *k;
		snprintf(flag, sizeof flag, "\n  --%s VALUE\n", key);
		assert_non_null(strstr(usage, flag));
	}
	assert_true(settings > 40);
	assert_non_null(strstr(markdown, "| `listen_mode` | `0660` | 0000 to 0777 | restart | "));
	assert_non_null(strstr(markdown, "| `root_max_age` | `1d` | 1s to 29d | restart | "));
	assert_non_null(strstr(markdown, "| `max_body` | `32M` | 1 to 4G | yes | "));
	assert_non_null(strstr(markdown, "| `codec` | `lz4` | none, lz4, zstd | restart | "));
	assert_non_null(strstr(usage, "\n  --check-config\n"));
	assert_non_null(strstr(usage, "\n\nConnections from nginx:\n  --listen VALUE\n"));
	/* Every row of a table has as many cells. */
	for (char *line = strtok(markdown, "\n"); line; line = strtok(NULL, "\n")) {
		unsigned bars = 0;
		for (char *k = line; *k; k++)
			bars += *k == '|';
		assert_true(bars == 0 || bars == 6);
	}
	free(example);
	free(markdown);
	free(usage);
}

static void host_and_port_of_addresses(void **state)
{
	char host[CONFIG_HOST_SIZE];
	uint16_t port;
	(void)state;
	assert_true(config_parse_address(host, &port, "[::1]:11211"));
	assert_string_equal(host, "::1");
	assert_int_equal(port, 11211);
	assert_true(config_parse_address(host, &port, "10.0.0.1:65535"));
	assert_string_equal(host, "10.0.0.1");
	assert_int_equal(port, 65535);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(defaults, setup, teardown),
	        cmocka_unit_test(fields_have_the_size_of_their_type),
	        cmocka_unit_test_setup_teardown(sizes_and_times, setup, teardown),
	        cmocka_unit_test_setup_teardown(other_types, setup, teardown),
	        cmocka_unit_test(host_and_port_of_addresses),
	        cmocka_unit_test_setup_teardown(bad_values_are_refused_and_change_nothing, setup, teardown),
	        cmocka_unit_test_setup_teardown(lists_are_bounded, setup, teardown),
	        cmocka_unit_test_setup_teardown(file_of_all_forms, setup, teardown),
	        cmocka_unit_test_setup_teardown(file_errors_name_the_line, setup, teardown),
	        cmocka_unit_test_setup_teardown(flags_replace_the_file, setup, teardown),
	        cmocka_unit_test_setup_teardown(flags_that_are_wrong, setup, teardown),
	        cmocka_unit_test_setup_teardown(check_finds_what_no_key_shows, setup, teardown),
	        cmocka_unit_test_setup_teardown(memory_is_fitted_to_the_machine, setup, teardown),
	        cmocka_unit_test_setup_teardown(bad_sources_are_shown_without_secrets, setup, teardown),
	        cmocka_unit_test_setup_teardown(reload_takes_what_may_change, setup, teardown),
	        cmocka_unit_test_setup_teardown(example_is_the_defaults, setup, teardown),
	        cmocka_unit_test(documentation_names_every_setting),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
