/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of an executable: build ids, the debug id that Breakpad's tools make of them, its FileID. */
#ifndef EXTRACT_IDS_H
#define EXTRACT_IDS_H

#include <libelf.h>
#include <stdint.h>

#include "base/error.h"
#include "extract/view.h"
#include "symbfile/build_id.h"
#include "symbfile/file_id.h"
#include "symbfile/segments.h"

enum {
	GO_BUILD_ID_MAX = 256, /* letters */
	DEBUG_ID_GUID = 32,
	DEBUG_ID_LEN = 40, /* 32 digits and the age, which is 0 but for Windows */
};

struct ids {
	struct build_id build_id;
	struct build_id found_by; /* the same; of an ELF file without one the 16 bytes that its debug id shows */
	char go_build_id[GO_BUILD_ID_MAX + 1]; /* empty: none */
	char debug_id[DEBUG_ID_LEN + 1];       /* empty: neither a build id nor code */
	unsigned view_kind;                    /* enum view_kind; 0: of an ELF file */
	bool is_package;                       /* of split units (.dwp): it has no code of its own */
	uint64_t image_base;                   /* the address of the file that is the first of its image in memory */
};

/* Of any ELF file, or a view. Whatever is malformed counts as missing. */
void ids_read(struct ids *ids, Elf *elf);
/* The same of an open file, wanted as view_open has it. ERR_MISSING: none that can be read; the text says why. */
enum err ids_of_fd(struct ids *ids, int fd, const struct view_wanted *wanted, struct error *e);
/* The load segments of an ELF file; none if it has more than there is room for, or is one of only debug data whose
 * headers no longer say where its code was (objcopy --only-keep-debug; those of eu-strip do). */
void segments_read(struct load_segments *s, Elf *elf);
/* The same of an open file, which may be another one, or just the beginning of one. */
void segments_of_fd(struct load_segments *s, int fd, const struct view_wanted *wanted);
/* The FileID of an open file, or of a slice of it as a file of its own; its position is not used. ERR_IO, ERR_MISSING.
 */
enum err file_id_of_fd(struct file_id *id, int fd, const struct build_id *slice, struct error *e);

#endif
