/* SPDX-License-Identifier: Apache-2.0 */
/* What a text in JSON has said so far. */
#ifndef TEXT_FORMAT_JSON_H
#define TEXT_FORMAT_JSON_H

#include "text/reader.h"

enum { TEXT_JSON_DEPTH = 8, TEXT_JSON_VALUE = 256 };

/* Members of objects; several keys may name the same. */
enum text_json_string {
	JSON_MODULE,
	JSON_DEBUG_FILE,
	JSON_ID,
	JSON_PATH,
	JSON_NAME, /* of the function; a longer one is cut */
	JSON_STRINGS,
};

enum text_json_number {
	JSON_MODULE_OFFSET,
	JSON_ADDRESS,
	JSON_PC,
	JSON_BASE,
	JSON_SIZE,
	JSON_IMAGE_OFFSET,
	JSON_IMAGE_INDEX,
	JSON_BUILD_OFFSET,
	JSON_MONGO_BASE,
	JSON_MONGO_OFFSET,
	JSON_ELF_TYPE,
	JSON_NUMBERS,
};

struct text_object {
	char strings[JSON_STRINGS][TEXT_JSON_VALUE];
	size_t lengths[JSON_STRINGS]; /* 0: the object has none so far */
	uint64_t numbers[JSON_NUMBERS];
	unsigned has;     /* a bit for each number */
	bool named;       /* it has a function's name */
	bool node_symbol; /* the path is from Node.js's "symbol" */
	struct text_edit edits[TEXT_EDITS_MAX];
	unsigned edit_count;
	bool unnamed;             /* "function": null */
	struct text_edit unknown; /* "function": "<unknown>"; cut is 0: there is none */
};

struct text_json {
	struct text_object objects[TEXT_JSON_DEPTH]; /* the open one of each depth */
	unsigned depth;
	/* of the value that is open */
	uint32_t process, report; /* report: the process of the ids that objects have told or needed last; 0: none */
	unsigned frames_depth, images_depth; /* of the objects in a list of frames or images; 0: none is open */
	uint64_t frame_index, image_index;   /* of the next */
	bool signal;                         /* the frame before was a signal's trampoline */
	struct text_frame pending;           /* Sentry's latest, which has a return address unless it is the last */
	bool is_pending;
};

#endif
