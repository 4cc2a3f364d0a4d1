/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/cli.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/array.h"
#include "symbfile/file_id.h"
#include "symbtool/visible.h"

enum { MESSAGE_MAX = 2048, OPTIONS_MAX = 40 };

__attribute__((format(printf, 2, 0))) static void print_complaint(const char *place, const char *format, va_list args)
{
	char text[MESSAGE_MAX];
	vsnprintf(text, sizeof text, format, args);
	flockfile(stderr);
	fputs(isatty(STDERR_FILENO) == 1 ? "\r\033[K" : "", stderr); /* a progress line may stand there */
	fputs("symbtool: ", stderr);
	if (strncmp(text, place, strlen(place)) != 0) {
		print_visible(stderr, place);
		fputs(": ", stderr);
	}
	print_visible(stderr, text);
	fputc('\n', stderr);
	funlockfile(stderr);
}

void complain(const char *place, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	print_complaint(place, format, args);
	va_end(args);
}

int complain_usage(const struct verb *v, const char *format, ...)
{
	va_list args;
	va_start(args, format);
	print_complaint(v->name, format, args);
	va_end(args);
	fprintf(stderr, "symbtool %s --help says more\n", v->name);
	return EXIT_USAGE;
}

int flush_output(void)
{
	static int first;
	if (fflush(stdout) != 0 && !first)
		first = errno;
	return first;
}

enum { WORD_MAX = 24, EDITS_MAX = 2 };

/* How many letters are to be changed, added, left out or swapped with the next. */
static unsigned distance(const char *a, const char *b)
{
	unsigned rows[3][WORD_MAX + 1];
	size_t m = strlen(a), n = strlen(b);
	if (m > WORD_MAX || n > WORD_MAX)
		return UINT_MAX;
	for (size_t i = 0; i <= m; i++) {
		unsigned *row = rows[i % 3], *above = rows[(i + 2) % 3], *two_above = rows[(i + 1) % 3];
		for (size_t j = 0; j <= n; j++) {
			unsigned least = i ? above[j] + 1 : (unsigned)j;
			least = j && row[j - 1] + 1 < least ? row[j - 1] + 1 : least;
			if (i && j && above[j - 1] + (a[i - 1] != b[j - 1]) < least)
				least = above[j - 1] + (a[i - 1] != b[j - 1]);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
			        two_above[j - 2] + 1 < least)
				least = two_above[j - 2] + 1;
			row[j] = least;
		}
	}
	return rows[m % 3][n];
}

const char *did_you_mean(const char *word, const char *const *words, size_t count)
{
	const char *best = NULL;
	unsigned least = EDITS_MAX + 1;
	size_t len = strlen(word);
	for (size_t i = 0; i < count; i++) {
		bool begins = len >= 3 && strncmp(word, words[i], len) == 0;
		unsigned d = begins ? 1 : distance(word, words[i]);
		if (d < least && d < strlen(words[i])) {
			least = d;
			best = words[i];
		}
	}
	return best;
}

bool is_coloured(void)
{
	const char *off = getenv("NO_COLOR"), *term = getenv("TERM");
	return isatty(STDOUT_FILENO) == 1 && !(off && *off) && term && strcmp(term, "dumb") != 0;
}

enum err read_address(const char *text, bool hex, uint64_t *address, struct error *e)
{
	bool prefixed = text[0] == '0' && (text[1] == 'x' || text[1] == 'X');
	const char *digits = prefixed ? text + 2 : text;
	size_t len = strlen(digits), decimal = strspn(digits, "0123456789");
	if (!len || strspn(digits, "0123456789abcdefABCDEF") != len)
		return error_set(e, ERR_BAD_REQUEST,
		        "%.100s: not an address (0x1f, 31), FUNCTION+ADDRESS or MODULE+ADDRESS", text);
	hex = hex || prefixed;
	if (!hex && (decimal != len || (len > 1 && *digits == '0')))
		return error_set(
		        e, ERR_BAD_REQUEST, "%.100s: if this is hex, write 0x%.100s or give --hex", text, text);
	errno = 0;
	*address = strtoull(digits, NULL, hex ? 16 : 10);
	return errno ? error_set(e, ERR_BAD_REQUEST, "%.100s: an address is at most 0xffffffffffffffff", text) : ERR_OK;
}

/* The power of two that a size's letter stands for; -1: no such letter. */
static int size_shift(const char *letter)
{
	static const char letters[] = "KMG";
	if (!*letter)
		return 0;
	const char *found = letter[1] ? NULL : strchr(letters, *letter);
	return found ? 10 * (int)(found - letters + 1) : -1;
}

static bool parse_number(const char *text, const struct option_row *row)
{
	char *end;
	uint64_t *value = row->value;
	if (*text < '0' || *text > '9')
		return false;
	errno = 0;
	uint64_t n = strtoull(text, &end, 10);
	int shift = row->kind == OPTION_SIZE ? size_shift(end) : *end ? -1 : 0;
	if (errno || shift < 0 || n > UINT64_MAX >> shift)
		return false;
	*value = n << shift;
	return *value >= row->min && (!row->max || *value <= row->max);
}

static bool add_to_list(struct option_list *list, const char *text)
{
	if (!array_reserve(&list->items, &list->cap, list->count + 1, sizeof *list->items))
		return false;
	list->items[list->count++] = text;
	return true;
}

static bool set_option(const struct option_row *row, char *text)
{
	if (row->kind == OPTION_FLAG)
		*(bool *)row->value = true;
	else if (row->kind == OPTION_TEXT)
		*(const char **)row->value = text;
	else if (row->kind == OPTION_LIST)
		return add_to_list(row->value, text);
	else
		return parse_number(text, row);
	return true;
}

