/* SPDX-License-Identifier: Apache-2.0 */
/* Gives files to a fuzz target, without libFuzzer: PROGRAM FILE|FOLDER... Without arguments: the kept inputs of the
 * target, by the name of the program (fuzz_x: tests/fuzz/corpus/x). */
#include <config.h>

#include <dirent.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { FILE_MAX = 16 << 20, PATH_SIZE = 4096 };

static unsigned files;

static void replay_file(const char *path)
{
	FILE *in = fopen(path, "rb");
	fuzz_check(in, path);
	uint8_t *data = malloc(FILE_MAX);
	fuzz_check(data, "no memory");
	size_t n = fread(data, 1, FILE_MAX, in);
	fuzz_check(!ferror(in) && feof(in), path);
	fclose(in);
	uint8_t *exact = fuzz_copy(data, n);
	free(data);
	fprintf(stderr, "%s\n", path); /* the last one is it, when the target ends the process */
	LLVMFuzzerTestOneInput(exact, n);
	free(exact);
	files++;
}

static void replay(const char *path)
{
	char inner[PATH_SIZE];
	DIR *folder = opendir(path);
	if (!folder) {
		replay_file(path);
		return;
	}
	for (struct dirent *entry; (entry = readdir(folder));) {
		int n = snprintf(inner, sizeof inner, "%s/%s", path, entry->d_name);
		fuzz_check(n > 0 && n < PATH_SIZE, "a path is too long");
		if (entry->d_name[0] != '.' && entry->d_type == DT_REG)
			replay_file(inner);
	}
	closedir(folder);
}

int main(int argc, char **argv)
{
	char path[PATH_SIZE];
	const char *srcdir = getenv("srcdir"), *name = strstr(argv[0], "fuzz_");
	for (int i = 1; i < argc; i++)
		replay(argv[i]);
	if (argc == 1) {
		fuzz_check(name, "the program's name is no target's");
		snprintf(path, sizeof path, "%s/tests/fuzz/corpus/%s", srcdir ? srcdir : ".", name + strlen("fuzz_"));
		replay(path);
	}
	printf("%u inputs\n", files);
	return files ? EXIT_SUCCESS : EXIT_FAILURE;
}
