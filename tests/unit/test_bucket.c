/* SPDX-License-Identifier: Apache-2.0 */
/* Buckets: object paths, directories, and real HTTP servers (tests/tools/bucket_server.py) that misbehave on request.
 */
#include <config.h>

#include "objects/bucket.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <arpa/inet.h>
#include <cmocka.h>
#include <zstd.h>
#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <netinet/in.h>
#include <pthread.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/gzip.h"
#include "seed.h"

#define ID "44E4EC8C2F41492B9369D6B9A059577C2"
static const struct str id = {ID, sizeof ID - 1};

/* An address of documentation, hence none of ours: connections to it go to loopback, so that a source can seem to be on
 * the internet. */
#define PUBLIC_ADDRESS "198.51.100.7"

int connect(int fd, const struct sockaddr *address, socklen_t len)
{
	struct sockaddr_in in;
	if (address->sa_family == AF_INET && len >= sizeof in) {
		memcpy(&in, address, sizeof in);
		if (in.sin_addr.s_addr == inet_addr(PUBLIC_ADDRESS)) {
			in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
			return (int)syscall(SYS_connect, fd, &in, sizeof in);
		}
	}
	return (int)syscall(SYS_connect, fd, address, len);
}

/* the directory and the servers */

static char directory[] = "/tmp/test-bucket-XXXXXX";

struct server {
	pid_t pid;
	int port;
};
static struct server plain, with_header, guarded;

static void start_server(struct server *s, const char *flag, const char *value)
{
	char tool[4096], line[200];
	int ends[2];
	const char *top = getenv("srcdir");
	snprintf(tool, sizeof tool, "%s/tests/tools/bucket_server.py", top ? top : ".");
	assert_int_equal(pipe(ends), 0);
	s->pid = fork();
	assert_true(s->pid >= 0);
	if (s->pid == 0) {
		prctl(PR_SET_PDEATHSIG, SIGKILL); /* also when a test crashes */
		dup2(ends[1], 1);
		close(ends[0]);
		execlp("python3", "python3", tool, directory, flag, value, (char *)NULL);
		_exit(127);
	}
	close(ends[1]);
	FILE *out = fdopen(ends[0], "r");
	assert_non_null(fgets(line, sizeof line, out));
	assert_int_equal(sscanf(line, "ready http://127.0.0.1:%d/", &s->port), 1);
	fclose(out);
}

static void stop_server(struct server *s)
{
	int status;
	if (s->pid > 0) {
		kill(s->pid, SIGTERM);
		waitpid(s->pid, &status, 0);
	}
}

/* One request on a connection of its own; the reply with its head goes to out. */
static void ask(const struct server *s, const char *method, const char *path, const char *body, char *out, size_t size)
{
	char request[1000];
	struct sockaddr_in in = {.sin_family = AF_INET, .sin_port = htons((uint16_t)s->port)};
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	int fd = socket(AF_INET, SOCK_STREAM, 0), n;
	assert_int_equal(connect(fd, (struct sockaddr *)&in, sizeof in), 0);
	n = snprintf(request, sizeof request,
	        "%s %s HTTP/1.1\r\nHost: t\r\nConnection: close\r\nContent-Length: %zu\r\n\r\n%s", method, path,
	        strlen(body), body);
	assert_int_equal(write(fd, request, (size_t)n), n);
	size_t have = 0;
	for (ssize_t got; have + 1 < size && (got = read(fd, out + have, size - 1 - have)) > 0;)
		have += (size_t)got;
	out[have] = 0;
	close(fd);
	assert_memory_equal(out, "HTTP/1.1 200 ", 13);
}

static void control(const struct server *s, const char *mode, unsigned times)
{
	char body[300], reply[2000], count[20] = "null";
	if (times)
		snprintf(count, sizeof count, "%u", times);
	snprintf(body, sizeof body, "{\"path\": \"*\", \"mode\": \"%s\", \"times\": %s}", mode, count);
	ask(s, "POST", "/_control", body, reply, sizeof reply);
}

static void forget(const struct server *s)
{
	char reply[2000];
	ask(s, "POST", "/_reset", "", reply, sizeof reply);
}

static int hits(const struct server *s)
{
	static char reply[100000];
	int total = -1;
	ask(s, "GET", "/_hits", "", reply, sizeof reply);
	assert_int_equal(sscanf(strstr(reply, "\"total\": "), "\"total\": %d", &total), 1);
	return total;
}

/* files */

static char *text;
static size_t text_len;

static void make_path(char *path, const char *name, const char *file)
{
	sprintf(path, "%s/%s", directory, name);
	mkdir(path, 0755);
	sprintf(path, "%s/%s/%s", directory, name, ID);
	mkdir(path, 0755);
	sprintf(path, "%s/%s/%s/%s", directory, name, ID, file);
}

static void put(const char *name, const char *file, const void *data, size_t len)
{
	char path[5000];
	make_path(path, name, file);
	FILE *out = fopen(path, "wb");
	assert_non_null(out);
	assert_int_equal(fwrite(data, 1, len, out), len);
	assert_int_equal(fclose(out), 0);
}

/* name is stored as gzip in gzip in … */
static void put_gzip(const char *name, const char *file, const void *data, size_t len, unsigned layers)
{
	uint8_t *packed = NULL, *before = NULL;
	for (unsigned i = 0; i < layers; i++) {
		assert_int_equal(gzip_compress(data, len, &packed, &len), ERR_OK);
		free(before);
		before = packed;
		data = packed;
	}
	put(name, file, packed, len);
	free(packed);
}

static void put_zstd(const char *name, const char *file, const void *data, size_t len)
{
	size_t room = ZSTD_compressBound(len);
	void *packed = malloc(room);
	size_t n = ZSTD_compress(packed, room, data, len, 1);
	assert_false(ZSTD_isError(n));
	put(name, file, packed, n);
	free(packed);
}

static void make_text(void)
{
	FILE *out = open_memstream(&text, &text_len);
	fprintf(out, "MODULE Linux x86_64 " ID " plain\n");
	for (unsigned i = 0; i < 40000; i++)
		fprintf(out, "FUNC %x %x 0 function_%u\n", i * 4099, i % 977 + 1, i * 7919);
	fclose(out);
}

static int set_up(void **state)
{
	(void)state;
	assert_non_null(mkdtemp(directory));
	make_text();
	put("plain", "plain.sym", text, text_len);
	put_gzip("gz1", "gz1.sym", text, text_len, 1);
	put_gzip("gz2", "gz2.sym", text, text_len, 2);
	put_gzip("gz3", "gz3.sym", text, text_len, 3);
	put_zstd("zs1", "zs1.sym", text, text_len);
	put("empty", "empty.sym", "", 0);
	put("one", "one.sym", "\n", 1);
	put("xul.PDB", "xul.sym", text, text_len);
	put("a b+%41[x]:~,é&?#.so", "a b+%41[x]:~,é&?#.so.sym", text, text_len);
	start_server(&plain, NULL, NULL);
	start_server(&with_header, "--gzip-header", NULL);
	start_server(&guarded, "--auth", "someone:se:cret/@");
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
	stop_server(&plain);
	stop_server(&with_header);
	stop_server(&guarded);
	free(text);
	nftw(directory, remove_one, 16, FTW_DEPTH | FTW_PHYS);
	return 0;
}

/* a bucket and a sink */

