/* SPDX-License-Identifier: Apache-2.0 */
/* The helper that reads executables: the same records as in this process; files that lie, and readers that die. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>

#include <cmocka.h>

#include <dirent.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "elf/extractors.h"
#include "elf/layouts.h"
#include "extract/elf_file.h"
#include "extract/extract.h"
#include "extract/ids.h"
#include "helper/memory.h"

#define HELPER "./symbolicated-extract"

#ifdef HAVE_SECCOMP
enum { SANDBOX = 1 };
#else
enum { SANDBOX = 0 };
#endif

enum { PARALLEL = 2 };
static struct extractors *helper;

static int start_helper(void **state)
{
	(void)state;
	struct error e;
	return extractors_start(&helper, HELPER, PARALLEL, 64, &e) ? -1 : 0;
}

static int stop_helper(void **state)
{
	(void)state;
	extractors_stop(helper);
	return 0;
}

/* ---- what is extracted ---- */

struct tally {
	uint64_t ranges, pads, sum; /* sum: of all that the records say, in any order */
	uint64_t base;
	enum err refuse;
};

static uint64_t mix(uint64_t h, const void *data, size_t len)
{
	for (size_t i = 0; i < len; i++)
		h = (h ^ ((const uint8_t *)data)[i]) * 0x100000001b3;
	return h;
}

static uint64_t mix_text(uint64_t h, struct str s)
{
	return mix(mix(h, s.data, s.len), "", 1);
}

static enum err take_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct tally *t = arg;
	uint64_t h = 14695981039346656037U, va = r->va - t->base;
	h = mix(mix(h, &va, sizeof va), &r->length, sizeof r->length);
	h = mix(mix(h, &r->depth, sizeof r->depth), &r->call_line, sizeof r->call_line);
	h = mix_text(mix_text(mix_text(h, r->func), r->file), r->call_file);
	for (size_t i = 0; i < r->line_count; i++)
		h = mix(mix(h, &r->lines[i].offset, 4), &r->lines[i].line, 4);
	t->ranges++;
	t->sum += h;
	return t->refuse ? error_set(e, t->refuse, "enough") : ERR_OK;
}

static enum err take_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct tally *t = arg;
	uint64_t h = 1, va = p->va - t->base;
	h = mix(h, &va, sizeof va);
	for (size_t i = 0; i < p->count; i++)
		h = mix(mix_text(mix_text(h, p->frames[i].func), p->frames[i].file), &p->frames[i].line, 4);
	(void)e;
	t->pads++;
	t->sum += h;
	return ERR_OK;
}

static const char *data(const char *name)
{
	static _Thread_local char path[512];
	const char *source = getenv("srcdir");
	snprintf(path, sizeof path, "%s/tests/data/symbfile/%s/%s", source ? source : ".", name, name);
	return path;
}

static struct job_limits limits(void)
{
	return (struct job_limits){
	        .memory = 1U << 30, .file_size = 1U << 30, .seconds = 300, .threads = 2, .sandbox = SANDBOX};
}

static struct build_id_question question_of(const struct build_id *id)
{
	return (struct build_id_question){.whole = *id};
}

static struct build_id id_of(int fd, uint64_t *base)
{
	struct ids ids;
	assert_int_equal(ids_of_fd(&ids, fd, NULL, NULL), ERR_OK);
	*base = ids.image_base;
	return ids.build_id;
}

/* Asks for a file by its own build id. */
static enum err ask(int fd, struct job_limits l, struct tally *t, struct error *e)
{
	uint64_t base;
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	struct extraction job = {.file = fd, .limits = l, .question = &question, .sink = {take_range, take_pad, t}};
	return extract_file(helper, &job, e);
}

static void check_same(const char *path)
{
	struct tally got = {0}, want = {0};
	struct error e = {0};
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	assert_true(fd >= 0);
	id_of(fd, &want.base);
	struct symbfile_sink sink = {take_range, take_pad, &want};
	struct extract_options options = {.debug_dir = "/dev/null", .threads = 1};
	assert_int_equal(extract_executable(path, &options, &sink, NULL, &e), ERR_OK);
	enum err err = ask(fd, limits(), &got, &e);
	if (err)
		fail_msg("%s: %s", path, e.text);
	assert_true(want.ranges > 0);
	assert_int_equal(got.ranges, want.ranges);
	assert_int_equal(got.pads, want.pads);
	assert_true(got.sum == want.sum);
	close(fd);
}

static void test_same_records(void **state)
{
	(void)state;
	static const char *const names[] = {"c-dynsym-x86_64", "c-symtab-x86_64", "c-zlib-x86_64", "cpp-pie-x86_64",
	        "nolibc-static-x86_64", "nolibc-static-aarch64"};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		check_same(data(names[i]));
}

/* ---- other files than asked for ---- */

static int file_of(const void *bytes, size_t len)
{
	int fd = memfd_create("test", MFD_CLOEXEC);
	assert_true(fd >= 0);
	assert_int_equal(pwrite(fd, bytes, len, 0), len);
	return fd;
}

