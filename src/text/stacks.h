/* SPDX-License-Identifier: Apache-2.0 */
/* Which stack a frame belongs to, its number there, and what stands above the stack. */
#ifndef TEXT_STACKS_H
#define TEXT_STACKS_H

#include "text/reader.h"
#include "text/scan.h"

struct text_stacks {
	bool wanted, titled; /* by who made the reader; else nothing is done, or titles stay empty */
	/* the current stack */
	struct text_stack stack;
	uint32_t count;   /* of stacks so far */
	bool closed;      /* the next frame begins another one */
	uint64_t end;     /* line of the latest frame */
	int64_t last;     /* its number, as the line has it; below 0: it has none */
	uint32_t next;    /* the number of the next frame whose line has none */
	int8_t step;      /* numbers rise (1) or fall (-1), as backward-cpp's; 0: there is one so far */
	bool list;        /* it is one of perf report's list */
	bool source;      /* it tells its line, so that the one below may be that of the source, as Zig writes it */
	bool interrupted; /* behind it stands a line that stands between no frames */
	/* the line that is read */
	struct rest line; /* without what is around it */
	bool in_json;     /* frames are in a value of JSON, where no line is a title */
	/* lines behind the latest frame */
	struct text_span above, before; /* the last one that is not empty, and the one before that */
	uint64_t above_line, before_line;
	bool leads, before_leads; /* they say what the title below is about */
	/* a frame with a name that begins a stack, which is none if no other follows */
	struct text_frame held;
	bool holds;
	uint64_t named; /* frames with names that were told */
};

/* Sets f->stack and f->number of a frame in the line that is read. Whether it begins a stack. */
bool text_stacks_place(struct text_reader *r, struct text_frame *f);
/* A line in which there is no frame. */
void text_stacks_pass(struct text_reader *r, struct rest line);
/* The next frame begins a stack, and what stands above here is not its title. */
void text_stacks_close(struct text_reader *r);

/* Whether debuggers and perf write such a line between two frames of a stack: variables, source lines, build ids. */
bool text_is_between_frames(struct rest line);
/* Where a part of the line is in the whole text. */
uint64_t text_position(const struct text_reader *r, const char *at);
/* A part of the line that is read. */
struct text_span text_span_of(const struct text_reader *r, struct str part);

#endif
