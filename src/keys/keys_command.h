/* SPDX-License-Identifier: Apache-2.0 */
/* Adding, revoking and listing API keys in a keys file, as a command line asks for it. */
#ifndef KEYS_COMMAND_H
#define KEYS_COMMAND_H

/* argv: the command and what stands behind it. program is what the texts call it. Returns an exit code: 0, 1 when it
 * failed, 2 when it was called wrongly. */
int keys_command(const char *program, int argc, char **argv);

#endif
