/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symfiles/code_notes.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

#include "base/log.h"

enum { WAITING_MAX = 64, WORD = CHECK_WORD };

struct note {
	char name[WORD], id[WORD];
	struct symfile_facts facts; /* the code file and its id alone */
};

static struct {
	pthread_mutex_t lock; /* guards what follows */
	pthread_cond_t change;
	pthread_t thread;
	bool runs;
	struct symbfile_store *store; /* NULL: none */
	void (*kept)(struct str code_file, struct str code_id);
	struct note waiting[WAITING_MAX];
	unsigned count;
	atomic_bool stopping; /* also read without the lock, by a transfer */
} notes = {.lock = PTHREAD_MUTEX_INITIALIZER, .change = PTHREAD_COND_INITIALIZER};

static void keep(struct store_client *c, const struct note *n)
{
	struct error e;
	bool said;
	enum err err = code_id_put(
	        c, &n->facts, str_from(n->name), str_from(n->id), CODE_BY_SOURCE, &said, &notes.stopping, &e);
	if (said)
		notes.kept(str_from(n->facts.code_file), str_from(n->facts.code_id));
	if (err && !atomic_load(&notes.stopping))
		log_event(LOG_LEVEL_WARNING, "code id not kept", "%s/%s: %s", n->name, n->id, e.text);
}

static bool take_note(struct note *n)
{
	pthread_mutex_lock(&notes.lock);
	while (!notes.count && !notes.stopping)
		pthread_cond_wait(&notes.change, &notes.lock);
	bool any = !notes.stopping;
	if (any)
		*n = notes.waiting[--notes.count];
	pthread_mutex_unlock(&notes.lock);
	return any;
}

static void *keep_notes(void *arg)
{
	struct note n;
	struct store_client *c = NULL;
	while (take_note(&n)) {
		if (!c)
			c = store_client_take(arg);
		if (c)
			keep(c, &n);
	}
	store_client_give(c);
	return NULL;
}

void code_notes_start(struct symbfile_store *store, void (*kept)(struct str code_file, struct str code_id))
{
	pthread_mutex_lock(&notes.lock);
	notes.stopping = false;
	notes.count = 0;
	notes.kept = kept;
	notes.store = store;
	notes.runs = pthread_create(&notes.thread, NULL, keep_notes, store) == 0;
	pthread_mutex_unlock(&notes.lock);
}

void code_notes_stop(void)
{
	pthread_mutex_lock(&notes.lock);
	bool runs = notes.runs;
	notes.runs = false;
	notes.store = NULL;
	notes.stopping = true;
	pthread_cond_signal(&notes.change);
	pthread_mutex_unlock(&notes.lock);
	if (runs)
		pthread_join(notes.thread, NULL);
}

static bool copy(char to[WORD], struct str text)
{
	return snprintf(to, WORD, "%.*s", STR_FMT(text)) < WORD;
}

void code_note(struct str name, struct str id, struct str code_file, struct str code_id)
{
	struct note n = {.facts = {.text = 0}};
	if (!copy(n.name, name) || !copy(n.id, id) || !copy(n.facts.code_file, code_file) ||
	        !copy(n.facts.code_id, code_id) || !code_id_is_told(&n.facts))
		return;
	pthread_mutex_lock(&notes.lock);
	if (notes.runs && notes.count < WAITING_MAX) {
		notes.waiting[notes.count++] = n;
		pthread_cond_signal(&notes.change);
	}
	pthread_mutex_unlock(&notes.lock);
}

enum err code_note_find(
        struct str code_file, struct str code_id, struct code_module *m, const atomic_bool *cancel, struct error *e)
{
	pthread_mutex_lock(&notes.lock);
	struct symbfile_store *store = notes.store;
	pthread_mutex_unlock(&notes.lock);
	if (!store)
		return error_set(e, ERR_MISSING, "this server has no uploaded symbol files (sym_store is not set)");
	struct store_client *c = store_client_take(store);
	enum err err = c ? code_id_get(c, code_file, code_id, m, cancel, e) : no_memory(e);
	store_client_give(c);
	return err;
}
