/* SPDX-License-Identifier: Apache-2.0 */
/* Names of addresses in a module, for what its file has no symbols: those of its map, if a cache has it. Nothing is
 * loaded for them: who looks at assembly mostly asked for the module's symbols before. */
#ifndef API_ASM_NAMES_H
#define API_ASM_NAMES_H

#include "front/exchange.h"
#include "modules/symbolicate.h"

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

#endif
