/* SPDX-License-Identifier: Apache-2.0 */
/* The memcached client against real servers, which are paused, killed and restarted. */
#include <config.h>

#include "cache/memcached.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <ftw.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/metrics.h"
#include "base/varint.h"
#include "cache/page_memcached.h"

enum { SERVERS = 4, LONGEST = 60 }; /* seconds that a test waits for anything */

static char directory[] = "/tmp/test-memcached-XXXXXX";

struct server {
	char name[200]; /* as it stands in the configuration */
	pid_t pid;
};
static struct server servers[SERVERS];

/* A short pause between two looks at a condition; fails when it is in vain. */
static void wait_a_bit(int64_t started)
{
	struct timespec t = {0, 2 * MS};
	nanosleep(&t, NULL);
	if (clock_now() - started > LONGEST * SECOND)
		fail_msg("waited in vain");
}

static int dial(const char *name)
{
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct sockaddr_in in = {.sin_family = AF_INET};
	bool is_path = *name == '/';
	int fd = socket(is_path ? AF_UNIX : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), failed;
	if (is_path) {
		strcpy(un.sun_path, name);
		failed = connect(fd, (struct sockaddr *)&un, sizeof un);
	} else {
		in.sin_port = htons((uint16_t)atoi(strchr(name, ':') + 1));
		in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
		failed = connect(fd, (struct sockaddr *)&in, sizeof in);
	}
	if (!failed)
		return fd;
	close(fd);
	return -1;
}

static void start(struct server *s, const char *flag, const char *value)
{
	const char *port = *s->name == '/' ? s->name : strchr(s->name, ':') + 1, *kind = *s->name == '/' ? "-s" : "-p";
	int64_t started = clock_now();
	unlink(s->name);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a test crashes */
		execlp("memcached", "memcached", "-u", geteuid() ? "nobody" : "root", "-l", "127.0.0.1", kind, port,
		        "-m", "64", "-t", "1", flag, value, (char *)NULL);
		_exit(127);
	}
	for (int fd = -1; fd < 0; wait_a_bit(started)) {
		assert_int_equal(waitpid(s->pid, NULL, WNOHANG), 0);
		fd = dial(s->name);
		if (fd >= 0)
			close(fd);
	}
}

static void stop(struct server *s)
{
	if (s->pid <= 0)
		return;
	kill(s->pid, SIGKILL);
	waitpid(s->pid, NULL, 0);
	s->pid = 0;
}

static void stop_all(void)
{
	for (unsigned i = 0; i < SERVERS; i++)
		stop(&servers[i]);
}

static bool binds(int fd, const void *address, size_t len)
{
	assert_true(fd >= 0);
	return bind(fd, address, (socklen_t)len) == 0;
}

/* A port below those that the kernel hands out. As in tests/wire/stack.py a socket with its name, which ends with this
 * process, keeps it from other tests. */
static int free_port(void)
{
	for (unsigned i = 0; i < 200; i++) {
		struct sockaddr_in in = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
		struct sockaddr_un name = {.sun_family = AF_UNIX};
		int port = 10000 + (getpid() + (int)i) % 10000;
		int lock = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0), fd = socket(AF_INET, SOCK_STREAM, 0);
		int len = snprintf(name.sun_path + 1, sizeof name.sun_path - 1, "symbolicated-port-%d", port);
		in.sin_port = htons((uint16_t)port);
		bool free = binds(lock, &name, offsetof(struct sockaddr_un, sun_path) + 1 + (size_t)len) &&
		            binds(fd, &in, sizeof in);
		close(fd);
		if (free)
			return port;
		close(lock);
	}
	fail_msg("no free port");
	return 0;
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(directory));
	snprintf(servers[0].name, sizeof servers[0].name, "127.0.0.1:%d", free_port());
	for (unsigned i = 1; i < SERVERS; i++)
		snprintf(servers[i].name, sizeof servers[i].name, "%s/%u.sock", directory, i);
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int type, struct FTW *ftw)
{
	(void)st;
	(void)type;
	(void)ftw;
	return remove(path);
}

static int tear_down(void **state)
{
	(void)state;
	stop_all();
	nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* Whatever a test left running ends with it. */
static int after_each(void **state)
{
	(void)state;
	stop_all();
	return 0;
}

struct client {
	struct config config;
	struct mc_servers *servers;
	struct mc_client *mc;
};

static void client_open(struct client *c, unsigned from, unsigned count, int64_t timeout)
{
	struct error e = {0};
	memset(c, 0, sizeof *c);
	c->config.memcached_connect_timeout = timeout;
	c->config.memcached_timeout = timeout;
	c->config.memcached_item_max = 1 << 20;
	for (unsigned i = 0; i < count; i++)
		c->config.memcached.items[c->config.memcached.count++] = servers[from + i].name;
	c->servers = mc_servers_new(&c->config, &e);
	if (!c->servers)
		fail_msg("%s", e.text);
	assert_int_equal(mc_enabled(c->servers), count > 0);
	c->mc = mc_client_new(c->servers);
	assert_non_null(c->mc);
}

static void client_close(struct client *c)
{
	mc_client_free(c->mc);
	mc_servers_free(c->servers);
}

static struct mc_key key_of(unsigned n)
{
	struct mc_key k = {.route = n * 7919ull};
	k.len = (uint8_t)snprintf(k.text, sizeof k.text, "1:p:Key-%u_", n);
	return k;
}

struct seen {
	unsigned calls;
	size_t len;
	uint64_t cas;
	uint8_t *value;
};

static void remember(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas)
{
	struct seen *s = (struct seen *)arg + index;
	s->calls++;
	s->len = len;
	s->cas = cas;
	free(s->value);
	s->value = malloc(len + 1);
	assert_non_null(s->value);
	memcpy(s->value, value, len);
	s->value[len] = 0;
}

static enum mc_status get(struct client *c, const struct mc_key *key, struct seen *seen)
{
	struct mc_get one = {.key = *key, .status = MC_EXISTS};
	free(seen->value);
	*seen = (struct seen){0};
	mc_multiget(c->mc, &one, 1, INT64_MAX, remember, seen);
	assert_int_equal(seen->calls, one.status == MC_OK);
	return one.status;
}

static void check_value(struct client *c, const struct mc_key *key, const char *expected)
{
	struct seen seen = {0};
	assert_int_equal(get(c, key, &seen), MC_OK);
	assert_int_equal(seen.len, strlen(expected));
	assert_string_equal((char *)seen.value, expected);
	free(seen.value);
}

static enum mc_status set_text(struct client *c, const struct mc_key *key, const char *text)
{
	return mc_set(c->mc, key, text, strlen(text), 0);
}

/* configuration */

static void no_server(void **state)
{
	(void)state;
	struct client c;
	struct mc_key k = key_of(1);
	struct seen seen = {0};
	client_open(&c, 0, 0, 100 * MS);
	assert_int_equal(get(&c, &k, &seen), MC_DOWN);
	assert_int_equal(mc_set(c.mc, &k, "x", 1, 0), MC_DOWN);
	assert_int_equal(mc_add(c.mc, &k, "x", 1, 0), MC_DOWN);
	assert_int_equal(mc_renew(c.mc, &k, "x", 1, 0), MC_DOWN);
	assert_int_equal(mc_delete(c.mc, &k), MC_DOWN);
	assert_false(mc_reachable(c.mc, 1));
	assert_int_equal(mc_servers_count(c.servers), 0);
	client_close(&c);
	mc_client_free(NULL);
	mc_servers_free(NULL);
}

static void server_names(void **state)
{
	(void)state;
	static char good[][120] = {"127.0.0.1:11211", "[::1]:11211", "/run/memcached.sock", "10.0.0.1:1"};
	static char bad[][120] = {"", "localhost:11211", "127.0.0.1", "127.0.0.1:", "127.0.0.1:0", "127.0.0.1:65536",
	        "127.0.0.1:1x", ":11211", "[::1]", "[::1]:", "::1:11211", "[]:1", "[127.0.0.1]:1", "]:1", "[:1",
	        "relative.sock", "1.2.3:1", "127.0.0.1: 1"};
	struct error e;
	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
		struct config config = {.memcached = {.items = {good[i]}, .count = 1}};
		struct mc_servers *s = mc_servers_new(&config, &e);
		assert_non_null(s);
		mc_servers_free(s);
	}
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		struct config config = {.memcached = {.items = {bad[i]}, .count = 1}};
		if (mc_servers_new(&config, &e))
			fail_msg("%s is taken", bad[i]);
		assert_int_equal(e.code, ERR_CONFIG);
	}
	char too_long[109] = "/";
	memset(too_long + 1, 'a', sizeof too_long - 2); /* 108 bytes: one more than the kernel takes */
	struct config long_path = {.memcached = {.items = {too_long}, .count = 1}};
	assert_null(mc_servers_new(&long_path, &e));
	too_long[107] = 0;
	struct mc_servers *s = mc_servers_new(&long_path, &e);
	assert_non_null(s);
	mc_servers_free(s);
	struct config twice = {.memcached = {.items = {good[0], good[1], good[0]}, .count = 3}};
	assert_null(mc_servers_new(&twice, &e));
	assert_non_null(strstr(e.text, "twice"));
}