static void check_refused(int fd, const struct build_id *id, enum err want, const char *text)
{
	struct tally t = {0};
	struct error e = {0};
	struct build_id_question question = question_of(id);
	struct extraction job = {
	        .file = fd, .limits = limits(), .question = &question, .sink = {take_range, take_pad, &t}};
	assert_int_equal(extract_file(helper, &job, &e), want);
	if (!strstr(e.text, text))
		fail_msg("%s is not in: %s", text, e.text);
	assert_int_equal(t.ranges, 0);
	close(fd);
}

static void test_other_files(void **state)
{
	(void)state;
	uint64_t base;
	int fd = open(data("c-zlib-x86_64"), O_RDONLY | O_CLOEXEC);
	struct build_id id = id_of(fd, &base), other = id;
	other.bytes[19] ^= 1;
	check_refused(fd, &other, ERR_CORRUPT, "another file");
	check_refused(file_of("not ELF", 7), &id, ERR_CORRUPT, "not an ELF, Mach-O, PE or PDB file");
	check_refused(file_of("", 0), &id, ERR_CORRUPT, "not an ELF, Mach-O, PE or PDB file");
	check_refused(file_of("\x28\xb5\x2f\xfdxxxxxxxxxxxx", 16), &id, ERR_CORRUPT, "compressed data");
	check_refused(file_of("\xfd"
	                      "7zXZ\0xxxxxxxxxx",
	                      16),
	        &id, ERR_CORRUPT, "compressed data");
	check_refused(open("/dev/null", O_RDONLY | O_CLOEXEC), &id, ERR_CORRUPT, "not an ELF, Mach-O, PE or PDB file");
}

/* ---- limits ---- */

/* Zeros of xz or zstd that would fill the disk. */
static void test_bomb(void **state)
{
	(void)state;
	struct build_id id = {.len = 20};
	char line[256];
	char path[] = "/tmp/test_extractors-XXXXXX";
	int fd = mkstemp(path);
	assert_true(fd >= 0);
	static const char *const tools[] = {"xz -0", "zstd -1"};
	for (size_t i = 0; i < 2; i++) {
		snprintf(line, sizeof line, "head -c 64M /dev/zero | %s >%s 2>/dev/null", tools[i], path);
		if (system(line) != 0)
			continue;
		struct tally t = {0};
		struct error e = {0};
		struct build_id_question question = question_of(&id);
		struct extraction job = {.file = open(path, O_RDONLY | O_CLOEXEC),
		        .limits = limits(),
		        .question = &question,
		        .sink = {take_range, take_pad, &t}};
		job.limits.file_size = 32 << 20;
		assert_int_equal(extract_file(helper, &job, &e), ERR_CORRUPT);
		assert_non_null(strstr(e.text, "compressed data: more than"));
		close(job.file);
	}
	unlink(path);
	close(fd);
}

static void test_too_little_memory(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* memory cannot be limited */
#endif
	struct tally t = {0};
	struct error e = {0};
	struct job_limits l = limits();
	int fd = open(data("cpp-pie-x86_64"), O_RDONLY | O_CLOEXEC);
	l.memory = 1 << 20;
	l.threads = 1;
	assert_int_equal(ask(fd, l, &t, &e), ERR_CORRUPT);
	assert_non_null(strstr(e.text, "its reader needed too much memory while"));
	close(fd);
}

/* A library that takes memory that it does not get for malformed data says nothing any more. */
static void test_failed_allocation_ends_the_job(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* their allocator is another */
#endif
	enum { LENGTH = 64 << 20 };
	static struct packet packet;
	int ends[2], status;
	char *text = malloc(LENGTH + 1);
	assert_non_null(text);
	memset(text, 'a', LENGTH);
	text[LENGTH] = 0;
	assert_int_equal(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends), 0);
	pid_t pid = fork();
	if (pid == 0) {
		const struct rlimit most = {LENGTH, LENGTH};
		setrlimit(RLIMIT_DATA, &most);
		bool null = !strdup(text); /* as before a job */
		memory_ends_job(ends[1]);
		packet_send(ends[1], PACKET_DOING, null ? "null" : "", null ? 4 : 0, NULL, 0);
		free(strdup(text));
		_exit(EXIT_SUCCESS);
	}
	assert_true(pid > 0);
	close(ends[1]);
	assert_true(packet_receive(ends[0], &packet) && packet.kind == PACKET_DOING && packet.len == 4);
	assert_true(packet_receive(ends[0], &packet) && packet.kind == PACKET_END && packet.len == 1);
	assert_int_equal(packet.data[0], ERR_NO_MEMORY);
	assert_int_equal(waitpid(pid, &status, 0), pid);
	assert_true(WIFEXITED(status) && WEXITSTATUS(status) == EXIT_FAILURE);
	close(ends[0]);
	free(text);
}

/* The state of a process and its parent, as in proc_pid_stat(5). False if it is gone. */
static bool look_at(pid_t pid, char *state, pid_t *parent)
{
	char path[64], text[512];
	snprintf(path, sizeof path, "/proc/%d/stat", pid);
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t n = fd >= 0 ? read(fd, text, sizeof text - 1) : 0;
	if (fd >= 0)
		close(fd);
	text[n > 0 ? n : 0] = 0;
	const char *name_end = strrchr(text, ')');
	return name_end && sscanf(name_end, ") %c %d", state, parent) == 2;
}

