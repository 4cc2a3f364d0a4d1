/* SPDX-License-Identifier: Apache-2.0 */
/* The command line that adds, revokes and lists API keys in a keys file. */
#ifndef KEYS_KEYS_COMMAND_H
#define KEYS_KEYS_COMMAND_H

/* argv: the command and its arguments. program is the name to show in messages. Returns an exit code: 0, 1 on failure,
 * 2 for wrong usage. */
int keys_command(const char *program, int argc, char **argv);

#endif