/* one server */

static void set_get_delete(void **state)
{
	(void)state;
	struct client c;
	struct error e;
	struct seen seen = {0};
	struct mc_key k = key_of(1), other = key_of(2);
	for (unsigned i = 0; i < 2; i++) { /* over TCP and over a unix socket */
		start(&servers[i], NULL, NULL);
		client_open(&c, i, 1, 5 * SECOND);
		assert_int_equal(mc_probe(c.mc, 0, &e), ERR_OK);
		assert_int_equal(get(&c, &k, &seen), MC_MISSING);
		assert_int_equal(set_text(&c, &k, "one"), MC_OK);
		check_value(&c, &k, "one");
		assert_int_equal(set_text(&c, &k, "two"), MC_OK);
		check_value(&c, &k, "two");
		assert_int_equal(set_text(&c, &k, ""), MC_OK);
		check_value(&c, &k, "");
		assert_int_equal(get(&c, &other, &seen), MC_MISSING);
		assert_int_equal(mc_delete(c.mc, &other), MC_MISSING);
		assert_int_equal(mc_delete(c.mc, &k), MC_OK);
		assert_int_equal(get(&c, &k, &seen), MC_MISSING);
		assert_true(mc_reachable(c.mc, k.route));
		client_close(&c);
	}
	free(seen.value);
}

static void leases(void **state)
{
	(void)state;
	struct client c;
	struct seen seen = {0};
	struct mc_key k = key_of(1);
	start(&servers[1], NULL, NULL);
	client_open(&c, 1, 1, 5 * SECOND);
	assert_int_equal(mc_renew(c.mc, &k, "me", 2, 9), MC_MISSING);
	assert_int_equal(mc_add(c.mc, &k, "me", 2, 9), MC_OK);
	assert_int_equal(mc_add(c.mc, &k, "you", 3, 9), MC_EXISTS);
	assert_int_equal(get(&c, &k, &seen), MC_OK);
	uint64_t cas = seen.cas;
	/* Renewing: only by its owner, and seen as a change. */
	assert_int_equal(mc_renew(c.mc, &k, "you", 3, 9), MC_EXISTS);
	assert_int_equal(mc_renew(c.mc, &k, "m", 1, 9), MC_EXISTS);
	assert_int_equal(mc_renew(c.mc, &k, "me", 2, 9), MC_OK);
	assert_int_equal(get(&c, &k, &seen), MC_OK);
	assert_int_not_equal(seen.cas, cas);
	assert_int_equal(mc_set(c.mc, &k, "he", 2, 9), MC_OK);
	check_value(&c, &k, "he");
	/* Releasing: likewise, and at once. */
	assert_int_equal(mc_release(c.mc, &k, "me", 2), MC_EXISTS);
	check_value(&c, &k, "he");
	assert_int_equal(mc_release(c.mc, &k, "he", 2), MC_OK);
	assert_int_equal(get(&c, &k, &seen), MC_MISSING);
	assert_int_equal(mc_release(c.mc, &k, "he", 2), MC_MISSING);
	assert_int_equal(mc_add(c.mc, &k, "you", 3, 9), MC_OK);
	free(seen.value);
	client_close(&c);
}

static void values_expire(void **state)
{
	(void)state;
	struct client c;
	struct seen seen = {0};
	struct mc_key k = key_of(1), lasting = key_of(2), clamped = key_of(3);
	start(&servers[1], NULL, NULL);
	client_open(&c, 1, 1, 5 * SECOND);
	assert_int_equal(mc_set(c.mc, &lasting, "x", 1, 0), MC_OK);
	/* More than 30 days would be a date in 1970. */
	assert_int_equal(mc_set(c.mc, &clamped, "x", 1, 31 * 24 * 3600), MC_OK);
	assert_int_equal(mc_add(c.mc, &k, "x", 1, 1), MC_OK);
	for (int64_t started = clock_now(); get(&c, &k, &seen) == MC_OK; wait_a_bit(started))
		;
	assert_int_equal(mc_add(c.mc, &k, "y", 1, 1), MC_OK);
	check_value(&c, &lasting, "x");
	check_value(&c, &clamped, "x");
	free(seen.value);
	client_close(&c);
}

static void values_of_all_sizes(void **state)
{
	(void)state;
	static const size_t sizes[] = {1, 2, 100, 1023, 8192, 16000, 17200, 65535, 300000, (1 << 20) - 200};
	enum { N = sizeof sizes / sizeof sizes[0] };
	struct client c;
	struct mc_get gets[N];
	struct seen seen[N] = {0};
	uint8_t *value = malloc(1 << 20);
	start(&servers[1], NULL, NULL);
	client_open(&c, 1, 1, 5 * SECOND);
	for (size_t i = 0; i < 1 << 20; i++)
		value[i] = (uint8_t)(i * 31 + (i >> 11)); /* with \r\n, "END" or any other byte in it */
	memcpy(value + 20, "\r\nEND\r\nVALUE x 0 5\r\n", 21);
	for (unsigned i = 0; i < N; i++) {
		gets[i].key = key_of(i);
		assert_int_equal(mc_set(c.mc, &gets[i].key, value, sizes[i], 0), MC_OK);
	}
	mc_multiget(c.mc, gets, N, INT64_MAX, remember, seen);
	for (unsigned i = 0; i < N; i++) {
		assert_int_equal(gets[i].status, MC_OK);
		assert_int_equal(seen[i].len, sizes[i]);
		assert_memory_equal(seen[i].value, value, sizes[i]);
		free(seen[i].value);
	}
	free(value);
	client_close(&c);
}

