/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/counts.h"

static enum err count_range(void *arg, const struct symbfile_range *r, struct error *e)
{
	struct symbfile_counts *c = arg;
	(void)e;
	c->functions += r->depth == 0;
	c->inlines += r->depth > 0;
	for (size_t i = 0; i < r->line_count; i++)
		c->lines += r->lines[i].line > 0;
	return ERR_OK;
}

static enum err count_pad(void *arg, const struct symbfile_pad *p, struct error *e)
{
	struct symbfile_counts *c = arg;
	bool line = false;
	(void)e;
	for (size_t i = 0; i < p->count && !line; i++)
		line = p->frames[i].line > 0;
	c->functions += p->count > 0;
	c->inlines += p->count > 1;
	c->lines += line;
	return ERR_OK;
}

struct symbfile_sink symbfile_counts_sink(struct symbfile_counts *counts)
{
	return (struct symbfile_sink){count_range, count_pad, counts};
}