struct bucket {
	struct config config;
	char url[5000];
	struct bucket_sources *sources;
	struct bucket_client *client;
};

static void bucket_open(struct bucket *b)
{
	struct error e = {0};
	struct config *c = &b->config;
	/* patience with a machine that is busy: who tests a timeout sets it */
	if (!c->bucket_connect_timeout)
		c->bucket_connect_timeout = 60 * SECOND;
	if (!c->bucket_stall_timeout)
		c->bucket_stall_timeout = 60 * SECOND;
	if (!c->bucket_total_timeout)
		c->bucket_total_timeout = 60 * SECOND;
	if (!c->bucket_max_size)
		c->bucket_max_size = 1 << 30;
	c->sources.items[0] = b->url;
	c->sources.count = 1;
	b->sources = bucket_sources_of(c, &c->sources, &e); /* nobody else asks the server */
	if (!b->sources)
		fail_msg("%s", e.text);
	assert_int_equal(bucket_sources_count(b->sources), 1);
	b->client = bucket_client_new(b->sources);
	assert_non_null(b->client);
}

static void bucket_open_server(struct bucket *b, const struct server *s)
{
	snprintf(b->url, sizeof b->url, "http://127.0.0.1:%d/", s->port);
	bucket_open(b);
}

static void bucket_close(struct bucket *b)
{
	bucket_client_free(b->client);
	bucket_sources_free(b->sources);
}

struct target {
	uint8_t *data;
	size_t len, cap, room;          /* room: offered at a time */
	size_t stop_space, stop_commit; /* aborts when len reaches this; 0: never */
};

static uint8_t *target_space(void *arg, size_t *room)
{
	struct target *t = arg;
	if (t->stop_space && t->len >= t->stop_space)
		return NULL;
	if (t->cap - t->len < t->room) {
		t->cap = 2 * t->cap + t->room;
		t->data = realloc(t->data, t->cap);
		assert_non_null(t->data);
	}
	*room = t->room;
	return t->data + t->len;
}

static bool target_commit(void *arg, size_t n)
{
	struct target *t = arg;
	t->len += n;
	return !t->stop_commit || t->len < t->stop_commit;
}

static enum bucket_outcome fetch_into(struct bucket *b, const char *name, struct target *t, struct bucket_result *r)
{
	struct bucket_sink sink = {.space = target_space, .commit = target_commit, .arg = t};
	memset(r, 0x55, sizeof *r);
	bucket_fetch(b->client, 0, (struct bucket_object){str_from(name), id}, &sink, NULL, r);
	assert_int_equal(r->text_bytes, t->len);
	assert_int_equal(r->text_bytes > 0, t->len > 0);
	assert_non_null(memchr(r->text, 0, sizeof r->text));
	assert_true(r->elapsed >= 0 && r->elapsed < 100 * SECOND);
	return r->outcome;
}

static enum bucket_outcome fetch(struct bucket *b, const char *name, struct bucket_result *r)
{
	struct target t = {.room = 65536};
	enum bucket_outcome outcome = fetch_into(b, name, &t, r);
	bool fits = t.len <= text_len && memcmp(t.data ? (char *)t.data : "", text, t.len) == 0;
	/* What came is the beginning of the text, unless a changed byte is known only by the checksum behind it. */
	assert_true(fits || (outcome == BUCKET_BROKEN && strcmp(r->text, "bad gzip") == 0));
	if (outcome == BUCKET_OK)
		assert_int_equal(t.len, text_len);
	free(t.data);
	return outcome;
}

/* paths */

static void names_and_ids(void **state)
{
	(void)state;
	static const char *const good[] = {"a", "...", ".pdb", "libc.so.6", "[vdso]", "{ec8030f7}.xpi", "a b", "é",
	        "..pdb", "%2e%2e", "C:", "~", "x?y#z", "\xf0\x9f\x98\x80", "-"};
	static const char *const bad[] = {"", ".", "..", "/", "a/b", "../x", "a\\b", "a\nb", "a\x7f", "\x01", "\xff",
	        "a\xc3", "\xc0\xaf", "\xed\xa0\x80"};
	static const char *const bad_ids[] = {"", "x", "12G", "1 2", "../1", "0x12", "1/2", "é"};
	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_true(bucket_can_hold(str_from(good[i]), id));
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_false(bucket_can_hold(str_from(bad[i]), id));
	for (unsigned i = 0; i < sizeof bad_ids / sizeof bad_ids[0]; i++)
		assert_false(bucket_can_hold(str_from("a"), str_from(bad_ids[i])));
	assert_true(bucket_can_hold(str_from("a"), str_from("0")));
	assert_true(bucket_can_hold(str_from("a"), str_from("abcDEF0189")));
	assert_false(bucket_can_hold((struct str){"a\0b", 3}, id));
	char longest[1025];
	memset(longest, 'a', sizeof longest);
	assert_true(bucket_can_hold((struct str){longest, 1024}, (struct str){longest, 1024}));
	assert_false(bucket_can_hold((struct str){longest, 1025}, id));
	assert_false(bucket_can_hold(str_from("a"), (struct str){longest, 1025}));
}

static void object_paths(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
	        {"xul.pdb", "xul.pdb/AB1/xul.sym"},
	        {"XUL.PdB", "XUL.PdB/AB1/XUL.sym"},
	        {"libxul.so", "libxul.so/AB1/libxul.so.sym"},
	        {".pdb", ".pdb/AB1/.sym"},
	        {"pdb", "pdb/AB1/pdb.sym"},
	        {"a.pdb.pdb", "a.pdb.pdb/AB1/a.pdb.sym"},
	        {"a b+c%2F", "a%20b%2Bc%252F/AB1/a%20b%2Bc%252F.sym"},
	        {"...", ".../AB1/....sym"},
	        {"é~_-", "%C3%A9~_-/AB1/%C3%A9~_-.sym"},
	};
	char out[BUCKET_PATH_MAX];
	for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		size_t n = bucket_object_path(out, str_from(pairs[i][0]), str_from("AB1"));
		assert_string_equal(out, pairs[i][1]);
		assert_int_equal(n, strlen(out));
	}
}

static uint64_t seed; /* set by main */

static unsigned noise_step(unsigned below)
{
	seed = seed * 6364136223846793005U + 1442695040888963407U;
	return (unsigned)(seed >> 33) % below;
}

/* A segment of a path as a server decodes it. */
static size_t decode_segment(const char *p, size_t len, char *out)
{
	size_t n = 0;
	for (size_t i = 0; i < len; i++) {
		unsigned value = (unsigned char)p[i];
		if (value == '%') {
			assert_int_equal(sscanf(p + i, "%%%2X", &value), 1);
			i += 2;
		} else {
			assert_non_null(strchr(
			        "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-._~", (int)value));
		}
		out[n++] = (char)value;
	}
	return n;
}

