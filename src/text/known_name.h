/* SPDX-License-Identifier: Apache-2.0 */
/* What names that a text already has say of offsets in files. */
#ifndef TEXT_KNOWN_NAME_H
#define TEXT_KNOWN_NAME_H

#include "text/reader.h"

/* Who does not know where a module's file is loaded may look up its offsets in the file (TEXT_FILE) as if they were
 * offsets in the image. After GNU ld they are; lld and mold move the code. Whether what was found is right, a frame
 * tells that has its name already: for "main+0x15" main must have been found, 0x15 bytes behind its start.
 *
 * Whether this frame tells so, for all frames of its module. name: what the text has at its first edit; function,
 * behind: what was found for it. */
bool text_confirms(const struct text_frame *f, struct str name, struct str function, uint64_t behind);

#endif
