/* SPDX-License-Identifier: Apache-2.0 */
/* Which ids mean which build ids: against GUIDs that are written out here, and all forms of random build ids. */
#include <config.h>

#include "symbfile/build_id.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "seed.h"
#include "text/module_table.h"

#define BUILD_ID "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae1e1cd8e2"
#define GUID "6E4AAC939E6A0A2DC42B5AC0BB4DFBAE" /* its first 16 bytes */

static struct build_id id_of(const char *hex)
{
	struct build_id id;
	assert_true(build_id_parse(&id, str_from(hex)));
	return id;
}

static bool means(const char *text, const char *hex)
{
	struct build_id_question q;
	struct build_id id = id_of(hex);
	char of_id[BUILD_ID_KEY + 1], of_question[BUILD_ID_KEY + 1];
	if (!build_id_question_parse(&q, str_from(text)) || !build_id_answers(&id, &q))
		return false;
	build_id_key(of_id, &id);
	build_id_question_key(of_question, &q);
	assert_string_equal(of_id, of_question);
	return true;
}

static void what_ids_mean(void **state)
{
	(void)state;
	assert_true(means(BUILD_ID, BUILD_ID));
	assert_true(means(GUID "0", BUILD_ID));
	assert_true(means("6e4aac939e6a0a2dc42b5ac0bb4dfbae0", BUILD_ID));
	assert_true(means(GUID, BUILD_ID));
	assert_true(means("93ac4a6e6a9e2d0ac42b5ac0bb4dfbae", "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae"));
	assert_true(means(GUID, "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae"));
	assert_true(means("0123456789abcdef", "0123456789ABCDEF"));
	assert_true(means("67452301AB89EFCD00000000000000000", "0123456789abcdef"));
	/* the debug id of a big-endian executable has the first 16 bytes as they are */
	assert_true(means("93AC4A6E6A9E2D0AC42B5AC0BB4DFBAE0", BUILD_ID));
	assert_true(means("93AC4A6E6A9E2D0AC42B5AC0BB4DFBAE", BUILD_ID));
	assert_true(means("0123456789ABCDEF00000000000000000", "0123456789abcdef"));
	assert_false(means("93AC4A6E6A9E2D0AC42B5AC0BB4DFBAF0", BUILD_ID));
	/* of Windows: the GUID as it is in the file, and the age */
	assert_true(means(GUID "1", "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae00000001"));
	assert_true(means("6e4aac939e6a0a2dc42b5ac0bb4dfbaea", "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae0000000a"));
	assert_true(means(GUID "10", "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae00000010"));
	assert_false(means(GUID "1", "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae00000002"));
	assert_false(means(GUID "1", BUILD_ID));
	assert_false(means(GUID "0", "93ac4a6e6a9e2d0ac42b5ac0bb4dfbaf1e1cd8e2"));
	assert_false(means(BUILD_ID, "93ac4a6e6a9e2d0ac42b5ac0bb4dfbae1e1cd8e3"));
	assert_false(means("0123456789abcdef", "0123456789abcdef00"));
}

static void what_no_question_is(void **state)
{
	static const char *const texts[] = {"", "0", "012", "0g", "x123", GUID "1g", GUID "00", GUID "01", GUID "0000",
	        "93ac4a6e6a9e2d0ac42b5ac0bb4dfba-0", "6E4AAC93-9E6A-0A2D-C42B-5AC0BB4DFBAE"};
	struct build_id_question q;
	struct build_id id;
	char digits[BUILD_ID_HEX + 3];
	(void)state;
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
		assert_false(build_id_question_parse(&q, str_from(texts[i])));
	memset(digits, 'a', sizeof digits);
	assert_true(build_id_question_parse(&q, (struct str){digits, BUILD_ID_HEX}));
	assert_false(build_id_question_parse(&q, (struct str){digits, BUILD_ID_HEX - 1}));
	assert_false(build_id_question_parse(&q, (struct str){digits, BUILD_ID_HEX + 2}));
	assert_false(build_id_parse(&id, (struct str){digits, BUILD_ID_HEX + 2}));
	assert_false(build_id_parse(&id, str_from("")));
	assert_false(build_id_parse(&id, str_from("0x12")));
}

/* An upload forgets what was remembered of each question that its build id answers: these must be all that are asked.
 */
static bool is_among(const struct build_id *id, const char *text)
{
	struct build_id_question asked, all[BUILD_ID_QUESTIONS];
	char one[BUILD_ID_QUESTION_TEXT + 1], other[BUILD_ID_QUESTION_TEXT + 1];
	assert_true(build_id_question_parse(&asked, str_from(text)));
	assert_true(build_id_answers(id, &asked));
	build_id_question_text(one, &asked);
	bool found = false;
	build_id_questions(all, id);
	for (unsigned i = 0; i < BUILD_ID_QUESTIONS; i++) {
		assert_true(build_id_answers(id, &all[i]));
		build_id_question_text(other, &all[i]);
		found = found || strcmp(one, other) == 0;
	}
	return found;
}

static void big_endian_debug_id(char out[34], const struct build_id *id)
{
	for (size_t i = 0; i < 16; i++)
		snprintf(out + 2 * i, 3, "%02X", id->bytes[i]);
	memcpy(out + 32, "0", 2);
}

static void all_forms_of_random_ids(void **state)
{
	uint64_t random = seed_of(16);
	(void)state;
	for (unsigned round = 0; round < 2000; round++) {
		struct build_id id = {.len = 1 + round % BUILD_ID_MAX};
		char hex[BUILD_ID_HEX + 1], debug_id[34];
		for (size_t i = 0; i < id.len; i++) {
			random = random * 6364136223846793005u + 1442695040888963407u;
			id.bytes[i] = (uint8_t)(random >> 56);
		}
		build_id_hex(hex, id.bytes, id.len);
		assert_true(text_debug_id(debug_id, str_from(hex)));
		assert_true(means(debug_id, hex));
		assert_true(is_among(&id, debug_id));
		big_endian_debug_id(debug_id, &id);
		for (size_t digits = 33; digits >= 32; digits--) {
			debug_id[digits] = 0;
			assert_true(means(debug_id, hex));
			assert_true(is_among(&id, debug_id));
		}
		assert_true(text_debug_id(debug_id, str_from(hex)));
		debug_id[32] = 0;
		assert_true(means(debug_id, hex));
		assert_true(is_among(&id, debug_id));
		if (id.len < 17 || id.len > 19) /* others look like debug ids with an age */
			assert_true(is_among(&id, hex));
	}
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(what_ids_mean),
	        cmocka_unit_test(what_no_question_is),
	        cmocka_unit_test(all_forms_of_random_ids),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
