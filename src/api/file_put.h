/* SPDX-License-Identifier: Apache-2.0 */
/* An executable or debug file that is uploaded: unpacked into a file without a name while it arrives, checked by the
 * helper, then stored. */
#ifndef API_FILE_PUT_H
#define API_FILE_PUT_H

#include <stdatomic.h>

#include "api/file_target.h"
#include "objects/store.h"

/* Begin, any number of adds, a check, then perhaps store; free in any case. Of at most max bytes unpacked; t must
 * outlive it. Errors: ERR_BAD_REQUEST, ERR_TOO_LARGE, ERR_UNAVAILABLE, ERR_NO_MEMORY. */
struct file_put;
struct file_put *file_put_begin(const struct config *c, const struct file_target *t, uint64_t max, struct error *e);
enum err file_put_add(struct file_put *p, const uint8_t *data, size_t len, struct error *e);
/* Bytes so far, unpacked. */
uint64_t file_put_size(const struct file_put *p);
/* All has arrived. *cancel ends the check within about a second. */
enum err file_put_check(struct file_put *p, const atomic_bool *cancel, struct error *e);
/* Durable and to be had on all hosts when it returns ERR_OK. Logs it. */
enum err file_put_store(
        struct file_put *p, struct store_client *c, const char *key_id, const char *request_id, struct error *e);
void file_put_free(struct file_put *p); /* NULL is fine */

#endif
