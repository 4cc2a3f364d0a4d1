/* SPDX-License-Identifier: Apache-2.0 */
/*
 * storectl: a store of symbfiles by hand.
 *
 *   storectl [--SETTING VALUE]... -- put ID KIND SET PART PARTS   stores standard input, in writes of 100,000 bytes
 *   storectl [--SETTING VALUE]... -- abort ID KIND SET PART PARTS the same, given up before its end
 *   storectl [--SETTING VALUE]... -- get ID KIND SET PART PARTS   writes the part to standard output
 *   storectl [--SETTING VALUE]... -- list ID                      lines of kind, set, part, parts, size, nanoseconds
 *   storectl [--SETTING VALUE]... -- probe
 *
 * ID is 32 hex digits. Exit code 0: done; 1: a failure, told on standard error; 2: wrong use; 3: no such part.
 */
#include <config.h>

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/config.h"
#include "uploads/store.h"

enum { WRITE_SIZE = 100000 };

struct target {
	uint8_t block[4096];
};

static int complain(const struct error *e)
{
	fprintf(stderr, "storectl: %s\n", e->text);
	return 1;
}

static bool parse_key(struct store_key *key, char **words)
{
	unsigned kind = 0;
	while (kind < SYMBFILE_KINDS && strcmp(words[1], symbfile_kind_names[kind]) != 0)
		kind++;
	*key = (struct store_key){.kind = (enum symbfile_kind)kind, .set = words[2]};
	key->part = (unsigned)strtoul(words[3], NULL, 10);
	key->parts = (unsigned)strtoul(words[4], NULL, 10);
	return file_id_parse(&key->id, str_from(words[0]));
}

static int put(struct store_client *c, const struct store_key *key, bool commit)
{
	static char block[WRITE_SIZE];
	struct error e = {0};
	size_t n;
	struct store_put *p = store_put_begin(c, key, NULL, &e);
	if (!p)
		return complain(&e);
	while ((n = fread(block, 1, sizeof block, stdin)) > 0)
		if (store_put_write(p, block, n, &e)) {
			store_put_abort(p);
			return complain(&e);
		}
	if (commit)
		return store_put_commit(p, &e) ? complain(&e) : 0;
	store_put_abort(p);
	return 0;
}

static uint8_t *space(void *arg, size_t *room)
{
	struct target *t = arg;
	*room = sizeof t->block;
	return t->block;
}

static bool commit(void *arg, size_t n)
{
	struct target *t = arg;
	return fwrite(t->block, 1, n, stdout) == n;
}

static int get(struct store_client *c, const struct store_key *key)
{
	struct target t;
	struct bucket_sink sink = {space, commit, &t};
	struct bucket_result r;
	store_get(c, key, &sink, NULL, &r);
	if (r.outcome == BUCKET_OK)
		return fflush(stdout) ? 1 : 0;
	fprintf(stderr, "storectl: %s\n", r.text);
	return r.outcome == BUCKET_MISSING ? 3 : 1;
}

static bool print_part(void *arg, const struct store_part *p)
{
	(void)arg;
	printf("%s %s %u %u %" PRIu64 " %" PRId64 "\n", symbfile_kind_names[p->kind], p->set, p->part, p->parts,
	        p->size, p->time);
	return true;
}

static int run(struct store_client *c, int count, char **words)
{
	struct store_key key;
	struct error e = {0};
	if (count == 1 && strcmp(words[0], "probe") == 0)
		return store_probe(c, &e) ? complain(&e) : 0;
	if (count == 2 && strcmp(words[0], "list") == 0 && file_id_parse(&key.id, str_from(words[1])))
		return store_list(c, &key.id, print_part, NULL, NULL, &e) ? complain(&e) : 0;
	if (count != 6 || !parse_key(&key, words + 1))
		return 2;
	if (strcmp(words[0], "get") == 0)
		return get(c, &key);
	if (strcmp(words[0], "put") == 0)
		return put(c, &key, true);
	return strcmp(words[0], "abort") == 0 ? put(c, &key, false) : 2;
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
	struct store_client *client = store ? store_client_new(store) : NULL;
	if (client)
		code = run(client, argc - settings - 1, argv + settings + 1);
	else
		complain(&e);
	store_client_free(client);
	symbfile_store_free(store);
	config_release(&config);
	return code;
}
