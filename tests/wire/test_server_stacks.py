# SPDX-License-Identifier: Apache-2.0
"""Stacks in the forms of servers, of simulations and of small machines, whose programs do not run here: a program prints its own in each of
them. Names, files and lines are those of marks in its source."""

import os
import subprocess

import pytest

from test_filter import BOUND, compile_c, expect_places, filtered
from test_symbtool import SYMBTOOL

pytestmark = pytest.mark.skipif(not os.path.exists(SYMBTOOL), reason="symbtool was not built")

SOURCE = r"""
#define _GNU_SOURCE
#include <dlfcn.h>
#include <execinfo.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

static unsigned long first, last, base;
static char self[4096];

static void find_code(void)
{
	char line[5000], mode[8];
	unsigned long from, to;
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps)) {
		int at = 0;
		if (sscanf(line, "%lx-%lx %7s %*s %*s %*s %n", &from, &to, mode, &at) < 3 || !strstr(line, "/shown"))
			continue;
		base = base ? base : from;
		if (strcmp(mode, "r-xp"))
			continue;
		first = from;
		last = to;
		strcpy(self, line + at);
		self[strcspn(self, "\n")] = 0;
	}
	fclose(maps);
}

static void show_maps(void)
{
	char line[5000];
	FILE *maps = fopen("/proc/self/maps", "r");
	while (fgets(line, sizeof line, maps))
		fputs(line, stdout);
	fclose(maps);
}

static void show_frame(const char *form, int i, unsigned long at)
{
	if (!strcmp(form, "envoy"))
		printf("[2026-11-26 18:56:33.123][12][critical][backtrace] [./source/server/backtrace.h:123] #%d: [%#lx]\n", i, at);
	else if (!strcmp(form, "seastar"))
		printf("  %#lx\n", at - 1 - base);
	else if (!strcmp(form, "seastar-line"))
		printf(" %#lx", at - 1 - base);
	else if (!strcmp(form, "esp-idf"))
		printf(" %#lx:0x3ffb4f60", at - 1);
	else if (!strcmp(form, "dpdk"))
		printf("%d: %s (%lx+%#lx) [%lx]\n", i, self, base, at - base, at);
	else if (!strcmp(form, "dpdk-old"))
		printf("%d: [%s(+%#lx) [%#lx]]\n", 9 - i, self, at - base, at);
	else if (!strcmp(form, "folly"))
		printf("    @ %016lx (unknown)\n", at - 1);
	else if (!strcmp(form, "fortran"))
		printf("shown              %016lX  Unknown               Unknown  Unknown\n", at);
	else if (!strcmp(form, "compute-sanitizer"))
		printf("=========     Host Frame: [%#lx]\n=========                in %s\n", at - base, self);
	else if (!strcmp(form, "arm64"))
		printf("[ 9.1] %s : %016lx\n", i ? "lr" : "pc", i ? at : at - 1);
	else if (!strcmp(form, "mips"))
		printf("[ 9.1] %s = %08lx in shown[%lx+%lx]\n", i ? "ra " : "epc", i ? at : at - 1, first, last - first);
	else if (!strcmp(form, "powerpc") && !i)
		printf("[ 9.1] shown[7]: segfault (11) at 0 nip %lx lr %lx code 1 in shown[%lx+%lx]\n", at - 1, at, first, last - first);
}

static void show_head(const char *form)
{
	if (!strcmp(form, "envoy"))
		printf("[2026-11-26 18:56:33.123][12][critical][backtrace] [./source/server/backtrace.h:114] Address mapping: %lx-%lx %s\n", first, last, self);
	else if (!strcmp(form, "seastar"))
		printf("Segmentation fault on shard 0.\nBacktrace:\n");
	else if (!strcmp(form, "seastar-line"))
		printf("Reactor stalled for 32 ms on shard 0. Backtrace:");
	else if (!strcmp(form, "esp-idf"))
		printf("Backtrace:");
	else if (!strcmp(form, "folly"))
		printf("*** Signal 11 (SIGSEGV) (0x0) received by PID 1 (pthread TID 0x7f) (code: 1), stack trace: ***\n");
	else if (!strcmp(form, "fortran"))
		printf("Image              PC                Routine            Line        Source             \n");
	else if (!strcmp(form, "arm64"))
		printf("[ 9.1] shown[1]: unhandled exception: DABT (lower EL), ESR 0x92000046, level 2 translation fault in shown[%lx+%lx]\n", first, last - first);
}

__attribute__((noinline)) int show(const char *form)
{
	void *at[2];
	backtrace(at, 2); /* show */
	show_head(form);
	for (int i = 0; i < 2; i++)
		show_frame(form, i, (unsigned long)at[i]);
	puts("");
	return at[0] != NULL;
}

int main(int argc, char **argv)
{
	find_code();
	int shown = show(argv[1]); /* main shows */
	if (!strcmp(argv[1], "folly"))
		show_maps();
	return !shown;
}
"""
BOTH = [("show", "show"), ("main", "main shows")]
# how it is linked, what a user tells, and what is named
FORMS = {
    "envoy": ([], ["--module", "shown=PROGRAM"], BOTH),
    "seastar": ([], ["-e", "PROGRAM"], BOTH),
    "seastar-line": ([], ["--module", "scylla=PROGRAM"], BOTH),
    "esp-idf": (["-no-pie", "-Wl,-Ttext-segment=0x40000000"], ["-e", "PROGRAM"], BOTH),
    "dpdk": ([], [], BOTH),
    "dpdk-old": ([], [], BOTH),
    "folly": ([], [], BOTH),
    "fortran": (["-no-pie"], ["--module", "shown=PROGRAM"], BOTH),
    "compute-sanitizer": ([], [], BOTH),
    "arm64": ([], ["--module", "shown=PROGRAM"], BOTH),
    "mips": (["-no-pie"], ["--module", "shown=PROGRAM"], BOTH),
    "powerpc": ([], ["--module", "shown=PROGRAM"], BOTH[:1]),
}


@pytest.mark.parametrize("form", FORMS)
def test_a_stack_in_the_form_of(form, tmp_path):
    options, arguments, wanted = FORMS[form]
    program = compile_c(str(tmp_path), "shown", SOURCE, *(options or ["-pie"]))
    text = subprocess.run([program, form], capture_output=True, text=True, timeout=BOUND, check=False).stdout
    named = filtered(text, "--one-line", *(word.replace("PROGRAM", program) for word in arguments))
    expect_places(named, SOURCE, *wanted)
