/* SPDX-License-Identifier: Apache-2.0 */
/* bench_dwarf_walk FILE: how long libdw takes to step over all debug entries and line rows of a file, on one thread:
 * the yardstick of the extraction of symbols. Prints counts and seconds as JSON. */
#include <config.h>

#include <elfutils/libdw.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/clock.h"

enum { DEPTH_MAX = 512 };

struct counts {
	uint64_t entries, rows;
	uint64_t sum; /* so that nothing is optimised away */
};

static void walk(Dwarf_Die *die, struct counts *c, int depth)
{
	Dwarf_Die child;
	c->entries++;
	c->sum += (uint64_t)dwarf_tag(die);
	if (depth == DEPTH_MAX || dwarf_child(die, &child) != 0)
		return;
	do
		walk(&child, c, depth + 1);
	while (dwarf_siblingof(&child, &child) == 0);
}

static void walk_lines(Dwarf_Die *unit, struct counts *c)
{
	Dwarf_Lines *lines;
	size_t count;
	if (dwarf_getsrclines(unit, &lines, &count) != 0)
		return;
	for (size_t i = 0; i < count; i++) {
		Dwarf_Line *line = dwarf_onesrcline(lines, i);
		Dwarf_Addr address = 0;
		int number = 0;
		dwarf_lineaddr(line, &address);
		dwarf_lineno(line, &number);
		c->sum += address + (uint64_t)number;
	}
	c->rows += count;
}

static void walk_units(Dwarf *dwarf, struct counts *c)
{
	Dwarf_Off at = 0, next;
	size_t header;
	for (; dwarf_nextcu(dwarf, at, &next, &header, NULL, NULL, NULL) == 0; at = next) {
		Dwarf_Die unit;
		if (!dwarf_offdie(dwarf, at + header, &unit))
			continue;
		walk(&unit, c, 0);
		walk_lines(&unit, c);
	}
}

int main(int argc, char **argv)
{
	struct counts c = {0};
	struct rusage usage;
	int64_t started = clock_now();
	int fd = argc == 2 ? open(argv[1], O_RDONLY) : -1;
	Dwarf *dwarf = fd >= 0 ? dwarf_begin(fd, DWARF_C_READ) : NULL;
	if (!dwarf) {
		fprintf(stderr, "bench_dwarf_walk FILE: a file with DWARF\n");
		return 2;
	}
	walk_units(dwarf, &c);
	dwarf_end(dwarf);
	close(fd);
	getrusage(RUSAGE_SELF, &usage);
	printf("{\"seconds\":%.4f,\"max_rss_kib\":%ld,\"entries\":%" PRIu64 ",\"rows\":%" PRIu64 ",\"sum\":%" PRIu64
	       "}\n",
	        (double)(clock_now() - started) / 1e9, usage.ru_maxrss, c.entries, c.rows, c.sum);
	return 0;
}
