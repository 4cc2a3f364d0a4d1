/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a symbol table that is compressed in a program: memory has a bound, and an error has a text. */
#include <config.h>

#include "extract/mini_debug.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = fuzz_copy(data, size);
	struct str in = {(const char *)copy, size};
	struct error e = {0};
	char *out;
	size_t len = 0;
	enum err err = xz_inflate(in, &out, &len, &e);
	fuzz_check(err == ERR_OK ? out || len == 0 : !out && e.text[0] && e.code == err, "an error without a text");
	if (err == ERR_OK && len > 0) {
		uint8_t *whole = fuzz_copy(out, len); /* all of it is there */
		free(whole);
	}
	free(out);
	free(copy);
	return 0;
}
