/* SPDX-License-Identifier: Apache-2.0 */
/* The command symbolicated-store: what an administrator does with the store itself. */
#include <config.h>

#include <getopt.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/config.h"
#include "uploads/prune.h"

static const char usage[] =
        "Usage: symbolicated-store prune [OPTION]...\n"
        "\n"
        "Lists uploads in a server's store that may be removed; with --delete, removes them. Servers may go on\n"
        "running. An executable that received an upload within the last day is left alone.\n"
        "\n"
        "  --config FILE            the server's settings: symbfile_store, sym_store, and those of S3\n"
        "  --store URL              file:///directory or s3://bucket/prefix, instead of symbfile_store\n"
        "  --older-than DAYS        executables to which nothing was uploaded for this many days\n"
        "  --keep N                 of each executable, all sets but the N best complete ones\n"
        "  --sym-store URL          the same as --store, instead of sym_store\n"
        "  --tries-older-than DAYS  symbol files that were uploaded as tries, at least this many days ago\n"
        "  --delete                 remove them\n"
        "\n"
        "Keys of S3 come from where the server has them: s3_credentials_file, or the environment.\n"
        "Exit codes: 0 success, 1 failure, 2 wrong usage.\n";

enum {
	DAY = 24 * 3600, /* seconds */
	DAYS_MAX = 100 * 365,
	KEEP_MAX = 1000000,
	DONE = 0,
	FAILED = 1,
	WRONG_USAGE = 2,
	GO_ON = -1,
};