/* Whatever the name and id: refused, or exactly one object two levels below the prefix. */
static void any_name_gives_one_path_below(void **state)
{
	(void)state;
	static const char *const bits[] = {".", "..", "/", "\\", "%2e", "%2F", "a", "B", ".pdb", ".PDB", ".sym", " ",
	        "+", "é", "\xff", "\n", "?", "#", "~", "\xe2\x80\xae", ":", "0"};
	unsigned held = 0;
	for (unsigned round = 0; round < 50000; round++) {
		char name[200] = "", hex[100] = "", out[BUCKET_PATH_MAX], back[400];
		for (unsigned k = noise_step(6); k > 0; k--)
			strcat(name, bits[noise_step(sizeof bits / sizeof bits[0])]);
		for (unsigned k = noise_step(5); k > 0; k--)
			strcat(hex, noise_step(40) ? (const char *[]){"0", "9", "a", "F"}[noise_step(4)]
			                           : bits[noise_step(8)]);
		if (!bucket_can_hold(str_from(name), str_from(hex)))
			continue;
		held++;
		size_t n = bucket_object_path(out, str_from(name), str_from(hex));
		const char *first = strchr(out, '/'), *second = first ? strchr(first + 1, '/') : NULL;
		assert_int_equal(n, strlen(out));
		assert_non_null(second);
		assert_null(strchr(second + 1, '/'));
		back[decode_segment(out, (size_t)(first - out), back)] = 0;
		assert_string_equal(back, name);
		assert_true(strcmp(back, ".") != 0 && strcmp(back, "..") != 0 && *back && !strchr(back, '/'));
		back[decode_segment(first + 1, (size_t)(second - first) - 1, back)] = 0;
		assert_string_equal(back, hex);
		back[decode_segment(second + 1, strlen(second + 1), back)] = 0;
		assert_true(strlen(back) >= 4 && strcmp(back + strlen(back) - 4, ".sym") == 0);
		size_t stem = strlen(back) - 4;
		assert_memory_equal(back, name, stem);
		assert_true(name[stem] == 0 || strcasecmp(name + stem, ".pdb") == 0);
	}
	assert_in_range(held, 1000, 49000);
}

static void longest_path_fits(void **state)
{
	(void)state;
	char name[1025] = "", out[BUCKET_PATH_MAX];
	for (unsigned i = 0; i < 512; i++)
		strcat(name, "é");
	char hex[1025];
	memset(hex, 'F', 1024);
	assert_true(bucket_can_hold((struct str){name, 1024}, (struct str){hex, 1024}));
	size_t n = bucket_object_path(out, (struct str){name, 1024}, (struct str){hex, 1024});
	assert_int_equal(n, 3072 + 1 + 1024 + 1 + 3072 + 4);
	assert_int_equal(strlen(out), n);
}

static void urls(void **state)
{
	(void)state;
	static const char *const good[] = {"http://a/", "https://a.example:8443/x/y", "HTTP://a", "file:///a",
	        "http://a#symstore", "https://a/b#symstore", "s3://bucket/a#symstore", "file:///a#symstore",
	        "file://localhost/a/b", "http://u:p@a/", "http://[::1]:80/", "https://a/c?sig=1", "file:///a%20b"};
	static const char *const bad[] = {"", "a", "ftp://a/", "s3:/", "http://", "http:///x", "file://a",
	        "file://host/a", "file:///a%2", "file:///a%00", "file:///a?b", "http://a b/", "http://a/#x",
	        "http://a/#symstore/", "file:///a#symstore#symstore", "#symstore", "http://a:99999/", "/etc",
	        "http://u:p@"};
	struct config none = {0};
	struct error e;
	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++)
		assert_int_equal(bucket_check_url(&none, good[i], &e), ERR_OK);
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++) {
		e = (struct error){0};
		if (bucket_check_url(&none, bad[i], &e) != ERR_CONFIG)
			fail_msg("%s is taken", bad[i]);
		assert_true(*e.text);
		assert_int_equal(bucket_check_url(&none, bad[i], NULL), ERR_CONFIG);
	}
	assert_int_equal(bucket_check_url(&none, "http://user:hunter2@a b/", &e), ERR_CONFIG);
	assert_null(strstr(e.text, "hunter2"));
}

static void names_hide_secrets(void **state)
{
	(void)state;
	static const char *const pairs[][2] = {
	        {"https://user:hunter2@host.example/path?token=hunter2", "https://host.example/path/"},
	        {"http://host.example:81", "http://host.example:81/"},
	        {"file:///srv/symbols", "file:///srv/symbols"},
	};
	for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		struct bucket b = {0};
		strcpy(b.url, pairs[i][0]);
		bucket_open(&b);
		assert_string_equal(bucket_source_name(b.sources, 0), pairs[i][1]);
		bucket_close(&b);
	}
}

/* directories */

static void file_objects(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	struct error e;
	char path[5000], link_to[5000];
	sprintf(b.url, "file://%s", directory);
	bucket_open(&b);
	const char *const whole[] = {"plain", "gz1", "gz2", "zs1", "xul.PDB", "a b+%41[x]:~,é&?#.so"};
	for (unsigned i = 0; i < sizeof whole / sizeof whole[0]; i++) {
		assert_int_equal(fetch(&b, whole[i], &r), BUCKET_OK);
		assert_true(r.length_known && r.text_bytes);
		assert_int_equal(r.status, 0);
	}
	assert_int_equal(fetch(&b, "nothing", &r), BUCKET_MISSING);
	assert_int_equal(fetch(&b, "..", &r), BUCKET_MISSING);
	make_path(path, "dir", "dir.sym");
	mkdir(path, 0755);
	assert_int_equal(fetch(&b, "dir", &r), BUCKET_MISSING);
	make_path(path, "fifo", "fifo.sym");
	assert_int_equal(mkfifo(path, 0644), 0);
	assert_int_equal(fetch(&b, "fifo", &r), BUCKET_MISSING);
	make_path(path, "loop", "loop.sym");
	assert_int_equal(symlink("loop.sym", path), 0);
	assert_int_equal(fetch(&b, "loop", &r), BUCKET_FAILED);
	assert_true(*r.text);
	make_path(path, "link", "link.sym");
	make_path(link_to, "plain", "plain.sym");
	assert_int_equal(symlink(link_to, path), 0);
	assert_int_equal(fetch(&b, "link", &r), BUCKET_OK);
	/* A file where a directory is wanted. */
	sprintf(path, "%s/flat", directory);
	fclose(fopen(path, "w"));
	assert_int_equal(fetch(&b, "flat", &r), BUCKET_MISSING);
	char longest[1025] = "";
	memset(longest, 'n', 1024);
	assert_int_equal(fetch(&b, longest, &r), BUCKET_MISSING);
	assert_int_equal(bucket_probe(b.client, 0, &e), ERR_OK);
	bucket_close(&b);
}

/* root may read everything, so it becomes nobody for a moment. */
static void file_without_permission(void **state)
{
	(void)state;
	uid_t user = geteuid();
	struct bucket b = {0};
	struct bucket_result r;
	char path[5000];
	put("closed", "closed.sym", text, text_len);
	make_path(path, "closed", "closed.sym");
	chmod(path, 0);
	sprintf(b.url, "file://%s", directory);
	bucket_open(&b);
	chmod(directory, 0755);
	if (user == 0)
		assert_int_equal(seteuid(65534), 0);
	enum bucket_outcome outcome = fetch(&b, "closed", &r);
	if (user == 0)
		assert_int_equal(seteuid(0), 0);
	assert_int_equal(outcome, BUCKET_FAILED);
	assert_string_equal(r.text, strerror(EACCES));
	bucket_close(&b);
}

