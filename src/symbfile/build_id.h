/* SPDX-License-Identifier: Apache-2.0 */
/* Build ids, and which of them the id in a request may mean: GNU's; the UUID of a Mach-O file; of a Windows program the
 * GUID of its PDB file as it is in the file, and its age in four bytes, big-endian. */
#ifndef SYMBFILE_BUILD_ID_H
#define SYMBFILE_BUILD_ID_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hex.h"
#include "base/str.h"

enum { WINDOWS_ID_BYTES = GUID_BYTES + 4, BUILD_ID_MAX = 64, BUILD_ID_HEX = 2 * BUILD_ID_MAX }; /* bytes; digits */

struct build_id {
	uint8_t bytes[BUILD_ID_MAX];
	size_t len; /* 0: none */
};

/* An even number of hex digits, at most BUILD_ID_HEX; false for anything else. */
bool build_id_parse(struct build_id *id, struct str hex);
/* Lower-case hex digits, NUL-terminated. */
void build_id_hex(char out[BUILD_ID_HEX + 1], const uint8_t *id, size_t len);

/* The build ids that a module's id may mean. It is either a whole build id, or a debug id, that is the first 16 bytes
 * as a GUID of age 0 (a shorter build id is filled up with zeros). The GUID swaps bytes if the executable is
 * little-endian and does not if it is big-endian, or of macOS; the id does not tell. 32 digits may be any of these.
 * With another age than 0 it is a Windows program's whole id. */
struct build_id_question {
	struct build_id whole;     /* len 0: it cannot be a whole build id */
	bool has_first, windows;   /* windows: the whole is a GUID and an age */
	uint8_t first[GUID_BYTES]; /* if the executable is little-endian */
};
/* Accepts 32 hex digits, or 33 to 39, which are a debug id with an age, without leading zeros; or another even number
 * from 2 to 128. False if the id cannot mean a build id. */
bool build_id_question_parse(struct build_id_question *q, struct str id);
/* All questions that a build id answers. */
enum { BUILD_ID_QUESTIONS = 5 };
void build_id_questions(struct build_id_question out[BUILD_ID_QUESTIONS], const struct build_id *id);
bool build_id_answers(const struct build_id *id, const struct build_id_question *q);

/* 32 hex digits that are the same for a question and all build ids that answer it. */
enum { BUILD_ID_KEY = 2 * GUID_BYTES };
void build_id_key(char out[BUILD_ID_KEY + 1], const struct build_id *id);
void build_id_question_key(char out[BUILD_ID_KEY + 1], const struct build_id_question *q);
/* A text that identifies the question. */
enum { BUILD_ID_QUESTION_TEXT = BUILD_ID_HEX + 1 + BUILD_ID_KEY };
/* Reads it again; false: it is none. */
bool build_id_question_read(struct build_id_question *q, struct str text);
void build_id_question_text(char out[BUILD_ID_QUESTION_TEXT + 1], const struct build_id_question *q);

#endif
