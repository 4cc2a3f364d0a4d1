/* SPDX-License-Identifier: Apache-2.0 */
/* A message authentication code: tags that nobody without the key can make. SipHash-2-4 of 64 bits, by OpenSSL. */
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

/* Derives the key from the text of a file, without trailing blanks and line feeds: MAC_SECRET_MIN to MAC_SECRET_MAX
 * bytes. Refuses a file that others than its owner and group may access. */
enum err mac_key_load(struct mac_key *key, const char *path, struct error *e);

/* For one thread. NULL if out of memory, or if OpenSSL has no SipHash. */
struct mac;
struct mac *mac_new(const struct mac_key *key);
void mac_free(struct mac *m);

/* The tag of two byte ranges, one after the other; false on failure. */
bool mac_tag(struct mac *m, const void *a, size_t a_len, const void *b, size_t b_len, uint64_t *tag)
        __attribute__((warn_unused_result));

#endif
