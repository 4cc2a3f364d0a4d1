/* SPDX-License-Identifier: Apache-2.0 */
/* FileIDs: the identity of a running executable, by which its symbfiles are known. */
#ifndef FORMAT_FILE_ID_H
#define FORMAT_FILE_ID_H

#include <stdbool.h>
#include <stdint.h>

#include "base/error.h"
#include "base/str.h"

/* The first 16 bytes of SHA-256(first 4096 bytes, last 4096 bytes, length as big-endian u64). */
struct file_id {
	uint8_t bytes[16];
};

enum { FILE_ID_HEX = 32, FILE_ID_BASE64 = 22 }; /* letters */

/* 32 hex digits of any case, or 22 letters of base64 (plain or URL-safe, `==` optional). */
bool file_id_parse(struct file_id *id, struct str text);
/* NUL-terminated: lower-case hex; URL-safe base64 without padding. */
void file_id_hex(char out[FILE_ID_HEX + 1], const struct file_id *id);
void file_id_base64(char out[FILE_ID_BASE64 + 1], const struct file_id *id);
/* Of an open file; its position is not used. ERR_IO. */
enum err file_id_of_fd(struct file_id *id, int fd, struct error *e);

#endif
