/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: whatever the bytes are, request_read and jansson read the same from them. */
#include <config.h>

#include "../unit/request_oracle.h"
#include "fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static const struct {
		enum request_version version;
		struct request_limits limits;
	} runs[] = {
	        {REQUEST_V5, {1000, 1000000, 10000, 1000000}},
	        {REQUEST_V4, {1000, 1000000, 10000, 1000000}},
	        {REQUEST_V5, {2, 3, 2, 3}},
	};
	for (unsigned i = 0; i < sizeof runs / sizeof runs[0]; i++) {
		const char *difference =
		        oracle_compare((struct str){(const char *)data, size}, runs[i].version, &runs[i].limits);
		if (difference) {
			fprintf(stderr, "run %u: %s\n", i, difference);
			abort();
		}
	}
	return 0;
}