static void too_large(void **state)
{
	(void)state;
	struct client c;
	struct seen seen = {0};
	struct mc_key k = key_of(1), l = key_of(2);
	char *value = calloc(1, 3 << 20);
	int64_t errors = metric_get(M_MEMCACHED_ERRORS);
	start(&servers[1], NULL, NULL);
	client_open(&c, 1, 1, 5 * SECOND);
	assert_int_equal(set_text(&c, &k, "old"), MC_OK);
	assert_int_equal(mc_set(c.mc, &k, value, 1 << 20, 0), MC_TOO_LARGE);
	assert_int_equal(get(&c, &k, &seen), MC_MISSING);
	assert_int_equal(mc_add(c.mc, &l, value, 3 << 20, 0), MC_TOO_LARGE);
	assert_int_equal(set_text(&c, &k, "new"), MC_OK);
	check_value(&c, &k, "new");
	assert_int_equal(metric_get(M_MEMCACHED_ERRORS), errors);
	free(value);
	free(seen.value);
	client_close(&c);
}

/* A server that has no room and may not evict (-M) fails to store; that is no reason to leave it alone. */
static void out_of_memory_is_not_down(void **state)
{
	(void)state;
	struct client c;
	struct mc_key k = key_of(0);
	char *value = calloc(1, 900000);
	start(&servers[1], "-M", NULL);
	client_open(&c, 1, 1, 5 * SECOND);
	assert_int_equal(set_text(&c, &k, "kept"), MC_OK);
	unsigned refused = 0;
	for (unsigned i = 1; i < 100; i++) {
		struct mc_key large = key_of(i);
		refused += mc_set(c.mc, &large, value, 900000, 0) == MC_DOWN;
	}
	assert_true(refused > 3);
	assert_true(mc_reachable(c.mc, k.route));
	check_value(&c, &k, "kept");
	free(value);
	client_close(&c);
}

/* several servers */

enum { MANY = 1000 };

static void fill(struct client *c, unsigned count)
{
	for (unsigned i = 0; i < count; i++) {
		struct mc_key k = key_of(i);
		assert_int_equal(set_text(c, &k, k.text), MC_OK);
	}
}

/* Gets key_of(0..count); returns how many came. Each must be its own text. */
static unsigned count_hits(struct client *c, unsigned count, enum mc_status otherwise)
{
	static struct mc_get gets[MANY];
	static struct seen seen[MANY];
	unsigned hits = 0;
	memset(seen, 0, sizeof seen);
	for (unsigned i = 0; i < count; i++)
		gets[i] = (struct mc_get){.key = key_of(i)};
	mc_multiget(c->mc, gets, count, INT64_MAX, remember, seen);
	for (unsigned i = 0; i < count; i++) {
		assert_int_equal(seen[i].calls, gets[i].status == MC_OK);
		if (gets[i].status == MC_OK)
			assert_string_equal((char *)seen[i].value, gets[i].key.text);
		else
			assert_int_equal(gets[i].status, otherwise);
		hits += gets[i].status == MC_OK;
		free(seen[i].value);
	}
	return hits;
}

static void thousand_keys_over_three_servers(void **state)
{
	(void)state;
	struct client c, one;
	for (unsigned i = 0; i < 3; i++)
		start(&servers[i], NULL, NULL);
	client_open(&c, 0, 3, 5 * SECOND);
	assert_int_equal(count_hits(&c, MANY, MC_MISSING), 0);
	fill(&c, MANY);
	assert_int_equal(count_hits(&c, MANY, MC_MISSING), MANY);
	/* Missing ones among them. */
	unsigned deleted = 0;
	for (unsigned i = 0; i < MANY; i += 3, deleted++) {
		struct mc_key k = key_of(i);
		assert_int_equal(mc_delete(c.mc, &k), MC_OK);
	}
	assert_int_equal(count_hits(&c, MANY, MC_MISSING), MANY - deleted);
	fill(&c, MANY);
	/* Each server has its share. */
	unsigned sum = 0;
	for (unsigned i = 0; i < 3; i++) {
		client_open(&one, i, 1, 5 * SECOND);
		unsigned share = count_hits(&one, MANY, MC_MISSING);
		assert_in_range(share, 200, 500);
		sum += share;
		client_close(&one);
	}
	assert_int_equal(sum, MANY);
	client_close(&c);
}

/* Values of several servers in each round trip, one of them too large, and one server restarted in between. */
static void many_are_set_together(void **state)
{
	(void)state;
	struct client c;
	struct mc_item items[MC_SET_MAX];
	struct seen seen = {0};
	char *large = calloc(1, 1 << 20);
	for (unsigned i = 0; i < 3; i++)
		start(&servers[i], NULL, NULL);
	client_open(&c, 0, 3, 5 * SECOND);
	int64_t errors = metric_get(M_MEMCACHED_ERRORS);
	for (unsigned at = 0; at < 960; at += MC_SET_MAX) {
		for (unsigned i = 0; i < MC_SET_MAX; i++) {
			struct mc_key k = key_of(at + i);
			items[i] = (struct mc_item){.key = k, .len = k.len, .status = MC_EXISTS};
		}
		for (unsigned i = 0; i < MC_SET_MAX; i++)
			items[i].value = items[i].key.text;
		items[7].value = large;
		items[7].len = 1 << 20;
		if (at == 320) {
			stop(&servers[1]);
			start(&servers[1], NULL, NULL);
		}
		mc_set_many(c.mc, items, MC_SET_MAX);
		for (unsigned i = 0; i < MC_SET_MAX; i++)
			assert_int_equal(items[i].status, i == 7 ? MC_TOO_LARGE : MC_OK);
		for (unsigned i = 0; i < MC_SET_MAX; i++)
			if (i != 7)
				check_value(&c, &items[i].key, items[i].key.text);
			else
				assert_int_equal(get(&c, &items[i].key, &seen), MC_MISSING);
	}
	assert_int_equal(metric_get(M_MEMCACHED_ERRORS), errors);
	mc_set_many(c.mc, items, 0);
	/* of a server that is gone nothing is said to be stored; the others take theirs */
	stop(&servers[1]);
	unsigned stored = 0;
	items[7].len = 1;
	mc_set_many(c.mc, items, MC_SET_MAX);
	for (unsigned i = 0; i < MC_SET_MAX; i++) {
		stored += items[i].status == MC_OK;
		assert_true(items[i].status == MC_OK || items[i].status == MC_DOWN);
	}
	assert_in_range(stored, 1, MC_SET_MAX - 1);
	free(large);
	free(seen.value);
	client_close(&c);
}

/* What a function that is called next finds in its arrays. */
static __attribute__((noinline)) void dirty_stack(void)
{
	volatile char bytes[64 << 10];
	for (size_t i = 0; i < sizeof bytes; i++)
		bytes[i] = (char)0xa5;
}

