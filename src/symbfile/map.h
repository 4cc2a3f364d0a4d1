/* SPDX-License-Identifier: Apache-2.0 */
/* Builds the offset map of one executable from its symbfiles: ranges and return pads together. */
#ifndef SYMBFILE_MAP_H
#define SYMBFILE_MAP_H

#include "map/memory.h"
#include "map/offmap.h"
#include "symbfile/symbfile.h"

struct symbfile_map;

struct symbfile_map *symbfile_map_new(const struct offmap_options *options);
void symbfile_map_free(struct symbfile_map *m);
/* Takes the records of any number of symbfiles, with parts in any order. ERR_NO_MEMORY; ERR_TOO_LARGE: the map would
 * hold more than options->memory_max. */
struct symbfile_sink symbfile_map_sink(struct symbfile_map *m);
/* The map; the caller sets its generation and text_bytes. ERR_NO_MEMORY, ERR_TOO_LARGE. Without any record, the map
 * answers nothing. */
enum err symbfile_map_finish(struct symbfile_map *m, struct offmap **out);

#endif