struct wanted {
	const char *config, *store, *sym_store;
	uint64_t days, keep, try_days;
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

static void sum_up(const struct prune_counts *n, const char *what, bool remove)
{
	printf("%s %" PRIu64 " of %" PRIu64 " %s, %" PRIu64 " of %" PRIu64 " bytes",
	        remove ? "deleted" : "would delete", n->gone_objects, n->objects, what, n->gone_bytes, n->bytes);
	if (n->executables)
		printf(", %" PRIu64 " of %" PRIu64 " executables", n->gone_executables, n->executables);
	puts(remove ? "" : "; nothing is deleted without --delete");
}

typedef enum err prune_store(
        struct store_client *c, const struct prune_rules *rules, struct prune_counts *counts, struct error *e);

/* One of the two places. */
static enum err prune(struct symbfile_store *store, prune_store *function, const char *what,
        const struct prune_rules *rules, struct error *e)
{
	struct prune_counts counts;
	struct store_client *client = store ? store_client_take(store) : NULL;
	enum err err = !store ? e->code : client ? ERR_OK : no_memory(e);
	if (!err) {
		err = function(client, rules, &counts, e);
		sum_up(&counts, what, rules->remove);
	}
	store_client_give(client);
	symbfile_store_free(store);
	return err;
}

static enum err prune_both(const struct config *c, const struct wanted *w, struct error *e)
{
	struct prune_rules rules = {.keep = (unsigned)w->keep,
	        .older_than = (int64_t)w->days * DAY * SECOND,
	        .remove = w->remove,
	        .told = print_removed};
	enum err err = ERR_OK;
	if (w->days || w->keep)
		err = prune(symbfile_store_new(c, e), symbfile_prune, "objects", &rules, e);
	rules.older_than = (int64_t)w->try_days * DAY * SECOND;
	if (!err && w->try_days)
		err = prune(store_new(c->sym_store, "sym_store", c, e), symfile_prune_tries, "tries", &rules, e);
	return err;
}

static enum err no_store(const struct wanted *w, const char *key, const char *option, struct error *e)
{
	return w->config ? error_set(e, ERR_CONFIG, "%s does not set %s", w->config, key)
	                 : error_set(e, ERR_CONFIG, "no %s: give --config FILE or %s URL", key, option);
}

static enum err read_settings(struct config *c, const struct wanted *w, struct error *e)
{
	enum err err = w->config ? config_read_file(c, w->config, e) : ERR_OK;
	if (!err && w->store)
		err = config_set(c, "symbfile_store", w->store, e);
	if (!err && w->sym_store)
		err = config_set(c, "sym_store", w->sym_store, e);
	if (!err && (w->days || w->keep) && !*c->symbfile_store)
		err = no_store(w, "symbfile_store", "--store", e);
	if (!err && w->try_days && !*c->sym_store)
		err = no_store(w, "sym_store", "--sym-store", e);
	c->bucket_total_timeout = DAY * SECOND; /* of the listing of all */
	return err;
}

static int complain(const char *text)
{
	fprintf(stderr, "symbolicated-store: %s\n", text);
	return FAILED;
}

static int complain_usage(const char *what, const char *text)
{
	fprintf(stderr, "symbolicated-store: %s%s; --help says more\n", what, text);
	return WRONG_USAGE;
}

static bool read_number(const char *text, uint64_t max, uint64_t *value)
{
	size_t len = strlen(text);
	*value = strtoull(text, NULL, 10);
	return len > 0 && len < 10 && strspn(text, "0123456789") == len && *value > 0 && *value <= max;
}

static int read_options(struct wanted *w, int argc, char **argv)
{
	static const struct option options[] = {{"config", required_argument, NULL, 'c'},
	        {"store", required_argument, NULL, 's'}, {"older-than", required_argument, NULL, 'o'},
	        {"keep", required_argument, NULL, 'k'}, {"delete", no_argument, NULL, 'd'},
	        {"sym-store", required_argument, NULL, 'y'}, {"tries-older-than", required_argument, NULL, 't'},
	        {"help", no_argument, NULL, 'h'}, {NULL, 0, NULL, 0}};
	for (int option; (option = getopt_long(argc, argv, "", options, NULL)) != -1;) {
		if (option == 'c')
			w->config = optarg;
		else if (option == 's')
			w->store = optarg;
		else if (option == 'y')
			w->sym_store = optarg;
		else if (option == 'd')
			w->remove = true;
		else if (option == 'h')
			return fputs(usage, stdout) < 0;
		else if (option == 'o' && !read_number(optarg, DAYS_MAX, &w->days))
			return complain_usage("--older-than takes a number of days from 1 to 36500, not ", optarg);
		else if (option == 't' && !read_number(optarg, DAYS_MAX, &w->try_days))
			return complain_usage(
			        "--tries-older-than takes a number of days from 1 to 36500, not ", optarg);
		else if (option == 'k' && !read_number(optarg, KEEP_MAX, &w->keep))
			return complain_usage("--keep takes a number from 1 to 1000000, not ", optarg);
		else if (option == '?')
			return WRONG_USAGE;
	}
	if (optind < argc)
		return complain_usage(argv[optind], ": prune takes only options");
	if (!w->config && !w->store && !w->sym_store)
		return complain_usage("", "no store: give --config FILE, --store URL or --sym-store URL");
	if (!w->days && !w->keep && !w->try_days)
		return complain_usage(
		        "", "nothing to remove: give --older-than DAYS, --keep N or --tries-older-than DAYS");
	return GO_ON;
}

static int run_prune(int argc, char **argv)
{
	struct wanted w = {.keep = 0};
	struct config config;
	struct error e = {.code = ERR_OK};
	int code = read_options(&w, argc, argv);
	if (code != GO_ON)
		return code;
	enum err err = config_init(&config, &e);
	if (!err)
		err = read_settings(&config, &w, &e);
	if (!err)
		err = prune_both(&config, &w, &e);
	config_release(&config);
	return err ? complain(e.text) : DONE;
}

int main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	if (strcmp(command, "prune") == 0)
		return run_prune(argc - 1, argv + 1);
	if (strcmp(command, "--version") == 0)
		return printf("symbolicated-store %s\n", FULL_VERSION) < 0;
	bool asked = strcmp(command, "--help") == 0;
	fputs(usage, asked ? stdout : stderr);
	return asked ? DONE : WRONG_USAGE;
}
