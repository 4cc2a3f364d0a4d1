/* SPDX-License-Identifier: Apache-2.0 */
/* Makes the records of one executable of its symbfiles: ranges and return pads together. */
#ifndef SYMBFILE_MAP_H
#define SYMBFILE_MAP_H

#include "map/memory.h"
#include "records/records.h"
#include "symbfile/symbfile.h"

struct symbfile_map;

/* Of the options, memory_max and those that charge are used. NULL if out of memory. */
struct symbfile_map *symbfile_map_new(const struct offmap_options *options);
void symbfile_map_free(struct symbfile_map *m);
/* Takes what any number of symbfiles say, with parts in any order. ERR_NO_MEMORY; ERR_TOO_LARGE: more than
 * options->memory_max would be held. */
struct symbfile_sink symbfile_map_sink(struct symbfile_map *m);
/* The finished records, which are the caller's; charges nothing any more. ERR_NO_MEMORY, ERR_TOO_LARGE. Without any
 * range or pad, they answer nothing. */
enum err symbfile_map_finish(struct symbfile_map *m, struct records **out);
/* The same as a map with all its pages. */
enum err symbfile_map_all(struct symbfile_map *m, struct offmap **out);

#endif
