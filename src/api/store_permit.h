/* SPDX-License-Identifier: Apache-2.0 */
/* Workers read and write the store of symbfiles, and block while they do: so only a few may at a time. */
#ifndef API_STORE_PERMIT_H
#define API_STORE_PERMIT_H

#include "front/exchange.h"
#include "objects/store.h"

/* Takes a store client and one of the upload_parallel places to use it. Call it after all other checks, so that
 * strangers take no place. NULL: ERR_NOT_FOUND if there is no store, ERR_BUSY if all places are taken,
 * ERR_NO_MEMORY. */
struct store_client *store_permit_take(const struct exchange *x, struct error *e);
/* The same for symbol files. */
struct store_client *store_permit_take_sym(const struct exchange *x, struct error *e);
void store_permit_give(struct store_client *c);

#endif
