/* SPDX-License-Identifier: Apache-2.0 */
/* Finds names for the frames of a batch of text, from files here or from a server. */
#ifndef SYMBTOOL_FILTER_NAMES_H
#define SYMBTOOL_FILTER_NAMES_H

#include "symbtool/ask.h"

struct filter_names;
/* server: NULL to use only files. Everything must outlive it. NULL if out of memory. */
struct filter_names *filter_names_new(struct local_symbols *local, struct server *server);
void filter_names_free(struct filter_names *n);

/* Frames whose modules the reader has, and their names. */
struct frame_batch {
	const struct text_reader *reader;
	const struct text_frame *frames;
	const char *text;        /* with the frames */
	uint64_t base;           /* where it begins in the whole text */
	struct ask_frame *asked; /* room for the answers */
	size_t count;
	struct arena *arena;
};
/* Finds names for all frames of a batch. ERR_NO_MEMORY; or the server's error, which the caller reports: what it did
 * not answer has REASON_NO_ANSWER. */
enum err filter_names_find(struct filter_names *n, const struct frame_batch *b, struct error *e);
/* To be called between batches, when their names are no longer needed. */
void filter_names_settle(struct filter_names *n);
/* To be called when the reader has forgotten its modules. */
void filter_names_forget(struct filter_names *n);

#endif
