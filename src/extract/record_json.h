/* SPDX-License-Identifier: Apache-2.0 */
/* Records of symbfiles as JSON objects: what `symbtool dump --json` prints. */
#ifndef EXTRACT_RECORD_JSON_H
#define EXTRACT_RECORD_JSON_H

#include "base/buffer.h"
#include "symbfile/symbfile.h"

/* Append one object, without a line feed. */
void record_json_range(struct buffer *out, const struct symbfile_range *r);
void record_json_pad(struct buffer *out, const struct symbfile_pad *p);

#endif
