/* SPDX-License-Identifier: Apache-2.0 */
/* Records of one kind, cut into parts: symbfiles of their own that no upload limit refuses. */
#ifndef SYMBTOOL_SPOOL_H
#define SYMBTOOL_SPOOL_H

#include "base/hash.h"
#include "format/symbfile.h"

enum { SPOOL_SET = 32 }; /* letters of a set's name */

struct spool_part {
	uint64_t at, len; /* in the file */
};

struct spool {
	int fd; /* a temporary file without a name; or /dev/null */
	uint64_t part_max;
	struct symbfile_writer *writer; /* of the part that grows */
	bool empty;                     /* that part */
	struct spool_part *parts;
	size_t count, cap;
	uint64_t len;      /* bytes in the file */
	uint64_t left_out; /* records that no symbfile can hold */
	struct sha256 *hash;
	char set[SPOOL_SET + 1]; /* once it is finished: of the contents and the number of parts */
};

/* Parts have at most part_max bytes each, unless a single record has more. discard: nothing is kept. Released also
 * after a failure. */
enum err spool_init(struct spool *s, uint64_t part_max, bool discard, struct error *e);
void spool_release(struct spool *s);
enum err spool_range(struct spool *s, const struct symbfile_range *r, struct error *e);
enum err spool_pad(struct spool *s, const struct symbfile_pad *p, struct error *e);
/* Ends the last part; without any record there is an empty one. */
enum err spool_finish(struct spool *s, struct error *e);

/* Gives the bytes of a part, in pieces, to take, whose failure ends it. ERR_IO, ERR_NO_MEMORY. */
enum err spool_read(const struct spool *s, size_t part,
        enum err (*take)(void *arg, const uint8_t *data, size_t len, struct error *e), void *arg, struct error *e);

#endif
