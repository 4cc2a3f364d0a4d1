/* SPDX-License-Identifier: Apache-2.0 */
/* What requests of profilers for assembly and for source code have in common. */
#ifndef API_ASM_H
#define API_ASM_H

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#include "base/arena.h"
#include "base/error.h"
#include "base/str.h"

/* Keeps a member of an object in the arena; empty: it is absent or no string. False: out of memory. */
bool asm_keep(struct str *kept, struct arena *arena, const json_t *object, const char *key);
/* A member such as "0x12ab". ERR_BAD_REQUEST. */
enum err asm_number(const json_t *object, const char *key, uint64_t *number, struct error *e);

#endif
