/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: what a server that claims to be S3 answers: XML, whose elements may be dates. An element's depth and text
 * are within their bounds; a date is one of 1970 or later, or none, and is read from the text alone. */
#include <config.h>

#include "fuzz.h"
#include "objects/s3.h"

enum { DEPTH_MAX = 64, TEXT_MAX = 16384 };

static void check_time(struct str text)
{
	uint8_t *copy = fuzz_copy(text.data, text.len);
	int64_t time = s3_parse_time((struct str){(const char *)copy, text.len});
	fuzz_check(time >= -1, "a date before 1970");
	if (time >= 0)
		fuzz_check(text.len >= 4 + 1 + 1 + 1 && text.data[text.len - 1] == 'Z', "a date of no form");
	free(copy);
}

static void element(void *arg, unsigned depth, const char *name, struct str text)
{
	unsigned *elements = arg;
	++*elements;
	fuzz_check(depth >= 1 && depth <= DEPTH_MAX && *name && text.len <= TEXT_MAX, "beyond its bounds");
	check_time(text);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char code[S3_CODE_SIZE];
	unsigned elements = 0;
	uint8_t *copy = fuzz_copy(data, size);
	bool whole = s3_xml_read(copy, size, element, &elements);
	fuzz_check(!whole || elements > 0, "nothing was read of all");
	s3_error_code(code, copy, size);
	fuzz_check(strlen(code) < S3_CODE_SIZE, "a code without an end");
	check_time((struct str){(const char *)copy, size});
	free(copy);
	return 0;
}
