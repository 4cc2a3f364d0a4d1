/* SPDX-License-Identifier: Apache-2.0 */
/* The store of symbfiles is read and written by workers, each of which waits for it: so few do at a time. */
#ifndef API_STORE_PLACE_H
#define API_STORE_PLACE_H

#include "front/exchange.h"
#include "store/symbfile_store.h"

/* A way to the store, and a place to wait for it, of which there are upload_parallel. It is taken when nothing else is
 * wrong, so that strangers take none. NULL: ERR_NOT_FOUND without a store, ERR_UNAVAILABLE when all places are taken,
 * ERR_NO_MEMORY. */
struct store_client *store_place_take(const struct exchange *x, struct error *e);
void store_place_leave(struct store_client *c);

#endif
