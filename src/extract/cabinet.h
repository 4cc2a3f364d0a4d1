/* SPDX-License-Identifier: Apache-2.0 */
/* Windows cabinets, as which symbol servers have files (.pd_, .dl_, .ex_). */
#ifndef EXTRACT_CABINET_H
#define EXTRACT_CABINET_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"

/* Whether a file begins like one. */
bool cabinet_is(int fd);
/* Appends its first file to the temporary file `to`. ERR_CORRUPT: damaged, or more than max bytes; ERR_IO;
 * ERR_NO_MEMORY. */
enum err cabinet_unpack(int from, uint64_t max, int to, struct error *e);

#endif
