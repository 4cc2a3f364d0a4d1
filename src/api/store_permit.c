/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/store_permit.h"

#include <stdatomic.h>

#include "base/permits.h"
#include "api/services.h"

static atomic_uint busy;

/* none: what a server without the store says. */
static struct store_client *take(
        const struct exchange *x, struct symbfile_store *store, const char *none, struct error *e)
{
	struct store_client *c = NULL;
	if (!store) {
		error_set(e, ERR_NOT_FOUND, "%s", none);
		return NULL;
	}
	permit_give();
	if (atomic_fetch_add(&busy, 1) >= x->config->upload_parallel)
		error_set(e, ERR_BUSY, "too many uploads at a time; try again");
	else if (!(c = store_client_take(store)))
		no_memory(e);
	if (!c)
		atomic_fetch_sub(&busy, 1);
	return c;
}

struct store_client *store_permit_take(const struct exchange *x, struct error *e)
{
	return take(
	        x, modules_store(services_modules()), "this server keeps no symbfiles (symbfile_store is not set)", e);
}

struct store_client *store_permit_take_sym(const struct exchange *x, struct error *e)
{
	return take(
	        x, symfiles_store(services_symfiles()), "this server takes no symbol files (sym_store is not set)", e);
}

void store_permit_give(struct store_client *c)
{
	store_client_give(c);
	atomic_fetch_sub(&busy, 1);
}
