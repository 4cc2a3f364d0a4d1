/* SPDX-License-Identifier: Apache-2.0 */
/* Converts one value of a setting from text to its field and back. */
#include <config.h>

#include "base/config_table.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h"

_Static_assert(sizeof(enum config_sandbox) == sizeof(unsigned) && sizeof(enum config_codec) == sizeof(unsigned) &&
                       sizeof(enum config_lookup) == sizeof(unsigned) && sizeof(enum log_level) == sizeof(unsigned) &&
                       sizeof(enum config_addressing) == sizeof(unsigned) &&
                       sizeof(enum config_downloads) == sizeof(unsigned),
        "CHOICE is written as unsigned");

/* The first name of a factor is the one that is printed; a number without a unit has the factor of "". */
struct unit {
	const char *name;
	uint64_t factor;
};
static const struct unit byte_units[] = {{"", 1}, {"K", 1ull << 10}, {"M", 1ull << 20}, {"G", 1ull << 30},
        {"T", 1ull << 40}, {"KiB", 1ull << 10}, {"MiB", 1ull << 20}, {"GiB", 1ull << 30}, {"TiB", 1ull << 40},
        {NULL, 0}};
static const struct unit time_units[] = {{"ms", MS}, {"s", SECOND}, {"m", 60 * SECOND}, {"h", 3600 * SECOND},
        {"d", 86400 * SECOND}, {"", SECOND}, {NULL, 0}};

static const struct unit *units_of(enum config_type type)
{
	return type == TYPE_DURATION ? time_units : byte_units;
}

void config_list_clear(struct config_list *list)
{
	for (unsigned i = 0; i < list->count; i++)
		free(list->items[i]);
	list->count = 0;
}

bool config_next_word(const char **text, const char **word, size_t *len)
{
	static const char blanks[] = " \t";
	*word = *text + strspn(*text, blanks);
	*len = strcspn(*word, blanks);
	*text = *word + *len;
	return *len > 0;
}

static enum err set_list(struct config_list *list, const struct config_row *row, const char *value, struct error *e)
{
	const char *word;
	size_t len;
	bool any = false, whole = row->max;
	while (config_next_word(&value, &word, &len)) {
		if (whole) {
			len = strlen(word);
			value = word + len;
		}
		any = true;
		if (list->count == CONFIG_LIST_MAX)
			return error_set(e, ERR_CONFIG, "%s: more than %d", row->key, CONFIG_LIST_MAX);
		list->items[list->count] = strndup(word, len);
		list->lines[list->count] = 0;
		if (!list->items[list->count])
			return error_set(e, ERR_NO_MEMORY, "%s: out of memory", row->key);
		list->count++;
	}
	if (!any)
		config_list_clear(list);
	return ERR_OK;
}

enum err config_set_string(char **to, const struct config_row *row, const char *value, struct error *e)
{
	char *text = strdup(value);
	if (!text)
		return error_set(e, ERR_NO_MEMORY, "%s: out of memory", row->key);
	free(*to);
	*to = text;
	return ERR_OK;
}

static enum err set_bool(bool *to, const struct config_row *row, const char *value, struct error *e)
{
	static const char *const names[] = {"no", "yes", "false", "true", "off", "on", "0", "1"};
	for (unsigned i = 0; i < sizeof names / sizeof names[0]; i++)
		if (strcasecmp(names[i], value) == 0) {
			*to = i % 2;
			return ERR_OK;
		}
	return error_set(e, ERR_CONFIG, "%s: \"%s\" is neither yes nor no", row->key, value);
}

/* The index of value among the row's words, or -1. */
static int word_number(const struct config_row *row, const char *value)
{
	const char *rest = row->words, *word;
	size_t len;
	for (int i = 0; config_next_word(&rest, &word, &len); i++)
		if (strlen(value) == len && memcmp(word, value, len) == 0)
			return i;
	return -1;
}

static enum err set_choice(void *to, const struct config_row *row, const char *value, struct error *e)
{
	int number = word_number(row, value);
	unsigned choice = (unsigned)number;
	if (number < 0)
		return error_set(e, ERR_CONFIG, "%s: \"%s\" is none of: %s", row->key, value, row->words);
	memcpy(to, &choice, sizeof choice);
	return ERR_OK;
}

bool config_parse_digits(const char **at, unsigned base, uint64_t *value)
{
	const char *start = *at;
	*value = 0;
	for (; **at >= '0' && **at < '0' + (int)base; ++*at)
		if (__builtin_mul_overflow(*value, base, value) ||
		        __builtin_add_overflow(*value, (unsigned)(**at - '0'), value))
			return false;
	return *at > start;
}

static bool parse_number(enum config_type type, const char *text, uint64_t *value)
{
	if (!config_parse_digits(&text, type == TYPE_OCTAL ? 8 : 10, value))
		return false;
	if (type == TYPE_COUNT || type == TYPE_OCTAL)
		return !*text;
	for (const struct unit *u = units_of(type); u->name; u++)
		if (strcasecmp(u->name, text) == 0)
			return !__builtin_mul_overflow(*value, u->factor, value);
	return false;
}

const char *config_print_number(char out[CONFIG_NUMBER_SIZE], enum config_type type, uint64_t value)
{
	const struct unit *best = NULL;
	for (const struct unit *u = units_of(type); u->name && (type == TYPE_BYTES || type == TYPE_DURATION); u++)
		if (*u->name && value && value % u->factor == 0 && (!best || u->factor > best->factor))
			best = u;
	if (best)
		snprintf(out, CONFIG_NUMBER_SIZE, "%" PRIu64 "%s", value / best->factor, best->name);
	else if (type == TYPE_OCTAL)
		snprintf(out, CONFIG_NUMBER_SIZE, "%04" PRIo64, value);
	else
		snprintf(out, CONFIG_NUMBER_SIZE, "%" PRIu64, value);
	return out;
}

static enum err set_number(uint64_t *to, const struct config_row *row, const char *value, struct error *e)
{
	static const char *const forms[] = {
	        [TYPE_COUNT] = "number",
	        [TYPE_BYTES] = "size: a number, then nothing, K, M, G or T",
	        [TYPE_DURATION] = "time: a number, then ms, s, m, h or d",
	        [TYPE_OCTAL] = "mode in octal digits",
	};
	char min[CONFIG_NUMBER_SIZE], max[CONFIG_NUMBER_SIZE];
	uint64_t number;
	if (!parse_number(row->type, value, &number))
		return error_set(e, ERR_CONFIG, "%s: \"%s\" is not a %s", row->key, value, forms[row->type]);
	if (number < row->min || number > row->max)
		return error_set(e, ERR_CONFIG, "%s: %s is not in %s to %s", row->key, value,
		        config_print_number(min, row->type, row->min), config_print_number(max, row->type, row->max));
	*to = number;
	return ERR_OK;
}

enum err config_set_row(struct config *c, const struct config_row *row, const char *value, struct error *e)
{
	void *to = config_field(c, row);
	uint64_t number = 0;
	enum err err = ERR_OK;
	switch (row->type) {
	case TYPE_STRING:
		return config_set_string(to, row, value, e);
	case TYPE_LIST:
		return set_list(to, row, value, e);
	case TYPE_BOOL:
		return set_bool(to, row, value, e);
	case TYPE_CHOICE:
		return set_choice(to, row, value, e);
	default:
		/* Copied, since times are int64_t; all ranges end below the largest int64_t. */
		err = set_number(&number, row, value, e);
		if (!err)
			memcpy(to, &number, sizeof number);
		return err;
	}
}
