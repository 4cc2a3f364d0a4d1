/* SPDX-License-Identifier: Apache-2.0 */
/* What the verbs of symbtool share: exit codes, options and messages. */
#ifndef SYMBTOOL_CLI_H
#define SYMBTOOL_CLI_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/error.h"

enum exit_code { EXIT_DONE = 0, EXIT_FAILED = 1, EXIT_USAGE = 2 };

/* A row of the table in main.c, in a file of its own. run gets the arguments after the verb, and returns an exit code.
 */
struct verb {
	const char *name, *summary;
	const char *usage; /* what --help prints before the options */
	int (*run)(const struct verb *v, int argc, char **argv);
	void (*print_more)(void); /* prints more between both; NULL: there is none */
};
extern const struct verb verb_push, verb_extract, verb_dump, verb_file_id, verb_check, verb_symbolicate, verb_list,
        verb_remove;

enum option_kind {
	OPTION_FLAG,   /* value: bool */
	OPTION_TEXT,   /* value: const char *; points into argv */
	OPTION_NUMBER, /* value: uint64_t, at least min */
	OPTION_SIZE,   /* the same, optionally followed by K, M or G */
	OPTION_LIST,   /* value: struct option_list; may be given again and again */
};

struct option_row {
	const char *option; /* as in --help: "-o, --output DIR" */
	enum option_kind kind;
	void *value;
	uint64_t min, max; /* of a number; max 0: none */
	const char *meaning;
};

/* Rows that several verbs have, in terms of struct server and struct extract_options. */
#define SERVER_ROWS(server)                                                                                        \
	{"--url URL", OPTION_TEXT, &(server).url, 0, 0, "the server: https://symbols.example.org (SYMBTOOL_URL)"}, \
	        {"--ca-file FILE", OPTION_TEXT, &(server).ca_file, 0, 0,                                           \
	                "certificates to trust instead of the system's"},                                          \
	{                                                                                                          \
		"--insecure", OPTION_FLAG, &(server).insecure, 0, 0, "trust any certificate"                       \
	}
#define KEY_ROWS(server)                                                                                               \
	{"--api-key ID:KEY", OPTION_TEXT, &(server).key, 0, 0, "the key, or the line that symbolicated-keys printed"}, \
	{                                                                                                              \
		"--api-key-file FILE", OPTION_TEXT, &(server).key_file, 0, 0,                                          \
		        "a file with the key (SYMBTOOL_API_KEY_FILE); safer than --api-key, as is SYMBTOOL_API_KEY"    \
	}
#define DEBUG_FILE_ROWS(extract, debuginfod)                                                     \
	{"--debug-file FILE", OPTION_TEXT, &(extract).debug_file, 0, 0,                          \
	        "the file with the debug information, for a single executable"},                 \
	        {"--debug-dir DIR", OPTION_TEXT, &(extract).debug_dir, 0, 0,                     \
	                "where to look for debug files, by name and build id (/usr/lib/debug)"}, \
	{                                                                                        \
		"--debuginfod URLS", OPTION_TEXT, &(debuginfod), 0, 0,                           \
		        "servers to ask for missing debug files (DEBUGINFOD_URLS)"               \
	}

/* Values of an option; the caller frees items. Texts point into argv. */
struct option_list {
	const char **items;
	size_t count;
	uint32_t cap;
};

/* The arguments that are not options, in their order. Points into argv. */
struct operands {
	char **items;
	size_t count;
};

enum { OPTIONS_GO_ON = -1 };

/* Reads the options, wherever they stand; `--` ends them. Returns OPTIONS_GO_ON, or the exit code after --help or a
 * mistake. Changes the order of argv. */
int options_read(const struct verb *v, const struct option_row *rows, size_t row_count, int argc, char **argv,
        struct operands *operands);

/* The same for operands that are files: "-" becomes a path of standard input, which is copied to a temporary file
 * unless it is a file already. */
int options_read_files(const struct verb *v, const struct option_row *rows, size_t row_count, int argc, char **argv,
        struct operands *operands);

/* Writes what has been printed. The first error of all calls; 0: none. One thread at a time. */
int flush_output(void);
/* Of these words the one that was probably meant; NULL: none is similar. */
const char *did_you_mean(const char *word, const char *const *words, size_t count);
/* Whether standard output is a terminal that shows colours, and NO_COLOR is not set. */
bool is_coloured(void);

/* Prints "symbtool: PLACE: what" on standard error, as one line; without the place if it is empty or the text begins
 * with it. */
void complain(const char *place, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* The same for wrong usage, with a hint at --help. Returns EXIT_USAGE. */
int complain_usage(const struct verb *v, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* 0x and hex digits, or decimal digits; with hex, digits without 0x are hex too. Without, what looks like hex digits is
 * refused: with letters, or with zeros in front, as addr2line and perf write addresses. ERR_BAD_REQUEST. */
enum err read_address(const char *text, bool hex, uint64_t *address, struct error *e);

/* Runs a verb whose only option is --json, on one file after the other. `one` returns whether the file is fine, and
 * may fill *e with a complaint. */
int each_file(const struct verb *v, int argc, char **argv,
        bool (*one)(void *arg, const char *path, bool json, struct error *e), void *arg);

#endif
