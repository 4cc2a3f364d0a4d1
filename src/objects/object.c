/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "objects/object.h"

#include <stdarg.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/process.h"

struct bucket_limits bucket_limits_of(const struct config *c)
{
	return (struct bucket_limits){
	        .connect_timeout = c->bucket_connect_timeout,
	        .stall_timeout = c->bucket_stall_timeout,
	        .total_timeout = c->bucket_total_timeout,
	        .max_size = c->bucket_max_size,
	        .allow_local_redirects = c->bucket_allow_local_redirects,
	};
}

enum bucket_outcome bucket_result_set(struct bucket_result *r, enum bucket_outcome outcome, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	vsnprintf(r->text, sizeof r->text, format, args);
	va_end(args);
	r->outcome = outcome;
	return outcome;
}

void bucket_pause(uint64_t again)
{
	int64_t time = (150 * MS + (int64_t)(random_u64() % 100) * MS) << (again < 2 ? again : 2);
	const struct timespec pause = {.tv_sec = time / SECOND, .tv_nsec = time % SECOND};
	nanosleep(&pause, NULL);
}
