/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of uploads share. */
#ifndef API_UPLOAD_H
#define API_UPLOAD_H

#include <stdbool.h>

#include "base/error.h"
#include "front/exchange.h"

/* Whether an upload failed here, which operators want to know: the others are refused, or come too many at a time. */
bool upload_is_failure(enum err err);
/* Checks the value of an Auth-Token header, as Tecken's clients send it: one of our keys, with or without the word
 * APIKey, for the right to upload. Errors are those of auth_check. */
enum err upload_check_token(const char *token, char key_id[64], struct error *e);
/* Replies with an error in the format that clients of uploads know. */
void upload_refuse(struct exchange *x, const struct error *e);

#endif
