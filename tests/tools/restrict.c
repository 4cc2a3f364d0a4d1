/* SPDX-License-Identifier: Apache-2.0 */
/*
 * restrict LIST PROGRAM [ARGUMENT...]: runs a program as a systemd unit with SystemCallFilter= (LIST: a file of names
 * of system calls, one a line, all others fail with EPERM), RestrictAddressFamilies=AF_UNIX AF_INET AF_INET6,
 * MemoryDenyWriteExecute=yes and NoNewPrivileges=yes would run it.
 */
#include <config.h>

#include <errno.h>
#include <seccomp.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

enum { FAMILIES = 46 };

static void must(int failed, const char *what)
{
	if (!failed)
		return;
	fprintf(stderr, "restrict: %s: %s\n", what, strerror(-failed));
	exit(EXIT_FAILURE);
}

static scmp_filter_ctx filter_new(uint32_t otherwise)
{
	scmp_filter_ctx filter = seccomp_init(otherwise);
	must(filter ? 0 : -ENOMEM, "seccomp_init");
	return filter;
}

static void load(scmp_filter_ctx filter)
{
	must(seccomp_load(filter), "seccomp_load");
	seccomp_release(filter);
}

static void restrict_families(scmp_filter_ctx filter)
{
	for (int family = 0; family < FAMILIES; family++)
		if (family != AF_UNIX && family != AF_INET && family != AF_INET6)
			must(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EAFNOSUPPORT), SCMP_SYS(socket), 1,
			             SCMP_A0(SCMP_CMP_EQ, (scmp_datum_t)family, 0)),
			        "socket");
}

static void deny_write_execute(scmp_filter_ctx filter)
{
	scmp_datum_t both = PROT_WRITE | PROT_EXEC;
	must(seccomp_rule_add(
	             filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mmap), 1, SCMP_A2(SCMP_CMP_MASKED_EQ, both, both)),
	        "mmap");
	must(seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), SCMP_SYS(mprotect), 1,
	             SCMP_A2(SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC)),
	        "mprotect");
}

/* Names that this architecture does not have are passed over. */
static void allow(scmp_filter_ctx filter, const char *path)
{
	char line[128];
	unsigned allowed = 0;
	FILE *in = fopen(path, "re");
	must(in ? 0 : -errno, path);
	while (fgets(line, sizeof line, in)) {
		line[strcspn(line, "\n")] = 0;
		int number = seccomp_syscall_resolve_name(line);
		if (number < 0)
			continue;
		must(seccomp_rule_add(filter, SCMP_ACT_ALLOW, number, 0), line);
		allowed++;
	}
	fclose(in);
	must(allowed ? 0 : -EINVAL, path);
}

int main(int argc, char **argv)
{
	if (argc < 3)
		must(-EINVAL, "LIST PROGRAM [ARGUMENT...]");
	scmp_filter_ctx refused = filter_new(SCMP_ACT_ALLOW), allowed = filter_new(SCMP_ACT_ERRNO(EPERM));
	restrict_families(refused);
	deny_write_execute(refused);
	allow(allowed, argv[1]);
	load(refused);
	load(allowed);
	execv(argv[2], argv + 2);
	must(-errno, argv[2]);
}