static void heartbeat_of_a_directory_that_lets_nobody_in(void **state)
{
	(void)state;
	uid_t user = geteuid();
	struct bucket b = {0};
	struct error e = {0};
	sprintf(b.url, "file://%s", directory);
	bucket_open(&b);
	chmod(directory, 0);
	if (user == 0)
		assert_int_equal(seteuid(65534), 0);
	enum err err = bucket_probe(b.client, 0, &e);
	if (user == 0)
		assert_int_equal(seteuid(0), 0);
	chmod(directory, 0755);
	assert_int_equal(err, ERR_UNAVAILABLE);
	assert_non_null(strstr(e.text, b.url));
	assert_non_null(strstr(e.text, strerror(EACCES)));
	bucket_close(&b);
}

static void file_directory_gone(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	struct error e = {0};
	char path[5000];
	sprintf(b.url, "file://%s/later%%20on", directory);
	bucket_open(&b);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_FAILED);
	assert_int_equal(bucket_probe(b.client, 0, &e), ERR_UNAVAILABLE);
	assert_non_null(strstr(e.text, "No such file"));
	sprintf(path, "%s/later on", directory);
	mkdir(path, 0755);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_MISSING);
	assert_int_equal(bucket_probe(b.client, 0, &e), ERR_OK);
	bucket_close(&b);
}

/* A sink in whose first commit somebody else writes to the file. */
struct disturbed {
	struct target target;
	const char *path;
};

static uint8_t *disturbed_space(void *arg, size_t *room)
{
	return target_space(&((struct disturbed *)arg)->target, room);
}

static bool disturbed_commit(void *arg, size_t n)
{
	struct disturbed *d = arg;
	const struct timespec times[2] = {{0, UTIME_OMIT}, {1000000000, 0}};
	if (d->path)
		assert_int_equal(utimensat(AT_FDCWD, d->path, times, 0), 0);
	d->path = NULL;
	return target_commit(&d->target, n);
}

static void file_cut_gzip(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	char path[5000];
	struct stat st;
	put_gzip("cut", "cut.sym", text, text_len, 1);
	make_path(path, "cut", "cut.sym");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size - 1), 0);
	sprintf(b.url, "file://%s", directory);
	bucket_open(&b);
	assert_int_equal(fetch(&b, "cut", &r), BUCKET_BROKEN);
	assert_string_equal(r.text, "gzip ends early");
	bucket_close(&b);
	/* the same over HTTP, where the length is known to be right */
	bucket_open_server(&b, &plain);
	control(&plain, "ok", 0);
	assert_int_equal(fetch(&b, "cut", &r), BUCKET_BROKEN);
	control(&plain, "chunked", 0);
	assert_int_equal(fetch(&b, "cut", &r), BUCKET_BROKEN);
	/* and where it is not, or is wrong */
	control(&plain, "no-length", 0);
	assert_int_equal(fetch(&b, "cut", &r), BUCKET_FAILED);
	control(&plain, "cut:70000", 0);
	assert_int_equal(fetch(&b, "cut", &r), BUCKET_FAILED);
	control(&plain, "ok", 0);
	bucket_close(&b);
}

/* A folder of the first two characters above the name, and nothing outside the source. */
static void two_levels(void **state)
{
	(void)state;
	static const char *const names[] = {"gz1", "é", "..up"};
	char path[5000], place[5000];
	struct bucket b = {0};
	struct bucket_result r;
	sprintf(path, "%s/levels", directory);
	assert_int_equal(mkdir(path, 0755), 0);
	for (unsigned i = 0; i < 3; i++) {
		static const char *const folders[] = {"levels/gz", "levels/é", "."};
		sprintf(path, "%s/%s", directory, folders[i]);
		mkdir(path, 0755);
		sprintf(path, "%s.sym", names[i]);
		sprintf(place, "%s/%s", folders[i], names[i]);
		put(place, path, text, text_len);
	}
	sprintf(b.url, "file://%s/levels#symstore", directory);
	bucket_open(&b);
	assert_int_equal(fetch(&b, "gz1", &r), BUCKET_OK);
	assert_int_equal(fetch(&b, "é", &r), BUCKET_OK);
	assert_int_equal(fetch(&b, "..up", &r), BUCKET_MISSING);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_MISSING);
	bucket_close(&b);
	snprintf(b.url, sizeof b.url, "http://127.0.0.1:%d/levels#symstore", plain.port);
	bucket_open(&b);
	assert_int_equal(fetch(&b, "é", &r), BUCKET_OK);
	bucket_close(&b);
}

/* Half a file that somebody writes to is no broken one. */
static void file_that_is_being_written(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	char path[5000];
	struct stat st;
	struct timespec times[2] = {{0, UTIME_OMIT}, {0, 0}};
	struct disturbed d = {{.room = 65536}, path};
	struct bucket_sink sink = {.space = disturbed_space, .commit = disturbed_commit, .arg = &d};
	put_gzip("growing", "growing.sym", text, text_len, 1);
	make_path(path, "growing", "growing.sym");
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size / 2), 0);
	sprintf(b.url, "file://%s", directory);
	bucket_open(&b);
	bucket_fetch(b.client, 0, (struct bucket_object){str_from("growing"), id}, &sink, NULL, &r);
	assert_int_equal(r.outcome, BUCKET_FAILED);
	free(d.target.data);
	assert_int_equal(utimensat(AT_FDCWD, path, times, 0), 0);
	assert_int_equal(fetch(&b, "growing", &r), BUCKET_BROKEN);
	bucket_close(&b);
}

/* It may still be written. */
static void half_a_file_is_not_broken_before_it_is_a_second_old(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	char path[5000];
	struct stat st;
	struct timespec now;
	put_gzip("half", "half.sym", text, text_len, 1);
	make_path(path, "half", "half.sym");
	sprintf(b.url, "file://%s", directory);
	bucket_open(&b);
	assert_int_equal(stat(path, &st), 0);
	assert_int_equal(truncate(path, st.st_size / 2), 0);
	assert_int_equal(fetch(&b, "half", &r), BUCKET_BROKEN);
	clock_gettime(CLOCK_REALTIME, &now);
	assert_int_equal(stat(path, &st), 0);
	assert_true((now.tv_sec - st.st_mtim.tv_sec) * SECOND + now.tv_nsec - st.st_mtim.tv_nsec >= SECOND);
	bucket_close(&b);
}

/* HTTP that works */

static void http_objects(void **state)
{
	(void)state;
	const struct server *servers[] = {&plain, &with_header};
	const char *const names[] = {"plain", "gz1", "gz2", "zs1", "xul.PDB", "a b+%41[x]:~,é&?#.so"};
	for (unsigned i = 0; i < 2; i++) {
		struct bucket b = {0};
		struct bucket_result r;
		bucket_open_server(&b, servers[i]);
		for (unsigned k = 0; k < sizeof names / sizeof names[0]; k++) {
			assert_int_equal(fetch(&b, names[k], &r), BUCKET_OK);
			assert_int_equal(r.status, 200);
			assert_true(r.length_known && r.text_bytes && r.wire_bytes > 0);
			assert_int_equal(r.wire_bytes < text_len, names[k][0] == 'g' || names[k][0] == 'z');
		}
		bucket_close(&b);
	}
}

