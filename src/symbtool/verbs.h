/* SPDX-License-Identifier: Apache-2.0 */
/* The verbs of symbtool, one file each. */
#ifndef SYMBTOOL_VERBS_H
#define SYMBTOOL_VERBS_H

#include "symbtool/cli.h"

extern const struct verb verb_push, verb_extract, verb_dump, verb_file_id, verb_check, verb_symbolicate, verb_list,
        verb_remove;

#endif
