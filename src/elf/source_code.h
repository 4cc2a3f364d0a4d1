/* SPDX-License-Identifier: Apache-2.0 */
/* Files of source code that debug data name, from debuginfod servers, and from folders and web servers of the settings.
 * The caller checks that the file is one that it may give out. */
#ifndef ELF_SOURCE_CODE_H
#define ELF_SOURCE_CODE_H

#include "base/buffer.h"
#include "base/str.h"
#include "objects/bucket.h"
#include "symbfile/build_id.h"

enum {
	SOURCE_CODE_MAX = 4 << 20, /* bytes of a file */
	SOURCE_CODE_ROOM = SOURCE_CODE_MAX + 1,
	SOURCE_PATH_MAX = 1024, /* of its name */
};

/* Checks the setting source_code. ERR_CONFIG. */
enum err source_code_check(const struct config *c, struct error *e);

/* For all threads. */
struct source_code;
/* buckets: of the settings, for debuginfod servers; it and c must outlive what is made. */
struct source_code *source_code_new(const struct config *c, const struct bucket_sources *buckets, struct error *e);
void source_code_free(struct source_code *s); /* NULL is fine */

/* client: of the buckets. Puts the file into out, which is empty and has a max of SOURCE_CODE_ROOM. id: the build id of
 * the program that names it; len 0: it is not known, and no debuginfod server is asked. *cancel, which may be NULL,
 * ends it. ERR_MISSING: no such file; ERR_TOO_LARGE; ERR_CORRUPT: it is no text; ERR_UNAVAILABLE: a source fails;
 * ERR_NO_MEMORY. The texts are for the client. */
enum err source_code_get(const struct source_code *s, struct bucket_client *client, const struct build_id *id,
        struct str file, const atomic_bool *cancel, struct buffer *out, struct error *e);

#endif
