/* SPDX-License-Identifier: Apache-2.0 */
/* API keys: a file of salted hashes, and the check of an Authorization header. */
#ifndef KEYS_AUTH_H
#define KEYS_AUTH_H

#include "base/error.h"
#include "base/str.h"

enum auth_right { RIGHT_UPLOAD = 1, RIGHT_INVALIDATE = 2, RIGHT_REMOVE = 4, RIGHT_READ = 8 };

/* Reads the keys of a file (`id:rights:salt:hash` lines, docs/operation.md); an empty path: no keys. NULL on an error.
 */
struct auth_keys;
struct auth_keys *auth_read(const char *path, struct error *e);
void auth_keys_free(struct auth_keys *keys);
/* Takes ownership of the keys (NULL: none) and puts them in force in place of the old ones. */
void auth_use(struct auth_keys *keys);
/* auth_read and auth_use; on an error the old keys stay in force. */
enum err auth_load(const char *path, struct error *e);
/* Checks `Authorization: APIKey base64(id:key)`. A NULL header: ERR_UNAUTHORIZED. Unknown id, wrong key, or a key
 * with none of the rights: ERR_FORBIDDEN; ERR_NO_MEMORY. Compares in constant time; the text never contains the key. On
 * success the id is copied to id_out. */
enum err auth_check(const char *header, unsigned rights, char id_out[64], struct error *e);

/* "upload,invalidate" to RIGHT_ bits; at least one. */
enum err auth_parse_rights(struct str text, unsigned *rights, struct error *e);

enum { AUTH_KEY_SIZE = 64, AUTH_LINE_SIZE = 256 }; /* with the NUL */
/* For symbolicated-keys: makes a key of 32 random bytes, and its line. */
enum err auth_make(
        const char *id, unsigned rights, char key[AUTH_KEY_SIZE], char line[AUTH_LINE_SIZE], struct error *e);

#endif