static void path_is_sent_encoded(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	static char reply[10000];
	forget(&plain);
	bucket_open_server(&b, &plain);
	assert_int_equal(fetch(&b, "a b+%41[x]:~,é&?#.so", &r), BUCKET_OK);
	ask(&plain, "GET", "/_hits", "", reply, sizeof reply);
	assert_non_null(strstr(reply, "\"/a%20b%2B%2541%5Bx%5D%3A~%2C%C3%A9%26%3F%23.so/" ID
	                              "/a%20b%2B%2541%5Bx%5D%3A~%2C%C3%A9%26%3F%23.so.sym\": {\"GET\": 1}"));
	bucket_close(&b);
	/* Nor does anybody tidy the path of the source. */
	snprintf(b.url, sizeof b.url, "http://127.0.0.1:%d/x/../y", plain.port);
	bucket_open(&b);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_MISSING);
	ask(&plain, "GET", "/_hits", "", reply, sizeof reply);
	assert_non_null(strstr(reply, "\"/x/../y/plain/"));
	bucket_close(&b);
}

/* Not even asked for. */
static void impossible_names_are_missing(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	struct target t = {.room = 10};
	struct bucket_sink sink = {.space = target_space, .commit = target_commit, .arg = &t};
	bucket_open_server(&b, &plain);
	forget(&plain);
	assert_int_equal(fetch(&b, "../plain", &r), BUCKET_MISSING);
	assert_int_equal(fetch(&b, "", &r), BUCKET_MISSING);
	bucket_fetch(b.client, 0, (struct bucket_object){str_from("plain"), str_from("no hex")}, &sink, NULL, &r);
	assert_int_equal(r.outcome, BUCKET_MISSING);
	assert_int_equal(hits(&plain), 0);
	bucket_close(&b);
}

static void base_paths(void **state)
{
	(void)state;
	static const char *const bases[] = {"", "/", "/sub%20dir", "/sub%20dir/", "/sub%20dir?token=1"};
	struct bucket_result r;
	char from[5000], to[5000];
	sprintf(from, "%s/sub dir", directory);
	mkdir(from, 0755);
	sprintf(from, "%s/plain", directory);
	sprintf(to, "%s/sub dir/plain", directory);
	assert_int_equal(symlink(from, to), 0);
	for (unsigned i = 0; i < sizeof bases / sizeof bases[0]; i++) {
		struct bucket b = {0};
		snprintf(b.url, sizeof b.url, "http://127.0.0.1:%d%s", plain.port, bases[i]);
		bucket_open(&b);
		assert_int_equal(fetch(&b, "plain", &r), BUCKET_OK);
		bucket_close(&b);
	}
}

static void rooms_of_any_size(void **state)
{
	(void)state;
	static const size_t rooms[] = {1, 7, 1000, 65536, 4 << 20};
	static const char *const names[] = {"plain", "gz1", "gz2"};
	struct bucket b = {0};
	struct bucket_result r;
	if (is_watched_for_races())
		skip();
	bucket_open_server(&b, &plain);
	for (unsigned i = 0; i < sizeof rooms / sizeof rooms[0]; i++)
		for (unsigned k = 0; k < 3; k++) {
			struct target t = {.room = rooms[i]};
			assert_int_equal(fetch_into(&b, names[k], &t, &r), BUCKET_OK);
			assert_int_equal(t.len, text_len);
			assert_memory_equal(t.data, text, text_len);
			free(t.data);
		}
	bucket_close(&b);
}

static void tiny_objects(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	struct target t = {.room = 10};
	bucket_open_server(&b, &plain);
	assert_int_equal(fetch_into(&b, "empty", &t, &r), BUCKET_OK);
	assert_int_equal(r.text_bytes, 0);
	assert_int_equal(fetch_into(&b, "one", &t, &r), BUCKET_OK);
	assert_true(t.len == 1 && t.data[0] == '\n');
	free(t.data);
	bucket_close(&b);
}

/* The third layer is not looked into: what a reader of symbols gets is no text. */
static void three_layers_are_not_text(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	struct target t = {.room = 65536};
	bucket_open_server(&b, &plain);
	assert_int_equal(fetch_into(&b, "gz3", &t, &r), BUCKET_OK);
	assert_true(t.len > 2 && t.data[0] == 0x1f && t.data[1] == 0x8b);
	free(t.data);
	bucket_close(&b);
}

static void sink_stops_the_transfer(void **state)
{
	(void)state;
	static const char *const names[] = {"plain", "gz1", "gz2"};
	struct bucket b = {0};
	struct bucket_result r;
	bucket_open_server(&b, &plain);
	for (unsigned i = 0; i < 3; i++) {
		struct target t = {.room = 1000, .stop_space = 5000}, u = {.room = 1000, .stop_commit = 5000};
		assert_int_equal(fetch_into(&b, names[i], &t, &r), BUCKET_ABORTED);
		assert_true(t.len >= 5000 && t.len < 6000);
		struct bucket_sink sink = {.space = target_space, .commit = target_commit, .arg = &u};
		bucket_fetch(b.client, 0, (struct bucket_object){str_from(names[i]), id}, &sink, NULL, &r);
		assert_int_equal(r.outcome, BUCKET_ABORTED);
		assert_true(u.len >= 5000 && u.len < 6000);
		assert_int_equal(fetch(&b, "plain", &r), BUCKET_OK);
		free(t.data);
		free(u.data);
	}
	bucket_close(&b);
}

/* HTTP that does not */

static void statuses(void **state)
{
	(void)state;
	static const int missing[] = {404, 410, 400, 414, 451, 403};
	static const int failed[] = {
	        500, 502, 503, 504, 429, 401, 402, 405, 407, 408, 409, 416, 418, 204, 206, 304, 300, 201};
	struct bucket b = {0};
	struct bucket_result r;
	char mode[40];
	bucket_open_server(&b, &plain);
	for (unsigned i = 0; i < sizeof missing / sizeof missing[0]; i++) {
		sprintf(mode, "status:%d", missing[i]);
		control(&plain, mode, 1);
		assert_int_equal(fetch(&b, "plain", &r), BUCKET_MISSING);
		assert_int_equal(r.status, missing[i]);
		assert_int_equal(r.text_bytes, 0);
	}
	for (unsigned i = 0; i < sizeof failed / sizeof failed[0]; i++) {
		sprintf(mode, "status:%d", failed[i]);
		control(&plain, mode, 1);
		if (fetch(&b, "plain", &r) != BUCKET_FAILED)
			fail_msg("status %d gave outcome %d", failed[i], r.outcome);
		assert_int_equal(r.status, failed[i]);
		assert_int_equal(r.text_bytes, 0);
		assert_true(*r.text);
	}
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_OK);
	bucket_close(&b);
}

static void credentials(void **state)
{
	(void)state;
	static const char *const users[] = {"", "someone:wrong@", "someone:se%3Acret%2F%40@"};
	struct bucket_result r;
	for (unsigned i = 0; i < 3; i++) {
		struct bucket b = {0};
		struct error e = {0};
		snprintf(b.url, sizeof b.url, "http://%s127.0.0.1:%d/", users[i], guarded.port);
		bucket_open(&b);
		assert_int_equal(fetch(&b, "plain", &r), i == 2 ? BUCKET_OK : BUCKET_FAILED);
		assert_int_equal(r.status, i == 2 ? 200 : 401);
		control(&guarded, "status:503", 1);
		if (i == 2) {
			assert_int_equal(bucket_probe(b.client, 0, &e), ERR_UNAVAILABLE);
			assert_null(strstr(e.text, "cret"));
			control(&guarded, "status:403", 1);
			assert_int_equal(fetch(&b, "plain", &r), BUCKET_FAILED);
			assert_null(strstr(r.text, "cret"));
		}
		forget(&guarded);
		bucket_close(&b);
	}
}