/* The processes of a parent. The kernel's own list of them lacks some while another one ends. */
static unsigned children(pid_t parent, pid_t *first)
{
	unsigned n = 0;
	char state;
	pid_t of;
	DIR *proc = opendir("/proc");
	assert_non_null(proc);
	for (struct dirent *one; (one = readdir(proc));) {
		pid_t pid = (pid_t)atoi(one->d_name);
		if (pid > 0 && look_at(pid, &state, &of) && of == parent && n++ == 0)
			*first = pid;
	}
	closedir(proc);
	return n;
}

/* Once the processes of earlier jobs are gone. */
static unsigned wait_for_children(pid_t parent, unsigned want, pid_t *first)
{
	int64_t until = clock_now() + 60 * SECOND;
	unsigned n;
	while ((n = children(parent, first)) != want && clock_now() < until)
		usleep(1000);
	return n;
}

/* Stops a process, all of its threads: until one of them has taken the signal, the others go on. */
static bool stop(pid_t pid)
{
	char state = 0;
	pid_t parent;
	int64_t until = clock_now() + 60 * SECOND;
	if (kill(pid, SIGSTOP) != 0)
		return false;
	while (look_at(pid, &state, &parent) && state != 'T' && clock_now() < until)
		usleep(1000);
	return state == 'T';
}

/* The process that starts the readers: the helper's second one. */
static pid_t serving(void)
{
	pid_t watcher = 0, server = 0;
	assert_int_equal(wait_for_children(getpid(), 1, &watcher), 1);
	assert_int_equal(wait_for_children(watcher, 1, &server), 1);
	return server;
}

/* Charges a reader's memory, up to a bound. */
struct purse {
	uint64_t most, taken;
	bool asked;
};

static bool take_from(void *arg, enum account_kind kind, uint64_t has, uint64_t bytes)
{
	struct purse *p = arg;
	assert_int_equal(kind, ACCOUNT_HELPER);
	assert_int_equal(has, account_used_for(ACCOUNT_HELPER));
	p->asked = true;
	if (has + bytes > p->most)
		return false;
	p->taken += bytes;
	return account_take(kind, bytes);
}

/* What a reader holds is charged while it runs; where there is no room for it, the reader ends. One that has ended
 * before it is looked at, as on a busy machine, holds nothing: then another is tried. */
static void test_memory_is_charged(void **state)
{
	(void)state;
	uint64_t base;
	int fd = open(data("cpp-pie-x86_64"), O_RDONLY | O_CLOEXEC);
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	struct purse purses[] = {{.most = UINT64_MAX}, {.most = 0}};
	for (size_t i = 0, tries = 0; i < 2; i += purses[i].asked) {
		struct tally t = {0};
		struct error e = {0};
		pid_t reader;
		struct extraction job = {.file = fd,
		        .limits = limits(),
		        .question = &question,
		        .sink = {take_range, take_pad, &t},
		        .take = take_from,
		        .take_arg = &purses[i]};
		enum err err = extract_file(helper, &job, &e);
		assert_int_equal(err, purses[i].most || !purses[i].asked ? ERR_OK : ERR_TOO_LARGE);
		assert_true(err ? strstr(e.text, "no memory for its reader") != NULL
		                : purses[i].taken > 0 || !purses[i].asked);
		assert_true(purses[i].asked || tries++ < 100);
		assert_int_equal(account_used_for(ACCOUNT_HELPER), 0);
		assert_int_equal(wait_for_children(serving(), 0, &reader), 0);
	}
	close(fd);
}

/* ---- a host that lacks something ---- */

/* Bytes of address space that a process has. */
static rlim_t size_of(pid_t pid)
{
	char path[64];
	unsigned long pages = 0;
	snprintf(path, sizeof path, "/proc/%d/statm", pid);
	FILE *f = fopen(path, "r");
	assert_non_null(f);
	assert_int_equal(fscanf(f, "%lu", &pages), 1);
	fclose(f);
	return (rlim_t)pages * (rlim_t)sysconf(_SC_PAGESIZE);
}

/* What a process and those that it starts may have more of; returns what it was. */
static struct rlimit let_have(pid_t pid, int what, rlim_t most)
{
	struct rlimit before, few;
	assert_int_equal(prlimit(pid, what, NULL, &before), 0);
	few = before;
	few.rlim_cur = most;
	assert_int_equal(prlimit(pid, what, &few, NULL), 0);
	return before;
}

struct trial {
	enum err err;
	uint64_t sum;
	char text[256];
};

/* Asks for a program while the helper, and this process, may have so much more address space. */
static struct trial try_poor(rlim_t more, rlim_t own_more)
{
	struct tally t = {0};
	struct error e = {0};
	struct job_limits l = limits();
	struct trial got;
	pid_t server = serving();
	l.threads = 1;
	int fd = open(data("cpp-pie-x86_64"), O_RDONLY | O_CLOEXEC);
	struct rlimit of_helper = let_have(server, RLIMIT_AS, size_of(server) + more);
	struct rlimit own = let_have(getpid(), RLIMIT_AS, own_more ? size_of(getpid()) + own_more : RLIM_INFINITY);
	got.err = ask(fd, l, &t, &e);
	assert_int_equal(prlimit(getpid(), RLIMIT_AS, &own, NULL), 0);
	assert_int_equal(prlimit(server, RLIMIT_AS, &of_helper, NULL), 0);
	close(fd);
	got.sum = t.sum;
	memcpy(got.text, e.text, sizeof got.text);
	return got;
}

