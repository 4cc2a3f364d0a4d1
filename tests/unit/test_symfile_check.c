/* SPDX-License-Identifier: Apache-2.0 */
/* What is taken for a symbol file while it arrives, in pieces of any size. */
#include <config.h>

#include "base/gzip.h"
#include "symfiles/check.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#define MODULE "MODULE Linux x86_64 AB1 a\n"

struct sample {
	const char *text, *why; /* why: part of the refusal; NULL: it is one */
	uint64_t functions, publics;
	const char *code_id, *code_file;
};

static const struct sample samples[] = {
        {MODULE "FUNC 1 2 0 f\n", NULL, 1, 0, "", ""},
        {MODULE "PUBLIC 1 0 p", NULL, 0, 1, "", ""},
        {MODULE "INFO CODE_ID 5CF2 xul dll.dll\r\nFUNC m 1 2 0 f\n1 1 1 0\nPUBLIC 9 0 p\n", NULL, 1, 1, "5CF2",
                "xul dll.dll"},
        {MODULE "INFO CODE_ID A a.exe\nINFO CODE_ID B b.exe\nFUNC 1 1 0 f\n", NULL, 1, 0, "B", "b.exe"},
        {MODULE "INFO CODE_ID ABC\nINFO GENERATOR x\nFUNC 1 1 0 f\n", NULL, 1, 0, "", ""},
        {MODULE "  FUNC 1 1 0 f\n", NULL, 1, 0, "", ""},
        {MODULE "FUNC x 1 0 f\nPUBLIC\nFUNCTION 1 1 0\n", "neither", 0, 0, NULL, NULL},
        {MODULE, "neither", 0, 0, NULL, NULL},
        {MODULE "STACK WIN 4 1 2 0 0 0 0 0 0 0 0\n", NULL, 0, 0, "", ""},
        {MODULE "INFO CODE_ID A a.dll\nSTACK CFI INIT 1 2 .cfa: $rsp 8 +\nSTACK CFI 1 .ra: 1", NULL, 0, 0, "A",
                "a.dll"},
        {MODULE "  STACK CFI INIT 1 2 .cfa: $rsp 8 +", NULL, 0, 0, "", ""},
        {MODULE "FILE 0 STACK CFI\nSTACKS 1\nSTACK\n", "neither", 0, 0, NULL, NULL},
        {"MODULE Linux x86_64 ab1 a\nFUNC 1 2 0 f\n", NULL, 1, 0, "", ""},
        {"MODULE Linux x86_64 AB12 a\nFUNC 1 2 0 f\n", "id is AB12 instead of AB1", 0, 0, NULL, NULL},
        {"MODULE Linux\nFUNC 1 2 0 f\n", "not a MODULE line", 0, 0, NULL, NULL},
        {"\n" MODULE "FUNC 1 2 0 f\n", "not a MODULE line", 0, 0, NULL, NULL},
        {"", "not a MODULE line", 0, 0, NULL, NULL},
        {"M", "not a MODULE line", 0, 0, NULL, NULL},
};
enum { SAMPLES = sizeof samples / sizeof samples[0] };

static enum err feed(struct symfile_check *k, const void *data, size_t len, size_t piece, struct error *e)
{
	enum err err = ERR_OK;
	for (size_t at = 0; at < len && !err; at += piece)
		err = symfile_check_add(k, (const uint8_t *)data + at, len - at < piece ? len - at : piece, e);
	return err ? err : symfile_check_end(k, e);
}

static void check_sample(const struct sample *s, const void *data, size_t len, size_t piece)
{
	struct symfile_check *k = symfile_check_new(str_from("AB1"), 1 << 20);
	struct error e = {0};
	enum err err = feed(k, data, len, piece, &e);
	const struct symfile_facts *f = symfile_check_facts(k);
	assert_int_equal(err, s->why ? ERR_BAD_REQUEST : ERR_OK);
	if (s->why)
		assert_non_null(strstr(e.text, s->why));
	else
		assert_true(f->functions == s->functions && f->publics == s->publics && f->text == strlen(s->text) &&
		            strcmp(f->code_id, s->code_id) == 0 && strcmp(f->code_file, s->code_file) == 0);
	symfile_check_free(k);
}

static void plain_and_packed_in_pieces(void **state)
{
	static const size_t pieces[] = {1, 2, 3, 7, 1000};
	(void)state;
	for (unsigned i = 0; i < SAMPLES; i++) {
		size_t text_len = strlen(samples[i].text);
		uint8_t *packed;
		size_t len;
		assert_int_equal(gzip_compress(samples[i].text, text_len, &packed, &len), ERR_OK);
		for (unsigned k = 0; k < 5; k++) {
			check_sample(&samples[i], samples[i].text, text_len, pieces[k]);
			check_sample(&samples[i], packed, len, pieces[k]);
		}
		free(packed);
	}
}

static void of_a_long_line_the_beginning_is_read(void **state)
{
	enum { LONG = 100000 };
	char *text = malloc(LONG + 200);
	struct sample s = {text, NULL, 2, 0, "", ""};
	(void)state;
	int n = sprintf(text, MODULE "FUNC 1 2 0 ");
	memset(text + n, 'x', LONG);
	strcpy(text + n + LONG, "\nFUNC 5 1 0 y\n");
	check_sample(&s, text, strlen(text), 1000);
	check_sample(&s, text, strlen(text), LONG * 2);
	free(text);
}

static void a_text_that_is_too_large(void **state)
{
	static const char text[] = MODULE "FUNC 1 2 0 f\n";
	struct error e = {0};
	(void)state;
	for (size_t max = sizeof text - 2; max < sizeof text; max++) {
		struct symfile_check *k = symfile_check_new(str_from("AB1"), max);
		assert_int_equal(feed(k, text, strlen(text), 5, &e), max < strlen(text) ? ERR_TOO_LARGE : ERR_OK);
		symfile_check_free(k);
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(plain_and_packed_in_pieces),
	        cmocka_unit_test(of_a_long_line_the_beginning_is_read),
	        cmocka_unit_test(a_text_that_is_too_large),
	};
	return cmocka_run_group_tests_name("symfile_check", tests, NULL, NULL);
}
