/* SPDX-License-Identifier: Apache-2.0 */
/* The services that the handlers call: one set for the process, started by main. */
#ifndef API_SERVICES_H
#define API_SERVICES_H

#include "base/turnstile.h"
#include "elf/code.h"
#include "modules/modules.h"
#include "symfiles/symfiles.h"

enum err services_start(const struct config *c, struct extractors *extractors, struct error *e);
void services_stop(void);
struct modules *services_modules(void);
struct symfiles *services_symfiles(void);
struct elf_code *services_code(void);
/* Of those that requests enter. */
struct turnstile *services_turnstile(enum turnstile_for what);
/* A module has another file now: on all hosts nobody goes on with what they know of it. Errors are
 * modules_invalidate's. */
enum err services_forget(struct str name, struct str id, struct error *e);

#endif
