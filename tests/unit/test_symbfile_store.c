/* SPDX-License-Identifier: Apache-2.0 */
/* The store of symbfiles in a directory: what is durable when, what is listed, what a killed process leaves. The same
 * rules over S3 are in tests/wire/test_symbfile_store.py. */
#include <config.h>

#include "uploads/store.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "base/clock.h"

static const struct file_id id = {
        {0x00, 0x11, 0x22, 0x33, 0x44, 0x55, 0x66, 0x77, 0x88, 0x99, 0xaa, 0xbb, 0xcc, 0xdd, 0xee, 0xff}};
#define HEX "00112233445566778899aabbccddeeff"

/* What the store does to names and disks, in its order: these stand in for the C library's. */

static char events[10000];
static bool recording, fsync_fails;

static void note(const char *what, const char *path)
{
	size_t len = strlen(events);
	const char *below = strstr(path, "symbfiles");
	if (recording)
		snprintf(events + len, sizeof events - len, "%s %s\n", what, below ? below : ".");
}

static void note_fd(const char *what, int fd)
{
	char link[64], path[4096];
	snprintf(link, sizeof link, "/proc/self/fd/%d", fd);
	ssize_t n = readlink(link, path, sizeof path - 1);
	path[n > 0 ? n : 0] = 0;
	/* Their names are random. */
	note(what, strstr(path, ".tmp/") ? "symbfiles/temporary" : path);
}

int fsync(int fd)
{
	note_fd("fsync", fd);
	if (fsync_fails) {
		errno = EIO;
		return -1;
	}
	return (int)syscall(SYS_fsync, fd);
}

int renameat(int from_fd, const char *from, int to_fd, const char *to)
{
	note("rename", to);
	return (int)syscall(SYS_renameat2, from_fd, from, to_fd, to, 0);
}

/* the store */

struct place {
	char directory[64], url[128];
	struct config config;
	struct symbfile_store *store;
	struct store_client *client;
};

static void place_open(struct place *p)
{
	struct error e = {0};
	p->config = (struct config){
	        .symbfile_store = p->url, .bucket_total_timeout = 60 * SECOND, .bucket_max_size = 1 << 30};
	p->store = symbfile_store_new(&p->config, &e);
	if (!p->store)
		fail_msg("%s", e.text);
	p->client = store_client_new(p->store);
	assert_non_null(p->client);
}

static void place_close(struct place *p)
{
	store_client_free(p->client);
	symbfile_store_free(p->store);
}

static int setup(void **state)
{
	struct place *p = calloc(1, sizeof *p);
	strcpy(p->directory, "/tmp/test-store-XXXXXX");
	if (!mkdtemp(p->directory))
		return -1;
	snprintf(p->url, sizeof p->url, "file://%s", p->directory);
	place_open(p);
	*state = p;
	return 0;
}

static int remove_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)st;
	(void)kind;
	(void)ftw;
	return remove(path);
}

