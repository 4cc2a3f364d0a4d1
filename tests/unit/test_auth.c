/* SPDX-License-Identifier: Apache-2.0 */
/* API keys: the file, the Authorization header, and the command that makes keys. */
#include <config.h>

#include <openssl/evp.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "keys/auth.h"

/* Comparisons in constant time, and how many bytes the last one looked at. */
static atomic_uint compared;
static atomic_size_t compared_bytes;

int __real_CRYPTO_memcmp(const void *a, const void *b, size_t len);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len);
int __wrap_CRYPTO_memcmp(const void *a, const void *b, size_t len)
{
	atomic_fetch_add(&compared, 1);
	atomic_store(&compared_bytes, len);
	return __real_CRYPTO_memcmp(a, b, len);
}

static char folder[] = "/tmp/test-auth-XXXXXX";
static char path[64];

static int make_folder(void **state)
{
	(void)state;
	if (!mkdtemp(folder))
		return -1;
	snprintf(path, sizeof path, "%s/keys", folder);
	return 0;
}

static int remove_folder(void **state)
{
	(void)state;
	auth_use(NULL);
	unlink(path);
	return rmdir(folder);
}

static void write_file(const char *text)
{
	unlink(path);
	FILE *out = fopen(path, "w");
	assert_non_null(out);
	fputs(text, out);
	assert_int_equal(fclose(out), 0);
}

/* "SCHEME base64(pair)" */
static const char *header_of(char out[512], const char *scheme, const char *pair)
{
	char encoded[400];
	assert_true(strlen(pair) < 280);
	EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)pair, (int)strlen(pair));
	snprintf(out, 512, "%s%s", scheme, encoded);
	return out;
}

static char message[256]; /* of the last failure */

static enum err check_pair(const char *id, const char *key, unsigned rights)
{
	char pair[280], header[512], found[64];
	struct error e = {0};
	snprintf(pair, sizeof pair, "%s:%s", id, key);
	enum err err = auth_check(header_of(header, "APIKey ", pair), rights, found, &e);
	snprintf(message, sizeof message, "%s", e.text);
	assert_string_equal(found, err ? "" : id);
	assert_true(err == ERR_OK || !strstr(e.text, key));
	return err;
}

/* Two keys that auth_make made, in force. */
struct made {
	char up[AUTH_KEY_SIZE], both[AUTH_KEY_SIZE], file[800];
};

static void make_two(struct made *m)
{
	char first[AUTH_LINE_SIZE], second[AUTH_LINE_SIZE];
	assert_int_equal(auth_make("up.load", RIGHT_UPLOAD, m->up, first, NULL), ERR_OK);
	assert_int_equal(auth_make("both", RIGHT_UPLOAD | RIGHT_INVALIDATE, m->both, second, NULL), ERR_OK);
	snprintf(m->file, sizeof m->file, "# keys\n\n%s\n%s\n", first, second);
	write_file(m->file);
	assert_int_equal(auth_load(path, NULL), ERR_OK);
}

static void keys_and_rights(void **state)
{
	struct made m;
	(void)state;
	make_two(&m);
	assert_int_equal(strlen(m.up), 43);
	assert_string_not_equal(m.up, m.both);
	assert_null(strstr(m.file, m.up));
	assert_int_equal(check_pair("up.load", m.up, RIGHT_UPLOAD), ERR_OK);
	assert_int_equal(check_pair("up.load", m.up, RIGHT_INVALIDATE), ERR_FORBIDDEN);
	assert_string_equal(message, "this API key lacks the right to do that: invalidate");
	assert_int_equal(check_pair("up.load", m.up, RIGHT_INVALIDATE | RIGHT_READ), ERR_FORBIDDEN);
	assert_string_equal(message, "this API key lacks the right to do that: invalidate or read");
	assert_int_equal(check_pair("both", m.both, RIGHT_UPLOAD), ERR_OK);
	assert_int_equal(check_pair("both", m.both, RIGHT_INVALIDATE), ERR_OK);
	assert_int_equal(check_pair("both", m.up, RIGHT_UPLOAD), ERR_FORBIDDEN);
	assert_int_equal(check_pair("nobody", m.up, RIGHT_UPLOAD), ERR_FORBIDDEN);
	assert_int_equal(check_pair("both", "x", RIGHT_UPLOAD), ERR_FORBIDDEN);
	m.both[42] ^= 1;
	assert_int_equal(check_pair("both", m.both, RIGHT_UPLOAD), ERR_FORBIDDEN);
	m.both[42] = 0;
	assert_int_equal(check_pair("both", m.both, RIGHT_UPLOAD), ERR_FORBIDDEN);
}

