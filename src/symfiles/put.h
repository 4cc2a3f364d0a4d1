/* SPDX-License-Identifier: Apache-2.0 */
/* Stores a symbol file that arrives: checked, and kept compressed. */
#ifndef SYMFILES_PUT_H
#define SYMFILES_PUT_H

#include "objects/store.h"
#include "symfiles/check.h"
#include "symfiles/code_ids.h"

/* Begin, any number of adds, then commit or abort; both free it. What is plain is packed as gzip on the way; gzip and
 * zstd stay as they are. The file is a name's and an id's as in every bucket, in upper case; name and id are not owned
 * and bucket_can_hold is true for them. Errors are those of symfile_check_add and of store.h. */
struct symfile_put;
/* Whether a store can hold a file of this name and id: ERR_BAD_REQUEST if one is too long. */
enum err symfile_put_fits(struct str name, struct str id, struct error *e);
struct symfile_put *symfile_put_begin(
        struct store_client *c, struct str name, struct str id, uint64_t max_text, struct error *e);
enum err symfile_put_add(struct symfile_put *p, const uint8_t *data, size_t len, struct error *e);
/* Durable and to be had, by its code id too, when it returns ERR_OK. *same: the file that is there has the same text
 * and stays, and the code id is not new. After ERR_UNAVAILABLE either may be. by: who stores it; CODE_BY_TRY: asked for
 * after all others. facts: set even if it fails. */
enum err symfile_put_commit(
        struct symfile_put *p, enum code_origin by, struct symfile_facts *facts, bool *same, struct error *e);
void symfile_put_abort(struct symfile_put *p); /* NULL is fine */

#endif
