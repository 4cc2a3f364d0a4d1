/* SPDX-License-Identifier: Apache-2.0 */
/* The command symbolicated-keys. */
#include <config.h>

#include <stdio.h>
#include <string.h>

#include "keys/keys_command.h"

int main(int argc, char **argv)
{
	if (argc == 2 && strcmp(argv[1], "--version") == 0)
		return printf("symbolicated-keys %s\n", FULL_VERSION) < 0;
	return keys_command("symbolicated-keys", argc - 1, argv + 1);
}