/* A reader for which there is no thread has not seen the file. */
static void test_no_thread(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* memory cannot be limited */
#endif
	struct trial got = try_poor(32 << 20, 0);
	assert_int_equal(got.err, ERR_UNAVAILABLE);
	assert_string_equal(got.text, "its reader cannot start a thread");
	check_same(data("c-zlib-x86_64"));
}

/* Wherever a reader runs out of memory that its limits promise, whether this host lacks it is tried, not believed: what
 * the reader says, be it that the file is malformed, may be the file's own word. */
static void test_poor_host(void **state)
{
	(void)state;
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
	skip(); /* memory cannot be limited */
#endif
	enum { STEP = 96 << 10, HALF = 512 << 20 };
	const uint64_t sum = try_poor(1U << 30, 0).sum;
	unsigned corrupt = 0;
	enum err err = ERR_UNAVAILABLE;
	for (rlim_t more = 64 << 20; err; more += STEP) {
		struct trial poor = try_poor(more, HALF), rich = try_poor(more, 0);
		assert_true(more < 128 << 20);
		assert_int_equal(poor.err, rich.err ? ERR_UNAVAILABLE : ERR_OK);
		err = rich.err;
		corrupt += err == ERR_CORRUPT;
		if (err == ERR_CORRUPT)
			assert_string_equal(poor.text, "no memory for its reader: Cannot allocate memory");
		if (!err)
			assert_true(poor.sum == sum && rich.sum == sum);
	}
	assert_in_range(corrupt, 3, 1000);
}

/* A sink that refuses ends it, with its own error. */
static void test_sink_refuses(void **state)
{
	(void)state;
	struct tally t = {.refuse = ERR_TOO_LARGE};
	struct error e = {0};
	int fd = open(data("cpp-pie-x86_64"), O_RDONLY | O_CLOEXEC);
	assert_int_equal(ask(fd, limits(), &t, &e), ERR_TOO_LARGE);
	assert_string_equal(e.text, "enough");
	close(fd);
}

/* ---- readers that die ---- */

struct killing {
	int signal;
	bool done;
};

/* The files that a reader asks for come when it has been killed. */
static int kill_reader(void *arg, const struct build_id *id, struct str name)
{
	struct killing *k = arg;
	pid_t server = serving(), reader = 0;
	(void)id;
	(void)name;
	if (wait_for_children(server, 1, &reader) != 1)
		return -1;
	kill(reader, k->signal);
	k->done = wait_for_children(server, 0, &reader) == 0;
	return -1;
}

static void test_killed(void **state)
{
	(void)state;
	static const struct {
		int signal;
		const char *text;
	} deaths[] = {{SIGKILL, "its reader died of signal 9 while waiting for another file"},
	        {SIGABRT, "its reader died of signal 6 while waiting for another file"},
	        {SIGXCPU, "its reader took too long while waiting for another file"},
	        {SIGXFSZ, "it grows too large while waiting for another file"}};
	uint64_t base;
	int fd = open(data("c-symtab-x86_64"), O_RDONLY | O_CLOEXEC);
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	for (size_t i = 0; i < sizeof deaths / sizeof *deaths; i++) {
		struct tally t = {0};
		struct error e = {0};
		struct killing k = {.signal = deaths[i].signal};
		struct extraction job = {.file = fd,
		        .limits = limits(),
		        .question = &question,
		        .sink = {take_range, take_pad, &t},
		        .provide = kill_reader,
		        .provide_arg = &k};
		assert_int_equal(extract_file(helper, &job, &e), ERR_CORRUPT);
		assert_true(k.done);
		assert_string_equal(e.text, deaths[i].text);
	}
	close(fd);
	check_same(data("c-zlib-x86_64")); /* the next one is not affected */
}

/* Of a file whose reader asks for a second one. */
static enum err extract_asking(int (*provide)(void *arg, const struct build_id *id, struct str name), void *asked,
        unsigned seconds, struct error *e)
{
	uint64_t base;
	struct tally t = {0};
	int fd = open(data("c-symtab-x86_64"), O_RDONLY | O_CLOEXEC);
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	struct extraction job = {.file = fd,
	        .limits = limits(),
	        .question = &question,
	        .sink = {take_range, take_pad, &t},
	        .provide = provide,
	        .provide_arg = asked};
	job.limits.seconds = seconds;
	enum err err = extract_file(helper, &job, e);
	close(fd);
	return err;
}

/* ---- disks that fail ---- */

/* This process's memory, whose first page is nowhere: a file of which each read says EIO. */
static void test_unreadable_file(void **state)
{
	(void)state;
	struct build_id id = {.len = 20};
	int fd = open("/proc/self/mem", O_RDONLY | O_CLOEXEC), other = dup(fd);
	assert_true(fd >= 0 && other >= 0);
	check_refused(fd, &id, ERR_UNAVAILABLE, "the file cannot be read: Input/output error");
	check_refused(other, &id, ERR_UNAVAILABLE, "the file cannot be read: Input/output error");
}

