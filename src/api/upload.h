/* SPDX-License-Identifier: Apache-2.0 */
/* What the routes of uploads share. */
#ifndef API_UPLOAD_H
#define API_UPLOAD_H

#include "front/exchange.h"
#include "symfiles/put.h"

/* Whether an upload failed here, which operators want to know: the others are refused, or come too many at a time. */
bool upload_is_failure(enum err err);
/* The reply for a symbol file, or an executable: 200 if err is ERR_OK, else the error, which is counted. */
void sym_upload_reply(struct exchange *x, enum err err, const struct error *e);
/* Checks the value of an Auth-Token header, as Tecken's clients send it: one of our keys, with or without the word
 * APIKey, for one of the rights. Errors are those of auth_check. */
enum err upload_check_token(const char *token, unsigned rights, char key_id[64], struct error *e);
/* Replies with an error in the format that clients of uploads know. */
void upload_refuse(struct exchange *x, const struct error *e);

/* Which symbol file, and whether it is a try. */
struct sym_target {
	struct str name, id;
	bool to_try, owner; /* owner: the key may invalidate */
	bool same;          /* sym_put_end found the same text there */
};

/* What every upload of one ends with: stores it when all has arrived, and frees the put; logs the upload, and forgets
 * the module on all hosts, unless nothing has changed and this process told them before. ERR_UNAVAILABLE: it may be
 * stored all the same, or other hosts may go on with the old file since memcached does not answer; to be sent again. */
enum err sym_put_end(
        const struct exchange *x, struct symfile_put *put, struct sym_target *t, const char *key_id, struct error *e);

#endif
