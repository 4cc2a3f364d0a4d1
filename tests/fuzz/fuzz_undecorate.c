/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a decorated name, one a line: it is left as it is, or becomes a name of bounded length, always the same.
 */
#include <config.h>

#include "extract/demangle.h"
#include "extract/undecorate.h"
#include "fuzz.h"

enum { SHORT = 200 };

static void check(struct str name)
{
	struct buffer whole, cut;
	buffer_init(&whole, SIZE_MAX / 2);
	buffer_init(&cut, SIZE_MAX / 2);
	bool ok = undecorate(&whole, name, DEMANGLE_OUTPUT_MAX);
	fuzz_check(ok ? whole.len > 0 && whole.len <= DEMANGLE_OUTPUT_MAX : whole.len == 0, "its length");
	bool fits = undecorate(&cut, name, SHORT);
	fuzz_check(
	        fits ? ok && cut.len <= SHORT && memcmp(whole.data, cut.data, cut.len) == 0 : cut.len == 0, "a bound");
	buffer_release(&whole);
	buffer_release(&cut);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint8_t *copy = fuzz_copy(data, size);
	struct str rest = {(const char *)copy, size};
	while (rest.len > 0)
		check(str_cut(&rest, '\n'));
	free(copy);
	return 0;
}