/* As many servers as there may be, of which only the last one runs. */
static void the_last_of_most_servers(void **state)
{
	(void)state;
	struct config config = {.memcached_connect_timeout = 5 * SECOND, .memcached_timeout = 5 * SECOND};
	char names[CONFIG_LIST_MAX][40];
	struct mc_item items[MC_SET_MAX];
	struct error e;
	start(&servers[0], NULL, NULL);
	config.memcached_item_max = 1 << 20;
	for (unsigned i = 0; i < CONFIG_LIST_MAX; i++) {
		snprintf(names[i], sizeof names[i], "/nonexistent/%u", i);
		config.memcached.items[i] = i < CONFIG_LIST_MAX - 1 ? names[i] : servers[0].name;
	}
	config.memcached.count = CONFIG_LIST_MAX;
	struct client c = {.servers = mc_servers_new(&config, &e)};
	assert_non_null(c.servers);
	c.mc = mc_client_new(c.servers);
	assert_non_null(c.mc);
	unsigned stored = 0;
	for (unsigned at = 0; at < 960; at += MC_SET_MAX) {
		for (unsigned i = 0; i < MC_SET_MAX; i++) {
			struct mc_key k = key_of(at + i);
			items[i] = (struct mc_item){.key = k, .len = k.len};
		}
		for (unsigned i = 0; i < MC_SET_MAX; i++)
			items[i].value = items[i].key.text;
		dirty_stack();
		mc_set_many(c.mc, items, MC_SET_MAX);
		for (unsigned i = 0; i < MC_SET_MAX; i++) {
			assert_true(items[i].status == MC_OK || items[i].status == MC_DOWN);
			if (items[i].status == MC_OK)
				check_value(&c, &items[i].key, items[i].key.text);
			stored += items[i].status == MC_OK;
		}
	}
	assert_in_range(stored, 1, 960 / 8);
	client_close(&c);
}

/* A server without room refuses some of many, and the connection goes on. */
static void some_of_many_are_refused(void **state)
{
	(void)state;
	enum { LARGE = 200000 };
	struct client c;
	struct mc_item items[MC_SET_MAX];
	struct mc_key small = key_of(100000);
	char *value = calloc(1, LARGE);
	unsigned stored = 0, refused = 0;
	start(&servers[1], "-M", NULL);
	client_open(&c, 1, 1, 5 * SECOND);
	assert_int_equal(set_text(&c, &small, "small"), MC_OK);
	for (unsigned round = 0; round < 16; round++) {
		for (unsigned i = 0; i < MC_SET_MAX; i++)
			items[i] = (struct mc_item){key_of(round * MC_SET_MAX + i), value, LARGE, 0, MC_EXISTS};
		mc_set_many(c.mc, items, MC_SET_MAX);
		for (unsigned i = 0; i < MC_SET_MAX; i++) {
			stored += items[i].status == MC_OK;
			refused += items[i].status == MC_DOWN;
		}
	}
	assert_int_equal(stored + refused, 16 * MC_SET_MAX);
	assert_true(stored > 0 && refused > 0);
	assert_true(mc_reachable(c.mc, small.route));
	check_value(&c, &small, "small");
	free(value);
	client_close(&c);
}

/* What no memcached says: the connection is closed, and nothing of it is believed. */
static const char *const nonsense[] = {
        "VALUE 1:p:Key-1_ 0 3\r\none\r\nEND\r\n",                         /* no number to compare by */
        "VALUE 1:p:Key-2_ 0 3 7\r\ntwo\r\nEND\r\n",                       /* another key */
        "VALUE 1:p:Key-1_ 0 4 7\r\none\r\nEND\r\n",                       /* longer than it is */
        "VALUE 1:p:Key-1_ 0 2 7\r\none\r\nEND\r\n",                       /* shorter */
        "VALUE 1:p:Key-1_ 0 99999999999999999999999 7\r\none\r\nEND\r\n", /* a length that is no number */
        "VALUE 1:p:Key-1_ 0 18446744073709551615 7\r\none\r\nEND\r\n",
        "VALUE 1:p:Key-1_ 0 18446744073709551614 7\r\nEND\r\n", /* with the end of its line, no byte at all */
        "VALUE 1:p:Key-1_ 0 -3 7\r\none\r\nEND\r\n",
        "VALUE \r\n\r\nEND\r\n",
        "VALUX 1:p:Key-1_ 0 3 7\r\nbad\r\nEND\r\n", /* another word */
        "VALU\r\nEND\r\n",
        "VALUE 0 0 0\r\n\r\nEND\r\n",
        "END\n",
        "\r\n",
        "STORED\r\n",
        "ERROR\r\n",
        "",
};

struct liar {
	int listener;
	unsigned next;
	atomic_uint calls;
};

/* Answers one call on each connection, then waits for its end. */
static void *lie(void *arg)
{
	struct liar *l = arg;
	for (;;) {
		char buffer[1000];
		int fd = accept(l->listener, NULL, NULL);
		if (fd < 0)
			return NULL;
		if (read(fd, buffer, sizeof buffer) > 0) {
			const char *text = nonsense[l->next];
			atomic_fetch_add(&l->calls, 1);
			assert_int_equal(write(fd, text, strlen(text)), (ssize_t)strlen(text));
			shutdown(fd, SHUT_WR);
			while (read(fd, buffer, sizeof buffer) > 0)
				;
		}
		close(fd);
	}
}

static void nonsense_is_not_believed(void **state)
{
	(void)state;
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct client c;
	struct liar liar = {.listener = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)};
	struct mc_key k = key_of(1);
	pthread_t thread;
	strcpy(un.sun_path, servers[3].name);
	unlink(un.sun_path);
	assert_int_equal(bind(liar.listener, (struct sockaddr *)&un, sizeof un), 0);
	assert_int_equal(listen(liar.listener, 5), 0);
	assert_int_equal(pthread_create(&thread, NULL, lie, &liar), 0);
	for (unsigned i = 0; i < sizeof nonsense / sizeof *nonsense; i++) {
		struct mc_get one = {.key = k};
		struct seen seen = {0};
		liar.next = i;
		client_open(&c, 3, 1, LONGEST * SECOND);
		mc_multiget(c.mc, &one, 1, INT64_MAX, remember, &seen);
		if (one.status == MC_OK) /* the value was whole before the nonsense began */
			assert_true(seen.len == 3 && memcmp(seen.value, "one", 3) == 0);
		else
			assert_int_equal(one.status, MC_DOWN);
		assert_int_equal(atomic_load(&liar.calls), i + 1);
		free(seen.value);
		client_close(&c);
	}
	shutdown(liar.listener, SHUT_RDWR);
	pthread_join(thread, NULL);
	close(liar.listener);
}

/* A fetch that goes on and on is left in the middle of an answer; what was on its way must not reach the next call. */
static void long_fetch_is_left(void **state)
{
	(void)state;
	enum { LARGE = 900000, N = 100 };
	struct client writer, reader;
	struct mc_get gets[N];
	struct seen seen[N] = {0};
	struct mc_key small = key_of(N);
	char *value = malloc(LARGE);
	unsigned lost = 0;
	start(&servers[1], "-m", "512");
	client_open(&writer, 1, 1, 5 * SECOND);
	memset(value, 'v', LARGE);
	for (unsigned i = 0; i < N; i++) {
		gets[i].key = key_of(i);
		assert_int_equal(mc_set(writer.mc, &gets[i].key, value, LARGE, 0), MC_OK);
	}
	assert_int_equal(set_text(&writer, &small, "small"), MC_OK);
	/* Single waits of 1 ms, hence 10 ms for 90 MB. */
	client_open(&reader, 1, 1, MS);
	mc_multiget(reader.mc, gets, N, INT64_MAX, remember, seen);
	for (unsigned i = 0; i < N; i++) {
		assert_true(gets[i].status == MC_OK || gets[i].status == MC_DOWN);
		lost += gets[i].status == MC_DOWN;
		free(seen[i].value);
	}
	assert_true(lost > 0);
	struct seen last = {0};
	for (int64_t started = clock_now(); get(&reader, &small, &last) == MC_DOWN;)
		wait_a_bit(started);
	assert_string_equal((char *)last.value, "small");
	free(last.value);
	free(value);
	client_close(&reader);
	client_close(&writer);
}

