/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storectl: a store of objects by hand.
 *
 *   storectl [--SETTING VALUE]... -- put PATH    stores standard input, in writes of 100,000 bytes
 *   storectl [--SETTING VALUE]... -- abort PATH  the same, given up before its end
 *   storectl [--SETTING VALUE]... -- get PATH    writes the object to standard output
 *   storectl [--SETTING VALUE]... -- remove PATH
 *   storectl [--SETTING VALUE]... -- list PATH   lines of a path below it, size, nanoseconds
 *   storectl [--SETTING VALUE]... -- clock       stores an object, removes it, and prints the store's clock
 *   storectl [--SETTING VALUE]... -- probe
 *
 * Exit code 0: done; 1: a failure, told on standard error; 2: wrong use; 3: no such object.
 */
#include <config.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "objects/store.h"

enum { WRITE_SIZE = 100000 };

static int complain(const struct error *e)
{
	fprintf(stderr, "storectl: %s\n", e->text);
	return 1;
}

static int put(struct store_client *c, const char *path, bool commit)
{
	static char block[WRITE_SIZE];
	struct error e = {0};
	size_t n;
	struct store_put *p = store_put_begin(c, &e);
	if (!p)
		return complain(&e);
	while ((n = fread(block, 1, sizeof block, stdin)) > 0)
		if (store_put_write(p, block, n, &e)) {
			store_put_abort(p);
			return complain(&e);
		}
	if (commit)
		return store_put_commit(p, path, &e) ? complain(&e) : 0;
	store_put_abort(p);
	return 0;
}

static bool print_bytes(void *arg, const uint8_t *data, size_t len)
{
	return fwrite(data, 1, len, arg) == len;
}

static int get(struct store_client *c, const char *path)
{
	struct bucket_result r;
	store_get(c, path, print_bytes, stdout, NULL, &r);
	if (r.outcome == BUCKET_OK)
		return fflush(stdout) ? 1 : 0;
	fprintf(stderr, "storectl: %s\n", r.text);
	return r.outcome == BUCKET_MISSING ? 3 : 1;
}

static bool print_object(void *arg, struct str path, uint64_t size, int64_t time)
{
	(void)arg;
	printf("%.*s %" PRIu64 " %" PRId64 "\n", STR_FMT(path), size, time);
	return true;
}

static int show_clock(struct store_client *c)
{
	static const char path[] = STORE_FOLDER "/clock";
	struct error e = {0};
	if (store_put_object(c, path, str_from("x"), &e) || store_remove(c, path, &e))
		return complain(&e);
	printf("%" PRId64 "\n", store_now(c));
	return 0;
}

static int run(struct store_client *c, int count, char **words)
{
	struct error e = {0};
	if (count == 1 && strcmp(words[0], "probe") == 0)
		return store_probe(c, &e) ? complain(&e) : 0;
	if (count == 1 && strcmp(words[0], "clock") == 0)
		return show_clock(c);
	if (count != 2)
		return 2;
	if (strcmp(words[0], "list") == 0)
		return store_list(c, words[1], print_object, NULL, NULL, &e) ? complain(&e) : 0;
	if (strcmp(words[0], "remove") == 0)
		return store_remove(c, words[1], &e) ? complain(&e) : 0;
	if (strcmp(words[0], "get") == 0)
		return get(c, words[1]);
	if (strcmp(words[0], "put") == 0)
		return put(c, words[1], true);
	return strcmp(words[0], "abort") == 0 ? put(c, words[1], false) : 2;
}

int main(int argc, char **argv)
{
	struct config config;
	struct error e = {0};
	unsigned actions;
	int settings = 1, code = 1;
	while (settings < argc && strcmp(argv[settings], "--") != 0)
		settings++;
	signal(SIGPIPE, SIG_IGN);
	if (config_init(&config, &e) || config_parse_args(&config, settings, argv, &actions, &e))
		return complain(&e);
	struct symbfile_store *store = symbfile_store_new(&config, &e);
	struct store_client *client = store ? store_client_take(store) : NULL;
	if (client)
		code = run(client, argc - settings - 1, argv + settings + 1);
	else
		complain(&e);
	store_client_give(client);
	symbfile_store_free(store);
	config_release(&config);
	return code;
}