struct misbehaviour {
	const char *mode, *name;
	enum bucket_outcome outcome;
	bool delivered;
};

static void misbehaviours(void **state)
{
	(void)state;
	static const struct misbehaviour table[] = {
	        {"stall", "plain", BUCKET_FAILED, true},
	        {"stall", "gz1", BUCKET_FAILED, true},
	        {"drip", "plain", BUCKET_FAILED, true},
	        {"reset", "plain", BUCKET_FAILED, true},
	        {"refuse", "plain", BUCKET_FAILED, false},
	        {"cut:0", "plain", BUCKET_FAILED, false},
	        {"cut:1", "plain", BUCKET_FAILED, false},
	        {"cut:70000", "plain", BUCKET_FAILED, true},
	        {"cut:70000", "gz1", BUCKET_FAILED, true},
	        {"short-length:1", "plain", BUCKET_FAILED, true},
	        {"short-length:100000", "gz1", BUCKET_FAILED, true},
	        {"two-lengths", "plain", BUCKET_FAILED, true},
	        {"no-length", "plain", BUCKET_OK, true},
	        {"no-length", "gz1", BUCKET_OK, true},
	        {"no-length-cut:0", "plain", BUCKET_FAILED, false},
	        {"no-length-cut:70001", "plain", BUCKET_FAILED, true},
	        {"no-length-cut:70000", "gz1", BUCKET_FAILED, true},
	        {"chunked", "plain", BUCKET_OK, true},
	        {"chunked", "gz1", BUCKET_OK, true},
	        {"chunked-cut:70000", "plain", BUCKET_FAILED, true},
	        {"chunked-cut:70000", "gz1", BUCKET_FAILED, true},
	        {"bad-gzip", "plain", BUCKET_BROKEN, true},
	        {"bad-gzip", "gz1", BUCKET_BROKEN, true},
	        {"redirect-loop", "plain", BUCKET_FAILED, false},
	        {"redirect:file:///etc/passwd", "plain", BUCKET_FAILED, false},
	        {"redirect:gopher://127.0.0.1/", "plain", BUCKET_FAILED, false},
	        {"slow:0.1", "plain", BUCKET_OK, true},
	        {"slow:30", "plain", BUCKET_FAILED, false},
	        {"ok", "plain", BUCKET_OK, true},
	};
	struct bucket b = {.config.bucket_stall_timeout = 4 * SECOND};
	struct bucket_result r;
	bucket_open_server(&b, &plain);
	for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
		control(&plain, table[i].mode, 0);
		enum bucket_outcome outcome = fetch(&b, table[i].name, &r);
		if (outcome != table[i].outcome || (!r.text_bytes && table[i].delivered))
			fail_msg("%s %s: outcome %d, %s", table[i].mode, table[i].name, outcome, r.text);
		assert_int_equal(outcome != BUCKET_OK, *r.text != 0);
		assert_int_equal(
		        strcmp(table[i].mode, "two-lengths") == 0, strcmp(r.text, "more than one Content-Length") == 0);
		assert_true(outcome != BUCKET_OK ||
		            r.length_known == (strcmp(table[i].mode, "no-length") != 0 || table[i].name[0] == 'g'));
		/* Stalls end by their timeout (4 s), not by the total (60 s). */
		assert_true(r.elapsed < 50 * SECOND);
	}
	forget(&plain);
	/* The same handle is good again. */
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_OK);
	bucket_close(&b);
}

static void junk_is_delivered(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	struct target t = {.room = 65536};
	bucket_open_server(&b, &plain);
	control(&plain, "junk", 1);
	assert_int_equal(fetch_into(&b, "plain", &t, &r), BUCKET_OK);
	assert_memory_equal(t.data, "<html>", 6);
	free(t.data);
	bucket_close(&b);
}

static void nobody_listens(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	struct error e = {0};
	struct sockaddr_in in = {.sin_family = AF_INET};
	socklen_t len = sizeof in;
	/* Bound but not listening: refused, and nobody else can take the port. */
	int fd = socket(AF_INET, SOCK_STREAM, 0);
	in.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
	assert_int_equal(bind(fd, (struct sockaddr *)&in, sizeof in), 0);
	assert_int_equal(getsockname(fd, (struct sockaddr *)&in, &len), 0);
	snprintf(b.url, sizeof b.url, "http://user:hunter2@127.0.0.1:%d/", ntohs(in.sin_port));
	bucket_open(&b);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_FAILED);
	assert_int_equal(r.status, 0);
	assert_null(strstr(r.text, "hunter2"));
	assert_int_equal(bucket_probe(b.client, 0, &e), ERR_UNAVAILABLE);
	assert_null(strstr(e.text, "hunter2"));
	bucket_close(&b);
	close(fd);
	/* TLS to a server that speaks none. */
	struct bucket tls = {0};
	snprintf(tls.url, sizeof tls.url, "https://127.0.0.1:%d/", plain.port);
	bucket_open(&tls);
	assert_int_equal(fetch(&tls, "plain", &r), BUCKET_FAILED);
	bucket_close(&tls);
}

static void total_timeout(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	b.config.bucket_stall_timeout = 60 * SECOND;
	b.config.bucket_total_timeout = 300 * MS;
	bucket_open_server(&b, &plain);
	control(&plain, "drip", 1);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_FAILED);
	assert_in_range(r.elapsed, 290 * MS, 50 * SECOND);
	bucket_close(&b);
}

/* The total ends it: a transfer that is slow, but goes on, stands at no time still. */
static void slow_is_not_stalled(void **state)
{
	(void)state;
	struct bucket b = {.config = {.bucket_stall_timeout = 3 * SECOND, .bucket_total_timeout = 7 * SECOND}};
	struct bucket_result r;
	bucket_open_server(&b, &plain);
	control(&plain, "drip:0.1,500", 1);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_FAILED);
	assert_in_range(r.elapsed, 6900 * MS, 60 * SECOND);
	bucket_close(&b);
}

static void size_limit(void **state)
{
	(void)state;
	static const char *const names[] = {"plain", "gz1", "gz2"};
	static const char *const modes[] = {"ok", "chunked"};
	struct bucket_result r;
	for (int more = -1; more <= 1; more++) {
		struct bucket b = {0};
		b.config.bucket_max_size = text_len + (uint64_t)more;
		bucket_open_server(&b, &plain);
		for (unsigned i = 0; i < 6; i++) {
			control(&plain, modes[i / 3], 1);
			assert_int_equal(fetch(&b, names[i % 3], &r), more < 0 ? BUCKET_TOO_LARGE : BUCKET_OK);
		}
		bucket_close(&b);
		sprintf(b.url, "file://%s", directory);
		bucket_open(&b);
		for (unsigned i = 0; i < 3; i++)
			assert_int_equal(fetch(&b, names[i], &r), more < 0 ? BUCKET_TOO_LARGE : BUCKET_OK);
		bucket_close(&b);
	}
	/* Far too large by its Content-Length alone: nothing is read. */
	struct bucket b = {.config.bucket_max_size = 10};
	size_t len = 1 << 20;
	char *large = calloc(1, len);
	put("large", "large.sym", large, len);
	bucket_open_server(&b, &plain);
	struct target t = {.room = 100};
	assert_int_equal(fetch_into(&b, "large", &t, &r), BUCKET_TOO_LARGE);
	assert_int_equal(r.wire_bytes, 0);
	bucket_close(&b);
	free(t.data);
	free(large);
}

