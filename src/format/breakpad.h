/* SPDX-License-Identifier: Apache-2.0 */
/* Reading a Breakpad symbol file, in chunks of any size, into an offset map's builder. docs/sym-files.md gives the
 * grammar as it is read here. */
#ifndef FORMAT_BREAKPAD_H
#define FORMAT_BREAKPAD_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"
#include "format/breakpad_line.h"
#include "format/offmap_build.h"

struct breakpad;

/* The file must say that it is of debug id `id` (letters of any case); an empty id takes any. */
struct breakpad *breakpad_new(const struct offmap_options *options, struct str id);
void breakpad_free(struct breakpad *p);

/* To be called before the first byte: the map is to answer for these module offsets only (offmap_builder_ask says how,
 * and what it holds). Records that cannot matter to them are passed over unread. So generation is 0, and lines,
 * inlines and damaged are not those of the whole file. false: no memory. */
bool breakpad_ask(struct breakpad *p, const uint64_t *offsets, size_t count);

/* From here on the map is built on two threads, as options.threaded says. At any time; twice is fine. */
void breakpad_use_threads(struct breakpad *p);

/* ERR_CORRUPT as soon as it is known that this is no symbol file, or not the one asked for; ERR_TOO_LARGE as soon as
 * more than memory_max would be held; ERR_NO_MEMORY. */
enum err breakpad_feed(struct breakpad *p, const uint8_t *data, size_t len, struct error *e);
/* Ends the file and gives the map, complete with generation and counts. */
enum err breakpad_finish(struct breakpad *p, struct offmap **out, struct error *e);

/* Lines so far that were damaged. Of who feeds line by line it tells which. */
uint64_t breakpad_damaged(const struct breakpad *p);

#endif
