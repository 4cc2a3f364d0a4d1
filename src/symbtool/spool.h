/* SPDX-License-Identifier: Apache-2.0 */
/* Records of one kind, cut into parts: each is a symbfile small enough for any upload limit. */
#ifndef SYMBTOOL_SPOOL_H
#define SYMBTOOL_SPOOL_H

#include "base/hash.h"
#include "symbfile/symbfile.h"

enum { SPOOL_SET = 32 }; /* characters of a set's name */

struct spool_part {
	uint64_t at, len; /* in the file */
};

struct spool {
	int fd; /* a temporary file without a name; or /dev/null */
	uint64_t part_max;
	struct symbfile_writer *writer; /* of the current part */
	bool empty;                     /* that part */
	struct spool_part *parts;
	size_t count;
	uint32_t cap;
	uint64_t len;      /* bytes in the file */
	uint64_t left_out; /* records that no symbfile can hold */
	struct sha256 *hash;
	char set[SPOOL_SET + 1]; /* once it is finished: of the contents and the number of parts */
};

/* Parts have at most part_max bytes each, unless a single record is larger. discard: keep nothing. Release it even
 * after a failure. */
enum err spool_init(struct spool *s, uint64_t part_max, bool discard, struct error *e);
void spool_release(struct spool *s);
enum err spool_range(struct spool *s, const struct symbfile_range *r, struct error *e);
enum err spool_pad(struct spool *s, const struct symbfile_pad *p, struct error *e);
/* Ends the last part; if there are no records, there is one empty part. */
enum err spool_finish(struct spool *s, struct error *e);

/* Passes the bytes of a part, in pieces, to take, whose failure ends it. ERR_IO, ERR_NO_MEMORY. */
enum err spool_read(const struct spool *s, size_t part,
        enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e), void *arg, struct error *e);

#endif
