/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/filter_tally.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "symbtool/local_symbols.h"
#include "symbtool/visible.h"
#include "text/module_table.h"

enum { NAMES_MAX = 4 }; /* modules without symbols that are listed */

void filter_tally_lacking(struct filter_tally *t, const struct text_module *m)
{
	struct str name = text_base_name(m->path);
	if (t->lacking_count > NAMES_MAX || memchr(name.data, 0, name.len))
		return;
	for (const char *p = (char *)t->lacking.data; p && p < (char *)t->lacking.data + t->lacking.len;
	        p += strlen(p) + 1)
		if (str_equal(str_from(p), name))
			return;
	t->lacking_count++;
	buffer_append_str(&t->lacking, name);
	buffer_append(&t->lacking, "", 1);
}

static void print_lacking(const struct filter_tally *t)
{
	const char *p = (const char *)t->lacking.data;
	for (unsigned i = 0; i < t->lacking_count && i < NAMES_MAX; i++, p += strlen(p) + 1) {
		fputs(i ? ", " : " (", stderr);
		print_visible(stderr, p);
	}
	fputs(t->lacking_count > NAMES_MAX ? ", ...)" : t->lacking_count ? ")" : "", stderr);
}

/* Of a text in which there was nothing to look up. */
static void print_guess(const struct guess *guess)
{
	fprintf(stderr, "symbtool: line %" PRIu64 " looks most like a frame: ", guess->line);
	print_visible_str(stderr, (struct str){guess->text, guess->len});
	fprintf(stderr, "\nsymbtool: %s\n", guess->missing);
}

/* Why a bare address is not in the program of -e. */
static const char *why_not_there(const char *program)
{
	struct local_place *place = local_place_read(program);
	bool fixed = place && place->fixed;
	free(place);
	return fixed ? "none of these addresses is in its code, or their lines name another file"
	             : "position-independent: only a memory map says where it was loaded";
}

void filter_tally_print(const struct filter_tally *t, const struct guess *guess, const char *program)
{
	uint64_t all = 0;
	for (unsigned i = 0; i < REASONS; i++)
		all += t->why[i];
	bool nameless = guess && !guess->is_named;
	uint64_t named = t->named ? t->named : guess ? guess->named : 0;
	if (named && all == t->named && !nameless) {
		fprintf(stderr, "symbtool: all frames have names already: %" PRIu64 "\n", named);
		return;
	}
	fprintf(stderr, "symbtool: %" PRIu64 " frame%s, %" PRIu64 " named", all, all == 1 ? "" : "s",
	        t->why[REASON_NONE]);
	const char *before = "; no name: ";
	for (unsigned i = 1; i < REASONS; i++) {
		if (!t->why[i])
			continue;
		fprintf(stderr, "%s%" PRIu64 " %s", before, t->why[i], reason_row((enum reason)i)->word);
		before = ", ";
	}
	print_lacking(t);
	fputc('\n', stderr);
	if (guess)
		print_guess(guess);
	for (unsigned i = 1; i < REASONS; i++) {
		const struct reason_row *row = reason_row((enum reason)i);
		if (t->why[i])
			fprintf(stderr, "symbtool: %s: %s %s\n", row->word, row->means, row->help);
	}
	if (program && t->why[REASON_NO_MODULE])
		fprintf(stderr, "symbtool: %s: %s\n", program, why_not_there(program));
}
