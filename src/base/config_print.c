/* SPDX-License-Identifier: Apache-2.0 */
/* Prints the table of settings as documentation, as an example file and as usage. */
#include <config.h>

#include "base/config_table.h"

#include <string.h>

/* The range, the words, or the form of a row's value. */
static void print_range(FILE *out, const struct config_row *row)
{
	char min[CONFIG_NUMBER_SIZE], max[CONFIG_NUMBER_SIZE];
	const char *rest = row->words, *word, *comma = "";
	size_t len;
	if (row->type == TYPE_STRING || row->type == TYPE_LIST) {
		fputs(row->type == TYPE_LIST ? "list" : "text", out);
		return;
	}
	if (row->type == TYPE_BOOL) {
		fputs("yes, no", out);
		return;
	}
	for (; rest && config_next_word(&rest, &word, &len); comma = ", ")
		fprintf(out, "%s%.*s", comma, (int)len, word);
	if (!row->words)
		fprintf(out, "%s to %s", config_print_number(min, row->type, row->min),
		        config_print_number(max, row->type, row->max));
}

static bool starts_group(const struct config_row *row)
{
	return row == config_rows || strcmp(row->group, row[-1].group) != 0;
}

void config_print_markdown(FILE *out)
{
	fputs("# Settings\n\n"
	      "Lines `key = value` of the file that `--config` names, or `--key value` on the command line, which "
	      "wins.\n"
	      "Sizes take K, M, G or T; times ms, s, m, h or d. *on SIGHUP* says whether a reload is enough.\n\n",
	        out);
	for (const struct config_row *row = config_rows; row->key; row++) {
		if (starts_group(row))
			fprintf(out,
			        "%s## %s\n\n| key | default | range | on SIGHUP | meaning |\n| --- | --- | --- | --- | "
			        "--- |\n",
			        row > config_rows ? "\n" : "", row->group);
		fprintf(out, *row->fallback ? "| `%s` | `%s` | " : "| `%s` | %s | ", row->key,
		        *row->fallback ? row->fallback : "empty");
		print_range(out, row);
		fprintf(out, " | %s | %s |\n", row->reload ? "yes" : "restart", row->meaning);
	}
}

void config_print_example(FILE *out)
{
	fputs("# Settings of symbolicated: lines `key = value`. Those below are the defaults.\n"
	      "# Sizes take K, M, G or T; times take ms, s, m, h or d.\n",
	        out);
	for (const struct config_row *row = config_rows; row->key; row++) {
		if (starts_group(row))
			fprintf(out, "\n# %s\n", row->group);
		fprintf(out, "\n# %s (", row->meaning);
		print_range(out, row);
		fprintf(out, ")\n#%s =%s%s\n", row->key, *row->fallback ? " " : "", row->fallback);
	}
}

static void print_flag(FILE *out, const char *name, const char *value)
{
	fputs("  --", out);
	for (; *name; name++)
		fputc(*name == '_' ? '-' : *name, out);
	fprintf(out, "%s\n", value);
}

void config_print_usage(FILE *out)
{
	fputs("Usage: symbolicated [--config FILE] [--SETTING VALUE]...\n\n", out);
	print_flag(out, "config", " FILE");
	fputs("        read settings from this file; flags replace what it says\n", out);
	for (const struct config_flag *flag = config_flags; flag->name; flag++) {
		print_flag(out, flag->name, "");
		fprintf(out, "        %s\n", flag->meaning);
	}
	for (const struct config_row *row = config_rows; row->key; row++) {
		if (starts_group(row))
			fprintf(out, "\n%s:\n", row->group);
		print_flag(out, row->key, " VALUE");
		fprintf(out, "        %s (", row->meaning);
		print_range(out, row);
		fprintf(out, *row->fallback ? "; %s)\n" : "%s)\n", row->fallback);
	}
}
