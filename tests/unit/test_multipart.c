/* SPDX-License-Identifier: Apache-2.0 */
/* Form data in pieces of any size: the parts are the same, and so is what is wrong. */
#include <config.h>

#include "api/multipart.h"
#include "base/buffer.h"
#include "seed.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define TYPE "multipart/form-data; boundary=xYz"

/* What has been reported, as text: "name|filename:data;" for each part. */
static struct buffer seen;

static enum err on_begin(void *arg, struct str name, struct str filename, struct error *e)
{
	(void)arg, (void)e;
	if (seen.len)
		buffer_append(&seen, ";", 1);
	buffer_printf(&seen, "%.*s|%.*s:", STR_FMT(name), filename.data ? (int)filename.len : 1,
	        filename.data ? filename.data : "-");
	return ERR_OK;
}

static enum err on_data(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	(void)arg, (void)e;
	buffer_append(&seen, data, len);
	return ERR_OK;
}

static const struct multipart_visitor visitor = {on_begin, on_data, NULL};

/* The error, or ERR_OK. */
static enum err read_form(const char *body, size_t len, size_t piece)
{
	struct error e = {0};
	struct multipart *m = multipart_new(TYPE, &visitor, &e);
	enum err err = ERR_OK;
	assert_non_null(m);
	buffer_reset(&seen);
	for (size_t at = 0; at < len && !err; at += piece) {
		/* a copy, so that reading beyond it is seen */
		size_t n = len - at < piece ? len - at : piece;
		uint8_t *copy = malloc(n);
		memcpy(copy, body + at, n);
		err = multipart_add(m, copy, n, &e);
		free(copy);
	}
	if (!err)
		err = multipart_end(m, &e);
	multipart_free(m);
	buffer_append(&seen, "", 1);
	return err;
}

struct sample {
	const char *body, *parts; /* parts: NULL if it is refused */
};

#define PART(head, data) "--xYz\r\n" head "\r\n\r\n" data "\r\n"
#define FIELD(name) "Content-Disposition: form-data; name=\"" name "\""

static const struct sample samples[] = {
        {PART(FIELD("a"), "1") "--xYz--\r\n", "a|-:1"},
        {PART(FIELD("a"), "1") "--xYz--", "a|-:1"},
        {PART(FIELD("a"), "") "--xYz--\r\n", "a|-:"},
        {"a preamble\r\n" PART(FIELD("a"), "1") "--xYz--\r\nand an epilogue --xYz", "a|-:1"},
        {PART(FIELD("f") "; filename=\"x y.zip\"\r\nContent-Type: application/zip", "PK")
                        PART(FIELD("try"), "yes") "--xYz--",
                "f|x y.zip:PK;try|-:yes"},
        {PART("content-type: text/plain\r\nCONTENT-DISPOSITION: form-data;name=a;filename=b", "1") "--xYz--", "a|b:1"},
        {PART(FIELD("f") "; filename=\"\"", "1") "--xYz--", "f|:1"},
        {PART("X: y", "1") "--xYz--", "|-:1"},
        {"--xYz \t\r\n" FIELD("a") "\r\n\r\n1\r\n--xYz--", "a|-:1"},
        {PART(FIELD("a"), "\r\n--xY\r\n--xyz\r\n-\r\n--\r\n\r\n") "--xYz--",
                "a|-:\r\n--xY\r\n--xyz\r\n-\r\n--\r\n\r\n"},
        {"", NULL},
        {"--xYz--", ""},
        {PART(FIELD("a"), "1"), NULL},
        {"--xYz\r\n" FIELD("a") "\r\n\r\n1", NULL},
        {"--xYz\r\n" FIELD("a"), NULL},
        {"--xYzz\r\n" FIELD("a") "\r\n\r\n1\r\n--xYz--", NULL},
        {PART(FIELD("a"), "1") "--xYz-", NULL},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

static void in_pieces(void **state)
{
	static const size_t pieces[] = {1, 2, 3, 5, 7, 16, 1000};
	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++)
		for (unsigned k = 0; k < sizeof pieces / sizeof pieces[0]; k++) {
			enum err err = read_form(samples[i].body, strlen(samples[i].body), pieces[k]);
			if (err != (samples[i].parts ? ERR_OK : ERR_BAD_REQUEST))
				fail_msg("sample %u in pieces of %zu: %d", i, pieces[k], err);
			if (samples[i].parts)
				assert_string_equal((char *)seen.data, samples[i].parts);
		}
}