/* Right or wrong, short or long, known or unknown: each key is hashed, and its whole hash compared once. */
static void every_key_takes_the_same_path(void **state)
{
	struct made m;
	char changed[64], cut[64], longer[200];
	(void)state;
	make_two(&m);
	snprintf(changed, sizeof changed, "%c%.60s", m.both[0] == 'A' ? 'B' : 'A', m.both + 1);
	snprintf(cut, sizeof cut, "%.42s", m.both);
	snprintf(longer, sizeof longer, "%s%0*d", m.both, 100, 0);
	const char *const pairs[][2] = {{"both", m.both}, {"both", changed}, {"both", cut}, {"both", longer},
	        {"both", "x"}, {"nobody", m.both}, {"nobody", "x"}, {"both", m.up}};
	for (unsigned i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
		atomic_store(&compared, 0);
		atomic_store(&compared_bytes, 0);
		assert_int_equal(check_pair(pairs[i][0], pairs[i][1], RIGHT_UPLOAD), i ? ERR_FORBIDDEN : ERR_OK);
		assert_int_equal(atomic_load(&compared), 1);
		assert_int_equal(atomic_load(&compared_bytes), 32);
	}
}

/* The format is fixed by a line made with another implementation: sha256(salt || key) of "0123456789abcdef" and
 * "secret". */
static void hash_is_sha256_of_salt_and_key(void **state)
{
	(void)state;
	write_file("fixed:invalidate:30313233343536373839616263646566:"
	           "c5310e3d1e5823ef77ce3a5804988a72fc60c307a0c8959f3461e202e4a8d814\n");
	struct error e = {0};
	enum err err = auth_load(path, &e);
	assert_string_equal(e.text, "");
	assert_int_equal(err, ERR_OK);
	assert_int_equal(check_pair("fixed", "secret", RIGHT_INVALIDATE), ERR_OK);
	assert_int_equal(check_pair("fixed", "secres", RIGHT_INVALIDATE), ERR_FORBIDDEN);
}

