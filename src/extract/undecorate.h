/* SPDX-License-Identifier: Apache-2.0 */
/* Names of C++ functions as Microsoft's compilers decorate them: "?f@N@@YAHPEBD@Z" is N::f(char const *). */
#ifndef EXTRACT_UNDECORATE_H
#define EXTRACT_UNDECORATE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/str.h"

/* Appends the plain name to out: as names of a PDB's procedures are, with the types of arguments, without return type,
 * calling convention and access; of data the name alone. False: it is no such name, or nests too deeply; out is as it
 * was. Time and memory are linear in the name and in what it may become, which is at most max bytes. */
bool undecorate(struct buffer *out, struct str name, size_t max);

#endif
