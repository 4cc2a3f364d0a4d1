/* SPDX-License-Identifier: Apache-2.0 */
/* What the header Debug asks for: how a request came to its answer. */
#ifndef API_DEBUG_H
#define API_DEBUG_H

#include <jansson.h>

#include "api/session.h"

/* NULL without memory. */
json_t *debug_json(const struct session *s);

#endif
