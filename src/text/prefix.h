/* SPDX-License-Identifier: Apache-2.0 */
/* What a log or a mail puts before each line: "Nov 26 18:56:33 host app[123]: " of syslog and journald,
 * "2026-11-26T18:56:33.1234567Z " of docker, Kubernetes and GitHub Actions, "web-1  | " of docker compose,
 * "[pod/web-1/app] " of kubectl, "[web] " of who runs several programs, "[ 1234.567890] " of the kernel, "(EE) " of the
 * X server, "> " of a mail. */
#ifndef TEXT_PREFIX_H
#define TEXT_PREFIX_H

#include "text/scan.h"

/* The line behind it; the same line if there is none. has_bar: there may be a | in the line. *source: who wrote the
 * line, if the prefix tells it, as "host app[123]"; else empty. */
struct rest text_without_prefix(struct rest line, bool has_bar, struct str *source);
/* Whether what stands behind a prefix may belong to it. */
bool text_prefix_goes_on(struct rest line, bool has_bar);

#endif