/* The `--name` of a row, in `len` bytes. */
static const char *name_of(const struct option_row *row, int *len)
{
	const char *name = strstr(row->option, "--");
	*len = (int)strcspn(name, " ");
	return name;
}

/* The row of `--name`, `--name=…` or `-x`. */
static const struct option_row *find_row(const struct option_row *rows, size_t count, const char *word)
{
	int len;
	for (size_t i = 0; i < count; i++) {
		const char *option = rows[i].option, *name = name_of(&rows[i], &len);
		bool letter = name != option && word[1] == option[1] && !word[2];
		if (letter || (strncmp(word, name, (size_t)len) == 0 && (!word[len] || word[len] == '=')))
			return &rows[i];
	}
	return NULL;
}

/* One FileID of 64 begins with `-` in base64. An address may follow it. */
static bool is_file_id(const char *word)
{
	struct file_id id;
	return file_id_parse(&id, (struct str){word, strcspn(word, "+")});
}

static int complain_number(const struct verb *v, const struct option_row *row, const char *value)
{
	int len;
	const char *name = name_of(row, &len), *unit = row->kind == OPTION_SIZE ? ", also with K, M or G" : "";
	if (row->max)
		return complain_usage(v, "%.*s: %s is not from %" PRIu64 " to %" PRIu64 "%s", len, name, value,
		        row->min, row->max, unit);
	return complain_usage(
	        v, "%.*s: %s is not a number of at least %" PRIu64 "%s", len, name, value, row->min, unit);
}

static int print_usage(const struct verb *v, const struct option_row *rows, size_t row_count)
{
	size_t width = 0;
	for (size_t i = 0; i < row_count; i++)
		width = strlen(rows[i].option) > width ? strlen(rows[i].option) : width;
	printf("%s\n", v->usage);
	if (v->print_more)
		v->print_more();
	for (size_t i = 0; i < row_count; i++)
		printf("  %-*s  %s\n", (int)width, rows[i].option, rows[i].meaning);
	return EXIT_DONE;
}

static int complain_option(const struct verb *v, const struct option_row *rows, size_t count, const char *word)
{
	char names[OPTIONS_MAX][WORD_MAX + 1], given[WORD_MAX + 1];
	const char *words[OPTIONS_MAX];
	size_t n = 0;
	for (; n < count && n < OPTIONS_MAX; n++) {
		int len;
		const char *name = name_of(&rows[n], &len);
		snprintf(names[n], sizeof names[n], "%.*s", len, name);
		words[n] = names[n];
	}
	snprintf(given, sizeof given, "%.*s", (int)strcspn(word, "="), word);
	const char *meant = did_you_mean(given, words, n);
	return complain_usage(v, "unknown option %.*s%s%s%s", (int)strcspn(word, "="), word,
	        meant ? ": did you mean " : "", meant ? meant : "", meant ? "?" : "");
}

/* The option at argv[*at], whose value may be the next word, which *at then stands at. */
static int read_option(
        const struct verb *v, const struct option_row *rows, size_t row_count, int argc, char **argv, int *at)
{
	char *word = argv[*at], *value = strchr(word, '=');
	const struct option_row *row = find_row(rows, row_count, word);
	int len;
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0)
		return print_usage(v, rows, row_count);
	if (!row)
		return complain_option(v, rows, row_count, word);
	const char *name = name_of(row, &len);
	if (row->kind == OPTION_FLAG && value)
		return complain_usage(v, "%.*s takes no value", len, name);
	if (row->kind != OPTION_FLAG && !value && *at + 1 == argc)
		return complain_usage(v, "%.*s needs a value", len, name);
	if (row->kind != OPTION_FLAG)
		value = value ? value + 1 : argv[++*at];
	if (!set_option(row, value))
		return complain_number(v, row, value);
	return OPTIONS_GO_ON;
}

int options_read(const struct verb *v, const struct option_row *rows, size_t row_count, int argc, char **argv,
        struct operands *operands)
{
	*operands = (struct operands){argv, 0};
	bool ended = false;
	for (int i = 0; i < argc; i++) {
		bool option =
		        argv[i][0] == '-' && argv[i][1] && (find_row(rows, row_count, argv[i]) || !is_file_id(argv[i]));
		if (ended || !option) {
			argv[operands->count++] = argv[i];
		} else if (strcmp(argv[i], "--") == 0) {
			ended = true;
		} else {
			int code = read_option(v, rows, row_count, argc, argv, &i);
			if (code != OPTIONS_GO_ON)
				return code;
		}
	}
	return OPTIONS_GO_ON;
}

int each_file(const struct verb *v, int argc, char **argv,
        bool (*one)(void *arg, const char *path, bool json, struct error *e), void *arg)
{
	bool json = false;
	const struct option_row rows[] = {{"--json", OPTION_FLAG, &json, 0, 0, "print JSON, one object per line"}};
	struct operands operands;
	int code = options_read_files(v, rows, 1, argc, argv, &operands);
	if (code != OPTIONS_GO_ON)
		return code;
	if (!operands.count)
		return complain_usage(v, "no file");
	code = EXIT_DONE;
	for (size_t i = 0; i < operands.count; i++) {
		struct error e = {0};
		if (one(arg, operands.items[i], json, &e))
			continue;
		if (e.text[0])
			complain(operands.items[i], "%s", e.text);
		code = EXIT_FAILED;
	}
	return code;
}
