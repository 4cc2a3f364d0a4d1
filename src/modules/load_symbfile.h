/* SPDX-License-Identifier: Apache-2.0 */
/* Loading what was uploaded for an executable: its symbfiles become one offset map; its build id leads there. */
#ifndef MODULES_LOAD_SYMBFILE_H
#define MODULES_LOAD_SYMBFILE_H

#include "modules/load.h"

/* Asks the store: sets l->module, or l->failure. */
void load_symbfile(struct loader *r, struct load *l);
/* The same for a build id: sets l->failure, with l->alias where somebody has uploaded it. */
void load_alias(struct loader *r, struct load *l);

#endif