static int teardown(void **state)
{
	struct place *p = *state;
	place_close(p);
	nftw(p->directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	free(p);
	return 0;
}

static struct store_key key_of(enum symbfile_kind kind, const char *set, unsigned part, unsigned parts)
{
	return (struct store_key){id, kind, set, part, parts};
}

static enum err put(struct place *p, struct store_key key, const void *data, size_t len, struct error *e)
{
	struct store_put *put = store_put_begin(p->client, &key, NULL, e);
	if (!put)
		return e->code;
	/* In two writes, so that there is something to put together. */
	if (store_put_write(put, data, len / 2, e) ||
	        store_put_write(put, (const char *)data + len / 2, len - len / 2, e)) {
		store_put_abort(put);
		return e->code;
	}
	return store_put_commit(put, e);
}

static void put_text(struct place *p, struct store_key key, const char *text)
{
	struct error e = {0};
	if (put(p, key, text, strlen(text), &e))
		fail_msg("%s", e.text);
}

struct seen {
	struct store_part parts[1000];
	unsigned count, stop;
};

static bool see(void *arg, const struct store_part *part)
{
	struct seen *s = arg;
	assert_true(s->count < 1000);
	s->parts[s->count++] = *part;
	return s->count != s->stop;
}

static void list(struct place *p, struct seen *s)
{
	struct error e = {0};
	s->count = 0;
	if (store_list(p->client, &id, see, s, NULL, &e))
		fail_msg("%s", e.text);
}

struct target {
	char data[400000];
	size_t len, stop;
};

static uint8_t *space(void *arg, size_t *room)
{
	struct target *t = arg;
	*room = sizeof t->data - t->len < 1000 ? sizeof t->data - t->len : 1000;
	return (uint8_t *)t->data + t->len;
}

static bool commit(void *arg, size_t n)
{
	struct target *t = arg;
	t->len += n;
	return !t->stop || t->len < t->stop;
}

static enum bucket_outcome get(struct place *p, struct store_key key, struct target *t, const atomic_bool *cancel)
{
	struct bucket_sink sink = {space, commit, t};
	struct bucket_result r;
	t->len = 0;
	memset(&r, 0x55, sizeof r);
	store_get(p->client, &key, &sink, cancel, &r);
	assert_int_equal(r.text_bytes, t->len);
	assert_true(r.outcome == BUCKET_OK || *r.text);
	return r.outcome;
}

static void has_text(struct place *p, struct store_key key, const char *text)
{
	static struct target t;
	t.stop = 0;
	assert_int_equal(get(p, key, &t, NULL), BUCKET_OK);
	assert_int_equal(t.len, strlen(text));
	assert_memory_equal(t.data, text, t.len);
}

static unsigned files_in(struct place *p, const char *below)
{
	char command[300];
	unsigned n = 0;
	snprintf(command, sizeof command, "find %s/%s -type f 2>/dev/null | wc -l", p->directory, below);
	FILE *out = popen(command, "r");
	assert_int_equal(fscanf(out, "%u", &n), 1);
	pclose(out);
	return n;
}

/* tests */

static void nothing_there(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	static struct target t;
	struct error e;
	list(p, &seen);
	assert_int_equal(seen.count, 0);
	assert_int_equal(get(p, key_of(SYMBFILE_RANGES, "a", 0, 1), &t, NULL), BUCKET_MISSING);
	assert_int_equal(store_probe(p->client, &e), ERR_OK);
}

static void put_list_get(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	put_text(p, key_of(SYMBFILE_RANGES, "2026.a-b_C", 1, 3), "one");
	put_text(p, key_of(SYMBFILE_RANGES, "2026.a-b_C", 0, 3), "");
	put_text(p, key_of(SYMBFILE_RETURNPADS, "x", 99999, 100000), "pads");
	list(p, &seen);
	assert_int_equal(seen.count, 3);
	for (unsigned i = 0; i < 3; i++) {
		const struct store_part *part = &seen.parts[i];
		bool pads = part->kind == SYMBFILE_RETURNPADS;
		assert_string_equal(part->set, pads ? "x" : "2026.a-b_C");
		assert_int_equal(part->parts, pads ? 100000 : 3);
		assert_int_equal(part->size, pads ? 4 : part->part == 1 ? 3 : 0);
		assert_true(part->time / SECOND - now.tv_sec >= -1 && part->time / SECOND - now.tv_sec < 120);
	}
	has_text(p, key_of(SYMBFILE_RANGES, "2026.a-b_C", 1, 3), "one");
	has_text(p, key_of(SYMBFILE_RANGES, "2026.a-b_C", 0, 3), "");
	has_text(p, key_of(SYMBFILE_RETURNPADS, "x", 99999, 100000), "pads");
	seen.stop = 2;
	list(p, &seen);
	assert_int_equal(seen.count, 2);
	seen.stop = 0;
}

static void path_is_as_documented(void **state)
{
	struct place *p = *state;
	char path[300];
	put_text(p, key_of(SYMBFILE_RETURNPADS, "set", 4, 5), "x");
	snprintf(path, sizeof path, "%s/symbfiles/" HEX "/returnpads/set/5/4", p->directory);
	assert_int_equal(access(path, R_OK), 0);
}

static void bad_keys(void **state)
{
	struct place *p = *state;
	struct error e;
	static struct target t;
	char longest[STORE_SET_MAX + 2];
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	const struct store_key keys[] = {
	        key_of(SYMBFILE_RANGES, "", 0, 1),
	        key_of(SYMBFILE_RANGES, "..", 0, 1),
	        key_of(SYMBFILE_RANGES, ".tmp", 0, 1),
	        key_of(SYMBFILE_RANGES, "a/b", 0, 1),
	        key_of(SYMBFILE_RANGES, "a b", 0, 1),
	        key_of(SYMBFILE_RANGES, longest, 0, 1),
	        key_of(SYMBFILE_RANGES, NULL, 0, 1),
	        key_of(SYMBFILE_RANGES, "a", 1, 1),
	        key_of(SYMBFILE_RANGES, "a", 0, 0),
	        key_of(SYMBFILE_RANGES, "a", 0, STORE_PARTS_MAX + 1),
	        key_of((enum symbfile_kind)SYMBFILE_KINDS, "a", 0, 1),
	};
	for (unsigned i = 0; i < sizeof keys / sizeof keys[0]; i++) {
		assert_false(store_key_is_valid(&keys[i]));
		assert_null(store_put_begin(p->client, &keys[i], NULL, &e));
		assert_int_equal(e.code, ERR_BAD_REQUEST);
		assert_int_equal(get(p, keys[i], &t, NULL), BUCKET_MISSING);
	}
	longest[STORE_SET_MAX] = 0;
	put_text(p, key_of(SYMBFILE_RANGES, longest, 0, STORE_PARTS_MAX), "fits");
	has_text(p, key_of(SYMBFILE_RANGES, longest, 0, STORE_PARTS_MAX), "fits");
}

struct claims {
	struct store_claim items[10];
	unsigned count;
};

static bool see_claim(void *arg, const struct store_claim *claim)
{
	struct claims *c = arg;
	assert_true(c->count < 10);
	c->items[c->count++] = *claim;
	return true;
}

/* Durable as parts are, and listed by every question that the build id answers. */
static void claims_are_kept(void **state)
{
	struct place *p = *state;
	struct error e;
	struct store_claim claim = {.build_id = {{0xee, 0x01, 0x02, 0x03}, 20}, .id = id, .image_base = 0x400000};
	struct build_id_question questions[BUILD_ID_QUESTIONS];
	static const char key[] = "030201ee000000000000000000000000",
	                  whole[] = "ee01020300000000000000000000000000000000";
	char expected[2000], names[600];
	snprintf(names, sizeof names,
	        "fsync symbfiles\n"
	        "fsync symbfiles/build-ids\n"
	        "fsync symbfiles/build-ids/%s\n"
	        "fsync symbfiles/build-ids/%s/%s\n"
	        "fsync symbfiles/build-ids/%s/%s/" HEX "\n"
	        "fsync .\n",
	        key, key, whole, key, whole);
	snprintf(expected, sizeof expected,
	        "fsync symbfiles/temporary\nrename symbfiles/build-ids/%s/%s/" HEX "/400000\n%s", key, whole, names);
	events[0] = 0;
	recording = true;
	assert_int_equal(store_put_claim(p->client, &claim, NULL, &e), ERR_OK);
	recording = false;
	assert_string_equal(events, expected);
	build_id_questions(questions, &claim.build_id);
	for (unsigned i = 0; i < BUILD_ID_QUESTIONS; i++) {
		struct claims seen = {.count = 0};
		assert_int_equal(store_list_claims(p->client, &questions[i], see_claim, &seen, NULL, &e), ERR_OK);
		assert_int_equal(seen.count, 1);
		assert_memory_equal(&seen.items[0].id, &id, sizeof id);
		assert_int_equal(seen.items[0].image_base, 0x400000);
		assert_int_equal(seen.items[0].build_id.len, 20);
		assert_memory_equal(seen.items[0].build_id.bytes, claim.build_id.bytes, 20);
		assert_true(seen.items[0].time > 0);
	}
	claim.image_base = 0;
	assert_int_equal(store_put_claim(p->client, &claim, NULL, &e), ERR_OK);
	fsync_fails = true;
	claim.image_base = UINT64_MAX;
	assert_int_equal(store_put_claim(p->client, &claim, NULL, &e), ERR_UNAVAILABLE);
	fsync_fails = false;
	assert_int_equal(files_in(p, "symbfiles/build-ids"), 2);
	assert_int_equal(files_in(p, "symbfiles/.tmp"), 0);
}

/* Content before its name, names before the answer. */
static void order_of_durability(void **state)
{
	struct place *p = *state;
	events[0] = 0;
	recording = true;
	put_text(p, key_of(SYMBFILE_RANGES, "set", 0, 1), "text");
	static const char names[] = "fsync symbfiles\n"
	                            "fsync symbfiles/" HEX "\n"
	                            "fsync symbfiles/" HEX "/ranges\n"
	                            "fsync symbfiles/" HEX "/ranges/set\n"
	                            "fsync symbfiles/" HEX "/ranges/set/1\n"
	                            "fsync .\n";
	char expected[1000];
	snprintf(expected, sizeof expected, "fsync symbfiles/temporary\nrename symbfiles/" HEX "/ranges/set/1/0\n%s",
	        names);
	assert_string_equal(events, expected);
	/* The same content: what is there is made safe, whoever stored it. */
	events[0] = 0;
	put_text(p, key_of(SYMBFILE_RANGES, "set", 0, 1), "text");
	snprintf(expected, sizeof expected, "fsync symbfiles/temporary\nfsync symbfiles/" HEX "/ranges/set/1/0\n%s",
	        names);
	assert_string_equal(events, expected);
	recording = false;
}

static void failing_disk(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	struct error e = {0};
	fsync_fails = true;
	assert_int_equal(put(p, key_of(SYMBFILE_RANGES, "set", 0, 1), "text", 4, &e), ERR_UNAVAILABLE);
	fsync_fails = false;
	assert_non_null(strstr(e.text, strerror(EIO)));
	list(p, &seen);
	assert_int_equal(seen.count, 0);
	assert_int_equal(files_in(p, "symbfiles"), 0);
}

static int64_t time_of(struct place *p)
{
	static struct seen seen;
	list(p, &seen);
	assert_int_equal(seen.count, 1);
	return seen.parts[0].time;
}

static void set_old(struct place *p, const char *below, int64_t seconds)
{
	char path[300];
	struct timespec times[2];
	clock_gettime(CLOCK_REALTIME, &times[0]);
	times[0].tv_sec -= seconds;
	times[1] = times[0];
	snprintf(path, sizeof path, "%s/%s", p->directory, below);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
}

static void same_content_keeps_its_time(void **state)
{
	struct place *p = *state;
	struct store_key key = key_of(SYMBFILE_RANGES, "set", 0, 1);
	put_text(p, key, "text");
	set_old(p, "symbfiles/" HEX "/ranges/set/1/0", 1000);
	int64_t before = time_of(p);
	put_text(p, key, "text");
	assert_true(time_of(p) == before);
	put_text(p, key, "next");
	assert_true(time_of(p) > before + 900 * SECOND);
	has_text(p, key, "next");
	put_text(p, key, "longer");
	has_text(p, key, "longer");
	/* and what says when each of the three contents was stored */
	assert_int_equal(files_in(p, "symbfiles"), 1 + 3);
}

static void abort_leaves_nothing(void **state)
{
	struct place *p = *state;
	struct store_key key = key_of(SYMBFILE_RANGES, "set", 0, 1);
	struct error e;
	static struct seen seen;
	struct store_put *put = store_put_begin(p->client, &key, NULL, &e);
	assert_non_null(put);
	assert_int_equal(store_put_write(put, "text", 4, &e), ERR_OK);
	list(p, &seen);
	assert_int_equal(seen.count, 0);
	store_put_abort(put);
	assert_int_equal(files_in(p, "symbfiles"), 0);
	store_put_abort(NULL);
}

static void large_part(void **state)
{
	struct place *p = *state;
	static struct target t;
	static char data[300001];
	struct error e = {0};
	struct store_key key = key_of(SYMBFILE_RANGES, "set", 0, 1);
	for (size_t i = 0; i < sizeof data; i++)
		data[i] = (char)(i * 31 + i / 256);
	assert_int_equal(put(p, key, data, sizeof data, &e), ERR_OK);
	t.stop = 0;
	assert_int_equal(get(p, key, &t, NULL), BUCKET_OK);
	assert_int_equal(t.len, sizeof data);
	assert_memory_equal(t.data, data, sizeof data);
	/* A difference in the last byte is one. */
	data[sizeof data - 1] ^= 1;
	assert_int_equal(put(p, key, data, sizeof data, &e), ERR_OK);
	assert_int_equal(get(p, key, &t, NULL), BUCKET_OK);
	assert_memory_equal(t.data, data, sizeof data);
	t.stop = 150000;
	assert_int_equal(get(p, key, &t, NULL), BUCKET_ABORTED);
	t.stop = 0;
	atomic_bool cancel = true;
	assert_int_equal(get(p, key, &t, &cancel), BUCKET_ABORTED);
	place_close(p);
	place_open(p);
	store_client_free(p->client);
	symbfile_store_free(p->store);
	p->config.bucket_max_size = sizeof data - 1;
	p->store = symbfile_store_new(&p->config, &e);
	p->client = store_client_new(p->store);
	assert_int_equal(get(p, key, &t, NULL), BUCKET_TOO_LARGE);
}

static void foreign_files_are_not_listed(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	char command[1000];
	put_text(p, key_of(SYMBFILE_RANGES, "set", 0, 2), "text");
	snprintf(command, sizeof command,
	        "cd %s/symbfiles/" HEX "/ranges/set/2 && touch -- .hidden 2 x 00 01 -1 1x 4294967296 && mkdir 1 && "
	        "touch 1/0 && ln -s 0 1l && mkdir -p ../../../other/set/1 ../../.set/1 ../../se,t/1 ../0 ../007 "
	        "../100001 && "
	        "touch ../../../other/set/1/0 ../../.set/1/0 ../../se,t/1/0 ../0/0 ../007/0 ../100001/0 ../file "
	        "../../../file",
	        p->directory);
	assert_int_equal(system(command), 0);
	list(p, &seen);
	assert_int_equal(seen.count, 1);
	assert_string_equal(seen.parts[0].set, "set");
	static struct target t;
	assert_int_equal(get(p, key_of(SYMBFILE_RANGES, "set", 1, 2), &t, NULL), BUCKET_MISSING);
}

static void times_that_are_none_are_not_listed(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	struct error e = {0};
	char command[400];
	put_text(p, key_of(SYMBFILE_RANGES, "set", 0, 1), "text");
	snprintf(command, sizeof command,
	        "cd %s/symbfiles/" HEX "/ranges/set/1 && "
	        "touch 0. 0.0 0.x 0.-1 0.+1 0.01 0.1x 0.1.1 .1 1.1 0.9223372036854775808 0.99999999999999999999 && "
	        "touch 0.9223372036854775807",
	        p->directory);
	assert_int_equal(system(command), 0);
	assert_int_equal(store_list_with_times(p->client, &id, see, &seen, NULL, &e), ERR_OK);
	assert_int_equal(seen.count, 3); /* the part, its time, and the latest that there is */
	for (unsigned i = 0; i < seen.count; i++)
		assert_true(!seen.parts[i].is_time || seen.parts[i].time == INT64_MAX ||
		            llabs(seen.parts[i].time / 1000000000 - time(NULL)) < 600);
}

static void leftovers_go_when_old(void **state)
{
	struct place *p = *state;
	char command[300];
	snprintf(command, sizeof command, "mkdir -p %s/symbfiles/.tmp && cd %s/symbfiles/.tmp && touch old young",
	        p->directory, p->directory);
	assert_int_equal(system(command), 0);
	set_old(p, "symbfiles/.tmp/old", 25 * 3600);
	set_old(p, "symbfiles/.tmp/young", 23 * 3600);
	put_text(p, key_of(SYMBFILE_RANGES, "set", 0, 1), "text");
	assert_int_equal(files_in(p, "symbfiles/.tmp"), 1);
	assert_int_equal(files_in(p, "symbfiles/.tmp/young"), 1);
}

static void directory_gone(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	static struct target t;
	struct error e = {0};
	struct store_key key = key_of(SYMBFILE_RANGES, "set", 0, 1);
	assert_int_equal(rmdir(p->directory), 0);
	assert_int_equal(put(p, key, "x", 1, &e), ERR_UNAVAILABLE);
	assert_int_equal(store_list(p->client, &id, see, &seen, NULL, &e), ERR_UNAVAILABLE);
	assert_int_equal(get(p, key, &t, NULL), BUCKET_FAILED);
	assert_int_equal(store_probe(p->client, &e), ERR_UNAVAILABLE);
	assert_int_equal(mkdir(p->directory, 0777), 0);
	put_text(p, key, "x");
}

static unsigned files_seen;

static int count_one(const char *path, const struct stat *st, int kind, struct FTW *ftw)
{
	(void)path;
	(void)st;
	(void)ftw;
	files_seen += kind == FTW_F;
	return 0;
}

/* What the heartbeat says to who is not root, while the directory below the store has no right to be written. */
static enum err probe_without_right(struct place *p, const char *below, struct error *e)
{
	char path[200];
	uid_t user = geteuid();
	snprintf(path, sizeof path, "%s%s", p->directory, below);
	assert_int_equal(chmod(path, 0555), 0);
	if (user == 0)
		assert_int_equal(seteuid(65534), 0);
	enum err err = store_probe(p->client, e);
	if (user == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(chmod(path, 0777), 0);
	return err;
}

static void heartbeat_of_a_store_that_cannot_be_written(void **state)
{
	static const char *const below[] = {"/symbfiles/.tmp", "/symbfiles"};
	struct place *p = *state;
	struct error e = {0};
	assert_int_equal(store_probe(p->client, &e), ERR_OK);
	assert_int_equal(probe_without_right(p, "", &e), ERR_UNAVAILABLE);
	assert_non_null(strstr(e.text, "symbfile_store"));
	assert_non_null(strstr(e.text, strerror(EACCES)));
	assert_int_equal(put(p, key_of(SYMBFILE_RANGES, "a", 0, 1), "x", 1, &e), ERR_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(probe_without_right(p, below[i], &e), ERR_UNAVAILABLE);
	assert_int_equal(store_probe(p->client, &e), ERR_OK);
	/* nothing but the part and its time was left behind */
	files_seen = 0;
	assert_int_equal(nftw(p->directory, count_one, 16, FTW_PHYS), 0);
	assert_int_equal(files_seen, 2);
}

static void urls(void **state)
{
	static const char *const bad[] = {"http://a/", "file://a", "file:///a?b", "file:///a%2", "file:///%00", "s3://",
	        "s3://a", "s3:///abc", "/srv"};
	(void)state;
	struct config config = {0};
	struct error e;
	assert_int_equal(symbfile_store_check(&config, &e), ERR_OK);
	config.symbfile_store = (char[]){"file:///with%20blank"};
	assert_int_equal(symbfile_store_check(&config, &e), ERR_OK);
	config.symbfile_store = (char[]){"s3://bucket/prefix"};
	assert_int_equal(symbfile_store_check(&config, &e), ERR_OK);
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		char copy[100];
		config.symbfile_store = strcpy(copy, bad[i]);
		if (symbfile_store_check(&config, &e) != ERR_CONFIG)
			fail_msg("%s is taken", bad[i]);
		assert_memory_equal(e.text, "symbfile_store: ", 16);
	}
}

/* threads */

enum { THREADS = 4, THREAD_PUTS = 20 };

struct worker {
	pthread_t thread;
	struct place place; /* its own client of the one store */
	unsigned number, good;
};

/* Parts of its own, and one that all of them store. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct error e;
	char text[20];
	for (unsigned i = 0; i < THREAD_PUTS; i++) {
		unsigned own = 1 + w->number * THREAD_PUTS + i;
		snprintf(text, sizeof text, "part %u", own);
		w->good += !put(&w->place, key_of(SYMBFILE_RANGES, "set", own, 100), text, strlen(text), &e) &&
		           !put(&w->place, key_of(SYMBFILE_RANGES, "set", 0, 100), "shared", 6, &e);
	}
	return NULL;
}

static void threads_share_a_store(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	struct worker workers[THREADS] = {0};
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].place.client = store_client_new(p->store);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].good, THREAD_PUTS);
		store_client_free(workers[i].place.client);
	}
	list(p, &seen);
	assert_int_equal(seen.count, THREADS * THREAD_PUTS + 1);
	for (unsigned i = 0; i < seen.count; i++) {
		char text[20];
		snprintf(text, sizeof text, "part %u", seen.parts[i].part);
		has_text(p, key_of(SYMBFILE_RANGES, "set", seen.parts[i].part, 100),
		        seen.parts[i].part ? text : "shared");
	}
	assert_int_equal(files_in(p, "symbfiles/.tmp"), 0);
}

/* kill -9 */

enum { PUTS = 200, ROUNDS = 8, SIZE = 20000 };

/* The content of a part: told by its number and that of the round. */
static void fill(char data[SIZE], unsigned part, unsigned round)
{
	for (unsigned i = 0; i < SIZE; i++)
		data[i] = (char)(part * 7 + round * 131 + i);
}

/* In the child: stores parts, and says so of each that was acknowledged. Every round replaces the content. */
static void store_all(struct place *p, unsigned round, int out)
{
	static char data[SIZE];
	struct error e;
	for (unsigned part = 0; part < PUTS; part++) {
		fill(data, part, round);
		if (put(p, key_of(SYMBFILE_RANGES, "set", part, PUTS), data, SIZE, &e) || write(out, "", 1) != 1)
			_exit(1);
	}
	_exit(0);
}

/* Starts the child, kills it after so many acknowledgements, and returns how many there were in all. */
static unsigned run_and_kill(struct place *p, unsigned round, unsigned after)
{
	int ends[2], status;
	char buffer[PUTS];
	unsigned count = 0;
	assert_int_equal(pipe(ends), 0);
	pid_t child = fork();
	assert_true(child >= 0);
	if (child == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		close(ends[0]);
		store_all(p, round, ends[1]);
	}
	close(ends[1]);
	for (ssize_t n; count < after && (n = read(ends[0], buffer, 1)) > 0;)
		count += (unsigned)n;
	kill(child, SIGKILL);
	waitpid(child, &status, 0);
	for (ssize_t n; (n = read(ends[0], buffer, sizeof buffer)) > 0;)
		count += (unsigned)n;
	close(ends[0]);
	return count;
}

/* Every part that was acknowledged in this round is there as it was then; the others are as they were or new, never
 * something between. */
static void check_parts(struct place *p, unsigned round, unsigned acknowledged, unsigned newest[PUTS])
{
	static struct seen seen;
	static struct target t;
	static char now[SIZE], before[SIZE];
	list(p, &seen);
	assert_true(seen.count >= acknowledged);
	for (unsigned i = 0; i < seen.count; i++) {
		unsigned part = seen.parts[i].part;
		assert_int_equal(seen.parts[i].size, SIZE);
		assert_int_equal(get(p, key_of(SYMBFILE_RANGES, "set", part, PUTS), &t, NULL), BUCKET_OK);
		assert_int_equal(t.len, SIZE);
		fill(now, part, round);
		fill(before, part, newest[part]);
		bool is_new = memcmp(t.data, now, SIZE) == 0;
		if (part < acknowledged)
			assert_true(is_new);
		else
			assert_true(is_new || (newest[part] && memcmp(t.data, before, SIZE) == 0));
		if (is_new)
			newest[part] = round;
	}
	for (unsigned part = 0; part < acknowledged; part++)
		assert_int_equal(newest[part], round);
}

static void killed_at_any_point(void **state)
{
	struct place *p = *state;
	unsigned newest[PUTS] = {0}, seed = (unsigned)getpid();
	for (unsigned round = 1; round <= ROUNDS; round++) {
		unsigned after = round == ROUNDS ? PUTS : (unsigned)rand_r(&seed) % PUTS;
		unsigned acknowledged = run_and_kill(p, round, after);
		assert_true(acknowledged >= after);
		check_parts(p, round, acknowledged, newest);
	}
	/* At most one temporary file a killed process. */
	assert_true(files_in(p, "symbfiles/.tmp") <= ROUNDS);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test_setup_teardown(nothing_there, setup, teardown),
	        cmocka_unit_test_setup_teardown(put_list_get, setup, teardown),
	        cmocka_unit_test_setup_teardown(path_is_as_documented, setup, teardown),
	        cmocka_unit_test_setup_teardown(bad_keys, setup, teardown),
	        cmocka_unit_test_setup_teardown(claims_are_kept, setup, teardown),
	        cmocka_unit_test_setup_teardown(order_of_durability, setup, teardown),
	        cmocka_unit_test_setup_teardown(failing_disk, setup, teardown),
	        cmocka_unit_test_setup_teardown(same_content_keeps_its_time, setup, teardown),
	        cmocka_unit_test_setup_teardown(abort_leaves_nothing, setup, teardown),
	        cmocka_unit_test_setup_teardown(large_part, setup, teardown),
	        cmocka_unit_test_setup_teardown(foreign_files_are_not_listed, setup, teardown),
	        cmocka_unit_test_setup_teardown(times_that_are_none_are_not_listed, setup, teardown),
	        cmocka_unit_test_setup_teardown(leftovers_go_when_old, setup, teardown),
	        cmocka_unit_test_setup_teardown(directory_gone, setup, teardown),
	        cmocka_unit_test_setup_teardown(heartbeat_of_a_store_that_cannot_be_written, setup, teardown),
	        cmocka_unit_test(urls),
	        cmocka_unit_test_setup_teardown(threads_share_a_store, setup, teardown),
	        cmocka_unit_test_setup_teardown(killed_at_any_point, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
