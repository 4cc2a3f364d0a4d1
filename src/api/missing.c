/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/missing: the modules that were asked for and not found, the most wanted first. */
#include <config.h>

#include "api/missing.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "api/router.h"
#include "keys/auth.h"
#include "api/services.h"
#include "objects/bucket.h"
#include "symfiles/missing_shared.h"

enum { LISTED_MAX = 1000 };

void missing_note_request(const struct exchange *x, struct str name, struct str id)
{
	const char *agent = exchange_param(x, "HTTP_USER_AGENT");
	if (!bucket_can_hold(name, id))
		return;
	missing_note(symfiles_missing(services_symfiles()), name, id, str_from(agent ? agent : ""), time(NULL));
}

void missing_share_soon(void)
{
	missing_share(symfiles_missing(services_symfiles()), modules_memcached(services_modules()), time(NULL));
}

void missing_handle(struct exchange *x)
{
	struct error e;
	char key_id[64];
	if (auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_UPLOAD | RIGHT_READ, key_id, &e)) {
		exchange_reply_error(x, &e, 1);
		return;
	}
	char *text = missing_json(
	        symfiles_missing(services_symfiles()), modules_memcached(services_modules()), LISTED_MAX, time(NULL));
	if (text)
		exchange_reply_text(x, 200, "application/json", NULL, str_from(text));
	else
		exchange_reply_error(x, (no_memory(&e), &e), 1);
	free(text);
}
