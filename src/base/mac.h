/* SPDX-License-Identifier: Apache-2.0 */
/* A message authentication code: tags that nobody makes who has not the key. SipHash-2-4 of 64 bits, by OpenSSL. */
#ifndef BASE_MAC_H
#define BASE_MAC_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum { MAC_KEY = 16, MAC_SECRET_MIN = 16, MAC_SECRET_MAX = 1024 };

struct mac_key {
	uint8_t bytes[MAC_KEY];
};

/* Derives the key from a file's text, without the blanks and line feeds at its end: MAC_SECRET_MIN to MAC_SECRET_MAX
 * bytes. A file that others than its owner and group may touch is refused. */
enum err mac_key_load(struct mac_key *key, const char *path, struct error *e);

/* One thread's. NULL without memory, or where OpenSSL has no SipHash. */
struct mac;
struct mac *mac_new(const struct mac_key *key);
void mac_free(struct mac *m);

/* The tag of two stretches of bytes, one behind the other; false when there is none. */
bool mac_tag(struct mac *m, const void *a, size_t a_len, const void *b, size_t b_len, uint64_t *tag)
        __attribute__((warn_unused_result));

#endif