static void headers_that_do_not_parse(void **state)
{
	static const char *const bad[] = {"", "APIKey", "APIKey ", "Basic Ym90aDp4", "APIKeyYm90aDp4",
	        "APIKey Ym90aDp4 ", "APIKey Ym90aDp", "APIKey Ym90aDp4=", "APIKey Ym90aD=4",
	        "APIKey ====", "APIKey Ym9 aDp4", "APIKey Ym90aDp4\n", "APIKey _-90aDp4",
	        "APIKey Ym90aA==", "APIKey OngK"};
	struct made m;
	struct error e;
	char header[512], pair[280], found[64] = "x";
	(void)state;
	make_two(&m);
	assert_int_equal(auth_check(NULL, RIGHT_UPLOAD, found, &e), ERR_UNAUTHORIZED);
	assert_string_equal(found, "");
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		if (auth_check(bad[i], RIGHT_UPLOAD, found, &e) != ERR_UNAUTHORIZED)
			fail_msg("%s: %s", bad[i], e.text);
	/* A key of no bytes is a wrong one. */
	assert_int_equal(auth_check("APIKey Ym90aDo=", RIGHT_UPLOAD, found, &e), ERR_FORBIDDEN);
	/* An id of 63 bytes is one, one of 64 is none, nor is one with other characters. */
	snprintf(pair, sizeof pair, "%0*d:x", 63, 1);
	assert_int_equal(auth_check(header_of(header, "APIKey ", pair), RIGHT_UPLOAD, found, &e), ERR_FORBIDDEN);
	snprintf(pair, sizeof pair, "%0*d:x", 64, 1);
	assert_int_equal(auth_check(header_of(header, "APIKey ", pair), RIGHT_UPLOAD, found, &e), ERR_UNAUTHORIZED);
	assert_int_equal(auth_check(header_of(header, "APIKey ", "a b:x"), RIGHT_UPLOAD, found, &e), ERR_UNAUTHORIZED);
	char *large = calloc(1, 100000);
	memset(large, 'A', 99996);
	memcpy(large, "APIKey ", 7);
	assert_int_equal(auth_check(large, RIGHT_UPLOAD, found, &e), ERR_UNAUTHORIZED);
	free(large);
	/* The scheme's case and the number of blanks do not matter. */
	snprintf(pair, sizeof pair, "both:%s", m.both);
	assert_int_equal(auth_check(header_of(header, "apikey   ", pair), RIGHT_UPLOAD, found, &e), ERR_OK);
	assert_string_equal(found, "both");
}

static void bad_files_leave_the_old_keys(void **state)
{
#define HEX16 "00112233445566778899aabbccddeeff"
#define HEX32 HEX16 HEX16
	static const struct {
		const char *file, *text;
	} cases[] = {
	        {"a:upload:" HEX16 ":" HEX32 "\n\nb\n", ":3: no right is given"},
	        {":upload:" HEX16 ":" HEX32 "\n", ":1: an id has 1 to 63 characters"},
	        {"a b:upload:" HEX16 ":" HEX32 "\n", ":1: an id has 1 to 63 characters"},
	        {"a::" HEX16 ":" HEX32 "\n", ":1: no right is given"},
	        {"a:upload,root:" HEX16 ":" HEX32 "\n", ":1: unknown right \"root\""},
	        {"a:upload:" HEX32 ":" HEX32 "\n", ":1: not of the form"},
	        {"a:upload:" HEX16 ":" HEX16 "\n", ":1: not of the form"},
	        {"a:upload:" HEX16 ":" HEX32 "0\n", ":1: not of the form"},
	        {"a:upload:" HEX16 ":" HEX16 "0011223344556677889gaabbccddeeff\n", ":1: not of the form"},
	        {"a:upload:" HEX16 "\n", ":1: not of the form"},
	        {"a:upload:" HEX16 ":" HEX32 "\n#\na:upload:" HEX16 ":" HEX32 "\n", ":3: the id \"a\" is used twice"},
	        {"a:upload:" HEX16 ":" HEX32 HEX32 HEX32 HEX32 "\n", ":1: line is too long"},
	};
	struct made m;
	struct error e;
	(void)state;
	make_two(&m);
	for (unsigned i = 0; i < sizeof cases / sizeof cases[0]; i++) {
		char expected[200];
		write_file(cases[i].file);
		assert_int_equal(auth_load(path, &e), ERR_CONFIG);
		snprintf(expected, sizeof expected, "%s%s", path, cases[i].text);
		assert_int_equal(strncmp(e.text, expected, strlen(expected)), 0);
	}
	write_file("");
	assert_int_equal(chmod(path, 0602), 0);
	assert_int_equal(auth_load(path, &e), ERR_CONFIG);
	assert_non_null(strstr(e.text, "anyone can write"));
	assert_int_equal(auth_load("/nonexistent/keys", &e), ERR_CONFIG);
	assert_int_equal(auth_load(folder, &e), ERR_CONFIG);
	assert_int_equal(check_pair("both", m.both, RIGHT_UPLOAD), ERR_OK);
	assert_int_equal(auth_load(NULL, &e), ERR_OK);
	assert_int_equal(check_pair("both", m.both, RIGHT_UPLOAD), ERR_FORBIDDEN);
}

