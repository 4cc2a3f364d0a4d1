/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/store_permit.h"

#include "api/services.h"

/* none: what a server without the store says. */
static struct store_client *take(struct exchange *x, struct symbfile_store *store, const char *none, struct error *e)
{
	struct turnstile *t = services_turnstile(TURNSTILE_UPLOADS);
	if (!store) {
		error_set(e, ERR_NOT_FOUND, "%s", none);
		return NULL;
	}
	turnstile_set_places(t, (unsigned)x->config->upload_parallel);
	if (exchange_enter(x, t, e))
		return NULL;
	struct store_client *c = store_client_take(store);
	if (c)
		return c;
	no_memory(e);
	exchange_leave(x);
	return NULL;
}

struct store_client *store_permit_take(struct exchange *x, struct error *e)
{
	return take(
	        x, modules_store(services_modules()), "this server keeps no symbfiles (symbfile_store is not set)", e);
}

struct store_client *store_permit_take_sym(struct exchange *x, struct error *e)
{
	return take(
	        x, symfiles_store(services_symfiles()), "this server takes no symbol files (sym_store is not set)", e);
}

void store_permit_give(struct exchange *x, struct store_client *c)
{
	store_client_give(c);
	exchange_leave(x);
}
