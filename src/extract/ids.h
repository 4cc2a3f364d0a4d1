/* SPDX-License-Identifier: Apache-2.0 */
/* The ids of an executable: build ids, the debug id that Breakpad's tools make of them, its FileID. */
#ifndef EXTRACT_IDS_H
#define EXTRACT_IDS_H

#include <libelf.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"
#include "format/file_id.h"

enum {
	BUILD_ID_MAX = 64,     /* bytes */
	GO_BUILD_ID_MAX = 256, /* letters */
	DEBUG_ID_LEN = 33,
};

struct ids {
	uint8_t build_id[BUILD_ID_MAX];
	size_t build_id_len;                   /* 0: none */
	char go_build_id[GO_BUILD_ID_MAX + 1]; /* empty: none */
	char debug_id[DEBUG_ID_LEN + 1];       /* empty: neither a build id nor code */
};

/* Of any ELF file. What is malformed counts as not there. */
void ids_read(struct ids *ids, Elf *elf);
/* The same of an open file. ERR_MISSING: not ELF. */
enum err ids_of_fd(struct ids *ids, int fd, struct error *e);
/* Lower-case hex digits, NUL-terminated. */
void build_id_hex(char out[2 * BUILD_ID_MAX + 1], const uint8_t *id, size_t len);
/* The FileID of an open file; its position is not used. ERR_IO. */
enum err file_id_of_fd(struct file_id *id, int fd, struct error *e);

#endif
