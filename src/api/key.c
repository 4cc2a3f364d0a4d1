/* SPDX-License-Identifier: Apache-2.0 */
/* GET /api/key: whether uploads with this key would be taken. nginx asks before it reads a large body. */
#include <config.h>

#include "api/router.h"
#include "api/upload.h"
#include "keys/auth.h"

void key_handle(struct exchange *x)
{
	struct error e;
	char key_id[64];
	const char *token = exchange_param(x, "HTTP_AUTH_TOKEN");
	enum err err = token ? upload_check_token(token, RIGHT_UPLOAD, key_id, &e)
	                     : auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_UPLOAD, key_id, &e);
	if (err)
		exchange_reply_error(x, &e, 1);
	else
		exchange_reply_text(x, 200, "application/json", NULL, str_from("{\"status\":\"ok\"}"));
}
