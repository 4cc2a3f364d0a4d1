/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code of an executable as assembly. */
#ifndef EXTRACT_DISASSEMBLE_H
#define EXTRACT_DISASSEMBLE_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

enum { DISASSEMBLE_MAX = 256 << 10 }; /* bytes of code */

struct disassembly {
	uint64_t start, size; /* relative to the image; at most DISASSEMBLE_MAX bytes are read */
	bool to_function_end; /* go on behind size, to the end of the function that start is in, if a symbol tells it */
	/* Called once before the first instruction; arch is "x86_64", "i686", "aarch64" or "arm". */
	enum err (*begin)(void *arg, const char *arch, struct error *e);
	/* offset and end: from start. target: where a branch leads whose text has no name behind it, relative to the
	 * image; UINT64_MAX: nowhere. */
	enum err (*instruction)(
	        void *arg, uint32_t offset, uint32_t end, uint64_t target, struct str text, struct error *e);
	void *arg;
};

/* Addresses in the text are relative to the image; targets of branches have the names of symbols behind them.
 * ERR_MISSING: there is no code at that address, or the file has none of its bytes; ERR_CORRUPT: malformed, or the
 * machine is another one; ERR_NO_MEMORY; what the functions return. */
enum err disassemble(const char *path, struct disassembly *d, struct error *e);

struct pe_file;
/* The same for a Windows program, whose headers have been read. It has no names. */
enum err disassemble_pe(const struct pe_file *pe, struct disassembly *d, struct error *e);

#endif
