/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool extract: writes the records of executables to symbfiles. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/files.h"
#include "symbtool/cut.h"
#include "symbtool/debuginfod.h"
#include "symbtool/cli.h"
#include "symbtool/visible.h"

static const char usage[] =
        "Usage: symbtool extract [OPTION]... EXECUTABLE...\n"
        "\n"
        "Writes the symbols of executables to files NAME-FILEID.KIND.N-of-N.symbfile, the parts that push-symbols\n"
        "would upload.\n";

struct extract {
	struct cut_options cut;
	const char *output;
	uint64_t threads;
	bool json;
	const char *debuginfod; /* URLs */
};

static enum err write_bytes(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	const int *fd = arg;
	return write_all(*fd, data, len) ? ERR_OK : error_set(e, ERR_IO, "%s", strerror(errno));
}

static enum err write_file(const struct spool *s, size_t part, const char *path, struct error *e)
{
	int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
	if (fd < 0)
		return error_set(e, ERR_IO, "%s", strerror(errno));
	enum err err = spool_read(s, part, write_bytes, &fd, e);
	if (close(fd) != 0 && !err)
		err = error_set(e, ERR_IO, "%s", strerror(errno));
	return err;
}

/* A file gets its name when it is complete. An interrupt waits for that. */
static enum err write_part(const struct spool *s, size_t part, const char *path, struct error *e)
{
	char temporary[PATH_MAX];
	sigset_t held, before;
	struct error inner;
	if (snprintf(temporary, sizeof temporary, "%s.part", path) >= (int)sizeof temporary)
		return error_set(e, ERR_IO, "the path is too long");
	sigemptyset(&held);
	sigaddset(&held, SIGINT);
	sigaddset(&held, SIGTERM);
	sigaddset(&held, SIGHUP);
	sigprocmask(SIG_BLOCK, &held, &before);
	enum err err = write_file(s, part, temporary, &inner);
	if (!err && rename(temporary, path) != 0)
		err = error_set(&inner, ERR_IO, "%s", strerror(errno));
	if (err)
		unlink(temporary);
	sigprocmask(SIG_SETMASK, &before, NULL);
	return err ? error_set(e, err, "%.200s: %s", path, inner.text) : ERR_OK;
}

static enum err write_kind(
        const struct extract *x, const struct cut *c, const char *path, unsigned kind, struct error *e)
{
	char out[PATH_MAX], id[FILE_ID_HEX + 1];
	const struct spool *s = &c->kinds[kind];
	enum err err = ERR_OK;
	file_id_hex(id, &c->id);
	for (size_t i = 0; i < s->count && !err; i++) {
		int n = snprintf(out, sizeof out, "%s/%s-%s.%s.%zu-of-%zu.symbfile", x->output, basename(path), id,
		        symbfile_kind_names[kind], i, s->count);
		err = n < (int)sizeof out ? write_part(s, i, out, e) : error_set(e, ERR_IO, "the path is too long");
		if (!err && !x->json) {
			print_visible(stdout, out);
			printf(" %" PRIu64 "\n", s->parts[i].len);
		}
	}
	return err;
}

static void print_extracted(const struct cut *c, int64_t elapsed)
{
	char id[FILE_ID_HEX + 1];
	struct rusage usage_now;
	file_id_hex(id, &c->id);
	getrusage(RUSAGE_SELF, &usage_now);
	printf("{\"file_id\":\"%s\",\"seconds\":%.4f,\"max_rss_kib\":%ld,\"units\":%" PRIu64, id,
	        (double)elapsed / (double)SECOND, usage_now.ru_maxrss, c->stats.units);
	printf(",\"ranges\":%" PRIu64 ",\"returnpads\":%" PRIu64 ",\"ranges_parts\":%zu,\"returnpads_parts\":%zu",
	        c->stats.ranges, c->stats.pads, c->kinds[SYMBFILE_RANGES].count, c->kinds[SYMBFILE_RETURNPADS].count);
	printf(",\"ranges_bytes\":%" PRIu64 ",\"returnpads_bytes\":%" PRIu64, c->kinds[SYMBFILE_RANGES].len,
	        c->kinds[SYMBFILE_RETURNPADS].len);
	printf(",\"ranges_set\":\"%s\",\"returnpads_set\":\"%s\"}\n", c->kinds[SYMBFILE_RANGES].set,
	        c->kinds[SYMBFILE_RETURNPADS].set);
}

static void print_dry(const struct cut *c, const char *path, int64_t elapsed)
{
	print_visible(stdout, path);
	printf(": %" PRIu64 " ranges in %" PRIu64 " bytes, %" PRIu64 " return pads in %" PRIu64 " bytes, %.2f s\n",
	        c->stats.ranges, c->kinds[SYMBFILE_RANGES].len, c->stats.pads, c->kinds[SYMBFILE_RETURNPADS].len,
	        (double)elapsed / (double)SECOND);
}

static enum err extract_one(const struct extract *x, const char *path, struct error *e)
{
	struct cut cut;
	int64_t started = clock_now();
	enum err err = cut_executable(&cut, path, &x->cut, e);
	if (err)
		return err;
	int64_t elapsed = clock_now() - started;
	cut_warn(&cut, path);
	for (unsigned kind = 0; kind < SYMBFILE_KINDS && !err && !x->cut.discard; kind++)
		err = write_kind(x, &cut, path, kind, e);
	if (!err && x->json)
		print_extracted(&cut, elapsed);
	else if (!err && x->cut.discard)
		print_dry(&cut, path, elapsed);
	cut_release(&cut);
	return err;
}

static int run_extract(const struct verb *v, int argc, char **argv)
{
	struct extract x = {.cut = {.part_size = PART_SIZE}, .output = "."};
	const struct option_row rows[] = {
	        {"-o, --output DIR", OPTION_TEXT, &x.output, 0, 0, "where to write them (the working directory)"},
	        DEBUG_FILE_ROWS(x.cut.extract, x.debuginfod),
	        {"--threads N", OPTION_NUMBER, &x.threads, 1, 64,
	                "threads for the extraction (one for each processor)"},
	        {"--part-size SIZE", OPTION_SIZE, &x.cut.part_size, 1024, 0, "largest size of a part (32M)"},
	        {"--dry-run", OPTION_FLAG, &x.cut.discard, 0, 0, "write nothing; print sizes and time"},
	        {"--json", OPTION_FLAG, &x.json, 0, 0, "one object for each executable on standard output"},
	};
	struct operands operands;
	struct error e;
	int code = options_read_files(v, rows, sizeof rows / sizeof *rows, argc, argv, &operands);
	if (code != OPTIONS_GO_ON)
		return code;
	if (!operands.count)
		return complain_usage(v, "no executable");
	if (x.cut.extract.debug_file && operands.count > 1)
		return complain_usage(v, "--debug-file takes a single executable");
	x.cut.extract.threads = (unsigned)x.threads;
	debug_files_serve(&x.cut.extract, x.debuginfod);
	code = EXIT_DONE;
	for (size_t i = 0; i < operands.count; i++) {
		if (extract_one(&x, operands.items[i], &e)) {
			complain(operands.items[i], "%s", e.text);
			code = EXIT_FAILED;
		}
	}
	return code;
}

const struct verb verb_extract = {"extract", "write the symbols of executables to symbfiles", usage, run_extract, NULL};
