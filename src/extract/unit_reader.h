/* SPDX-License-Identifier: Apache-2.0 */
/* What one thread needs to make records of units: its own libdw handle, and what it has learnt so far. */
#ifndef EXTRACT_UNIT_READER_H
#define EXTRACT_UNIT_READER_H

#include "extract/dwarf_source.h"
#include "extract/records.h"

struct unit_reader {
	struct dwarf_source *source;
	struct dwarf_handle handle;
	size_t stops; /* of libdw, at units that it cannot read */
	bool pads;    /* whether return pads are wanted */
	const struct code_map *code;
	struct line_sections sections;
	struct intern strings; /* of all results */
	struct names names;
	struct abbrev_table abbrevs;
	struct functions functions;
	struct segments segments;
	struct line_table lines;
	struct records records;
};

/* source, code and symbols must outlive u. */
enum err unit_reader_open(struct unit_reader *u, struct dwarf_source *source, const struct code_map *code, bool pads,
        const struct name_symbols *symbols, struct error *e);
/* Results must not be used any more. */
void unit_reader_close(struct unit_reader *u);
/* The offsets of all units, in the order of the file; the caller frees *offsets. Call it once, before units are
 * read. Everything after a unit with a broken length counts as one unit, which cannot be read. */
enum err unit_reader_list(struct unit_reader *u, uint64_t **offsets, size_t *count, struct error *e);
/* The records of the unit at offset. The result says what failed, and may have records even if a part of the unit is
 * ERR_CORRUPT. NULL if out of memory. */
struct result *unit_reader_read(struct unit_reader *u, uint64_t offset);

#endif
