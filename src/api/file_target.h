/* SPDX-License-Identifier: Apache-2.0 */
/* Which executable or debug file a path is: /NAME/ID/NAME, or /buildid/ID/debuginfo or executable. */
#ifndef API_FILE_TARGET_H
#define API_FILE_TARGET_H

#include "elf/layouts.h"
#include "front/exchange.h"

struct file_target {
	struct layout_file layout;
	struct str name, id; /* what it is known by in caches; in the exchange's arena, or of the path */
};

/* ERR_NOT_FOUND: it is no such path, or no source can have a file of this name and id. */
enum err file_target_read(struct exchange *x, struct str path, struct file_target *t, struct error *e);
/* The same from a name and an id as bucket_can_hold takes them, which are kept. */
enum err file_target_named(struct file_target *t, struct str name, struct str id, bool packed, struct error *e);
/* What an id of the file must answer. */
struct build_id_question file_target_question(const struct file_target *t);

#endif
