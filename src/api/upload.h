/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of uploads share. */
#ifndef API_UPLOAD_H
#define API_UPLOAD_H

#include "base/error.h"
#include "front/exchange.h"

/* Replies with an error in the format that clients of uploads know. */
void upload_refuse(struct exchange *x, const struct error *e);

#endif