static int unreadable_other(void *arg, const struct build_id *id, struct str name)
{
	(void)id;
	(void)name;
	*(bool *)arg = true;
	return open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
}

/* The same for a further file that its reader asks for. */
static void test_unreadable_further_file(void **state)
{
	(void)state;
	struct error e = {0};
	bool asked = false;
	assert_int_equal(extract_asking(unreadable_other, &asked, 60, &e), ERR_UNAVAILABLE);
	assert_true(asked);
	assert_string_equal(e.text, "the file cannot be read: Input/output error");
}

struct cutting {
	int file;
	off_t len;
	bool done;
};

static int cut_file(void *arg, const struct build_id *id, struct str name)
{
	struct cutting *c = arg;
	(void)id;
	(void)name;
	c->done = ftruncate(c->file, c->len) == 0;
	return -1;
}

static int copy_of(int fd)
{
	static uint8_t bytes[1 << 20];
	ssize_t len = pread(fd, bytes, sizeof bytes, 0);
	assert_in_range(len, 8192 + 1, sizeof bytes - 1);
	return file_of(bytes, (size_t)len);
}

static void check_cut(off_t to)
{
	uint64_t base;
	struct tally t = {0};
	struct error e = {0};
	int fd = open(data("c-symtab-x86_64"), O_RDONLY | O_CLOEXEC);
	struct cutting c = {.file = copy_of(fd), .len = to};
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	struct extraction job = {.file = c.file,
	        .limits = limits(),
	        .question = &question,
	        .sink = {take_range, take_pad, &t},
	        .provide = cut_file,
	        .provide_arg = &c};
	assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
	assert_true(c.done);
	assert_string_equal(e.text, "the file changed while it was read");
	close(c.file);
	close(fd);
}

/* What the reader has mapped is gone: as on a failing disk, it finds no symbols, finds them malformed, or dies. */
static void test_file_that_vanishes(void **state)
{
	(void)state;
	check_cut(0);
	check_cut(1);
	check_cut(4096);
	check_cut(8192);
}

static int growing;

static enum err grow_file(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)arg;
	(void)r;
	(void)e;
	assert_int_equal(ftruncate(growing, 1 << 20), 0);
	return ERR_OK;
}

static int give_growing(void *arg, const struct build_id *id, struct str name)
{
	(void)arg;
	(void)id;
	(void)name;
	return dup(growing);
}

/* The one that is read, or a further one that its reader has. */
static void check_growing(bool further)
{
	uint64_t base;
	struct tally t = {0};
	struct error e = {0};
	int fd = open(data("c-symtab-x86_64"), O_RDONLY | O_CLOEXEC);
	growing = copy_of(fd);
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	struct extraction job = {.file = further ? fd : growing,
	        .limits = limits(),
	        .question = &question,
	        .sink = {grow_file, take_pad, &t},
	        .provide = further ? give_growing : NULL};
	assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
	assert_string_equal(e.text, "the file changed while it was read");
	close(growing);
	close(fd);
}

static void test_file_that_grows(void **state)
{
	(void)state;
	check_growing(false);
	check_growing(true);
}

static int stop_reader(void *arg, const struct build_id *id, struct str name)
{
	pid_t reader = 0;
	(void)id;
	(void)name;
	*(bool *)arg = wait_for_children(serving(), 1, &reader) == 1 && stop(reader);
	return -1;
}

static void test_too_slow(void **state)
{
	(void)state;
	struct error e = {0};
	bool stopped = false;
	/* on a busy machine it may take too long before it asks, too */
	for (unsigned seconds = 1; !stopped; seconds *= 2) {
		assert_true(seconds <= 64);
		assert_int_equal(extract_asking(stop_reader, &stopped, seconds, &e), ERR_CORRUPT);
		assert_non_null(strstr(e.text, "its reader took too long while "));
	}
}

static int sleep_long(void *arg, const struct build_id *id, struct str name)
{
	unsigned *seconds = arg;
	(void)id;
	(void)name;
	struct timespec pause = {.tv_sec = *seconds + 1};
	nanosleep(&pause, NULL);
	*seconds = 0;
	return -1;
}

/* The time that a source takes is not the reader's. */
static void test_slow_source(void **state)
{
	(void)state;
	struct error e = {0};
	enum err err = ERR_CORRUPT;
	/* on a busy machine the reader itself may need longer */
	for (unsigned seconds = 2; err && seconds <= 32; seconds *= 2) {
		unsigned source = seconds;
		err = extract_asking(sleep_long, &source, seconds, &e);
		assert_true(err || source == 0);
	}
	assert_int_equal(err, ERR_OK);
}

/* A reader that does not even begin says nothing about the file. */
static void test_stopped_helper(void **state)
{
	(void)state;
	struct tally t = {0};
	struct error e = {0};
	struct job_limits l = limits();
	pid_t server = serving();
	int fd = open(data("c-zlib-x86_64"), O_RDONLY | O_CLOEXEC);
	l.seconds = 1;
	assert_int_equal(kill(server, SIGSTOP), 0);
	enum err err = ask(fd, l, &t, &e);
	assert_int_equal(kill(server, SIGCONT), 0);
	assert_int_equal(err, ERR_UNAVAILABLE);
	assert_string_equal(e.text, "its reader took too long before it began");
	close(fd);
	check_same(data("c-zlib-x86_64"));
}