static void equal_routes_are_together(void **state)
{
	(void)state;
	struct client c, one;
	for (unsigned i = 0; i < 3; i++)
		start(&servers[i], NULL, NULL);
	client_open(&c, 0, 3, 5 * SECOND);
	struct mc_get gets[50];
	struct seen seen[50];
	for (unsigned i = 0; i < 50; i++) {
		gets[i].key = key_of(i);
		gets[i].key.route = 12345;
		assert_int_equal(mc_set(c.mc, &gets[i].key, "x", 1, 0), MC_OK);
	}
	unsigned with_all = 0;
	for (unsigned i = 0; i < 3; i++) {
		unsigned hits = 0;
		client_open(&one, i, 1, 5 * SECOND);
		memset(seen, 0, sizeof seen);
		mc_multiget(one.mc, gets, 50, INT64_MAX, remember, seen);
		for (unsigned k = 0; k < 50; k++) {
			hits += gets[k].status == MC_OK;
			free(seen[k].value);
		}
		assert_true(hits == 0 || hits == 50);
		with_all += hits == 50;
		client_close(&one);
	}
	assert_int_equal(with_all, 1);
	client_close(&c);
}

/* One server more, and another order: about a quarter of the keys move, and only to it. */
static void ring_is_stable(void **state)
{
	(void)state;
	struct client c, more;
	struct error e;
	for (unsigned i = 0; i < 4; i++)
		start(&servers[i], NULL, NULL);
	client_open(&c, 0, 3, 5 * SECOND);
	fill(&c, MANY);
	memset(&more, 0, sizeof more);
	more.config = c.config;
	more.config.memcached = (struct config_list){
	        .items = {servers[2].name, servers[3].name, servers[0].name, servers[1].name}, .count = 4};
	more.servers = mc_servers_new(&more.config, &e);
	assert_non_null(more.servers);
	more.mc = mc_client_new(more.servers);
	assert_in_range(count_hits(&more, MANY, MC_MISSING), 650, 850);
	client_close(&more);
	client_close(&c);
}

static void repeated_keys(void **state)
{
	(void)state;
	struct client c;
	struct mc_get gets[500];
	struct seen seen[500] = {0};
	for (unsigned i = 0; i < 2; i++)
		start(&servers[i], NULL, NULL);
	client_open(&c, 0, 2, 5 * SECOND);
	fill(&c, 5);
	for (unsigned i = 0; i < 500; i++)
		gets[i].key = key_of(i % 7); /* 5 and 6 are missing */
	mc_multiget(c.mc, gets, 500, INT64_MAX, remember, seen);
	for (unsigned i = 0; i < 500; i++) {
		assert_int_equal(gets[i].status, i % 7 < 5 ? MC_OK : MC_MISSING);
		assert_int_equal(seen[i].calls, i % 7 < 5);
		if (seen[i].calls)
			assert_string_equal((char *)seen[i].value, gets[i].key.text);
		free(seen[i].value);
	}
	mc_multiget(c.mc, gets, 0, INT64_MAX, remember, NULL);
	client_close(&c);
}

/* servers in trouble */

static int64_t timed_get(struct client *c, const struct mc_key *key, enum mc_status expected)
{
	struct seen seen = {0};
	int64_t started = clock_now();
	assert_int_equal(get(c, key, &seen), expected);
	free(seen.value);
	return clock_now() - started;
}

static void stopped_server(void **state)
{
	(void)state;
	const int64_t timeout = 3 * SECOND; /* longer than a busy machine holds the server up */
	struct client c;
	struct error e = {0};
	struct mc_key k = key_of(1);
	int64_t opened = metric_get(M_MEMCACHED_BREAKER_OPEN), errors = metric_get(M_MEMCACHED_ERRORS);
	start(&servers[1], NULL, NULL);
	client_open(&c, 1, 1, timeout);
	assert_int_equal(set_text(&c, &k, "x"), MC_OK);
	kill(servers[1].pid, SIGSTOP);
	waitpid(servers[1].pid, NULL, WUNTRACED);
	/* Two calls wait, one of each kind; then nobody does. */
	assert_in_range(timed_get(&c, &k, MC_DOWN), timeout - 10 * MS, timeout + LONGEST * SECOND);
	assert_true(mc_reachable(c.mc, k.route));
	int64_t started = clock_now();
	assert_int_equal(set_text(&c, &k, "y"), MC_DOWN);
	assert_in_range(clock_now() - started, timeout - 10 * MS, timeout + LONGEST * SECOND);
	assert_int_equal(metric_get(M_MEMCACHED_BREAKER_OPEN), opened + 1);
	assert_int_equal(metric_get(M_MEMCACHED_ERRORS), errors + 2);
	assert_false(mc_reachable(c.mc, k.route));
	/* A thousand calls, and at least 2.5 s: those that may try wait, about one in a second; all others are
	 * immediate. */
	unsigned calls = 0;
	int64_t elapsed = 0;
	errors = metric_get(M_MEMCACHED_ERRORS);
	for (started = clock_now(); elapsed < 2500 * MS || (calls < 1000 && elapsed < 60 * SECOND); calls++) {
		timed_get(&c, &k, MC_DOWN);
		elapsed = clock_now() - started;
	}
	assert_in_range(metric_get(M_MEMCACHED_ERRORS) - errors, 1, elapsed / SECOND + 1);
	assert_true(calls >= 1000);
	assert_int_equal(metric_get(M_MEMCACHED_BREAKER_OPEN), opened + 1);
	assert_int_equal(mc_add(c.mc, &k, "z", 1, 0), MC_DOWN);
	assert_int_equal(mc_release(c.mc, &k, "z", 1), MC_DOWN);
	assert_int_equal(mc_delete(c.mc, &k), MC_DOWN);
	assert_int_equal(mc_probe(c.mc, 0, &e), ERR_UNAVAILABLE);
	assert_non_null(strstr(e.text, servers[1].name));
	/* It comes back by itself, within the pause between two tries. */
	kill(servers[1].pid, SIGCONT);
	struct seen seen = {0};
	for (started = clock_now(); get(&c, &k, &seen) == MC_DOWN; wait_a_bit(started))
		;
	assert_true(clock_now() - started < LONGEST * SECOND);
	assert_true(mc_reachable(c.mc, k.route));
	assert_int_equal(set_text(&c, &k, "back"), MC_OK);
	check_value(&c, &k, "back");
	assert_int_equal(mc_probe(c.mc, 0, &e), ERR_OK);
	free(seen.value);
	client_close(&c);
}

