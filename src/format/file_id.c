/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "format/file_id.h"

#include <errno.h>
#include <openssl/evp.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/hash.h"
#include "base/hex.h"

enum { END_LEN = 4096 }; /* bytes of the file's start, and of its end */

static int base64_digit(char c)
{
	if (c >= 'A' && c <= 'Z')
		return c - 'A';
	if (c >= 'a' && c <= 'z')
		return c - 'a' + 26;
	if (c >= '0' && c <= '9')
		return c - '0' + 52;
	return c == '-' || c == '+' ? 62 : c == '_' || c == '/' ? 63 : -1;
}

/* 22 letters are 132 bits: the last four must be 0, so that an id has one spelling in each alphabet. */
static bool parse_base64(struct file_id *id, const char *text)
{
	uint32_t bits = 0;
	unsigned held = 0, n = 0;
	for (size_t i = 0; i < FILE_ID_BASE64; i++) {
		int digit = base64_digit(text[i]);
		if (digit < 0)
			return false;
		bits = (bits << 6 | (uint32_t)digit) & 0xfff;
		held += 6;
		if (held >= 8) {
			held -= 8;
			id->bytes[n++] = (uint8_t)(bits >> held);
		}
	}
	return (bits & 0xf) == 0;
}

bool file_id_parse(struct file_id *id, struct str text)
{
	struct file_id parsed;
	bool padded = text.len == FILE_ID_BASE64 + 2 && memcmp(text.data + FILE_ID_BASE64, "==", 2) == 0;
	bool ok = false;
	if (text.len == FILE_ID_HEX)
		ok = hex_read(parsed.bytes, sizeof parsed.bytes, text);
	else if (text.len == FILE_ID_BASE64 || padded)
		ok = parse_base64(&parsed, text.data);
	if (ok)
		*id = parsed;
	return ok;
}

void file_id_hex(char out[FILE_ID_HEX + 1], const struct file_id *id)
{
	hex_write(out, id->bytes, sizeof id->bytes);
}

void file_id_base64(char out[FILE_ID_BASE64 + 1], const struct file_id *id)
{
	/* base64url writes a NUL behind the 22 letters, and no more. */
	base64url(out, id->bytes, sizeof id->bytes);
}

/* All of len bytes from an offset. */
static enum err read_at(int fd, uint8_t *to, size_t len, off_t offset, struct error *e)
{
	while (len > 0) {
		ssize_t n = pread(fd, to, len, offset);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return error_set(e, ERR_IO, "cannot read the file: %s", strerror(errno));
		if (n == 0)
			return error_set(e, ERR_IO, "the file became shorter while it was read");
		to += n;
		len -= (size_t)n;
		offset += n;
	}
	return ERR_OK;
}

enum err file_id_of_fd(struct file_id *id, int fd, struct error *e)
{
	uint8_t text[2 * END_LEN + 8], digest[EVP_MAX_MD_SIZE];
	struct stat st;
	if (fstat(fd, &st) != 0)
		return error_set(e, ERR_IO, "cannot read the file: %s", strerror(errno));
	if (!S_ISREG(st.st_mode))
		return error_set(e, ERR_IO, "not a regular file");
	size_t len = st.st_size < END_LEN ? (size_t)st.st_size : END_LEN;
	enum err err = read_at(fd, text, len, 0, e);
	if (!err)
		err = read_at(fd, text + len, len, st.st_size - (off_t)len, e);
	if (err)
		return err;
	for (unsigned i = 0; i < 8; i++)
		text[2 * len + i] = (uint8_t)((uint64_t)st.st_size >> (56 - 8 * i));
	if (!EVP_Digest(text, 2 * len + 8, digest, NULL, sha256_kind(), NULL))
		return error_set(e, ERR_NO_MEMORY, "SHA-256 failed");
	memcpy(id->bytes, digest, sizeof id->bytes);
	return ERR_OK;
}