/* 32 MiB of zeros in gzip in gzip: a few hundred bytes. */
static void bomb(void **state)
{
	(void)state;
	struct bucket b = {.config.bucket_max_size = 1 << 20};
	struct bucket_result r;
	struct target t = {.room = 65536};
	size_t len = 32 << 20;
	char *zeros = calloc(1, len);
	put_gzip("bomb", "bomb.sym", zeros, len, 2);
	free(zeros);
	bucket_open_server(&b, &plain);
	assert_int_equal(fetch_into(&b, "bomb", &t, &r), BUCKET_TOO_LARGE);
	assert_true(t.len <= 1 << 20 && r.wire_bytes < 10000);
	free(t.data);
	bucket_close(&b);
}

/* cancelling */

struct canceller {
	struct target target;
	atomic_bool cancel;
};

static bool cancel_on_commit(void *arg, size_t n)
{
	struct canceller *c = arg;
	atomic_store(&c->cancel, true);
	return target_commit(&c->target, n);
}

static uint8_t *space_of(void *arg, size_t *room)
{
	return target_space(&((struct canceller *)arg)->target, room);
}

/* The first bytes set the flag; the server stalls after them for longer than the test may take. */
static void cancel_ends_a_stalled_transfer(void **state)
{
	(void)state;
	struct canceller c = {.target = {.room = 4 << 20}};
	struct bucket_sink sink = {.space = space_of, .commit = cancel_on_commit, .arg = &c};
	struct bucket b = {0};
	struct bucket_result r;
	b.config.bucket_stall_timeout = 60 * SECOND;
	bucket_open_server(&b, &plain);
	control(&plain, "stall", 1);
	bucket_fetch(b.client, 0, (struct bucket_object){str_from("plain"), id}, &sink, &c.cancel, &r);
	assert_int_equal(r.outcome, BUCKET_ABORTED);
	assert_true(r.elapsed < 50 * SECOND);
	/* Set before the start. */
	control(&plain, "slow:60", 1);
	bucket_fetch(b.client, 0, (struct bucket_object){str_from("plain"), id}, &sink, &c.cancel, &r);
	assert_int_equal(r.outcome, BUCKET_ABORTED);
	assert_true(r.elapsed < 50 * SECOND);
	forget(&plain);
	atomic_store(&c.cancel, true);
	c.target.len = 0;
	bucket_close(&b);
	sprintf(b.url, "file://%s", directory);
	bucket_open(&b);
	bucket_fetch(b.client, 0, (struct bucket_object){str_from("plain"), id}, &sink, &c.cancel, &r);
	assert_int_equal(r.outcome, BUCKET_ABORTED);
	bucket_close(&b);
	free(c.target.data);
}

/* redirects */

static enum bucket_outcome fetch_redirected(
        const char *host, const char *to, const struct server *target, bool allow, struct bucket_result *r)
{
	struct bucket b = {.config.bucket_allow_local_redirects = allow};
	char mode[200];
	snprintf(b.url, sizeof b.url, "http://%s:%d/", host, plain.port);
	bucket_open(&b);
	/* Twice: the second time over connections that are open already. */
	assert_int_equal(fetch(&b, "plain", r), BUCKET_OK);
	snprintf(mode, sizeof mode, "redirect:http://%s:%d/", to, target->port);
	control(&plain, mode, 0);
	forget(&with_header);
	enum bucket_outcome outcome = fetch(&b, "gz1", r);
	assert_int_equal(fetch(&b, "gz1", r), outcome);
	forget(&plain);
	bucket_close(&b);
	return outcome;
}

static void redirects_stay_out_of_private_networks(void **state)
{
	(void)state;
	static const char *const locals[] = {"127.0.0.1", "localhost", "127.1.2.3", "0.0.0.0", "[::1]",
	        "[::ffff:127.0.0.1]", "[::ffff:7f00:1]", "2130706433", "0x7f.1", "[::127.0.0.1]", "127.1", "0x7f000001",
	        "0177.0.0.1", "017700000001", "0", "[::]", "LOCALHOST", "user:pass@127.0.0.1"};
	static const char *const unreachable[] = {"10.0.0.1", "172.16.0.1", "192.168.0.1", "169.254.169.254",
	        "100.64.0.1", "224.0.0.1", "[fe80::1]", "[fd00::1]", "[64:ff9b::7f00:1]", "[2002:7f00:1::]",
	        "[ff02::1]", "0xa9fea9fe", "2852039166", "0251.0376.0251.0376", "169.254.43518", "[::ffff:a9fe:a9fe]",
	        "[::ffff:0:7f00:1]", "[64:ff9b:1::1]", "[2001:0:1:2::3]", "[fec0::1]", "192.0.0.192", "255.255.255.255",
	        "198.18.0.1", "198.19.255.255", "172.31.255.255", "100.127.255.255",
	        /* Each byte of the address inside counts. */
	        "[::ffff:10.1.2.3]", "[::ffff:192.168.1.1]", "[2002:c0a8:101::]", "[64:ff9b::100.65.1.1]",
	        "[::ffff:0:172.17.1.1]", "[::192.0.0.1]"};
	struct bucket_result r;
	for (unsigned i = 0; i < sizeof locals / sizeof locals[0]; i++) {
		assert_int_equal(fetch_redirected(PUBLIC_ADDRESS, locals[i], &with_header, false, &r), BUCKET_FAILED);
		assert_string_equal(r.text, "redirect to a local address");
		assert_int_equal(hits(&with_header), 0);
	}
	for (unsigned i = 0; i < sizeof unreachable / sizeof unreachable[0]; i++) {
		assert_int_equal(
		        fetch_redirected(PUBLIC_ADDRESS, unreachable[i], &with_header, false, &r), BUCKET_FAILED);
		assert_string_equal(r.text, "redirect to a local address");
	}
}

static void redirects_that_are_followed(void **state)
{
	(void)state;
	struct bucket_result r;
	/* On the internet; when the settings say so. */
	assert_int_equal(fetch_redirected(PUBLIC_ADDRESS, PUBLIC_ADDRESS, &with_header, false, &r), BUCKET_OK);
	assert_int_equal(hits(&with_header), 2);
	assert_int_equal(fetch_redirected(PUBLIC_ADDRESS, "127.0.0.1", &with_header, true, &r), BUCKET_OK);
	assert_int_equal(hits(&with_header), 2);
	assert_int_equal(fetch_redirected("127.0.0.1", "127.0.0.1", &with_header, true, &r), BUCKET_OK);
	assert_int_equal(hits(&with_header), 2);
}

/* A private bucket may redirect within itself, also under another name (and so over another connection; localhost can
 * have an address that is refused before the one that is not), but to no other server of its network. */
static void redirects_of_a_local_source(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	char mode[100];
	bucket_open_server(&b, &plain);
	forget(&plain);
	const char *const names[] = {"127.0.0.1", "localhost"};
	for (unsigned i = 0; i < 2; i++) {
		snprintf(mode, sizeof mode, "redirect:http://%s:%d/", names[i], plain.port);
		control(&plain, mode, 1);
		assert_int_equal(fetch(&b, "gz1", &r), BUCKET_OK);
	}
	assert_int_equal(hits(&plain), 4);
	bucket_close(&b);
	assert_int_equal(fetch_redirected("127.0.0.1", "127.0.0.1", &with_header, false, &r), BUCKET_FAILED);
	assert_string_equal(r.text, "redirect to a local address");
	assert_int_equal(hits(&with_header), 0);
}

