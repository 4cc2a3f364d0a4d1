/* SPDX-License-Identifier: Apache-2.0 */
/* What the header Debug asks for: how the request was answered. */
#ifndef API_DEBUG_H
#define API_DEBUG_H

#include <jansson.h>

#include "api/inquiry.h"

/* NULL if out of memory. */
json_t *debug_json(const struct inquiry *s);

#endif
