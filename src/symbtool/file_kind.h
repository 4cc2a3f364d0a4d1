/* SPDX-License-Identifier: Apache-2.0 */
/* What a file is that a verb cannot use, for its message. */
#ifndef SYMBTOOL_FILE_KIND_H
#define SYMBTOOL_FILE_KIND_H

#include "base/error.h"

/* What a verb takes. Whoever takes Breakpad's symbol files or symbfiles also takes them packed by gzip or zstd. */
enum {
	TAKES_ELF = 1, /* and what is read by a view of it as ELF */
	TAKES_SYMBFILE = 2,
	TAKES_SYM = 4,
	TAKES_TEXT = 8,   /* with stacks */
	TAKES_LINES = 16, /* with TAKES_SYM: says itself what is wrong with text and empty files */
};

/* Kinds of files below directories that are left out. */
enum other_kind {
	OTHER_DEBUG,   /* ELF debug data without their program */
	OTHER_OBJECT,  /* of ELF, Mach-O or COFF, or an archive of such */
	OTHER_REFUSED, /* as file_format_refused says, or of a format that is damaged */
	OTHER_PACKED,  /* cabinets, ZIPs and tar files, or what is packed as gzip, xz, bzip2 or zstd */
	OTHER_TEXT,
	OTHER_EMPTY,
	OTHER_LINK, /* and whatever is no regular file, or cannot be read */
	OTHER_UNKNOWN,
	OTHER_KINDS,
};

/* What kind a file is whose symbols cannot be read. */
enum other_kind file_kind_other(const char *path);

/* ERR_CORRUPT: by its first bytes the file at path is something else; the text says what, and what to do with it.
 * ERR_OK for what cannot be read, or looks like nothing that is known. */
enum err file_kind_check(const char *path, unsigned takes, struct error *e);
/* For a verb that has failed: if err is ERR_CORRUPT and file_kind_check knows why, replaces e. Returns err. */
enum err file_kind_explain(const char *path, unsigned takes, enum err err, struct error *e);

#endif
