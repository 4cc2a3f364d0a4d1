/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/store_permit.h"

#include <stdatomic.h>

#include "base/permits.h"
#include "api/services.h"

static atomic_uint busy;

static struct store_client *take(const struct exchange *x, struct symbfile_store *store, struct error *e)
{
	struct store_client *c = NULL;
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
	struct symbfile_store *store = modules_store(services_modules());
	if (store)
		return take(x, store, e);
	error_set(e, ERR_NOT_FOUND, "this server keeps no symbfiles (symbfile_store is not set)");
	return NULL;
}

struct store_client *store_permit_take_sym(const struct exchange *x, struct error *e)
{
	struct symbfile_store *store = symfiles_store(services_symfiles());
	if (store)
		return take(x, store, e);
	error_set(e, ERR_NOT_FOUND, "this server takes no symbol files (sym_store is not set)");
	return NULL;
}

void store_permit_give(struct store_client *c)
{
	store_client_give(c);
	atomic_fetch_sub(&busy, 1);
}
