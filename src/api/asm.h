/* SPDX-License-Identifier: Apache-2.0 */
/* What requests of profilers for assembly and for source code have in common, and what a module's map tells of its
 * code. */
#ifndef API_ASM_H
#define API_ASM_H

#include <jansson.h>
#include <stdint.h>

#include "api/symbolicate.h"
#include "front/exchange.h"
#include "map/offmap.h"

/* A member of an object, kept in the arena; empty: it is absent or no string. */
struct str asm_keep(struct arena *arena, const json_t *object, const char *key);
/* A member such as "0x12ab". ERR_BAD_REQUEST. */
enum err asm_number(const json_t *object, const char *key, uint64_t *number, struct error *e);

/* Names of addresses, where the module's file has no symbols. Here and below only if a cache has the map: nothing is
 * loaded, since who looks at assembly mostly asked for the module's symbols before. */
struct asm_names {
	struct module_want want;
	struct symbols symbols;
	const struct symbol **of; /* by address; an element, or all of it, is NULL: unknown */
};

/* name, id and build_id: as modules_want takes them; they must outlive n. addresses: relative to the image. Must be
 * released, whatever is found. */
void asm_names_find(struct asm_names *n, struct exchange *x, struct str name, struct str id, struct str build_id,
        const uint64_t *addresses, size_t count);
void asm_names_release(struct asm_names *n);

/* Which code file a map belongs to. */
struct asm_code {
	char id[OFFMAP_CODE_ID_SIZE]; /* empty: not told */
	struct str file;              /* its name, escaped for JSON, in the exchange's arena; empty: not told */
};
/* name, id: as modules_want takes them. False: no cache has the map, or out of memory. */
bool asm_names_code(struct asm_code *code, struct exchange *x, struct str name, struct str id);

#endif
