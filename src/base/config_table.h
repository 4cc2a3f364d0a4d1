/* SPDX-License-Identifier: Apache-2.0 */
/* The table of settings, for the files that read, copy and print them; nothing else includes this. */
#ifndef BASE_CONFIG_TABLE_H
#define BASE_CONFIG_TABLE_H

#include <stddef.h>

#include "base/config.h"

enum config_type {
	TYPE_STRING,
	TYPE_LIST, /* of words; max = 1: of whole values */
	TYPE_BOOL,
	TYPE_COUNT,
	TYPE_BYTES,
	TYPE_DURATION, /* nanoseconds */
	TYPE_OCTAL,
	TYPE_CHOICE, /* an enum: the number of the word among row->words */
};

struct config_row {
	const char *key;
	enum config_type type;
	size_t at, size; /* of the field in struct config */
	const char *fallback;
	uint64_t min, max; /* of the types that are numbers, and of a list */
	const char *words; /* separated by blanks, or NULL */
	bool reload;       /* SIGHUP may change it */
	const char *group, *meaning;
};

/* At least the number of rows; the table itself ends with a row without key. */
enum { CONFIG_ROWS_MAX = 96 };
extern const struct config_row config_rows[];

/* Flags that are not settings; the table ends with one without a name. */
struct config_flag {
	const char *name, *meaning;
	enum config_action action;
};
extern const struct config_flag config_flags[];

/* Dashes and underscores count as the same. */
bool config_same_name(const char *a, const char *b);
/* NULL when there is none. */
const struct config_row *config_find_row(const char *key);
/* Returns ERR_CONFIG. */
enum err config_unknown_key(const char *key, struct error *e);

static inline void *config_field(struct config *c, const struct config_row *row)
{
	return (char *)c + row->at;
}

static inline const void *config_const_field(const struct config *c, const struct config_row *row)
{
	return (const char *)c + row->at;
}

/* config_value.c: the text of a value to the value, and back. */

/* Lists grow; an empty value empties them. Errors begin with the key. */
enum err config_set_row(struct config *c, const struct config_row *row, const char *value, struct error *e);
enum err config_set_string(char **to, const struct config_row *row, const char *value, struct error *e);
void config_list_clear(struct config_list *list);
/* The next word of text, which moves past it; false at the end. */
bool config_next_word(const char **text, const char **word, size_t *len);
/* Reads one or more digits of the base and moves *at past them; false also if the number needs more than 64 bits. */
bool config_parse_digits(const char **at, unsigned base, uint64_t *value);
enum { CONFIG_NUMBER_SIZE = 32 };
/* In the largest unit that loses no precision. */
const char *config_print_number(char out[CONFIG_NUMBER_SIZE], enum config_type type, uint64_t value);

#endif
