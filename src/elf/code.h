/* SPDX-License-Identifier: Apache-2.0 */
/* Machine code of modules, from the first source of executables that has it; and their source code. */
#ifndef ELF_CODE_H
#define ELF_CODE_H

#include "base/buffer.h"
#include "base/client_key.h"
#include "elf/elf_source.h"

/* For all threads. */
struct elf_code;
/* c, buckets and x must outlive it. x NULL: there are no sources of executables. */
struct elf_code *elf_code_new(
        const struct config *c, struct bucket_sources *buckets, struct extractors *x, struct error *e);
void elf_code_free(struct elf_code *code); /* NULL is fine */

/* Who asks. */
struct elf_asker {
	struct client_key client;
	const atomic_bool *cancel; /* ends it within about a second; may be NULL */
};

/* Searches the sources of executables (source_search.h). *size: the bytes that the instructions have. ERR_MISSING: none
 * has the module, or its code there; ERR_CORRUPT: the file, or its reader died; ERR_UNAVAILABLE: a source fails, or
 * cancelled; ERR_NO_MEMORY. The texts are for the client. */
enum err elf_code_get(struct elf_code *code, const struct elf_asker *asker, const struct build_id_question *question,
        const struct code_range *range, const struct code_sink *sink, uint64_t *size, struct error *e);

/* Where the executable is loaded in its image, from the first source that has it; remembered for a while. ERR_MISSING:
 * no source tells; ERR_UNAVAILABLE: a source fails; ERR_NO_MEMORY. */
enum err elf_code_segments(struct elf_code *code, const struct elf_asker *asker,
        const struct build_id_question *question, struct file_map *loaded, struct error *e);
/* Whether that is remembered, so that nobody is asked. */
bool elf_code_knows_segments(struct elf_code *code, const struct build_id_question *question);

/* The bytes of a section of the debug file or the executable, as they are there. name: SECTION_NAME_MAX at most, of
 * letters, digits, '.', '_', '+' and '-'. send gets a file with them, size bytes from its beginning, which is gone
 * afterwards; what it returns is returned. Errors are those of elf_code_get. */
enum err elf_code_section(struct elf_code *code, const struct elf_asker *asker, const struct build_id *id,
        const char *name, enum err (*send)(void *arg, int file, uint64_t size), void *arg, struct error *e);

/* Whether a file is sound, answers the question, and says anything about code; of a program with such an id that is not
 * asked: it is the code. It is read as a whole, by the helper. ERR_BAD_REQUEST: it is not; ERR_UNAVAILABLE,
 * ERR_NO_MEMORY: that is not known. */
enum err elf_code_check(struct elf_code *code, int file, const struct build_id_question *question, bool is_program,
        const atomic_bool *cancel, struct error *e);

/* As source_code_get. */
enum err elf_code_source(struct elf_code *code, const struct elf_asker *asker, const struct build_id *id,
        struct str file, struct buffer *out, struct error *e);

#endif
