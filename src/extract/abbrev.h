/* SPDX-License-Identifier: Apache-2.0 */
/* Abbreviations: what the entries of a unit consist of. */
#ifndef EXTRACT_ABBREV_H
#define EXTRACT_ABBREV_H

#include "extract/die_scan.h"

/* Starts the table at an offset of dwarf's .debug_abbrev, unless t holds it already. */
enum err abbrev_table_open(
        struct abbrev_table *t, Dwarf *dwarf, uint64_t offset, const struct die_unit *u, struct error *e);
/* NULL: there is no such code, or no memory. */
const struct abbrev *abbrev_find(struct abbrev_table *t, uint64_t code);
/* Skips a value. A form that is not known makes the reader bad. */
void form_skip(
        struct reader *r, uint64_t form, unsigned version, unsigned address_size, unsigned offset_size, bool big);

#endif
