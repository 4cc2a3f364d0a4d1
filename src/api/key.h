/* SPDX-License-Identifier: Apache-2.0 */
/* Keys as Tecken's clients send them. */
#ifndef API_KEY_H
#define API_KEY_H

#include "base/error.h"

/* Checks the value of an Auth-Token header, which is one of our keys with or without the word APIKey, for the right to
 * upload. Errors are those of auth_check. */
enum err key_of_token(const char *token, char key_id[64], struct error *e);

#endif