/* Jobs that a stopped helper does not take fill its socket. */
static void test_full_socket(void **state)
{
	(void)state;
	enum { JOBS = 3000 };
	struct build_id id = {.len = 1};
	struct build_id_question question = question_of(&id);
	struct tally t = {0};
	struct error e = {0};
	atomic_bool cancel = true;
	struct extraction job = {.file = file_of("x", 1),
	        .limits = limits(),
	        .question = &question,
	        .sink = {take_range, take_pad, &t},
	        .cancel = &cancel};
	pid_t server = serving(), reader;
	int64_t began = clock_now();
	assert_int_equal(kill(server, SIGSTOP), 0);
	alarm(120);
	for (unsigned i = 0; i < JOBS; i++)
		assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
	/* nobody waits for whoever does */
	cancel = false;
	job.limits.seconds = 1;
	assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
	assert_string_equal(e.text, "its reader took too long before it began");
	assert_true(clock_now() - began < 100 * SECOND);
	assert_int_equal(kill(server, SIGCONT), 0);
	alarm(0);
	close(job.file);
	check_same(data("c-zlib-x86_64"));
	assert_int_equal(wait_for_children(serving(), 0, &reader), 0);
}

/* Wherever descriptors run out, that is nothing about the file, and passes. */
static void test_without_descriptors(void **state)
{
	(void)state;
	struct rlimit before, few;
	struct error e = {0};
	unsigned failed = 0;
	int fd = open(data("c-zlib-x86_64"), O_RDONLY | O_CLOEXEC), next = dup(fd);
	close(next);
	assert_int_equal(getrlimit(RLIMIT_NOFILE, &before), 0);
	few = before;
	for (int more = 0; more < 8; more++) {
		struct tally t = {0};
		uint64_t base;
		struct build_id id = id_of(fd, &base);
		struct build_id_question question = question_of(&id);
		struct extraction job = {
		        .file = fd, .limits = limits(), .question = &question, .sink = {take_range, take_pad, &t}};
		few.rlim_cur = (rlim_t)(next + more);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
		enum err err = extract_file(helper, &job, &e);
		assert_int_equal(setrlimit(RLIMIT_NOFILE, &before), 0);
		assert_true(err == ERR_OK || err == ERR_UNAVAILABLE);
		failed += err != ERR_OK;
	}
	assert_in_range(failed, 3, 7);
	close(fd);
	check_same(data("c-zlib-x86_64"));
}

static int cannot_provide(void *arg, const struct build_id *id, struct str name)
{
	(void)id;
	(void)name;
	*(bool *)arg = true;
	return PROVIDE_FAILED;
}

/* Without a further file that may be there less would be known: that is not the module's answer. */
static void test_source_that_fails(void **state)
{
	(void)state;
	struct error e = {0};
	bool asked = false;
	assert_int_equal(extract_asking(cannot_provide, &asked, 60, &e), ERR_UNAVAILABLE);
	assert_true(asked);
}

static void test_cancelled(void **state)
{
	(void)state;
	struct build_id id = {.len = 1};
	struct build_id_question question = question_of(&id);
	struct tally t = {0};
	struct error e = {0};
	atomic_bool cancel = true;
	struct extraction job = {.file = file_of("x", 1),
	        .limits = limits(),
	        .question = &question,
	        .sink = {take_range, take_pad, &t},
	        .cancel = &cancel};
	assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
	close(job.file);
}

/* While it is set, whoever looks at a clock sets it to true, and sees the wall clock before somebody puts that back. */
static atomic_bool *cancelled_meanwhile;

int clock_gettime(clockid_t clock, struct timespec *t)
{
	int result = (int)syscall(SYS_clock_gettime, clock, t);
	if (cancelled_meanwhile) {
		*cancelled_meanwhile = true;
		t->tv_sec += clock == CLOCK_REALTIME ? 3600 : 0;
	}
	return result;
}

static void test_waiting_is_cancelled_when_the_wall_clock_is_put_back(void **state)
{
	(void)state;
	const struct client_key client = {0, 1};
	struct visit visits[PARALLEL + 1];
	atomic_bool cancel = false;
	for (unsigned i = 0; i < PARALLEL; i++)
		assert_true(extractors_enter(helper, PLACE_READ, (struct client_key){0, i}, &visits[i], NULL));
	cancelled_meanwhile = &cancel;
	alarm(30);
	assert_false(extractors_enter(helper, PLACE_READ, client, &visits[PARALLEL], &cancel));
	alarm(0);
	cancelled_meanwhile = NULL;
	for (unsigned i = 0; i < PARALLEL; i++)
		extractors_leave(helper, PLACE_READ, &visits[i]);
}

/* Stops the reader, so that nothing but a kill can end it, and cancels its job. */
static int stop_and_cancel(void *arg, const struct build_id *id, struct str name)
{
	pid_t reader = 0;
	(void)id;
	(void)name;
	if (wait_for_children(serving(), 1, &reader) == 1 && stop(reader))
		atomic_store((atomic_bool *)arg, true);
	return -1;
}

