/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a Windows cabinet: its first file has a bound, and an error has a text. */
#include <config.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "extract/cabinet.h"
#include "fuzz.h"

enum { UNPACKED_MAX = 1 << 20 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct error e = {0};
	struct stat st;
	int from = memfd_create("fuzz", MFD_CLOEXEC), to = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_check(from >= 0 && to >= 0 && write(from, data, size) == (ssize_t)size, "a file in memory");
	if (cabinet_is(from)) {
		enum err err = cabinet_unpack(from, UNPACKED_MAX, to, &e);
		fuzz_check(!err || e.text[0], "an error without a text");
		fuzz_check(fstat(to, &st) == 0 && st.st_size <= UNPACKED_MAX, "more than is allowed");
	}
	close(from);
	close(to);
	return 0;
}
