/* SPDX-License-Identifier: Apache-2.0 */
/* The program symbtool: finds the verb in a table and runs it. */
#include <config.h>

#include <malloc.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "symbtool/cli.h"

static const struct verb *const verbs[] = {
        &verb_push, &verb_extract, &verb_symbolicate, &verb_dump, &verb_check, &verb_file_id, &verb_list, &verb_remove};
enum {
	VERBS = sizeof verbs / sizeof *verbs,
	LARGE = 1 << 20, /* bytes; larger blocks go back to the system when they are freed, whichever thread allocated
	                    them */
};

static int usage(FILE *out)
{
	fputs("Usage: symbtool VERB [OPTION]... ARGUMENT...\n\n"
	      "Extracts symbols from executables, uploads them, and looks up addresses.\n\n",
	        out);
	for (size_t i = 0; i < VERBS; i++)
		fprintf(out, "  %-14s %s\n", verbs[i]->name, verbs[i]->summary);
	fputs("\nsymbtool help VERB explains a verb; symbtool --version prints the version.\n"
	      "Exit codes: 0 success, 1 failure, 2 wrong usage.\n",
	        out);
	return out == stdout ? EXIT_DONE : EXIT_USAGE;
}

/* What other tools call it. */
static const char *other_name(const char *word)
{
	static const char *const names[][2] = {{"symbolize", "symbolicate"}, {"addr2line", "symbolicate"},
	        {"filter", "symbolicate --filter"}, {"push", "push-symbols"}, {"upload", "push-symbols"},
	        {"id", "file-id"}, {"ls", "list"}, {"rm", "remove"}, {"delete", "remove"}};
	for (size_t i = 0; i < sizeof names / sizeof *names; i++)
		if (strcmp(word, names[i][0]) == 0)
			return names[i][1];
	return NULL;
}

static int complain_verb(const char *word)
{
	const char *names[VERBS], *meant = other_name(word);
	for (size_t i = 0; i < VERBS; i++)
		names[i] = verbs[i]->name;
	meant = meant ? meant : did_you_mean(word, names, VERBS);
	if (access(word, F_OK) == 0 && !meant)
		complain(word,
		        "a file, not a verb: did you mean symbtool symbolicate, or file-id? symbtool --help lists all");
	else if (meant)
		complain(word, "unknown verb: did you mean %s?", meant);
	else
		complain(word, "unknown verb; symbtool --help lists all");
	return EXIT_USAGE;
}

static int help(const char *name)
{
	char option[] = "--help", *arguments[] = {option, NULL};
	for (size_t i = 0; i < VERBS; i++)
		if (strcmp(name, verbs[i]->name) == 0)
			return verbs[i]->run(verbs[i], 1, arguments);
	return complain_verb(name);
}

static int run_verb(int argc, char **argv)
{
	const char *word = argc > 1 ? argv[1] : "";
	if (strcmp(word, "help") == 0 && argc > 2)
		return help(argv[2]);
	if (strcmp(word, "--help") == 0 || strcmp(word, "-h") == 0 || strcmp(word, "help") == 0)
		return usage(stdout);
	if (strcmp(word, "--version") == 0 || strcmp(word, "-V") == 0)
		return printf("symbtool %s\n", FULL_VERSION) < 0;
	for (size_t i = 0; i < VERBS; i++)
		if (strcmp(word, verbs[i]->name) == 0)
			return verbs[i]->run(verbs[i], argc - 2, argv + 2);
	return *word ? help(word) : usage(stderr);
}

int main(int argc, char **argv)
{
	mallopt(M_MMAP_THRESHOLD, LARGE);
	int code = run_verb(argc, argv);
	int problem = flush_output();
	if (problem || ferror(stdout)) {
		complain("", "cannot write to standard output%s%s", problem ? ": " : "",
		        problem ? strerror(problem) : "");
		return EXIT_FAILED;
	}
	return code;
}
