/* SPDX-License-Identifier: Apache-2.0 */
/* FileIDs, which identify executables and their symbfiles. */
#ifndef SYMBFILE_FILE_ID_H
#define SYMBFILE_FILE_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"

/* The first 16 bytes of SHA-256(first 4096 bytes, last 4096 bytes, length as big-endian u64). */
struct file_id {
	uint8_t bytes[16];
};

enum {
	FILE_ID_HEX = 32,    /* letters */
	FILE_ID_BASE64 = 22, /* letters */
	FILE_ID_END = 4096,  /* bytes */
};

/* Accepts 32 hex digits of either case, or 22 letters of base64 (plain or URL-safe, `==` optional). */
bool file_id_parse(struct file_id *id, struct str text);
/* NUL-terminated: lower-case hex; URL-safe base64 without padding. */
void file_id_hex(char out[FILE_ID_HEX + 1], const struct file_id *id);
void file_id_base64(char out[FILE_ID_BASE64 + 1], const struct file_id *id);
/* ends: the file's first FILE_ID_END bytes followed by its last FILE_ID_END bytes, which may overlap; each is the whole
 * file if that is shorter. size: of the file. False if SHA-256 fails. */
bool file_id_make(struct file_id *id, const uint8_t *ends, size_t len, uint64_t size);

#endif
