/* SPDX-License-Identifier: Apache-2.0 */
/* What every upload of a symbol file ends with. */
#ifndef API_SYM_PUT_H
#define API_SYM_PUT_H

#include "front/exchange.h"
#include "symfiles/put.h"

/* Which file, and whether it is a try. */
struct sym_target {
	struct str name, id;
	bool to_try;
};

/* Stores a file of which all has arrived, and frees the put; logs the upload, and forgets the module on
 * all hosts. ERR_UNAVAILABLE: it may be stored all the same, or other hosts may go on with the old file since memcached
 * does not answer; to be sent again. */
enum err sym_put_end(const struct exchange *x, struct symfile_put *put, const struct sym_target *t, const char *key_id,
        struct error *e);

#endif
