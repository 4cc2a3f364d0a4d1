/* SPDX-License-Identifier: Apache-2.0 */
/* Loads a module from a source of executables: what its debug data say becomes an offset map. */
#ifndef MODULES_LOAD_ELF_H
#define MODULES_LOAD_ELF_H

#include "modules/load.h"

/* One attempt at a source, which is not of the kind BUCKET_SYMS. FAILURE_NONE: l->module is set. */
enum failure_class load_elf(struct loader *r, struct load *l, unsigned source);

#endif
