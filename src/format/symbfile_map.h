/* SPDX-License-Identifier: Apache-2.0 */
/* An offset map of the symbfiles of one executable: ranges and return pads together. */
#ifndef FORMAT_SYMBFILE_MAP_H
#define FORMAT_SYMBFILE_MAP_H

#include "format/offmap.h"
#include "format/offmap_memory.h"
#include "format/symbfile.h"

struct symbfile_map;

struct symbfile_map *symbfile_map_new(const struct offmap_options *options);
void symbfile_map_free(struct symbfile_map *m);
/* Takes the records of any number of symbfiles, parts in any order. ERR_NO_MEMORY; ERR_TOO_LARGE: more than
 * options->memory_max would be held. */
struct symbfile_sink symbfile_map_sink(struct symbfile_map *m);
/* The map, whose generation and text_bytes are the caller's to fill. ERR_NO_MEMORY, ERR_TOO_LARGE. No record at all
 * gives a map that answers nothing. */
enum err symbfile_map_finish(struct symbfile_map *m, struct offmap **out);

#endif