/* What follows the last delimiter may be as long as it likes. */
static void a_long_epilogue_is_passed_over(void **state)
{
	static const char form[] = PART(FIELD("a"), "1") "--xYz--\r\n";
	enum { HEAD = sizeof form - 1, LEN = HEAD + (9 << 20) };
	char *body = malloc(LEN);
	(void)state;
	assert_non_null(body);
	memcpy(body, form, HEAD);
	memset(body + HEAD, 'x', LEN - HEAD);
	assert_int_equal(read_form(body, LEN, 64 << 10), ERR_OK);
	assert_string_equal((char *)seen.data, "a|-:1");
	free(body);
}

static void types(void **state)
{
	static const char *const good[] = {
	        TYPE, "Multipart/Form-Data; charset=x; boundary=\"a b\"", "multipart/form-data;BOUNDARY=a"};
	static const char *const bad[] = {"", "multipart/form-data",
	        "multipart/form-data; boundary=", "application/zip; boundary=a", "multipart/form-data; xboundary=a",
	        ("multipart/form-data; "
	         "boundary=aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa")};
	struct error e;
	(void)state;
	for (unsigned i = 0; i < sizeof good / sizeof good[0]; i++) {
		struct multipart *m = multipart_new(good[i], &visitor, &e);
		assert_non_null(m);
		multipart_free(m);
	}
	for (unsigned i = 0; i < sizeof bad / sizeof bad[0]; i++)
		assert_null(multipart_new(bad[i], &visitor, &e));
	assert_null(multipart_new(NULL, &visitor, &e));
	assert_int_equal(e.code, ERR_BAD_REQUEST);
}

static void long_headers_are_refused(void **state)
{
	char *body = malloc(20000);
	(void)state;
	int n = sprintf(body, "--xYz\r\n");
	memset(body + n, 'h', 15000);
	assert_int_equal(read_form(body, 15000 + (size_t)n, 1000), ERR_BAD_REQUEST);
	strcpy(body + n + 15000, "\r\n\r\n1\r\n--xYz--");
	assert_int_equal(read_form(body, strlen(body), 20000), ERR_BAD_REQUEST);
	free(body);
}

/* Whatever comes: it ends, and pieces change nothing. */
static void junk(void **state)
{
	static const char *const bits[] = {"\r\n", "--", "xYz", "\r\n--xYz", "--xYz--", "\r\n\r\n", FIELD("a"), "a",
	        " ", "\r", "\n", ";filename=\"", "\""};
	uint64_t seed = seed_of(1);
	(void)state;
	for (unsigned round = 0; round < rounds(20000); round++) {
		char body[1000] = "", *first;
		for (unsigned k = next_random(&seed) % 20; k > 0; k--)
			strcat(body, bits[next_random(&seed) % (sizeof bits / sizeof bits[0])]);
		enum err whole = read_form(body, strlen(body), 1000);
		first = strdup((char *)seen.data);
		assert_int_equal(read_form(body, strlen(body), 1 + next_random(&seed) % 9), whole);
		if (!whole)
			assert_string_equal((char *)seen.data, first);
		free(first);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(in_pieces),
	        cmocka_unit_test(a_long_epilogue_is_passed_over),
	        cmocka_unit_test(types),
	        cmocka_unit_test(long_headers_are_refused),
	        cmocka_unit_test(junk),
	};
	buffer_init(&seen, 1 << 20);
	int failed = cmocka_run_group_tests_name("multipart", tests, NULL, NULL);
	buffer_release(&seen);
	return failed;
}
