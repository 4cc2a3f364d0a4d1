/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool prune: removes uploads that newer ones have replaced from a store. */
#include <config.h>

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/config.h"
#include "symbtool/verbs.h"
#include "uploads/prune.h"

static const char usage[] =
        "Usage: symbtool prune [--config FILE] [--store URL] [--older-than DAYS] [--keep N] [--delete]\n"
        "\n"
        "Lists old uploads in a server's store that may be removed; with --delete, removes them. Servers may\n"
        "go on running. An executable that received an upload within the last day is left alone.\n"
        "\n"
        "Keys of S3 come from where the server has them: s3_credentials_file, or the environment.\n";

enum {
	DAY = 24 * 3600, /* seconds */
	DAYS_MAX = 100 * 365,
	KEEP_MAX = 1000000,
};

struct wanted {
	const char *config, *store;
	uint64_t days, keep;
	bool remove;
};

static void print_removed(void *arg, const char *path, uint64_t size, int64_t time)
{
	char day[16] = "";
	time_t seconds = time / SECOND;
	struct tm tm;
	(void)arg;
	if (gmtime_r(&seconds, &tm))
		strftime(day, sizeof day, "%Y-%m-%d", &tm);
	printf("%s %12" PRIu64 " %s\n", day, size, path);
}

static void sum_up(const struct prune_counts *n, bool remove)
{
	printf("%s %" PRIu64 " of %" PRIu64 " objects, %" PRIu64 " of %" PRIu64 " bytes, %" PRIu64 " of %" PRIu64
	       " executables%s\n",
	        remove ? "deleted" : "would delete", n->gone_objects, n->objects, n->gone_bytes, n->bytes,
	        n->gone_executables, n->executables, remove ? "" : "; nothing is deleted without --delete");
}

static enum err prune(const struct config *c, const struct wanted *w, struct error *e)
{
	struct prune_counts counts;
	struct timespec now;
	clock_gettime(CLOCK_REALTIME, &now);
	struct prune_rules rules = {.keep = (unsigned)w->keep,
	        .older_than = (int64_t)w->days * DAY * SECOND,
	        .remove = w->remove,
	        .now = now.tv_sec * SECOND + now.tv_nsec,
	        .told = print_removed};
	struct symbfile_store *store = symbfile_store_new(c, e);
	struct store_client *client = store ? store_client_new(store) : NULL;
	enum err err = !store ? e->code : client ? ERR_OK : no_memory(e);
	if (!err) {
		err = symbfile_prune(client, &rules, &counts, e);
		sum_up(&counts, w->remove);
	}
	store_client_free(client);
	symbfile_store_free(store);
	return err;
}

static enum err read_settings(struct config *c, const struct wanted *w, struct error *e)
{
	enum err err = w->config ? config_read_file(c, w->config, e) : ERR_OK;
	if (!err && w->store)
		err = config_set(c, "symbfile_store", w->store, e);
	if (!err && (!c->symbfile_store || !*c->symbfile_store))
		err = error_set(e, ERR_CONFIG, "%s names no symbfile_store", w->config);
	c->bucket_total_timeout = DAY * SECOND; /* of the listing of all */
	return err;
}

static int run_prune(const struct verb *v, int argc, char **argv)
{
	struct wanted w = {0};
	const struct option_row rows[] = {
	        {"--config FILE", OPTION_TEXT, &w.config, 0, 0,
	                "the server's settings: symbfile_store, and those of S3"},
	        {"--store URL", OPTION_TEXT, &w.store, 0, 0,
	                "file:///directory or s3://bucket/prefix, instead of symbfile_store"},
	        {"--older-than DAYS", OPTION_NUMBER, &w.days, 1, DAYS_MAX,
	                "executables to which nothing was uploaded for this many days"},
	        {"--keep N", OPTION_NUMBER, &w.keep, 1, KEEP_MAX,
	                "of each executable, all versions but the N newest complete ones"},
	        {"--delete", OPTION_FLAG, &w.remove, 0, 0, "remove them"},
	};
	struct operands operands;
	struct config config;
	struct error e = {0};
	int code = options_read(v, rows, sizeof rows / sizeof *rows, argc, argv, &operands);
	if (code != OPTIONS_GO_ON)
		return code;
	if (operands.count)
		return complain_usage(v, "%s: it takes options only", operands.items[0]);
	if (!w.config && !w.store)
		return complain_usage(v, "which store? --config FILE or --store URL");
	if (!w.days && !w.keep)
		return complain_usage(v, "remove what? --older-than DAYS, --keep N, or both");
	enum err err = config_init(&config, &e);
	if (!err)
		err = read_settings(&config, &w, &e);
	if (!err)
		err = prune(&config, &w, &e);
	if (err)
		complain(v->name, "%s", e.text);
	config_release(&config);
	return err ? EXIT_FAILED : EXIT_DONE;
}

const struct verb verb_prune = {"prune", "remove old uploads from a server's store", usage, run_prune};
