/* SPDX-License-Identifier: Apache-2.0 */
/* symbtool keys: the same as symbolicated-keys. */
#include <config.h>

#include "keys/keys_command.h"
#include "symbtool/verbs.h"

static int run_keys(const struct verb *v, int argc, char **argv)
{
	(void)v;
	return keys_command("symbtool keys", argc, argv);
}

const struct verb verb_keys = {"keys", "manage the API keys in a server's keys file", NULL, run_keys};
