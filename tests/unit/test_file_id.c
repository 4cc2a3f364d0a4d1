/* SPDX-License-Identifier: Apache-2.0 */
/* FileIDs: their spellings, and what they are of files. */
#include <config.h>

#include "symbfile/file_id.h"

#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <unistd.h>

#include <cmocka.h>

#include "extract/ids.h"
#include "symbfile_dump.h"

static void check_spelling(const char *text, bool ok)
{
	static const char hex[] = "f4c1e5fe2f28034fcceb0776ec00b125";
	struct file_id id = {{0}};
	char out[FILE_ID_HEX + 1];
	if (file_id_parse(&id, str_from(text)) != ok)
		fail_msg("%s", text);
	file_id_hex(out, &id);
	assert_string_equal(out, ok ? hex : "00000000000000000000000000000000");
}

static void test_file_id_spellings(void **state)
{
	(void)state;
	static const char *good[] = {"f4c1e5fe2f28034fcceb0776ec00b125", "F4C1E5FE2F28034FCCEB0776EC00B125",
	        "9MHl_i8oA0_M6wd27ACxJQ", "9MHl/i8oA0/M6wd27ACxJQ", "9MHl_i8oA0_M6wd27ACxJQ=="};
	static const char *bad[] = {"", "f4c1e5fe2f28034fcceb0776ec00b12", "g4c1e5fe2f28034fcceb0776ec00b125",
	        "f4c1e5fe2f28034fcceb0776ec00b1255", "9MHl_i8oA0_M6wd27ACxJ",
	        "9MHl_i8oA0_M6wd27ACxJQ=", "9MHl_i8oA0_M6wd27ACxJQ=a", "9MHl_i8oA0_M6wd27ACxJR",
	        "9MHl.i8oA0_M6wd27ACxJQ", "9MHl_i8oA0_M6wd27ACxJQ===", "f4c1e5fe2f28034fcceb0776ec00b1@5"};
	for (size_t i = 0; i < sizeof good / sizeof good[0]; i++)
		check_spelling(good[i], true);
	for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++)
		check_spelling(bad[i], false);
	struct file_id all;
	char out[FILE_ID_BASE64 + 1];
	assert_true(file_id_parse(&all, str_from("+/////////////////////w")) == false);
	assert_true(file_id_parse(&all, str_from("//////////////////+//w")));
	file_id_base64(out, &all);
	assert_string_equal(out, "__________________-__w");
}

static void test_file_ids(void **state)
{
	(void)state;
	char path[512];
	json_t *lines = load_json_lines(data_path(path, "fileid/expect.jsonl")), *line;
	size_t i;
	assert_int_equal(json_array_size(lines), 11);
	json_array_foreach(lines, i, line)
	{
		char hex[FILE_ID_HEX + 1], base64[FILE_ID_BASE64 + 1];
		struct file_id id;
		struct error e = {0};
		int fd = open(data_path(path, json_string_value(json_object_get(line, "path"))), O_RDONLY | O_CLOEXEC);
		assert_true(fd >= 0);
		assert_int_equal(file_id_of_fd(&id, fd, NULL, &e), ERR_OK);
		close(fd);
		file_id_hex(hex, &id);
		file_id_base64(base64, &id);
		assert_string_equal(hex, json_string_value(json_object_get(line, "hex")));
		assert_string_equal(base64, json_string_value(json_object_get(line, "b64url")));
	}
	json_decref(lines);
}

static void test_file_id_of_no_file(void **state)
{
	(void)state;
	struct file_id id;
	struct error e = {0};
	int fds[2];
	assert_int_equal(pipe(fds), 0);
	assert_int_equal(file_id_of_fd(&id, fds[0], NULL, &e), ERR_IO);
	assert_int_equal(e.code, ERR_IO);
	close(fds[0]);
	close(fds[1]);
	assert_int_equal(file_id_of_fd(&id, -1, NULL, &e), ERR_IO);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_file_id_spellings),
	        cmocka_unit_test(test_file_ids),
	        cmocka_unit_test(test_file_id_of_no_file),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
