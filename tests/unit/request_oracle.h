/* SPDX-License-Identifier: Apache-2.0 */
/* Compares request_read with a slow reading of the same body through jansson. */
#ifndef REQUEST_ORACLE_H
#define REQUEST_ORACLE_H

#include "json/request.h"

/* NULL when both agree: on whether the body is JSON, on whether and with which words it is refused, and on all that a
 * request says. Else what they differ in, in memory that the next call reuses. */
const char *oracle_compare(struct str body, enum request_version version, const struct request_limits *limits);

#endif