static void make_refuses(void **state)
{
	char key[AUTH_KEY_SIZE], line[AUTH_LINE_SIZE];
	struct error e;
	(void)state;
	assert_int_equal(auth_make("", RIGHT_UPLOAD, key, line, &e), ERR_CONFIG);
	assert_int_equal(auth_make("a:b", RIGHT_UPLOAD, key, line, &e), ERR_CONFIG);
}

enum { CHECKERS = 4, CHECKS = 2000 };

static void *check_much(void *arg)
{
	const struct made *m = arg;
	uintptr_t wrong = 0;
	for (int i = 0; i < CHECKS; i++) {
		char pair[280], header[512], encoded[400], found[64];
		snprintf(pair, sizeof pair, "both:%s", m->both);
		EVP_EncodeBlock((unsigned char *)encoded, (const unsigned char *)pair, (int)strlen(pair));
		snprintf(header, sizeof header, "APIKey %s", encoded);
		wrong += auth_check(header, RIGHT_UPLOAD, found, NULL) != ERR_OK;
	}
	return (void *)wrong;
}

static void keys_are_replaced_under_load(void **state)
{
	pthread_t threads[CHECKERS];
	struct made m;
	void *wrong;
	(void)state;
	make_two(&m);
	for (unsigned i = 0; i < CHECKERS; i++)
		assert_int_equal(pthread_create(&threads[i], NULL, check_much, &m), 0);
	for (unsigned i = 0; i < 100; i++)
		assert_int_equal(auth_load(path, NULL), ERR_OK);
	for (unsigned i = 0; i < CHECKERS; i++) {
		pthread_join(threads[i], &wrong);
		assert_ptr_equal(wrong, NULL);
	}
}

/* --- symbolicated-keys --- */

/* Runs the command with these arguments; its output goes to out. Returns the exit status. */
static int run_tool(char out[2000], const char *arguments)
{
	char command[1000];
	const char *tool = getenv("SYMBOLICATED_KEYS");
	snprintf(command, sizeof command, "%s %s 2>&1", tool ? tool : "./symbolicated-keys", arguments);
	FILE *in = popen(command, "r");
	assert_non_null(in);
	size_t n = fread(out, 1, 1999, in);
	out[n] = 0;
	int status = pclose(in);
	assert_true(WIFEXITED(status));
	return WEXITSTATUS(status);
}

static int run_tool_on(char out[2000], const char *before, const char *file)
{
	char arguments[500];
	snprintf(arguments, sizeof arguments, "%s %s", before, file);
	return run_tool(out, arguments);
}

static mode_t mode_of_file(void)
{
	struct stat st;
	assert_int_equal(stat(path, &st), 0);
	return st.st_mode & 07777;
}

static void tool_adds_lists_and_revokes(void **state)
{
	char out[2000], first[2000], found[64];
	(void)state;
	unlink(path);
	assert_int_equal(run_tool_on(first, "add ci --rights upload,invalidate", path), 0);
	assert_int_equal(mode_of_file(), 0600);
	assert_int_equal(chmod(path, 0644), 0);
	assert_int_equal(run_tool_on(out, "add up --rights upload", path), 0);
	assert_int_equal(mode_of_file(), 0640); /* of the server's group, maybe */
	assert_int_equal(strcspn(first, "\n") + 1, strlen(first));
	first[strlen(first) - 1] = 0;
	assert_int_equal(auth_load(path, NULL), ERR_OK);
	assert_int_equal(auth_check(first, RIGHT_INVALIDATE, found, NULL), ERR_OK);
	assert_string_equal(found, "ci");
	out[strlen(out) - 1] = 0;
	assert_int_equal(auth_check(out, RIGHT_UPLOAD, found, NULL), ERR_OK);
	assert_int_equal(auth_check(out, RIGHT_INVALIDATE, found, NULL), ERR_FORBIDDEN);
	assert_int_equal(run_tool_on(out, "list", path), 0);
	assert_string_equal(out, "ci upload,invalidate\nup upload\n");
	assert_int_equal(run_tool_on(out, "revoke ci", path), 0);
	assert_string_equal(out, "");
	assert_int_equal(run_tool_on(out, "list", path), 0);
	assert_string_equal(out, "up upload\n");
	assert_int_equal(auth_load(path, NULL), ERR_OK);
	assert_int_equal(auth_check(first, RIGHT_UPLOAD, found, NULL), ERR_FORBIDDEN);
}

