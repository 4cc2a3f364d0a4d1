/* SPDX-License-Identifier: Apache-2.0 */
/* The store in a directory: what is durable when, what is listed, what a killed process leaves; and which sets of
 * symbfiles in it answer. The same rules over S3 are in tests/wire/test_symbfile_store.py and test_store.py. */
#include <config.h>

#include "objects/store.h"

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
#include "objects/place_clock.h"
#include "symfiles/code_ids.h"
#include "symfiles/put.h"
#include "uploads/alias.h"
#include "uploads/manifest.h"
#include "uploads/remove.h"
#include "uploads/sets.h"

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
	p->client = store_client_take(p->store);
	assert_non_null(p->client);
}

static void place_close(struct place *p)
{
	store_client_give(p->client);
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

#define FOLDER "symbfiles/" HEX
#define ONE FOLDER "/ranges/set/one"

static enum err put(struct place *p, const char *path, const void *data, size_t len, struct error *e)
{
	struct store_put *put = store_put_begin(p->client, e);
	if (!put)
		return e->code;
	/* In two writes, so that there is something to put together. */
	if (store_put_write(put, data, len / 2, e) ||
	        store_put_write(put, (const char *)data + len / 2, len - len / 2, e)) {
		store_put_abort(put);
		return e->code;
	}
	return store_put_commit(put, path, e);
}

static void put_text(struct place *p, const char *path, const char *text)
{
	struct error e = {0};
	if (put(p, path, text, strlen(text), &e))
		fail_msg("%s", e.text);
}

struct seen {
	struct {
		char path[STORE_PATH_MAX];
		uint64_t size;
		int64_t time;
	} objects[1000];
	unsigned count, stop;
};

static bool see(void *arg, struct str path, uint64_t size, int64_t time)
{
	struct seen *s = arg;
	assert_true(s->count < 1000);
	snprintf(s->objects[s->count].path, STORE_PATH_MAX, "%.*s", STR_FMT(path));
	s->objects[s->count].size = size;
	s->objects[s->count++].time = time;
	return s->count != s->stop;
}

static void list(struct place *p, struct seen *s)
{
	struct error e = {0};
	s->count = 0;
	if (store_list(p->client, FOLDER, see, s, NULL, &e))
		fail_msg("%s", e.text);
}

struct target {
	char data[400000];
	size_t len, stop;
};

static bool take(void *arg, const uint8_t *data, size_t len)
{
	struct target *t = arg;
	assert_true(len <= sizeof t->data - t->len);
	memcpy(t->data + t->len, data, len);
	t->len += len;
	return !t->stop || t->len < t->stop;
}

static enum bucket_outcome get(struct place *p, const char *path, struct target *t, const atomic_bool *cancel)
{
	struct bucket_result r;
	t->len = 0;
	memset(&r, 0x55, sizeof r);
	store_get(p->client, path, take, t, cancel, &r);
	assert_int_equal(r.text_bytes, t->len);
	assert_true(r.outcome == BUCKET_OK || *r.text);
	assert_true(r.wire_bytes == t->len || (r.outcome != BUCKET_OK && r.wire_bytes > t->len));
	assert_int_equal(r.text_bytes > 0, t->len > 0);
	assert_true(r.elapsed >= 0 && r.elapsed < 100 * SECOND);
	return r.outcome;
}

static void has_text(struct place *p, const char *path, const char *text)
{
	static struct target t;
	t.stop = 0;
	assert_int_equal(get(p, path, &t, NULL), BUCKET_OK);
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

static void nothing_there(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	static struct target t;
	struct error e;
	list(p, &seen);
	assert_int_equal(seen.count, 0);
	assert_int_equal(get(p, ONE, &t, NULL), BUCKET_MISSING);
	assert_int_equal(store_probe(p->client, &e), ERR_OK);
}

static void put_list_get(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	struct timespec now;
	struct error e;
	clock_gettime(CLOCK_REALTIME, &now);
	put_text(p, FOLDER "/ranges/2026.a-b_C/1", "one");
	put_text(p, FOLDER "/ranges/2026.a-b_C/0", "");
	put_text(p, FOLDER "/returnpads/~x/2", "pads");
	list(p, &seen);
	assert_int_equal(seen.count, 3);
	for (unsigned i = 0; i < 3; i++) {
		bool pads = strcmp(seen.objects[i].path, "returnpads/~x/2") == 0;
		bool one = strcmp(seen.objects[i].path, "ranges/2026.a-b_C/1") == 0;
		assert_int_equal(seen.objects[i].size, pads ? 4 : one ? 3 : 0);
		int64_t seconds = seen.objects[i].time / SECOND - now.tv_sec;
		assert_true(seconds >= -1 && seconds < 120);
	}
	has_text(p, FOLDER "/ranges/2026.a-b_C/1", "one");
	has_text(p, FOLDER "/ranges/2026.a-b_C/0", "");
	has_text(p, FOLDER "/returnpads/~x/2", "pads");
	seen.stop = 2;
	list(p, &seen);
	assert_int_equal(seen.count, 2);
	seen.stop = 0;
	put_text(p, FOLDER "/returnpads/~x/2", "other");
	has_text(p, FOLDER "/returnpads/~x/2", "other");
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(store_remove(p->client, FOLDER "/returnpads/~x/2", &e), ERR_OK);
	list(p, &seen);
	assert_int_equal(seen.count, 2);
	assert_int_equal(files_in(p, "symbfiles"), 2);
}

static void an_object_in_memory(void **state)
{
	struct place *p = *state;
	struct error e;
	struct buffer b;
	buffer_init(&b, 10);
	assert_int_equal(store_put_object(p->client, ONE, str_from("0123456789"), &e), ERR_OK);
	assert_int_equal(store_get_object(p->client, ONE, &b, NULL, &e), ERR_OK);
	assert_int_equal(b.len, 10);
	assert_memory_equal(b.data, "0123456789", 10);
	assert_int_equal(store_put_object(p->client, ONE, str_from("0123456789a"), &e), ERR_OK);
	buffer_reset(&b);
	assert_int_equal(store_get_object(p->client, ONE, &b, NULL, &e), ERR_UNAVAILABLE);
	buffer_reset(&b);
	assert_int_equal(store_get_object(p->client, ONE "x", &b, NULL, &e), ERR_MISSING);
	buffer_release(&b);
}

/* The clock of hosts that share a directory is that of the directory. */
static void clock_of_the_store(void **state)
{
	struct place *p = *state;
	time_t before = time(NULL);
	put_text(p, ONE, "x");
	int64_t now = store_now(p->client) / SECOND;
	assert_true(now >= before - 2 && now <= time(NULL) + 2);
}

/* What is known changes as little as agrees with what the place said. */
static void clock_is_heard(void **state)
{
	(void)state;
	struct place_clock c = {0};
	const struct {
		int64_t sent, now, told, unit, late, ahead;
	} said[] = {
	        {1000, 1010, 1000, 10, 0, 0},   /* agrees */
	        {1000, 1010, 995, 10, 0, 0},    /* some of its units are over */
	        {1000, 1010, 1500, 10, 0, 490}, /* at least so far */
	        {2000, 2002, 2495, 10, 0, 493}, /* not less than that */
	        {3000, 3002, 3490, 5, 0, 493},  /* agrees */
	        {4000, 4002, 4490, 1, 2, 493},  /* it may have looked late */
	        {4000, 4002, 4490, 1, 1, 491},  /* not more than that */
	        {5000, 5001, 5000, 10, 20, 10}, /* it was set back, or this machine's ahead */
	        {5000, 4000, 4490, 10, 0, 490}, /* this machine's was set back meanwhile */
	};
	for (unsigned i = 0; i < sizeof said / sizeof *said; i++) {
		place_clock_hear(&c, said[i].sent, said[i].now, said[i].told, said[i].unit, said[i].late);
		assert_int_equal(atomic_load(&c.ahead), said[i].ahead);
	}
	assert_true(place_now(&c) - machine_now() <= 490);
}

/* ---- sets ---- */

/* Listed by every question that the build id answers. */
static void claims_are_kept(void **state)
{
	struct place *p = *state;
	struct error e;
	struct claim claim = {.build_id = {{0xee, 0x01, 0x02, 0x03}, 20}, .id = id, .image_base = 0x400000};
	struct build_id_question questions[BUILD_ID_QUESTIONS];
	char path[STORE_PATH_MAX];
	layout_claim(path, &claim);
	assert_string_equal(path, "symbfiles/build-ids/030201ee000000000000000000000000/"
	                          "ee01020300000000000000000000000000000000/" HEX "/400000");
	put_text(p, path, "");
	build_id_questions(questions, &claim.build_id);
	for (unsigned i = 0; i < BUILD_ID_QUESTIONS; i++) {
		struct symbfile_claims seen;
		assert_int_equal(symbfile_claims_get(&seen, p->client, &questions[i], NULL, &e), ERR_OK);
		assert_int_equal(seen.count, 1);
		assert_memory_equal(&seen.items[0].id, &id, sizeof id);
		assert_int_equal(seen.items[0].image_base, 0x400000);
		assert_int_equal(seen.items[0].build_id.len, 20);
		assert_memory_equal(seen.items[0].build_id.bytes, claim.build_id.bytes, 20);
		assert_true(seen.items[0].time > 0);
	}
}

static void names_of_parts(void **state)
{
	static const char *const bad[] = {"", "0", "0.1", "0.1.a", "1.1.0123456789abcdef0123456789abcdef.0.0.0",
	        "0.0.0123456789abcdef0123456789abcdef.0.0.0", "0.100001.0123456789abcdef0123456789abcdef.0.0.0",
	        "00.1.0123456789abcdef0123456789abcdef.0.0.0", "0.1.0123456789ABCDEF0123456789abcdef.0.0.0",
	        "0.1.0123456789abcdef0123456789abcde.0.0.0", "0.1.0123456789abcdef0123456789abcdef.0.0",
	        "0.1.0123456789abcdef0123456789abcdef.0.0.0.0", "0.1.0123456789abcdef0123456789abcdef.0.0.-1",
	        "0.1.0123456789abcdef0123456789abcdef.0.0.99999999999999999999"};
	struct part_name name = {3, 100000, "0123456789abcdef0123456789abcdef", {1, INT64_MAX, 0}}, again;
	char text[PART_NAME_SIZE];
	(void)state;
	part_name_print(text, &name);
	assert_string_equal(text, "3.100000.0123456789abcdef0123456789abcdef.1.9223372036854775807.0");
	assert_true(part_name_parse(&again, str_from(text)));
	assert_int_equal(again.part, 3);
	assert_int_equal(again.parts, 100000);
	assert_int_equal(again.counts.lines, INT64_MAX);
	assert_string_equal(again.hash, name.hash);
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		if (part_name_parse(&again, str_from(bad[i])))
			fail_msg("%s is taken", bad[i]);
}

static void names_of_sets(void **state)
{
	char longest[SET_NAME_MAX + 2];
	static const char *const bad[] = {"", "..", ".tmp", "a/b", "a b", "\xc3\xa9"};
	(void)state;
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(set_name_is_valid(str_from(bad[i])) || set_name_is_stored(str_from(bad[i])));
	assert_false(set_name_is_valid(str_from(longest)));
	assert_true(set_name_is_valid((struct str){longest, SET_NAME_MAX}));
	assert_true(!set_name_is_valid(str_from("3~1")) && set_name_is_stored(str_from("3~1")));
	assert_false(set_name_is_stored((struct str){"a\0b", 3}));
}

#define PART "0123456789abcdef0123456789abcdef.1.1.1"
#define POOR_PART "0123456789abcdef0123456789abcdef.1.0.0" /* functions alone */
#define POOR ",\"lines\":0,\"inlines\":0"

static void get_sets(struct place *p, struct symbfile_sets *sets)
{
	struct error e;
	if (symbfile_sets_get(sets, p->client, &id, NULL, &e))
		fail_msg("%s", e.text);
}

/* A manifest that names these parts, as JSON strings. */
static void put_manifest(struct place *p, const char *path, const char *parts, int64_t time, const char *more)
{
	char text[1000];
	snprintf(text, sizeof text,
	        "{\"version\":1,\"time\":%lld,\"functions\":1,\"lines\":1,\"inlines\":1,\"parts\":[%s]%s}",
	        (long long)time, parts, more);
	put_text(p, path, text);
}

/* Nothing of a set is used before its manifest, or without one of the parts that this names. */
static void a_manifest_that_is_gone_has_no_names(void **state)
{
	struct place *p = *state;
	struct manifest m = {.kind = SYMBFILE_RANGES, .set = "a"};
	static const struct file_id absent = {{1}};
	json_t *names = (json_t *)p;
	struct error e;
	assert_int_equal(manifest_get(&m, &names, p->client, &absent, NULL, &e), ERR_OK);
	assert_null(names);
}

static void a_manifest_makes_a_set_visible(void **state)
{
	struct place *p = *state;
	struct symbfile_sets sets;
	put_text(p, FOLDER "/ranges/a/0.2." PART, "x");
	put_text(p, FOLDER "/ranges/a/1.2." PART, "x");
	get_sets(p, &sets);
	assert_int_equal(sets.count, 1);
	assert_null(sets.best[SYMBFILE_RANGES]);
	assert_true(sets.items[0].all_there && !sets.items[0].complete);
	symbfile_sets_release(&sets);
	put_manifest(p, FOLDER "/ranges/a/set.json", "\"0.2." PART "\",\"1.2." PART "\"", 5, "");
	get_sets(p, &sets);
	assert_ptr_equal(sets.best[SYMBFILE_RANGES], &sets.items[0]);
	assert_int_equal(sets.items[0].have_count, 2);
	assert_string_equal(sets.items[0].have[1].path, "ranges/a/1.2." PART);
	assert_int_equal(sets.items[0].quality, QUALITY_INLINES);
	symbfile_sets_release(&sets);
	static const char *const bad[] = {"\"0.2." PART "\"", "\"1.2." PART "\",\"0.2." PART "\"",
	        "\"0.2." PART "\",\"1.2.1" PART "\"", "1,2", "", "\"../a\",\"1.2." PART "\""};
	for (unsigned i = 0; i < sizeof bad / sizeof *bad; i++) {
		put_manifest(p, FOLDER "/ranges/a/set.json", bad[i], 5, "");
		get_sets(p, &sets);
		assert_null(sets.best[SYMBFILE_RANGES]);
		symbfile_sets_release(&sets);
	}
	put_text(p, FOLDER "/ranges/a/set.json", "{");
	get_sets(p, &sets);
	assert_null(sets.best[SYMBFILE_RANGES]);
	symbfile_sets_release(&sets);
}

static void which_set_answers(void **state)
{
	struct place *p = *state;
	struct symbfile_sets sets;
	struct error e;
	static const char *const names[] = {"a", "b", "c", "d"};
	for (unsigned i = 0; i < 4; i++) {
		char path[300];
		snprintf(path, sizeof path, FOLDER "/ranges/%s/0.1." PART, names[i]);
		put_text(p, path, "x");
		snprintf(path, sizeof path, FOLDER "/ranges/%s/set.json", names[i]);
		/* the last key of a name counts */
		put_manifest(p, path, "\"0.1." PART "\"", 10 + i,
		        i == 3   ? ",\"inlines\":0"
		        : i == 2 ? ",\"dynamic\":true"
		                 : "");
	}
	get_sets(p, &sets);
	assert_string_equal(sets.best[SYMBFILE_RANGES]->name, "b");
	assert_string_equal(symbfile_set_reason(&sets, sets.best[SYMBFILE_RANGES]), "newer");
	uint64_t hash = sets.hash;
	symbfile_sets_release(&sets);
	put_manifest(p, FOLDER "/ranges/c/forced.json", "\"0.1." PART "\"", 1, ",\"dynamic\":true");
	get_sets(p, &sets);
	assert_string_equal(sets.best[SYMBFILE_RANGES]->name, "c");
	assert_string_equal(symbfile_set_reason(&sets, sets.best[SYMBFILE_RANGES]), "forced");
	assert_int_equal(sets.best[SYMBFILE_RANGES]->quality, QUALITY_DYNAMIC);
	assert_true(sets.hash != hash);
	symbfile_sets_release(&sets);
	put_manifest(p, FOLDER "/ranges/d/forced.json", "\"0.1." PART "\"", 2, "");
	get_sets(p, &sets);
	assert_string_equal(sets.best[SYMBFILE_RANGES]->name, "d");
	symbfile_sets_release(&sets);
	for (unsigned i = 2; i < 4; i++) {
		char path[300];
		snprintf(path, sizeof path, FOLDER "/ranges/%s/forced.json", names[i]);
		assert_int_equal(store_remove(p->client, path, &e), ERR_OK);
	}
	assert_int_equal(store_remove(p->client, FOLDER "/ranges/a/set.json", &e), ERR_OK);
	assert_int_equal(store_remove(p->client, FOLDER "/ranges/b/set.json", &e), ERR_OK);
	get_sets(p, &sets);
	assert_string_equal(sets.best[SYMBFILE_RANGES]->name, "d");
	assert_string_equal(symbfile_set_reason(&sets, sets.best[SYMBFILE_RANGES]), "better");
	symbfile_sets_release(&sets);
}

/* More manifests than are read: those of the best sets are, then the newest, and those that are forced. */
static void many_sets(void **state)
{
	struct place *p = *state;
	struct symbfile_sets sets;
	char path[300];
	for (unsigned i = 0; i < MANIFESTS_READ + 20; i++) {
		snprintf(path, sizeof path, FOLDER "/ranges/s%03u/0.1." POOR_PART, i);
		put_text(p, path, "x");
		snprintf(path, sizeof path, FOLDER "/ranges/s%03u/set.json", i);
		put_manifest(p, path, "\"0.1." POOR_PART "\"", i + 1, POOR);
		set_old(p, path, 1000 - (int64_t)i);
	}
	get_sets(p, &sets);
	assert_int_equal(sets.count, MANIFESTS_READ + 20);
	unsigned complete = 0;
	for (size_t i = 0; i < sets.count; i++)
		complete += sets.items[i].complete;
	assert_int_equal(complete, MANIFESTS_READ);
	assert_string_equal(sets.best[SYMBFILE_RANGES]->name, "s147");
	symbfile_sets_release(&sets);
	/* the oldest set is the only good one */
	put_text(p, FOLDER "/ranges/good/0.1." PART, "x");
	put_manifest(p, FOLDER "/ranges/good/set.json", "\"0.1." PART "\"", 1, "");
	set_old(p, FOLDER "/ranges/good/set.json", 5000);
	get_sets(p, &sets);
	assert_string_equal(sets.best[SYMBFILE_RANGES]->name, "good");
	symbfile_sets_release(&sets);
	put_manifest(p, FOLDER "/ranges/s000/forced.json", "\"0.1." POOR_PART "\"", 1, POOR);
	set_old(p, FOLDER "/ranges/s000/forced.json", 5000);
	get_sets(p, &sets);
	assert_string_equal(sets.best[SYMBFILE_RANGES]->name, "s000");
	symbfile_sets_release(&sets);
}

/* Content before its name, names before the answer. */
static void order_of_durability(void **state)
{
	struct place *p = *state;
	events[0] = 0;
	recording = true;
	put_text(p, ONE, "text");
	assert_string_equal(events, "fsync symbfiles/temporary\n"
	                            "rename symbfiles/" HEX "/ranges/set/one\n"
	                            "fsync symbfiles\n"
	                            "fsync symbfiles/" HEX "\n"
	                            "fsync symbfiles/" HEX "/ranges\n"
	                            "fsync symbfiles/" HEX "/ranges/set\n"
	                            "fsync .\n");
	recording = false;
}

static void failing_disk(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	struct error e = {0};
	fsync_fails = true;
	assert_int_equal(put(p, ONE, "text", 4, &e), ERR_UNAVAILABLE);
	fsync_fails = false;
	assert_non_null(strstr(e.text, strerror(EIO)));
	list(p, &seen);
	assert_int_equal(seen.count, 0);
	assert_int_equal(files_in(p, "symbfiles"), 0);
}

static void abort_leaves_nothing(void **state)
{
	struct place *p = *state;
	struct error e;
	static struct seen seen;
	struct store_put *put = store_put_begin(p->client, &e);
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
	const char *key = ONE;
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
	store_client_give(p->client);
	symbfile_store_free(p->store);
	p->config.bucket_max_size = sizeof data - 1;
	p->store = symbfile_store_new(&p->config, &e);
	p->client = store_client_take(p->store);
	assert_int_equal(get(p, key, &t, NULL), BUCKET_TOO_LARGE);
}

/* What is not as it was written belongs to no set. */
static void foreign_files_belong_to_no_set(void **state)
{
	struct place *p = *state;
	struct symbfile_sets sets;
	char command[1000];
	put_text(p, FOLDER "/ranges/set/0.1." PART, "x");
	put_text(p, FOLDER "/ranges/set/2/0", "text");
	snprintf(command, sizeof command,
	        "cd %s/symbfiles/" HEX "/ranges/set/2 && touch -- .hidden 2 x 00 01 -1 1x 4294967296 && mkdir 1 && "
	        "touch 1/0 && ln -s 0 1l && mkdir -p ../../../other/set/1 ../../.set/1 ../../se,t/1 ../0 ../007 "
	        "../100001 && "
	        "touch ../../../other/set/1/0 ../../.set/1/0 ../../se,t/1/0 ../0/0 ../007/0 ../100001/0 ../file "
	        "../../../file ../0.1." PART
	        "x ../set.jsonx && mkdir ../../new && ln -s ../set/2/0 ../../new/0.1." PART,
	        p->directory);
	assert_int_equal(system(command), 0);
	get_sets(p, &sets);
	assert_int_equal(sets.count, 1);
	assert_string_equal(sets.items[0].name, "set");
	assert_int_equal(sets.items[0].have_count, 1);
	assert_string_equal(sets.items[0].have[0].path, "ranges/set/0.1." PART);
	symbfile_sets_release(&sets);
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
	put_text(p, ONE, "text");
	assert_int_equal(files_in(p, "symbfiles/.tmp"), 1);
	assert_int_equal(files_in(p, "symbfiles/.tmp/young"), 1);
}

static void directory_gone(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	static struct target t;
	struct error e = {0};
	const char *key = ONE;
	assert_int_equal(rmdir(p->directory), 0);
	assert_int_equal(put(p, key, "x", 1, &e), ERR_UNAVAILABLE);
	assert_int_equal(store_list(p->client, FOLDER, see, &seen, NULL, &e), ERR_UNAVAILABLE);
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
	assert_int_equal(put(p, ONE, "x", 1, &e), ERR_OK);
	for (unsigned i = 0; i < 2; i++)
		assert_int_equal(probe_without_right(p, below[i], &e), ERR_UNAVAILABLE);
	assert_int_equal(store_probe(p->client, &e), ERR_OK);
	/* nothing but the object was left behind */
	files_seen = 0;
	assert_int_equal(nftw(p->directory, count_one, 16, FTW_PHYS), 0);
	assert_int_equal(files_seen, 1);
}

static void urls(void **state)
{
	static const char *const good[] = {"", "file:///with%20blank", "s3://bucket/prefix"};
	static const char *const bad[] = {"http://a/", "file://a", "file:///a?b", "file:///a%2", "file:///%00", "s3://",
	        "s3://a", "s3:///abc", "/srv"};
	(void)state;
	struct config config = {0};
	struct error e;
	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_int_equal(store_check(good[i], "symbfile_store", false, &config, &e), ERR_OK);
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		if (store_check(bad[i], "symbfile_store", false, &config, &e) != ERR_CONFIG)
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

/* The path of a numbered object. */
static const char *path_of(char path[STORE_PATH_MAX], unsigned number)
{
	snprintf(path, STORE_PATH_MAX, FOLDER "/ranges/set/%u", number);
	return path;
}

/* Objects of its own, and one that all of them store. */
static void *work(void *arg)
{
	struct worker *w = arg;
	struct error e;
	char text[20], path[STORE_PATH_MAX];
	for (unsigned i = 0; i < THREAD_PUTS; i++) {
		unsigned own = 1 + w->number * THREAD_PUTS + i;
		snprintf(text, sizeof text, "part %u", own);
		w->good += !put(&w->place, path_of(path, own), text, strlen(text), &e) &&
		           !put(&w->place, path_of(path, 0), "shared", 6, &e);
	}
	return NULL;
}

static unsigned number_of(const char *path)
{
	return (unsigned)strtoul(path + strlen("ranges/set/"), NULL, 10);
}

/* A symbol file that tells its code id is two objects, stored by two threads at once, or one after the other. */

static bool no_threads;

int __real_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg);
int __wrap_pthread_create(pthread_t *thread, const pthread_attr_t *attr, void *(*run)(void *), void *arg)
{
	return no_threads ? EAGAIN : __real_pthread_create(thread, attr, run, arg);
}

static enum err put_symfile(struct place *p, struct error *e)
{
	static const char text[] = "MODULE windows x86_64 " HEX "1 x.pdb\n"
	                           "INFO CODE_ID 5F0C0E0A1000 x.dll\n"
	                           "FUNC 1000 10 0 f\n";
	struct symfile_facts facts;
	bool same;
	struct symfile_put *put = symfile_put_begin(p->client, str_from("x.pdb"), str_from(HEX "1"), 1 << 20, e);
	assert_non_null(put);
	assert_int_equal(symfile_put_add(put, (const uint8_t *)text, strlen(text), e), ERR_OK);
	return symfile_put_commit(put, CODE_BY_UPLOAD, &facts, &same, e);
}

static void a_file_and_its_code_id(void **state)
{
	static const struct {
		bool no_threads;
		const char *not_a_folder; /* nothing can be stored below it */
		enum err err;
		unsigned files, code_ids;
	} cases[] = {
	        {false, NULL, ERR_OK, 1, 1},
	        {true, NULL, ERR_OK, 1, 1},
	        {false, "code-ids", ERR_UNAVAILABLE, 1, 0},
	        {true, "code-ids", ERR_UNAVAILABLE, 1, 0},
	        {false, "x.pdb", ERR_UNAVAILABLE, 0, 1},
	        {true, "x.pdb", ERR_UNAVAILABLE, 0, 0},
	};
	struct place *p = *state;
	char command[300];
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct error e = {0};
		struct code_module m;
		const char *not_a_folder = cases[i].not_a_folder ? cases[i].not_a_folder : "another";
		snprintf(command, sizeof command, "cd %s && rm -rf x.pdb code-ids && touch %s", p->directory,
		        not_a_folder);
		assert_int_equal(system(command), 0);
		no_threads = cases[i].no_threads;
		enum err err = put_symfile(p, &e);
		no_threads = false;
		assert_int_equal(err, cases[i].err);
		assert_true(!err || e.code == err);
		assert_int_equal(files_in(p, "x.pdb/"), cases[i].files);
		assert_int_equal(files_in(p, "code-ids/"), cases[i].code_ids);
		err = code_id_get(p->client, str_from("x.dll"), str_from("5f0c0e0a1000"), &m, NULL, &e);
		assert_int_equal(!err, cases[i].code_ids);
		assert_true(err || (str_equal(m.name, str_from("x.pdb")) && str_equal(m.id, str_from(HEX "1"))));
	}
}

static void threads_share_a_store(void **state)
{
	struct place *p = *state;
	static struct seen seen;
	struct worker workers[THREADS] = {0};
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].number = i;
		workers[i].place.client = store_client_take(p->store);
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].good, THREAD_PUTS);
		store_client_give(workers[i].place.client);
	}
	list(p, &seen);
	assert_int_equal(seen.count, THREADS * THREAD_PUTS + 1);
	for (unsigned i = 0; i < seen.count; i++) {
		char text[20], path[STORE_PATH_MAX];
		unsigned number = number_of(seen.objects[i].path);
		snprintf(text, sizeof text, "part %u", number);
		has_text(p, path_of(path, number), number ? text : "shared");
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
	char path[STORE_PATH_MAX];
	struct error e;
	for (unsigned part = 0; part < PUTS; part++) {
		fill(data, part, round);
		if (put(p, path_of(path, part), data, SIZE, &e) || write(out, "", 1) != 1)
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
		char path[STORE_PATH_MAX];
		unsigned part = number_of(seen.objects[i].path);
		assert_int_equal(seen.objects[i].size, SIZE);
		assert_int_equal(get(p, path_of(path, part), &t, NULL), BUCKET_OK);
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
	        cmocka_unit_test_setup_teardown(an_object_in_memory, setup, teardown),
	        cmocka_unit_test_setup_teardown(clock_of_the_store, setup, teardown),
	        cmocka_unit_test(clock_is_heard),
	        cmocka_unit_test_setup_teardown(claims_are_kept, setup, teardown),
	        cmocka_unit_test(names_of_parts),
	        cmocka_unit_test(names_of_sets),
	        cmocka_unit_test_setup_teardown(a_manifest_makes_a_set_visible, setup, teardown),
	        cmocka_unit_test_setup_teardown(a_manifest_that_is_gone_has_no_names, setup, teardown),
	        cmocka_unit_test_setup_teardown(which_set_answers, setup, teardown),
	        cmocka_unit_test_setup_teardown(many_sets, setup, teardown),
	        cmocka_unit_test_setup_teardown(order_of_durability, setup, teardown),
	        cmocka_unit_test_setup_teardown(failing_disk, setup, teardown),
	        cmocka_unit_test_setup_teardown(abort_leaves_nothing, setup, teardown),
	        cmocka_unit_test_setup_teardown(large_part, setup, teardown),
	        cmocka_unit_test_setup_teardown(foreign_files_belong_to_no_set, setup, teardown),
	        cmocka_unit_test_setup_teardown(leftovers_go_when_old, setup, teardown),
	        cmocka_unit_test_setup_teardown(directory_gone, setup, teardown),
	        cmocka_unit_test_setup_teardown(heartbeat_of_a_store_that_cannot_be_written, setup, teardown),
	        cmocka_unit_test(urls),
	        cmocka_unit_test_setup_teardown(a_file_and_its_code_id, setup, teardown),
	        cmocka_unit_test_setup_teardown(threads_share_a_store, setup, teardown),
	        cmocka_unit_test_setup_teardown(killed_at_any_point, setup, teardown),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
