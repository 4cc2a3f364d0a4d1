/* SPDX-License-Identifier: Apache-2.0 */
/* Readable names of C++ (by the rules of Itanium's ABI and Microsoft's), Rust and D functions. */
#ifndef EXTRACT_DEMANGLE_H
#define EXTRACT_DEMANGLE_H

#include <stdbool.h>

#include "base/buffer.h"
#include "base/str.h"

enum {
	DEMANGLE_INPUT_MAX = 16 << 10,  /* bytes; longer names stay as they are, since demangling is recursive */
	DEMANGLE_OUTPUT_MAX = 64 << 10, /* names that would become longer stay as they are */
};

/* name without what compilers add to copies of a function: .isra.0, .part.1, .constprop.0, .cold, .llvm.123,
 * .lto_priv.0 */
struct str demangle_base(struct str name);
/* Whether a name is mangled, by its first letters. */
bool demangle_wanted(struct str name);
/* Appends the demangled name to out, parameters included. False: not a mangled name, and out is as it was. */
bool demangle(struct buffer *out, struct str mangled);

#endif
