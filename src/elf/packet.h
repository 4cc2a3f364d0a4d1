/* SPDX-License-Identifier: Apache-2.0 */
/* Packets between the server and its helper symbolicated-extract: messages of a SOCK_SEQPACKET socket, with
 * descriptors. */
#ifndef ELF_PACKET_H
#define ELF_PACKET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "symbfile/build_id.h"

enum {
	PACKET_MAX = 64 << 10, /* bytes of data */
	PACKET_FDS = 2,
	PACKET_CODE_HEAD = 18, /* bytes before the text of an instruction */
	HELPER_SOCKET = 3,     /* the helper's end of the socket that jobs come from */
};

enum packet_kind {
	/* on the helper's socket */
	PACKET_READY = 'R', /* from the helper, first: its version */
	PACKET_JOB = 'J',   /* to the helper: struct job_limits as text; the job's socket and the file */
	/* on a job's socket, from the helper */
	PACKET_PROCESS = 'P',  /* the first: its pidfd_open(2) and its /proc/self/status. Its number would not do: once
	                          it has died, that may be another's */
	PACKET_DOING = 'S',    /* text: what it does now */
	PACKET_ID = 'I',       /* the file's build id, perhaps empty */
	PACKET_SEGMENTS = 'G', /* before records: the load segments, relative to the image, as load_segments_print
	                          writes them; not sent if the file does not tell them */
	PACKET_INFLATES = 'M', /* a file in memory that it will write to, to be charged */
	PACKET_WANT = 'W', /* another file: the length of its build id as a byte, the build id, perhaps a name; answered
	                      by PACKET_FILE. No build id: the package of the file's split units (.dwp) */
	PACKET_LACKS = 'L',   /* how many units have entries in files that are not there, eight bytes, little-endian */
	PACKET_RECORDS = 'D', /* the next bytes of a symbfile */
	PACKET_ARCH = 'A',    /* text: the machine whose instructions follow */
	PACKET_CODE = 'C',    /* instructions, each: where it ends and begins, four bytes each, where it leads, eight,
	                         the length of its text, two, all little-endian, and its text */
	PACKET_SECTION = 'B', /* the next bytes of the section */
	PACKET_END = 'E',     /* enum err as a byte, text; the last */
	PACKET_DIED = 'X',    /* a byte: the signal that killed the job, or 128 and its exit status; the last */
	/* on a job's socket, to the helper */
	PACKET_FILE = 'F', /* the file, or none if there is no descriptor */
};

enum { SECTION_NAME_MAX = 64 };

/* What one job may take, and what is wanted of it. */
struct job_limits {
	uint64_t memory;    /* bytes, besides the file itself */
	uint64_t file_size; /* bytes that a file may inflate to */
	unsigned seconds;
	unsigned threads;
	bool sandbox;  /* without a filter of system calls it must not run */
	bool segments; /* nothing but the build id and the load segments is wanted, of the beginning of a file */
	/* If code is set, not records are wanted, but the instructions at this offset of the image. */
	bool code, to_function_end;
	uint64_t code_start, code_size;
	/* Letters, digits, '.', '_', '+' and '-'. If it is not empty, not records are wanted, but the bytes of the
	 * section of this name, as the file has them. */
	char section[SECTION_NAME_MAX];
	struct build_id_question question; /* which slice of a universal file */
};

struct packet {
	enum packet_kind kind;
	size_t len;
	unsigned fd_count;
	int fds[PACKET_FDS];          /* the receiver's */
	uint8_t data[PACKET_MAX + 1]; /* a NUL follows */
};

/* Waits until there is room. False: errno says why. Descriptors stay the caller's. */
bool packet_send(int socket, enum packet_kind kind, const void *data, size_t len, const int *fds, unsigned fd_count);
/* Waits for the next one. False: the other side is gone, or sent what no packet is. */
bool packet_receive(int socket, struct packet *p);
void packet_close_fds(struct packet *p);

enum { JOB_LIMITS_TEXT = 160 + SECTION_NAME_MAX + BUILD_ID_QUESTION_TEXT };
void job_limits_print(char out[JOB_LIMITS_TEXT], const struct job_limits *l);
bool job_limits_parse(struct job_limits *l, const char *text);

#endif
