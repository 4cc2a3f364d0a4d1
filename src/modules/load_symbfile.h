/* SPDX-License-Identifier: Apache-2.0 */
/* Loads what was uploaded for an executable: its symbfiles become one offset map. A build id leads to its executable.
 */
#ifndef MODULES_LOAD_SYMBFILE_H
#define MODULES_LOAD_SYMBFILE_H

#include "modules/load.h"

/* Asks the store. Sets l->module, or l->failure. */
void load_symbfile(struct loader *r, struct load *l);
/* The same for a build id: always sets l->failure, with its alias if an executable was uploaded. */
void load_alias(struct loader *r, struct load *l);

#endif
