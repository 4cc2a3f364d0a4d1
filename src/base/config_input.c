/* SPDX-License-Identifier: Apache-2.0 */
/* Reads settings from a file and from the command line. Errors name the place, and settings that are given twice. */
#include <config.h>

#include "base/config_table.h"

#include <errno.h>
#include <string.h>
#include <sys/stat.h>

#include "base/str.h"

enum { LINE_SIZE = 4096, LINES_MAX = 100000, NAME_SIZE = 64 };

/* A `#` starts a comment at the start of a line or after a blank only: URLs may contain one. */
static void cut_comment(char *line)
{
	for (char *at = line; *at; at++)
		if (*at == '#' && (at == line || at[-1] == ' ' || at[-1] == '\t'))
			*at = 0;
}

/* Items that have no line yet were set by this one. */
static void number_items(struct config_list *list, unsigned line)
{
	for (unsigned i = 0; i < list->count; i++)
		if (!list->lines[i])
			list->lines[i] = line;
}

/* `key = value`; lines[] holds the line on which each key was set, 0 for none. */
static enum err set_from_line(
        struct config *c, char *text, unsigned number, unsigned lines[CONFIG_ROWS_MAX], struct error *e)
{
	char *equals = strchr(text, '=');
	if (!equals)
		return error_set(e, ERR_CONFIG, "\"%.80s\" is not of the form key = value", text);
	*equals = 0;
	const char *key = trimmed_line(text), *value = trimmed_line(equals + 1);
	const struct config_row *row = config_find_row(key);
	if (!row)
		return config_unknown_key(key, e);
	unsigned *line = &lines[row - config_rows];
	if (*line && row->type != TYPE_LIST)
		return error_set(e, ERR_CONFIG, "%s was set in line %u", row->key, *line);
	*line = number;
	enum err err = config_set_row(c, row, value, e);
	if (!err && row->type == TYPE_LIST)
		number_items(config_field(c, row), number);
	return err;
}

static enum err read_line(struct config *c, char line[LINE_SIZE], bool last, unsigned number,
        unsigned lines[CONFIG_ROWS_MAX], struct error *e)
{
	/* What follows a NUL in a line is not seen, since fgets gives us a C string. */
	if (!strchr(line, '\n') && !last)
		return error_set(e, ERR_CONFIG, "line is longer than %d bytes, or holds a NUL", LINE_SIZE - 2);
	if (number > LINES_MAX)
		return error_set(e, ERR_CONFIG, "more than %d lines", LINES_MAX);
	cut_comment(line);
	char *text = trimmed_line(line);
	return *text ? set_from_line(c, text, number, lines, e) : ERR_OK;
}

/* By its own mode alone: its folder may still be closed. */
static bool everybody_may_read(FILE *in)
{
	struct stat st;
	return fstat(fileno(in), &st) == 0 && st.st_mode & S_IROTH;
}

enum err config_read_file(struct config *c, const char *path, struct error *e)
{
	char line[LINE_SIZE];
	unsigned number = 0, lines[CONFIG_ROWS_MAX] = {0};
	struct error inner = {0};
	enum err err = ERR_OK;
	FILE *in = fopen(path, "re");
	if (!in)
		return error_set(e, ERR_CONFIG, "%s: %s", path, strerror(errno));
	c->read_by_all = everybody_may_read(in);
	while (!err && fgets(line, sizeof line, in))
		err = read_line(c, line, feof(in), ++number, lines, &inner);
	if (err)
		error_set(e, err, "%s:%u: %s", path, number, inner.text);
	else if (ferror(in))
		err = error_set(e, ERR_CONFIG, "%s: cannot be read: %s", path, strerror(errno));
	fclose(in);
	return err;
}

/* One flag of the command line. */
struct flag {
	char key[NAME_SIZE];
	const char *value; /* NULL if the flag is an action */
	unsigned action;
};

static unsigned action_by_flag(const char *key)
{
	for (const struct config_flag *flag = config_flags; flag->name; flag++)
		if (config_same_name(flag->name, key))
			return flag->action;
	return 0;
}

/* Takes one or two of the arguments from *i on. */
static enum err next_flag(struct flag *f, int argc, char **argv, int *i, struct error *e)
{
	const char *text = argv[(*i)++];
	if (strncmp(text, "--", 2) != 0 || !text[2])
		return error_set(e, ERR_CONFIG,
		        "unexpected argument \"%.100s\": settings are --NAME VALUE, a file of them --config FILE",
		        text);
	text += 2;
	size_t len = strcspn(text, "=");
	if (len >= sizeof f->key)
		return error_set(e, ERR_CONFIG, "unknown flag --%.100s", text);
	memcpy(f->key, text, len);
	f->key[len] = 0;
	f->action = action_by_flag(f->key);
	f->value = text[len] ? text + len + 1 : NULL;
	if (f->action && f->value)
		return error_set(e, ERR_CONFIG, "--%s takes no value", f->key);
	if (!f->action && strcmp(f->key, "config") != 0 && !config_find_row(f->key))
		return config_unknown_key(f->key, e);
	if (!f->action && !f->value && *i < argc)
		f->value = argv[(*i)++];
	if (!f->action && !f->value)
		return error_set(e, ERR_CONFIG, "--%s needs a value", f->key);
	return ERR_OK;
}

static enum err read_named_file(struct config *c, int argc, char **argv, struct error *e)
{
	struct flag f;
	const char *path = NULL;
	for (int i = 1; i < argc;) {
		enum err err = next_flag(&f, argc, argv, &i, e);
		if (err)
			return err;
		if (strcmp(f.key, "config") != 0)
			continue;
		if (path)
			return error_set(e, ERR_CONFIG, "--config is given twice");
		path = f.value;
	}
	return path ? config_read_file(c, path, e) : ERR_OK;
}

enum err config_parse_args(struct config *c, int argc, char **argv, unsigned *actions, struct error *e)
{
	bool seen[CONFIG_ROWS_MAX] = {false};
	struct flag f;
	*actions = 0;
	enum err err = read_named_file(c, argc, argv, e);
	for (int i = 1; !err && i < argc;) {
		err = next_flag(&f, argc, argv, &i, e);
		if (err || strcmp(f.key, "config") == 0)
			continue;
		*actions |= f.action;
		if (f.action)
			continue;
		const struct config_row *row = config_find_row(f.key);
		if (row->type == TYPE_LIST && !seen[row - config_rows])
			config_list_clear(config_field(c, row));
		seen[row - config_rows] = true;
		err = config_set_row(c, row, f.value, e);
	}
	return err;
}
