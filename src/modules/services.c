/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "modules/services.h"

#include "base/account.h"
#include "keys/auth.h"

static struct modules *modules;

enum err services_start(const struct config *c, struct error *e)
{
	enum err err = auth_load(c->keys_file, e);
	if (err)
		return err;
	account_start(c->memory);
	modules = modules_start(c, e);
	return modules ? ERR_OK : e->code;
}

void services_stop(void)
{
	modules_stop(modules);
	modules = NULL;
}

struct modules *services_modules(void)
{
	return modules;
}
