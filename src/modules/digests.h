/* SPDX-License-Identifier: Apache-2.0 */
/* Digests of modules that are asked for again and again: SHA-256 takes a tenth of a small request's time. */
#ifndef MODULES_DIGESTS_H
#define MODULES_DIGESTS_H

#include "base/hash.h"

/* As module_hash_make. For any thread. */
bool digest_of_module(struct module_hash *h, const char *kind, struct str name, struct str id);

#endif
