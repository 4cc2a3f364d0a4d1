/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a PDB, PE or Mach-O file, or ELF, above all without section headers: it is refused with a text, or what is
 * read of it is sound, also for one address. */
#include <config.h>

#include <sys/mman.h>
#include <unistd.h>

#include "extract/extract.h"
#include "extract/functions.h"
#include "extract/ids.h"
#include "fuzz.h"

enum { RANGES_MAX = 1 << 20 };

struct tally {
	uint64_t ranges, first;
};

static enum err take_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct tally *t = arg;
	fuzz_check(r->length > 0 && r->depth <= INLINE_DEPTH_MAX, "a range of nothing");
	for (size_t i = 0; i < r->line_count; i++)
		fuzz_check(r->lines[i].offset < r->length && (i == 0 || r->lines[i].offset > r->lines[i - 1].offset),
		        "lines outside their range, or out of order");
	if (t->ranges == 0)
		t->first = r->va;
	return ++t->ranges > RANGES_MAX ? error_set(e, ERR_TOO_LARGE, "more ranges than bytes") : ERR_OK;
}

static enum err take_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)arg;
	(void)e;
	fuzz_check(p->count > 0 && p->count <= INLINE_DEPTH_MAX + 1, "frames of a pad");
	return ERR_OK;
}

static enum err extract(const char *path, const uint64_t *asked, struct tally *t)
{
	static struct extract_stats stats;
	struct error e = {0};
	const struct extract_options options = {
	        .debug_dir = "/dev/null", .threads = 1, .asked = asked, .asked_count = asked != NULL};
	const struct symbfile_sink sink = {take_range, take_pad, t};
	enum err err = extract_here(path, &options, &sink, &stats, &e);
	fuzz_check(!err || e.text[0], "a failure without a text");
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char path[32];
	struct ids ids;
	struct tally all = {0}, one = {0};
	if (file_format_of(data, size) == FORMAT_OTHER)
		return 0;
	int fd = memfd_create("fuzz", MFD_CLOEXEC);
	fuzz_check(fd >= 0 && write(fd, data, size) == (ssize_t)size, "a file in memory");
	snprintf(path, sizeof path, "/dev/fd/%d", fd);
	ids_of_fd(&ids, fd, NULL, NULL);
	if (!extract(path, NULL, &all) && all.ranges > 0)
		extract(path, &all.first, &one);
	close(fd);
	return 0;
}