static void test_cancelled_readers_are_killed(void **state)
{
	(void)state;
	uint64_t base;
	pid_t reader;
	struct tally t = {0};
	struct error e = {0};
	atomic_bool cancel = false;
	int fd = open(data("c-symtab-x86_64"), O_RDONLY | O_CLOEXEC);
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	struct extraction job = {.file = fd,
	        .limits = limits(),
	        .question = &question,
	        .sink = {take_range, take_pad, &t},
	        .provide = stop_and_cancel,
	        .provide_arg = &cancel,
	        .cancel = &cancel};
	assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
	assert_true(cancel);
	assert_int_equal(wait_for_children(serving(), 0, &reader), 0);
	close(fd);
}

static void *ask_many(void *arg)
{
	(void)arg;
	for (int i = 0; i < 5; i++)
		check_same(data("c-zlib-x86_64"));
	return NULL;
}

static void test_several_at_a_time(void **state)
{
	(void)state;
	pthread_t threads[4];
	pid_t reader;
	for (size_t i = 0; i < 4; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, ask_many, NULL), 0);
	for (size_t i = 0; i < 4; i++)
		pthread_join(threads[i], NULL);
	assert_int_equal(wait_for_children(serving(), 0, &reader), 0); /* nothing is left over */
}

/* ---- damage ---- */

static void check_damaged(uint8_t *bytes, size_t len, const struct build_id *id)
{
	struct tally t = {0};
	struct error e = {0};
	struct build_id_question question = question_of(id);
	struct extraction job = {.file = file_of(bytes, len),
	        .limits = limits(),
	        .question = &question,
	        .sink = {take_range, take_pad, &t}};
	enum err err = extract_file(helper, &job, &e);
	assert_true(err == ERR_OK || err == ERR_CORRUPT || err == ERR_MISSING);
	assert_true(!err || *e.text);
	if (strstr(e.text, "its reader"))
		fail_msg("%s", e.text); /* none of these kills it */
	close(job.file);
}

static void test_damaged(void **state)
{
	(void)state;
	uint64_t base;
	struct stat st;
	int fd = open(data("cpp-pie-x86_64"), O_RDONLY | O_CLOEXEC);
	struct build_id id = id_of(fd, &base);
	assert_int_equal(fstat(fd, &st), 0);
	size_t len = (size_t)st.st_size;
	uint8_t *whole = malloc(len), *bytes = malloc(len);
	assert_int_equal(pread(fd, whole, len, 0), len);
	srandom(7);
	for (int i = 0; i < 100; i++) {
		memcpy(bytes, whole, len);
		for (int k = 0; k < 20; k++)
			bytes[(size_t)random() % len] = (uint8_t)random();
		check_damaged(bytes, i % 3 == 0 ? (size_t)random() % len : len, &id);
	}
	free(whole);
	free(bytes);
	close(fd);
}

/* ---- start and end ---- */

static void test_wrong_programs(void **state)
{
	(void)state;
	struct extractors *x;
	struct error e = {0};
	assert_int_equal(extractors_start(&x, "/nowhere/at/all", 1, 64, &e), ERR_CONFIG);
	assert_non_null(strstr(e.text, "/nowhere/at/all"));
	assert_int_equal(extractors_start(&x, "/bin/true", 1, 64, &e), ERR_CONFIG);
	assert_non_null(strstr(e.text, "does not start"));
	assert_null(x);
	extractors_stop(NULL);
}

/* Kills the process that has started the reader, which ends, too. */
static int kill_serving(void *arg, const struct build_id *id, struct str name)
{
	pid_t server = serving(), *reader = arg;
	int64_t until = clock_now() + 60 * SECOND;
	(void)id;
	(void)name;
	if (wait_for_children(server, 1, reader) == 1)
		kill(server, SIGKILL);
	while (kill(*reader, 0) == 0 && clock_now() < until)
		usleep(1000);
	return -1;
}

/* Whoever starts the readers is started again. Those that ran end, and none stays as a zombie. */
static void test_restarted(void **state)
{
	(void)state;
	uint64_t base;
	pid_t server;
	int fd = open(data("c-symtab-x86_64"), O_RDONLY | O_CLOEXEC);
	struct build_id id = id_of(fd, &base);
	struct build_id_question question = question_of(&id);
	prctl(PR_SET_CHILD_SUBREAPER, 1); /* what nobody has reaped would come here */
	for (int i = 0; i < 2; i++) {
		struct tally t = {0};
		struct error e = {0};
		pid_t reader = 0;
		struct extraction job = {.file = fd,
		        .limits = limits(),
		        .question = &question,
		        .sink = {take_range, take_pad, &t},
		        .provide = kill_serving,
		        .provide_arg = &reader};
		assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
		assert_string_equal(e.text,
		        "the helper symbolicated-extract was killed, or its message could not be taken; try again");
		assert_int_not_equal(reader, 0);
		check_same(data("c-zlib-x86_64"));
		assert_true(kill(reader, 0) != 0);
		serving(); /* neither this process nor the one that watches has another child */
	}
	close(fd);
	assert_int_equal(children(getpid(), &server), 1);
}