/* The credentials of a source are not for another host that it redirects to, nor for another port of its own. */
static void redirects_lose_credentials(void **state)
{
	(void)state;
	static const char *const hosts[] = {"localhost", "127.0.0.1"};
	for (unsigned i = 0; i < 2; i++) {
		struct bucket b = {0};
		struct bucket_result r;
		char mode[100];
		b.config.bucket_allow_local_redirects = true;
		snprintf(b.url, sizeof b.url, "http://someone:se%%3Acret%%2F%%40@127.0.0.1:%d/", plain.port);
		bucket_open(&b);
		snprintf(mode, sizeof mode, "redirect:http://%s:%d/", hosts[i], guarded.port);
		control(&plain, mode, 1);
		assert_int_equal(fetch(&b, "plain", &r), BUCKET_FAILED);
		assert_int_equal(r.status, 401);
		bucket_close(&b);
	}
}

static void proxies_of_the_environment_are_not_used(void **state)
{
	(void)state;
	struct bucket b = {0};
	struct bucket_result r;
	setenv("http_proxy", "http://127.0.0.1:1/", 1);
	setenv("all_proxy", "http://127.0.0.1:1/", 1);
	bucket_open_server(&b, &plain);
	assert_int_equal(fetch(&b, "plain", &r), BUCKET_OK);
	bucket_close(&b);
	unsetenv("http_proxy");
	unsetenv("all_proxy");
}

static void probes(void **state)
{
	(void)state;
	static const struct {
		const char *mode;
		enum err result;
	} table[] = {
	        {"ok", ERR_OK}, /* hence 404 */
	        {"status:403", ERR_OK},
	        {"status:200", ERR_OK},
	        /* with these every load fails, too */
	        {"status:401", ERR_UNAVAILABLE},
	        {"status:429", ERR_UNAVAILABLE},
	        {"status:500", ERR_UNAVAILABLE},
	        {"status:503", ERR_UNAVAILABLE},
	        {"refuse", ERR_UNAVAILABLE},
	        {"slow:30", ERR_UNAVAILABLE},
	};
	struct bucket b = {.config.bucket_stall_timeout = 6 * SECOND};
	struct error e;
	bucket_open_server(&b, &plain);
	for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
		control(&plain, table[i].mode, 0);
		assert_int_equal(bucket_probe(b.client, 0, &e), table[i].result);
	}
	forget(&plain);
	bucket_close(&b);
}

/* several sources and threads */

enum { THREADS = 6, ROUNDS = 12 };

struct worker {
	pthread_t thread;
	struct bucket_sources *sources;
	unsigned good;
};

static void *work(void *arg)
{
	static const char *const names[] = {"plain", "gz1", "gz2", "nothing"};
	struct worker *w = arg;
	struct bucket_client *client = bucket_client_new(w->sources);
	for (unsigned i = 0; i < ROUNDS; i++) {
		struct target t = {.room = 100000};
		struct bucket_sink sink = {.space = target_space, .commit = target_commit, .arg = &t};
		struct bucket_result r;
		bucket_fetch(client, i % 3, (struct bucket_object){str_from(names[i % 4]), id}, &sink, NULL, &r);
		if (i % 4 == 3)
			w->good += r.outcome == BUCKET_MISSING && t.len == 0;
		else
			w->good += r.outcome == BUCKET_OK && t.len == text_len && memcmp(t.data, text, text_len) == 0;
		free(t.data);
	}
	bucket_client_free(client);
	return NULL;
}

static void threads_share_sources(void **state)
{
	(void)state;
	char urls_of[3][5000];
	struct config config = {
	        .bucket_connect_timeout = 20 * SECOND,
	        .bucket_stall_timeout = 20 * SECOND,
	        .bucket_total_timeout = 60 * SECOND,
	        .bucket_max_size = 1 << 30,
	        .sources = {.items = {urls_of[0], urls_of[1], urls_of[2]}, .count = 3},
	};
	struct error e;
	struct worker workers[THREADS] = {0};
	sprintf(urls_of[0], "http://127.0.0.1:%d", plain.port);
	sprintf(urls_of[1], "http://localhost:%d", with_header.port);
	sprintf(urls_of[2], "file://%s", directory);
	struct bucket_sources *sources = bucket_sources_new(&config, &e);
	assert_non_null(sources);
	assert_int_equal(bucket_sources_count(sources), 3);
	for (unsigned i = 0; i < THREADS; i++) {
		workers[i].sources = sources;
		assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
	}
	for (unsigned i = 0; i < THREADS; i++) {
		pthread_join(workers[i].thread, NULL);
		assert_int_equal(workers[i].good, ROUNDS);
	}
	bucket_sources_free(sources);
}

int main(void)
{
	seed = seed_of(1);
	signal(SIGPIPE, SIG_IGN);
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(names_and_ids),
	        cmocka_unit_test(object_paths),
	        cmocka_unit_test(any_name_gives_one_path_below),
	        cmocka_unit_test(longest_path_fits),
	        cmocka_unit_test(urls),
	        cmocka_unit_test(names_hide_secrets),
	        cmocka_unit_test(file_objects),
	        cmocka_unit_test(file_without_permission),
	        cmocka_unit_test(heartbeat_of_a_directory_that_lets_nobody_in),
	        cmocka_unit_test(file_directory_gone),
	        cmocka_unit_test(file_cut_gzip),
	        cmocka_unit_test(two_levels),
	        cmocka_unit_test(file_that_is_being_written),
	        cmocka_unit_test(half_a_file_is_not_broken_before_it_is_a_second_old),
	        cmocka_unit_test(http_objects),
	        cmocka_unit_test(path_is_sent_encoded),
	        cmocka_unit_test(impossible_names_are_missing),
	        cmocka_unit_test(base_paths),
	        cmocka_unit_test(rooms_of_any_size),
	        cmocka_unit_test(tiny_objects),
	        cmocka_unit_test(three_layers_are_not_text),
	        cmocka_unit_test(sink_stops_the_transfer),
	        cmocka_unit_test(statuses),
	        cmocka_unit_test(credentials),
	        cmocka_unit_test(misbehaviours),
	        cmocka_unit_test(junk_is_delivered),
	        cmocka_unit_test(nobody_listens),
	        cmocka_unit_test(total_timeout),
	        cmocka_unit_test(slow_is_not_stalled),
	        cmocka_unit_test(size_limit),
	        cmocka_unit_test(bomb),
	        cmocka_unit_test(cancel_ends_a_stalled_transfer),
	        cmocka_unit_test(redirects_stay_out_of_private_networks),
	        cmocka_unit_test(redirects_that_are_followed),
	        cmocka_unit_test(redirects_of_a_local_source),
	        cmocka_unit_test(redirects_lose_credentials),
	        cmocka_unit_test(proxies_of_the_environment_are_not_used),
	        cmocka_unit_test(probes),
	        cmocka_unit_test(threads_share_sources),
	};
	return cmocka_run_group_tests(tests, set_up, tear_down);
}
