/* SPDX-License-Identifier: Apache-2.0 */
/* What every upload of symbol files does once a file is stored. */
#ifndef API_SYM_PUT_H
#define API_SYM_PUT_H

#include "front/exchange.h"
#include "objects/store.h"
#include "symfiles/check.h"

/* Notes its code id, forgets the module on all hosts, and logs the upload. ERR_UNAVAILABLE: memcached does not answer,
 * so other hosts may go on with the old file; to be sent again. */
enum err sym_put_announce(const struct exchange *x, struct store_client *c, struct str name, struct str id,
        const char *key_id, const struct symfile_facts *facts, struct error *e);

#endif
