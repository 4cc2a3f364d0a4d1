/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: where source files of a PDB are, by its streams srcsrv and sourcelink: a name of bounded length in one of
 * three forms, or none. First a path, up to a line feed, then srcsrv, up to a zero, then sourcelink. */
#include <config.h>

#include "extract/pdb_sources.h"
#include "fuzz.h"

static bool begins(const char *name, const char *with)
{
	return strncmp(name, with, strlen(with)) == 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static struct pdb_sources sources;
	char name[SOURCE_NAME_MAX];
	struct error e = {0};
	uint8_t *copy = fuzz_copy(data, size);
	struct str rest = {(const char *)copy, size};
	struct str path = str_cut(&rest, '\n'), srcsrv = str_cut(&rest, 0);
	fuzz_check(!pdb_sources_read(&sources, srcsrv, rest, &e), "out of memory");
	if (pdb_sources_name(&sources, path, name)) {
		fuzz_check(memchr(name, 0, sizeof name) != NULL, "a name without an end");
		fuzz_check(
		        begins(name, "hg:") || begins(name, "git:") || begins(name, "s3:"), "a name of another form");
		fuzz_check(!strpbrk(name, "\r\n"), "a name of two lines");
	}
	pdb_sources_release(&sources);
	free(copy);
	return 0;
}