/* The others are not held up: theirs all come, and in the time of one wait. */
static void one_of_three_is_stopped(void **state)
{
	(void)state;
	const int64_t timeout = 3 * SECOND;
	struct client c, one;
	for (unsigned i = 0; i < 3; i++)
		start(&servers[i], NULL, NULL);
	client_open(&c, 0, 3, timeout);
	fill(&c, MANY);
	client_open(&one, 1, 1, 5 * SECOND);
	unsigned share = count_hits(&one, MANY, MC_MISSING);
	client_close(&one);
	kill(servers[1].pid, SIGSTOP);
	waitpid(servers[1].pid, NULL, WUNTRACED);
	for (unsigned round = 0; round < 4; round++) {
		int64_t started = clock_now();
		assert_int_equal(count_hits(&c, MANY, MC_DOWN), MANY - share);
		assert_true(clock_now() - started < 2 * timeout + LONGEST * SECOND);
	}
	kill(servers[1].pid, SIGCONT);
	int64_t started = clock_now();
	while (count_hits(&c, MANY, MC_DOWN) != MANY)
		wait_a_bit(started);
	client_close(&c);
}

static void killed_and_restarted(void **state)
{
	(void)state;
	struct client c;
	struct error e;
	struct seen seen = {0};
	struct mc_key k = key_of(1);
	for (unsigned i = 0; i < 2; i++) { /* over TCP and over a unix socket */
		start(&servers[i], NULL, NULL);
		client_open(&c, i, 1, LONGEST * SECOND);
		assert_int_equal(set_text(&c, &k, "x"), MC_OK);
		stop(&servers[i]);
		for (unsigned round = 0; round < 20; round++)
			assert_true(timed_get(&c, &k, MC_DOWN) < LONGEST / 2 * SECOND);
		assert_int_equal(set_text(&c, &k, "x"), MC_DOWN);
		assert_int_equal(mc_probe(c.mc, 0, &e), ERR_UNAVAILABLE);
		start(&servers[i], NULL, NULL);
		int64_t started = clock_now();
		while (set_text(&c, &k, "y") != MC_OK)
			wait_a_bit(started);
		check_value(&c, &k, "y");
		client_close(&c);
	}
	free(seen.value);
}

/* Between two calls: the call over the dead connection is made again, whichever it is. */
static void restart_between_calls_is_not_seen(void **state)
{
	(void)state;
	struct client c;
	struct error e;
	struct seen seen = {0};
	struct mc_key k = key_of(1);
	start(&servers[1], NULL, NULL);
	client_open(&c, 1, 1, 5 * SECOND);
	for (unsigned kind = 0; kind < 6; kind++) {
		assert_int_equal(set_text(&c, &k, "x"), MC_OK);
		stop(&servers[1]);
		start(&servers[1], NULL, NULL);
		if (kind == 0)
			assert_int_equal(get(&c, &k, &seen), MC_MISSING);
		else if (kind == 1)
			assert_int_equal(set_text(&c, &k, "y"), MC_OK);
		else if (kind == 2)
			assert_int_equal(mc_add(c.mc, &k, "y", 1, 0), MC_OK);
		else if (kind == 3)
			assert_int_equal(mc_delete(c.mc, &k), MC_MISSING);
		else if (kind == 4)
			assert_int_equal(mc_renew(c.mc, &k, "x", 1, 0), MC_MISSING);
		else
			assert_int_equal(mc_probe(c.mc, 0, &e), ERR_OK);
	}
	free(seen.value);
	client_close(&c);
}

/* A value of "stats", asked over a connection that is then closed. */
static long long stat_of(const struct server *s, const char *name)
{
	char reply[8192] = "", line[100];
	int fd = dial(s->name);
	size_t have = 0;
	assert_true(fd >= 0);
	assert_int_equal(write(fd, "stats\r\n", 7), 7);
	for (ssize_t n; !strstr(reply, "END\r\n") && (n = read(fd, reply + have, sizeof reply - 1 - have)) > 0;
	        reply[have] = 0)
		have += (size_t)n;
	close(fd);
	snprintf(line, sizeof line, "STAT %s ", name);
	const char *at = strstr(reply, line);
	assert_non_null(at);
	return atoll(at + strlen(line));
}

/* memcached does so over TCP only. */
static void idle_connection_closed_by_the_server(void **state)
{
	(void)state;
	struct client c;
	struct mc_key k = key_of(1);
	start(&servers[0], "-o", "idle_timeout=1");
	client_open(&c, 0, 1, 5 * SECOND);
	assert_int_equal(set_text(&c, &k, "x"), MC_OK);
	for (int64_t started = clock_now(); stat_of(&servers[0], "idle_kicks") == 0;)
		wait_a_bit(started);
	int64_t errors = metric_get(M_MEMCACHED_ERRORS);
	check_value(&c, &k, "x");
	assert_int_equal(metric_get(M_MEMCACHED_ERRORS), errors);
	client_close(&c);
}

struct adder {
	struct client *client;
	enum mc_status status;
};

static void *add_in_thread(void *arg)
{
	struct adder *a = arg;
	struct mc_key k = key_of(1);
	a->status = mc_add(a->client->mc, &k, "token", 5, 60);
	return NULL;
}

/* The server takes the add after the client has given it up, and before it reads back: the lease is ours, and we must
 * know. */
static void add_that_was_late_is_ours(void **state)
{
	(void)state;
	struct client c;
	struct mc_key k = key_of(1);
	struct adder adder = {.client = &c};
	pthread_t thread;
	start(&servers[1], NULL, NULL);
	client_open(&c, 1, 1, 5 * SECOND); /* as long the server has to go on when the add is seen to have failed */
	assert_int_equal(mc_delete(c.mc, &k), MC_MISSING); /* connected */
	int64_t errors = metric_get(M_MEMCACHED_ERRORS), started = clock_now();
	kill(servers[1].pid, SIGSTOP);
	waitpid(servers[1].pid, NULL, WUNTRACED);
	pthread_create(&thread, NULL, add_in_thread, &adder);
	while (metric_get(M_MEMCACHED_ERRORS) == errors)
		wait_a_bit(started);
	kill(servers[1].pid, SIGCONT);
	pthread_join(thread, NULL);
	assert_int_equal(adder.status, MC_OK);
	check_value(&c, &k, "token");
	client_close(&c);
}

/* Several threads while servers are paused, killed and restarted: values may be missing, never wrong. */

enum { SOAK_THREADS = 4, SOAK_KEYS = 300, SOAK_ROUNDS = 6 };

struct soaker {
	pthread_t thread;
	struct mc_servers *servers;
	unsigned number;
};
static atomic_bool soak_over;
static atomic_ullong soak_good, soak_wrong, soak_owners;
static atomic_int lease_held; /* by how many threads at one time */

struct soak_get {
	struct mc_get gets[SOAK_KEYS];
};

static void check_soaked(void *arg, size_t index, const uint8_t *value, size_t len, uint64_t cas)
{
	struct soak_get *g = arg;
	const struct mc_key *k = &g->gets[index].key;
	(void)cas;
	bool right = len >= 2000 && memcmp(value, k->text, k->len) == 0 &&
	             memcmp(value + len - k->len, k->text, k->len) == 0;
	atomic_fetch_add(right ? &soak_good : &soak_wrong, 1);
}

static void soak_set(struct mc_client *mc, unsigned n)
{
	char value[4000];
	struct mc_key k = key_of(n);
	size_t len = 2000 + n * 5;
	memset(value, 'v', sizeof value);
	memcpy(value, k.text, k.len);
	memcpy(value + len - k.len, k.text, k.len);
	mc_set(mc, &k, value, len, 0);
}

/* A lease that was got is given back, so that there is never more than one owner. Servers that forget it are not part
 * of this: it lies on one that is only paused. */
