/* SPDX-License-Identifier: Apache-2.0 */
/* extract_dump [-t THREADS] [-d DEBUG-DIR] [-g DEBUG-FILE] [-a ADDRESS] [-q] EXECUTABLE: prints the ranges and return
 * pads of an executable, a JSON object a line as the tests' data have them; -a: only what is needed for this address;
 * -q: only counts and the time, on standard error. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/buffer.h"
#include "base/clock.h"
#include "extract/extract.h"
#include "extract/record_json.h"

static struct buffer line;

static enum err print_line(struct error *e)
{
	buffer_append(&line, "\n", 1);
	if (line.failed)
		return error_set(e, ERR_NO_MEMORY, "out of memory");
	fwrite(line.data, 1, line.len, stdout);
	buffer_reset(&line);
	return ERR_OK;
}

static enum err print_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)arg;
	record_json_range(&line, r);
	return print_line(e);
}

static enum err print_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)arg;
	record_json_pad(&line, p);
	return print_line(e);
}

static enum err ignore_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	(void)arg, (void)r, (void)e;
	return ERR_OK;
}

static enum err ignore_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	(void)arg, (void)p, (void)e;
	return ERR_OK;
}

static void print_stats(const struct extract_stats *s, int64_t started)
{
	struct rusage usage;
	getrusage(RUSAGE_SELF, &usage);
	fprintf(stderr,
	        "{\"seconds\":%.4f,\"max_rss_kib\":%ld,\"units\":%" PRIu64 ",\"ranges\":%" PRIu64 ",\"pads\":%" PRIu64
	        ",\"pads_known\":%s,\"debug_file\":\"%s\"}\n",
	        (double)(clock_now() - started) / 1e9, usage.ru_maxrss, s->units, s->ranges, s->pads,
	        s->pads_known ? "true" : "false", s->debug_file);
}

int main(int argc, char **argv)
{
	struct extract_options options = {0};
	struct symbfile_sink sink = {print_range, print_pad, NULL};
	struct extract_stats stats;
	struct error error;
	uint64_t asked;
	bool quiet = false;
	for (int c; (c = getopt(argc, argv, "t:d:g:a:q")) != -1;) {
		if (c == 't')
			options.threads = (unsigned)strtoul(optarg, NULL, 10);
		else if (c == 'd')
			options.debug_dir = optarg;
		else if (c == 'g')
			options.debug_file = optarg;
		else if (c == 'q')
			quiet = true;
		else if (c == 'a')
			asked = strtoull(optarg, NULL, 16);
		else
			return 2;
		if (c == 'a')
			options.asked = &asked, options.asked_count = 1;
	}
	if (optind + 1 != argc)
		return 2;
	if (quiet)
		sink = (struct symbfile_sink){ignore_range, ignore_pad, NULL};
	buffer_init(&line, 256 << 20);
	int64_t started = clock_now();
	enum err err = extract_executable(argv[optind], &options, &sink, &stats, &error);
	if (err != ERR_OK)
		fprintf(stderr, "%s\n", error.text);
	for (unsigned i = 0; err == ERR_OK && i < stats.note_count; i++)
		fprintf(stderr, "note: %s\n", stats.notes[i]);
	if (err == ERR_OK && quiet)
		print_stats(&stats, started);
	buffer_release(&line);
	return err == ERR_OK ? 0 : 1;
}
