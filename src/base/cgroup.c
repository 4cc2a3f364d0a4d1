/* SPDX-License-Identifier: Apache-2.0 */
/* /proc/self/cgroup has a line "0::/path" for version 2, and "4:cpu,cpuacct:/path" for each hierarchy of version 1.
 * Inside a container the path may be the host's, of which the container sees only the last part, as its root. A file
 * that does not exist limits nothing. */
#include <config.h>

#include "base/cgroup.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/str.h"

enum { PATH_SIZE = 8192 };

/* The smaller of the limit in one group's file and the limit so far. */
typedef uint64_t limit_reader(const char *directory);

/* The first line of a file; false when there is none. */
static bool read_line(const char *directory, const char *name, char *line, int size)
{
	char path[PATH_SIZE];
	int n = snprintf(path, sizeof path, "%s/%s", directory, name);
	FILE *in = n < PATH_SIZE ? fopen(path, "re") : NULL;
	bool ok = in && fgets(line, size, in);
	if (in)
		fclose(in);
	return ok;
}

/* "max" means no limit, and so does version 1's number for it, as many pages as there can be. */
static uint64_t read_bytes(const char *directory, const char *name)
{
	char line[64];
	if (!read_line(directory, name, line, sizeof line) || line[0] < '0' || line[0] > '9')
		return UINT64_MAX;
	uint64_t bytes = strtoull(line, NULL, 10);
	return bytes >= (uint64_t)1 << 62 ? UINT64_MAX : bytes;
}

static uint64_t least(uint64_t a, uint64_t b)
{
	return a < b ? a : b;
}

/* Of the files of either version. */
static uint64_t memory_of(const char *directory)
{
	uint64_t limit = least(read_bytes(directory, "memory.max"), read_bytes(directory, "memory.high"));
	return least(limit, read_bytes(directory, "memory.limit_in_bytes"));
}

static uint64_t processors_of(const char *directory)
{
	char line[64], *end;
	uint64_t quota = read_bytes(directory, "cpu.cfs_quota_us"), period = read_bytes(directory, "cpu.cfs_period_us");
	if (read_line(directory, "cpu.max", line, sizeof line) && line[0] >= '0' && line[0] <= '9') {
		quota = strtoull(line, &end, 10);
		period = strtoull(end, NULL, 10);
	}
	return period && period < UINT64_MAX && quota < UINT64_MAX / 1000 ? quota * 1000 / period : UINT64_MAX;
}

/* The limits of the group at path below base, and of all groups above it. */
static uint64_t walk_up(const char *base, const char *path, limit_reader *read)
{
	char directory[PATH_SIZE];
	size_t base_len = strlen(base);
	int n = snprintf(directory, sizeof directory, "%s%s", base, path);
	uint64_t limit = UINT64_MAX;
	if (n >= PATH_SIZE)
		return read(base);
	while (strlen(directory) > base_len) {
		limit = least(limit, read(directory));
		*strrchr(directory, '/') = 0;
	}
	return least(limit, read(base));
}

static bool has_word(struct str list, struct str word)
{
	while (list.len)
		if (str_equal(str_cut(&list, ','), word))
			return true;
	return false;
}

/* One line of /proc/self/cgroup, "number:controllers:path". */
static uint64_t limit_of_line(const char *root, char *line, const char *controller, limit_reader *read)
{
	char base[PATH_SIZE];
	line[strcspn(line, "\n")] = 0;
	struct str path = str_from(line);
	str_cut(&path, ':');
	struct str controllers = str_cut(&path, ':');
	if (controllers.len && !has_word(controllers, str_from(controller)))
		return UINT64_MAX;
	snprintf(base, sizeof base, "%s/sys/fs/cgroup%s%s", root, controllers.len ? "/" : "",
	        controllers.len ? controller : "");
	return walk_up(base, path.data, read);
}

static uint64_t limit_of(const char *root, const char *controller, limit_reader *read)
{
	char line[PATH_SIZE / 2];
	uint64_t limit = UINT64_MAX;
	snprintf(line, sizeof line, "%s/proc/self/cgroup", root);
	FILE *in = fopen(line, "re");
	while (in && fgets(line, sizeof line, in))
		limit = least(limit, limit_of_line(root, line, controller, read));
	if (in)
		fclose(in);
	return limit;
}

uint64_t cgroup_memory(const char *root)
{
	return limit_of(root, "memory", memory_of);
}

/* Of /proc/meminfo's first line, "MemTotal:       24683252 kB". */
static uint64_t total_memory(const char *root)
{
	char line[128], kilobytes[64] = "";
	if (!read_line(root, "proc/meminfo", line, sizeof line) || sscanf(line, "MemTotal: %63[0-9]", kilobytes) != 1)
		return UINT64_MAX;
	uint64_t total = strtoull(kilobytes, NULL, 10);
	return total < UINT64_MAX / 1024 ? total * 1024 : UINT64_MAX;
}

uint64_t machine_memory(const char *root)
{
	uint64_t bytes = least(total_memory(root), cgroup_memory(root));
	return bytes == UINT64_MAX ? 0 : bytes;
}

uint64_t cgroup_processors(const char *root)
{
	return limit_of(root, "cpu", processors_of);
}

unsigned cgroup_cores(const char *root)
{
	uint64_t limit = cgroup_processors(root);
	return limit >= 1000000 ? 1000 : limit ? (unsigned)((limit + 999) / 1000) : 1;
}