static void soak_lease(struct soaker *s, struct mc_client *mc)
{
	char token[20];
	struct mc_key k = key_of(100000);
	int len = snprintf(token, sizeof token, "t%u", s->number);
	if (mc_add(mc, &k, token, (size_t)len, 60) != MC_OK)
		return;
	if (atomic_fetch_add(&lease_held, 1) != 0)
		atomic_fetch_add(&soak_wrong, 1);
	atomic_fetch_add(&soak_owners, 1);
	atomic_fetch_sub(&lease_held, 1);
	/* Until it is known to be gone; after MC_DOWN it may or may not be. */
	for (int64_t started = clock_now(); clock_now() - started < LONGEST * SECOND;)
		if (mc_release(mc, &k, token, (size_t)len) != MC_DOWN)
			break;
}

static void *soak(void *arg)
{
	struct soaker *s = arg;
	struct soak_get *g = calloc(1, sizeof *g);
	struct mc_client *mc = mc_client_new(s->servers);
	for (unsigned n = s->number; !atomic_load(&soak_over); n++) {
		for (unsigned i = 0; i < SOAK_KEYS; i++)
			g->gets[i].key = key_of((i + n) % SOAK_KEYS);
		mc_multiget(mc, g->gets, SOAK_KEYS, INT64_MAX, check_soaked, g);
		for (unsigned i = 0; i < 20; i++)
			soak_set(mc, (n * 20 + i) % SOAK_KEYS);
		soak_lease(s, mc);
	}
	mc_client_free(mc);
	free(g);
	return NULL;
}

/* The server, of the first two, on which the lease lies. */
static unsigned lease_server(void)
{
	struct mc_key k = key_of(100000);
	struct client both, first;
	struct seen seen = {0};
	client_open(&both, 1, 2, 5 * SECOND);
	assert_int_equal(set_text(&both, &k, "x"), MC_OK);
	client_open(&first, 1, 1, 5 * SECOND);
	unsigned server = get(&first, &k, &seen) == MC_OK ? 1 : 2;
	client_close(&first);
	assert_int_equal(mc_delete(both.mc, &k), MC_OK);
	client_close(&both);
	free(seen.value);
	return server;
}

/* Until the threads have read `more` values. */
static void wait_for_values(uint64_t more)
{
	uint64_t before = atomic_load(&soak_good);
	for (int64_t started = clock_now(); atomic_load(&soak_good) < before + more;)
		wait_a_bit(started);
}

static void wait_for_errors(int64_t before)
{
	for (int64_t started = clock_now(); metric_get(M_MEMCACHED_ERRORS) <= before;)
		wait_a_bit(started);
}

static void trouble_never_gives_wrong_values(void **state)
{
	(void)state;
	struct client c;
	struct soaker soakers[SOAK_THREADS];
	start(&servers[1], NULL, NULL);
	start(&servers[2], NULL, NULL);
	client_open(&c, 1, 2, 100 * MS);
	struct server *paused = &servers[lease_server()], *killed = paused == &servers[1] ? &servers[2] : &servers[1];
	for (unsigned i = 0; i < SOAK_THREADS; i++) {
		soakers[i] = (struct soaker){.servers = c.servers, .number = i};
		assert_int_equal(pthread_create(&soakers[i].thread, NULL, soak, &soakers[i]), 0);
	}
	for (unsigned round = 0; round < SOAK_ROUNDS; round++) {
		wait_for_values(2000);
		int64_t errors = metric_get(M_MEMCACHED_ERRORS);
		kill(paused->pid, SIGSTOP);
		wait_for_errors(errors + round % 3);
		kill(paused->pid, SIGCONT);
		wait_for_values(200);
		stop(killed);
		start(killed, NULL, NULL);
	}
	wait_for_values(2000);
	atomic_store(&soak_over, true);
	for (unsigned i = 0; i < SOAK_THREADS; i++)
		pthread_join(soakers[i].thread, NULL);
	assert_int_equal(atomic_load(&soak_wrong), 0);
	assert_true(atomic_load(&soak_owners) > 0);
	client_close(&c);
}

/* pages */

/* A map of one code page and one string page, which are empty and start there. */
static struct module *small_module(uint64_t first_address, uint32_t first_string)
{
	static const struct module_hash hash = {"a module's hash"};
	struct offmap *map = calloc(1, sizeof *map);
	assert_non_null(map);
	*map = (struct offmap){.generation = 7,
	        .code_count = 1,
	        .string_count = 1,
	        .code_first = calloc(1, sizeof *map->code_first),
	        .string_first = calloc(1, sizeof *map->string_first),
	        .code = calloc(1, sizeof(struct page *)),
	        .strings = calloc(1, sizeof(struct page *))};
	map->code[0] = page_new(PAGE_CODE, 24);
	map->strings[0] = page_new(PAGE_STRINGS, 8);
	memset(map->code[0]->bytes, 0, 24);
	put_u64(map->code[0]->bytes, map->code_first[0] = first_address);
	put_u32(put_u32(map->strings[0]->bytes, map->string_first[0] = first_string), 0);
	struct module *m = module_new(&hash, map, LIFE_LOADED);
	assert_non_null(m);
	return m;
}

static void store_both(struct client *c, struct module *m)
{
	const struct store_options options = {CODEC_RAW, 1 << 20, 0, 0};
	struct page_store *store = page_store_new(c->mc, m, &options, NULL, NULL);
	assert_non_null(store);
	assert_int_equal(page_store_page(store, 0, m->map->strings[0]), MC_OK);
	assert_int_equal(page_store_page(store, 0, m->map->code[0]), MC_OK);
	assert_int_equal(page_store_flush(store), MC_OK);
	assert_true(page_store_free(store) > 0);
}

/* How many of the two pages that are stored are believed to be those of a map with these firsts. */
static unsigned fetch_pages(struct client *c, uint64_t first_address, uint32_t first_string)
{
	struct module *m = small_module(first_address, first_string);
	struct page_get gets[] = {{m, 0, PAGE_CODE, NULL}, {m, 0, PAGE_STRINGS, NULL}}, *both[] = {gets, gets + 1};
	uint64_t bytes;
	assert_true(page_memcached_pages(c->mc, both, 2, UINT64_MAX, INT64_MAX, &bytes));
	unsigned found = (gets[0].page != NULL) + (gets[1].page != NULL);
	page_unref(gets[0].page);
	page_unref(gets[1].page);
	module_unref(m);
	return found;
}

static void a_page_that_starts_elsewhere_is_lost(void **state)
{
	(void)state;
	struct client c;
	start(&servers[0], NULL, NULL);
	client_open(&c, 0, 1, LONGEST * SECOND);
	struct module *m = small_module(0x1000, 1);
	store_both(&c, m);
	module_unref(m);
	assert_int_equal(fetch_pages(&c, 0x1000, 1), 2);
	assert_int_equal(fetch_pages(&c, 0x1001, 1), 1);
	assert_int_equal(fetch_pages(&c, 0x1000, 2), 1);
	client_close(&c);
}

