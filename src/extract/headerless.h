/* SPDX-License-Identifier: Apache-2.0 */
/* ELF files without section headers, as sstrip and packers leave them: a view of the file that has them. Segments
 * become sections, and the dynamic segment says where symbols are. */
#ifndef EXTRACT_HEADERLESS_H
#define EXTRACT_HEADERLESS_H

#include "extract/view.h"

/* Leaves the view empty if the file has section headers, or is no ELF executable or library. ERR_NO_MEMORY, ERR_IO. */
enum err headerless_open(struct view *v, int fd, struct error *e);

#endif
