/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/asm.h"

#include <string.h>

#include "api/services.h"

enum { PAGES_MAX = 32 << 20 }; /* bytes of pages that are held */

static bool look_up(struct asm_names *n, struct exchange *x, const uint64_t *addresses, size_t count)
{
	struct lookup *lookups = arena_alloc(x->arena, count * sizeof *lookups);
	struct symbolicate_stats stats = {0};
	n->of = arena_calloc(x->arena, count, sizeof *n->of);
	if (!lookups || !n->of)
		return false;
	for (size_t i = 0; i < count; i++)
		lookups[i] = (struct lookup){addresses[i], 0, (uint32_t)i};
	const struct symbolication in = {.modules = services_modules(),
	        .wants = &n->want,
	        .want_count = 1,
	        .lookups = lookups,
	        .lookup_count = count,
	        .functions_only = true,
	        .symbols = &n->symbols,
	        .symbol_of = n->of,
	        .stats = &stats};
	return symbolicate(&in) == SYMBOLICATE_OK;
}

/* Whether a cache has the module. */
static bool find_module(struct exchange *x, struct module_want *w, struct str name, struct str id, struct str build_id)
{
	if (!name.len || !id.len || !modules_want(services_modules(), w, name, id, build_id))
		return false;
	modules_resolve(services_modules(), w, 1, x->started + x->config->request_timeout);
	return w->state == WANT_FOUND;
}

void asm_names_find(struct asm_names *n, struct exchange *x, struct str name, struct str id, struct str build_id,
        const uint64_t *addresses, size_t count)
{
	const struct config *c = x->config;
	int64_t deadline = x->started + c->request_timeout;
	*n = (struct asm_names){.of = NULL};
	symbols_init(&n->symbols, x->scratch, c->max_reply, PAGES_MAX, deadline);
	if (count > 0 && find_module(x, &n->want, name, id, build_id) && !look_up(n, x, addresses, count))
		n->of = NULL;
}

void asm_names_release(struct asm_names *n)
{
	symbols_release(&n->symbols);
	module_want_release(&n->want);
}

bool asm_names_code(struct asm_code *code, struct exchange *x, struct str name, struct str id)
{
	struct module_want want = {.module = NULL};
	const struct offmap *map = find_module(x, &want, name, id, str_from("")) ? want.module->map : NULL;
	char *file = map ? arena_alloc(x->arena, map->code_file_len + 1) : NULL;
	if (file) {
		if (map->code_file_len)
			memcpy(file, map->code_file, map->code_file_len);
		code->file = (struct str){file, map->code_file_len};
		memcpy(code->id, map->code_id, sizeof code->id);
	}
	module_want_release(&want);
	return file;
}