static void pages_of_more_than_may_be_taken(void **state)
{
	(void)state;
	struct client c;
	uint64_t bytes;
	start(&servers[0], NULL, NULL);
	client_open(&c, 0, 1, LONGEST * SECOND);
	struct module *m = small_module(0x1000, 1);
	store_both(&c, m);
	const uint64_t both = m->map->code[0]->len + m->map->strings[0]->len;
	for (unsigned lacking = 0; lacking < 2; lacking++) {
		struct page_get gets[] = {{m, 0, PAGE_CODE, NULL}, {m, 0, PAGE_STRINGS, NULL}};
		struct page_get *each[] = {gets, gets + 1};
		assert_int_equal(page_memcached_pages(c.mc, each, 2, both - lacking, INT64_MAX, &bytes), !lacking);
		assert_int_equal(!gets[0].page + !gets[1].page, lacking);
		page_unref(gets[0].page);
		page_unref(gets[1].page);
	}
	module_unref(m);
	client_close(&c);
}

/* memcached_item_max is memcached's own limit (-I), for which it counts more than key and value. */
static void what_memcached_counts_of_an_item_is_below_the_limit(void **state)
{
	(void)state;
	struct client c;
	struct store_options options = {CODEC_RAW, 1, 0, 0};
	start(&servers[0], NULL, NULL);
	client_open(&c, 0, 1, LONGEST * SECOND);
	struct module *m = small_module(0x1000, 1);
	while (page_memcached_store(c.mc, m, &options, 0, m->map->code[0]) == MC_TOO_LARGE)
		options.item_max++;
	assert_in_range(options.item_max - (uint64_t)stat_of(&servers[0], "bytes"), 0, 8);
	module_unref(m);
	client_close(&c);
}

static void a_page_that_is_not_stored_is_told(void **state)
{
	(void)state;
	struct client c;
	const struct store_options options = {CODEC_RAW, 4 << 20, 0, 0};
	start(&servers[0], NULL, NULL);
	client_open(&c, 0, 1, LONGEST * SECOND);
	struct module *m = small_module(0x1000, 1);
	struct page *large = page_new(PAGE_CODE, 1 << 20);
	memset(large->bytes, 0, 1 << 20);
	assert_int_equal(page_memcached_store(c.mc, m, &options, 0, large), MC_TOO_LARGE);
	assert_int_equal(page_memcached_store(c.mc, m, &options, 0, m->map->code[0]), MC_OK);
	stop(&servers[0]);
	assert_int_equal(page_memcached_store(c.mc, m, &options, 0, m->map->code[0]), MC_DOWN);
	page_unref(large);
	module_unref(m);
	client_close(&c);
}

/* Debian's memcached makes its unix socket for its own user and group. */
static void socket_without_permission_is_told(void **state)
{
	(void)state;
	char path[300], log[300], text[4000] = "";
	struct sockaddr_un un = {.sun_family = AF_UNIX};
	struct error e = {0};
	uid_t user = geteuid();
	snprintf(path, sizeof path, "%s/closed.sock", directory);
	snprintf(log, sizeof log, "%s/closed.log", directory);
	struct config c = {.memcached_connect_timeout = SECOND,
	        .memcached_timeout = SECOND,
	        .memcached = {.items = {path}, .count = 1}};
	int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
	strcpy(un.sun_path, path);
	assert_int_equal(bind(fd, (struct sockaddr *)&un, sizeof un), 0);
	assert_int_equal(listen(fd, 5), 0);
	assert_int_equal(chmod(path, 0), 0);
	assert_int_equal(chmod(directory, 0755), 0);
	assert_int_equal(log_open(log, LOG_LEVEL_INFO, &e), ERR_OK);
	struct mc_servers *s = mc_servers_new(&c, &e);
	struct mc_client *client = mc_client_new(s);
	if (user == 0)
		assert_int_equal(seteuid(65534), 0);
	enum err err[2] = {mc_probe(client, 0, &e), mc_probe(client, 0, &e)};
	if (user == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(err[0], ERR_UNAVAILABLE);
	assert_int_equal(err[1], ERR_UNAVAILABLE);
	assert_non_null(strstr(e.text, "closed.sock does not answer: Permission denied"));
	assert_int_equal(log_open(NULL, LOG_LEVEL_ERROR, &e), ERR_OK);
	FILE *in = fopen(log, "r");
	assert_non_null(in);
	assert_true(fread(text, 1, sizeof text - 1, in) > 0);
	fclose(in);
	assert_non_null(strstr(text, "memcached gone"));
	assert_non_null(strstr(text, "Permission denied (docs/memcached.md"));
	/* once it may be connected to, and only says nothing, that reason is no more */
	assert_int_equal(chmod(path, 0777), 0);
	int64_t started = clock_now();
	while (mc_probe(client, 0, &e) == ERR_UNAVAILABLE && strstr(e.text, "Permission denied"))
		wait_a_bit(started);
	assert_non_null(strstr(e.text, "closed.sock does not answer"));
	mc_client_free(client);
	mc_servers_free(s);
	close(fd);
	/* and one that is not there */
	unlink(path);
	s = mc_servers_new(&c, &e);
	client = mc_client_new(s);
	assert_int_equal(mc_probe(client, 0, &e), ERR_UNAVAILABLE);
	assert_non_null(strstr(e.text, "closed.sock does not answer: No such file"));
	assert_null(strstr(e.text, "which group"));
	mc_client_free(client);
	mc_servers_free(s);
}

int main(void)
{
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_teardown(no_server, after_each),
	        cmocka_unit_test_teardown(server_names, after_each),
	        cmocka_unit_test_teardown(set_get_delete, after_each),
	        cmocka_unit_test_teardown(leases, after_each),
	        cmocka_unit_test_teardown(values_expire, after_each),
	        cmocka_unit_test_teardown(values_of_all_sizes, after_each),
	        cmocka_unit_test_teardown(too_large, after_each),
	        cmocka_unit_test_teardown(out_of_memory_is_not_down, after_each),
	        cmocka_unit_test_teardown(thousand_keys_over_three_servers, after_each),
	        cmocka_unit_test_teardown(many_are_set_together, after_each),
	        cmocka_unit_test_teardown(the_last_of_most_servers, after_each),
	        cmocka_unit_test_teardown(some_of_many_are_refused, after_each),
	        cmocka_unit_test_teardown(nonsense_is_not_believed, after_each),
	        cmocka_unit_test_teardown(long_fetch_is_left, after_each),
	        cmocka_unit_test_teardown(equal_routes_are_together, after_each),
	        cmocka_unit_test_teardown(ring_is_stable, after_each),
	        cmocka_unit_test_teardown(repeated_keys, after_each),
	        cmocka_unit_test_teardown(stopped_server, after_each),
	        cmocka_unit_test_teardown(one_of_three_is_stopped, after_each),
	        cmocka_unit_test_teardown(socket_without_permission_is_told, after_each),
	        cmocka_unit_test_teardown(killed_and_restarted, after_each),
	        cmocka_unit_test_teardown(restart_between_calls_is_not_seen, after_each),
	        cmocka_unit_test_teardown(idle_connection_closed_by_the_server, after_each),
	        cmocka_unit_test_teardown(add_that_was_late_is_ours, after_each),
	        cmocka_unit_test_teardown(trouble_never_gives_wrong_values, after_each),
	        cmocka_unit_test_teardown(a_page_that_starts_elsewhere_is_lost, after_each),
	        cmocka_unit_test_teardown(what_memcached_counts_of_an_item_is_below_the_limit, after_each),
	        cmocka_unit_test_teardown(a_page_that_is_not_stored_is_told, after_each),
	        cmocka_unit_test_teardown(pages_of_more_than_may_be_taken, after_each),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
