/* SPDX-License-Identifier: Apache-2.0 */
/* Fetches an object over HTTP, for the kinds of buckets that use it. Private to the buckets. */
#ifndef OBJECTS_BUCKET_HTTP_H
#define OBJECTS_BUCKET_HTTP_H

#include "objects/bucket_backend.h"

struct transfer;
struct transfer_reply;

/* What a status other than 200 means: sets outcome and text, and returns the outcome. */
typedef enum bucket_outcome bucket_http_status_judge(
        const struct transfer_reply *reply, bool credentials, struct bucket_result *result);

struct bucket_http_call {
	const char *url;
	const atomic_bool *cancel;
	bucket_http_status_judge *of_status;
	bool credentials; /* passed to it */
};

/* One attempt: feeds body, and sets outcome, status, length_known and text of the result. */
void bucket_http_get(struct transfer *t, const struct bucket_http_call *call, struct bucket_body *body,
        struct bucket_result *result);

#endif
