/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "base/sandbox.h"

#ifdef HAVE_SECCOMP

#include <errno.h>
#include <seccomp.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>

/* This lists what is refused, not what is allowed: the harmless calls that libc, the resolver and TLS make change with
 * their versions, and a wrong guess would take the service down on the day of an upgrade. The systemd unit has a list
 * of what is allowed; systemd's own groups of calls keep it in step with libc. Refused calls fail with EPERM. */
static const char *const refused[] = {
        /* other programs and processes */
        "execve",
        "execveat",
        "fork",
        "vfork",
        "ptrace",
        "process_vm_readv",
        "process_vm_writev",
        "pidfd_getfd",
        "kcmp",
        /* another user */
        "setuid",
        "setgid",
        "setreuid",
        "setregid",
        "setresuid",
        "setresgid",
        "setfsuid",
        "setfsgid",
        "setgroups",
        "capset",
        /* other namespaces and file systems */
        "chroot",
        "pivot_root",
        "mount",
        "umount2",
        "move_mount",
        "open_tree",
        "fsopen",
        "fsconfig",
        "fsmount",
        "fspick",
        "mount_setattr",
        "setns",
        "unshare",
        "open_by_handle_at",
        "mknod",
        "mknodat",
        "quotactl",
        "swapon",
        "swapoff",
        /* the machine */
        "init_module",
        "finit_module",
        "delete_module",
        "kexec_load",
        "kexec_file_load",
        "reboot",
        "settimeofday",
        "clock_settime",
        "clock_adjtime",
        "adjtimex",
        "sethostname",
        "setdomainname",
        "iopl",
        "ioperm",
        "acct",
        "syslog",
        /* parts of the kernel where most exploitable bugs were found */
        "bpf",
        "perf_event_open",
        "userfaultfd",
        "io_uring_setup",
        "io_uring_enter",
        "io_uring_register",
        "add_key",
        "request_key",
        "keyctl",
        "modify_ldt",
        "personality",
        "memfd_secret",
};

/* 0, or a negative errno. */
static int refuse(scmp_filter_ctx filter, const char *name)
{
	int number = seccomp_syscall_resolve_name(name);
	/* Below 0: this architecture does not have it, or the library is too old to know it. */
	return number < 0 ? 0 : seccomp_rule_add(filter, SCMP_ACT_ERRNO(EPERM), number, 0);
}

enum { BOTH = PROT_WRITE | PROT_EXEC };

/* Refused for one argument only. */
static const struct {
	int call, error;
	struct scmp_arg_cmp argument;
} conditional[] = {
        /* Memory that is both writable and executable. Loading libraries is still allowed: the resolver needs it. */
        {SCMP_SYS(mmap), EPERM, {2, SCMP_CMP_MASKED_EQ, BOTH, BOTH}},
        {SCMP_SYS(mprotect), EPERM, {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC}},
        {SCMP_SYS(pkey_mprotect), EPERM, {2, SCMP_CMP_MASKED_EQ, PROT_EXEC, PROT_EXEC}},
        /* Raw packets, virtual machines' sockets, the kernel's ciphers: all address families above netlink, which the
         * resolver uses. */
        {SCMP_SYS(socket), EAFNOSUPPORT, {0, SCMP_CMP_GT, AF_NETLINK, 0}},
};

enum err sandbox_enter(struct error *e)
{
	scmp_filter_ctx filter = seccomp_init(SCMP_ACT_ALLOW);
	if (!filter)
		return error_set(e, ERR_NO_MEMORY, "seccomp: out of memory");
	int failed = 0;
	for (unsigned i = 0; !failed && i < sizeof refused / sizeof refused[0]; i++)
		failed = refuse(filter, refused[i]);
	for (unsigned i = 0; !failed && i < sizeof conditional / sizeof conditional[0]; i++)
		failed = seccomp_rule_add_array(
		        filter, SCMP_ACT_ERRNO(conditional[i].error), conditional[i].call, 1, &conditional[i].argument);
	if (!failed)
		failed = seccomp_load(filter);
	seccomp_release(filter);
	return failed ? error_set(e, ERR_UNAVAILABLE, "seccomp: %s", strerror(-failed)) : ERR_OK;
}

#else

enum err sandbox_enter(struct error *e)
{
	return error_set(e, ERR_UNAVAILABLE, "seccomp: built without it");
}

#endif