/* The helper itself is gone: no guess, and no crash. The last test. */
static void test_without_helper(void **state)
{
	(void)state;
	pid_t server = 0;
	struct build_id id = {.len = 1};
	struct build_id_question question = question_of(&id);
	struct tally t = {0};
	struct error e = {0};
	assert_int_equal(children(getpid(), &server), 1);
	kill(server, SIGKILL);
	struct extraction job = {
	        .file = file_of("x", 1), .limits = limits(), .question = &question, .sink = {take_range, take_pad, &t}};
	/* what it has started ends a moment later: until then it may still read a file, or die while it does */
	for (int64_t until = clock_now() + 60 * SECOND; !strstr(e.text, "has ended") && clock_now() < until;) {
		enum err err = extract_file(helper, &job, &e);
		assert_true(err == ERR_CORRUPT || err == ERR_UNAVAILABLE);
	}
	for (int i = 0; i < 3; i++) {
		assert_int_equal(extract_file(helper, &job, &e), ERR_UNAVAILABLE);
		assert_non_null(strstr(e.text, "symbolicated-extract has ended"));
	}
	close(job.file);
}

/* A package is looked for beside each file, and beside a descriptor there is none. */
static void test_nothing_is_beside_a_descriptor(void **state)
{
	(void)state;
	char path[32];
	struct elf_file f;
	struct error e;
	int fd = open(data("cpp-pie-x86_64"), O_RDONLY | O_CLOEXEC);
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	assert_int_equal(elf_file_open_any(&f, path, &e), ERR_OK);
	elf_file_close(&f);
	strcat(path, ".dwp");
	assert_int_equal(elf_file_open_any(&f, path, &e), ERR_IO);
	close(fd);
}

/* A file may name anything. */
static void test_names_of_shared_files(void **state)
{
	(void)state;
	static const char *const good[][2] = {
	        {"/usr/lib/debug/.dwz/x86_64-linux-gnu/libstdc++6.debug", ".dwz/x86_64-linux-gnu/libstdc++6.debug"},
	        {"../../.dwz/bash-5.2-1.fc40.x86_64", ".dwz/bash-5.2-1.fc40.x86_64"}};
	static const char *const bad[] = {"", "common.debug", ".dwz/a", "/.dwz/", "/.dwz/../a", "/.dwz/a/..",
	        "/.dwz/./a", "/.dwz//a", "/.dwz/a/", "/.dwz/a?b", "/.dwz/a%2fb", "/.dwz/a b", "/.dwz/a#b", "/.dwz/a\\b",
	        "/.dwz/a\nb"};
	char out[LAYOUT_SHARED_MAX], name[2 * LAYOUT_SHARED_MAX] = "/.dwz/";
	for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
		assert_true(layout_shared_path(out, BUCKET_ELF, str_from(good[i][0])));
		assert_string_equal(out, good[i][1]);
		assert_false(layout_shared_path(out, BUCKET_DEBUGINFOD, str_from(good[i][0])));
	}
	for (size_t i = 0; i < sizeof bad / sizeof *bad; i++)
		assert_false(layout_shared_path(out, BUCKET_ELF, str_from(bad[i])));
	assert_false(layout_shared_path(out, BUCKET_ELF, (struct str){"/.dwz/a\0b", 9}));
	memset(name + 6, 'a', LAYOUT_SHARED_MAX - 6);
	assert_true(layout_shared_path(out, BUCKET_ELF, str_from(name)));
	name[LAYOUT_SHARED_MAX] = 'a';
	assert_false(layout_shared_path(out, BUCKET_ELF, str_from(name)));
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_same_records),
	        cmocka_unit_test(test_nothing_is_beside_a_descriptor),
	        cmocka_unit_test(test_names_of_shared_files),
	        cmocka_unit_test(test_other_files),
	        cmocka_unit_test(test_bomb),
	        cmocka_unit_test(test_too_little_memory),
	        cmocka_unit_test(test_failed_allocation_ends_the_job),
	        cmocka_unit_test(test_memory_is_charged),
	        cmocka_unit_test(test_no_thread),
	        cmocka_unit_test(test_poor_host),
	        cmocka_unit_test(test_sink_refuses),
	        cmocka_unit_test(test_killed),
	        cmocka_unit_test(test_unreadable_file),
	        cmocka_unit_test(test_unreadable_further_file),
	        cmocka_unit_test(test_file_that_vanishes),
	        cmocka_unit_test(test_file_that_grows),
	        cmocka_unit_test(test_too_slow),
	        cmocka_unit_test(test_slow_source),
	        cmocka_unit_test(test_stopped_helper),
	        cmocka_unit_test(test_full_socket),
	        cmocka_unit_test(test_without_descriptors),
	        cmocka_unit_test(test_source_that_fails),
	        cmocka_unit_test(test_cancelled),
	        cmocka_unit_test(test_waiting_is_cancelled_when_the_wall_clock_is_put_back),
	        cmocka_unit_test(test_cancelled_readers_are_killed),
	        cmocka_unit_test(test_several_at_a_time),
	        cmocka_unit_test(test_damaged),
	        cmocka_unit_test(test_wrong_programs),
	        cmocka_unit_test(test_restarted),
	        cmocka_unit_test(test_without_helper),
	};
	return cmocka_run_group_tests(tests, start_helper, stop_helper);
}