static void tool_keeps_comments_and_refuses(void **state)
{
	char out[2000], text[400] = "";
	(void)state;
	write_file("# build machines\n\n");
	assert_int_equal(run_tool_on(out, "add a --rights upload", path), 0);
	assert_int_equal(run_tool_on(out, "add a --rights upload", path), 1);
	assert_non_null(strstr(out, "there is a key with the id \"a\""));
	assert_int_equal(run_tool_on(out, "add b --rights upload", path), 0);
	assert_int_equal(run_tool_on(out, "add c --rights all", path), 1);
	assert_int_equal(run_tool_on(out, "add c/d --rights upload", path), 1);
	assert_int_equal(run_tool_on(out, "revoke c", path), 1);
	assert_non_null(strstr(out, "no key with the id \"c\""));
	assert_int_equal(run_tool_on(out, "list", "/nonexistent/keys"), 1);
	assert_int_equal(run_tool_on(out, "add c", path), 2);
	assert_int_equal(run_tool(out, ""), 2);
	assert_int_equal(run_tool(out, "--help"), 0);
	assert_non_null(strstr(out, "Usage: symbolicated-keys add ID"));
	FILE *in = fopen(path, "r");
	assert_non_null(in);
	assert_true(fread(text, 1, sizeof text - 1, in) > 27);
	fclose(in);
	assert_int_equal(strncmp(text, "# build machines\n\na:upload:", 27), 0);
	/* A file that the server would refuse is not made worse. */
	write_file("damaged\n");
	assert_int_equal(run_tool_on(out, "add c --rights upload", path), 1);
	assert_non_null(strstr(out, ":1: "));
	assert_int_equal(run_tool_on(out, "list", path), 1);
}

/* Commands that run side by side do not lose each other's keys. */
static void tool_runs_side_by_side(void **state)
{
	char arguments[700], out[2000];
	const char *tool = getenv("SYMBOLICATED_KEYS");
	(void)state;
	unlink(path);
	snprintf(arguments, sizeof arguments,
	        "--version; for i in 1 2 3 4 5 6 7 8; do %s add k$i --rights upload %s >%s.$i & done; wait; rm %s.?; "
	        "true",
	        tool ? tool : "./symbolicated-keys", path, path, path);
	assert_int_equal(run_tool(out, arguments), 0);
	assert_int_equal(run_tool_on(out, "list", path), 0);
	unsigned lines = 0;
	for (char *at = out; *at; at++)
		lines += *at == '\n';
	assert_int_equal(lines, 8);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(keys_and_rights),
	        cmocka_unit_test(every_key_takes_the_same_path),
	        cmocka_unit_test(hash_is_sha256_of_salt_and_key),
	        cmocka_unit_test(headers_that_do_not_parse),
	        cmocka_unit_test(bad_files_leave_the_old_keys),
	        cmocka_unit_test(make_refuses),
	        cmocka_unit_test(keys_are_replaced_under_load),
	        cmocka_unit_test(tool_adds_lists_and_revokes),
	        cmocka_unit_test(tool_keeps_comments_and_refuses),
	        cmocka_unit_test(tool_runs_side_by_side),
	};
	return cmocka_run_group_tests(tests, make_folder, remove_folder);
}
