/* SPDX-License-Identifier: Apache-2.0 */
/* What the first byte of an input of fuzz_page says the rest is, and which pages its values are of. */
#ifndef TESTS_FUZZ_PAGE_H
#define TESTS_FUZZ_PAGE_H

#include "map/value.h"

enum { CODE, STRINGS, ROOT, VALUE, SEALED, KINDS };

static const struct value_id page_ids[] = {
        {{{1, 2, 3, 4}}, 5, 6, PAGE_CODE}, {{{1, 2, 3, 4}}, 5, 6, PAGE_STRINGS}, {{{1, 2, 3, 4}}, 0, 0, PAGE_ROOT}};

#endif
