/* SPDX-License-Identifier: Apache-2.0 */
/* Who reads and writes a store waits for it, so only a few may at a time, and no worker does it. */
#ifndef API_STORE_PERMIT_H
#define API_STORE_PERMIT_H

#include "front/exchange.h"
#include "objects/store.h"

/* Takes a store client and one of the upload_parallel places to use it (exchange_enter). Call it after all other
 * checks, so that strangers take no place. NULL: ERR_NOT_FOUND if there is no store, or as exchange_enter. */
struct store_client *store_permit_take(struct exchange *x, struct error *e);
/* The same for symbol files. */
struct store_client *store_permit_take_sym(struct exchange *x, struct error *e);
/* Goes on on a worker. */
void store_permit_give(struct exchange *x, struct store_client *c);

#endif
