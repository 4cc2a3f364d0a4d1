/* SPDX-License-Identifier: Apache-2.0 */
/* Finds the frames of stacks in any text: of which module, at which offset, and where in the text a name goes.
 *
 * Formats are told apart by the line, so logs may mix them. What a log puts before a line is passed over, and strings
 * of JSON with lines in them, and lines of HTML, are read as text. docs/stack-text.md lists what each format looks
 * like, and which of them write return addresses.
 *
 * The reader does no input or output. Its memory is that of the modules that the text names, which the caller bounds.
 */
#ifndef TEXT_READER_H
#define TEXT_READER_H

#include <stdbool.h>
#include <stdint.h>

#include "base/str.h"
#include "text/guess.h"

enum {
	TEXT_LINE_MAX = 4 << 20, /* bytes of a line; longer ones are not read */
	TEXT_NAME_MAX = 1024,    /* bytes of a module's path, name or id; with longer ones it is not a frame */
	TEXT_EDITS_MAX = 4,
};

/* What to write in place of some bytes of the text. */
enum text_style {
	TEXT_AT,            /* NAME at FILE:LINE */
	TEXT_IN,            /* in the form of sanitizers: " in NAME FILE:LINE " */
	TEXT_BLANK,         /* NAME FILE:LINE, as TSan writes it */
	TEXT_PARENTHESES,   /* " (NAME at FILE:LINE)" */
	TEXT_FIELDS,        /* NAME|FILE|LINE */
	TEXT_JSON_FUNCTION, /* values of an object: a string, or null */
	TEXT_JSON_FILE,
	TEXT_JSON_LINE,
	TEXT_JSON_INLINES,
	TEXT_JSON_SENTRY,         /* further members of an object, each after a comma */
	TEXT_JSON_SENTRY_MEMBERS, /* the same without the first comma */
	TEXT_JSON_IPS,
	/* with one of those before TEXT_FIELDS: */
	TEXT_INNERMOST = 16, /* only the first call; the others stand below, by another edit */
	TEXT_BELOW = 32,     /* those others, each on a line of its own: at the end of the frame's line */
	TEXT_STRING = 64,    /* in a string of JSON */
	TEXT_HTML = 128,     /* in HTML */
};

struct text_edit {
	uint64_t at; /* in the whole text given to the reader */
	uint32_t cut;
	uint8_t style;  /* enum text_style */
	uint8_t indent; /* of TEXT_BELOW: columns before the frame */
	bool crlf;      /* of TEXT_BELOW: lines end with a carriage return, too */
};

/* What an address is relative to. These differ if an executable has a fixed address, or its segments are shifted. */
enum text_base {
	TEXT_ELF,      /* the addresses of the file itself */
	TEXT_IMAGE,    /* where the image begins in memory */
	TEXT_FILE,     /* the beginning of the file */
	TEXT_CODE,     /* where .text begins; only who has the file knows where that is */
	TEXT_EXEC,     /* where the mapping begins that has the code; likewise */
	TEXT_FIXED,    /* nothing: in memory, of a program that is loaded where it was linked; likewise */
	TEXT_FUNCTION, /* the function that own.function names; likewise */
};

enum { TEXT_NO_MODULE = -1 };
enum { TEXT_NO_STACK = UINT32_MAX };

/* A part of the whole text given to the reader. */
struct text_span {
	uint64_t at;
	uint32_t len;
	uint8_t escaped; /* TEXT_STRING, TEXT_HTML or 0; see text_span_read */
};

/* What the text itself says of a frame; what it does not say is empty. */
struct text_own {
	struct text_span function, file, module;
	uint32_t line; /* of the file; 0: not told */
};

struct text_frame {
	uint64_t line;    /* its number, from 1; of an object of JSON, where it ends */
	int32_t module;   /* text_reader_module; TEXT_NO_MODULE: the text has only an address */
	uint64_t offset;  /* as the text has it */
	uint64_t address; /* the address to look up: for a return address, one byte before it; made up if only an
	                   * image's number is known */
	enum text_base base;
	uint64_t function_size; /* of TEXT_FUNCTION: bytes, with the padding behind it */
	uint32_t file;          /* without a module: the number, from 1, of the one beside it; 0: none */
	uint32_t process;       /* of several in one text; see text_reader_place */
	bool alone;             /* nothing stands before it in its line but blanks: see text_put_inlines_below */
	bool below_unknown;     /* right below a return address that may be a signal's trampoline: the maps tell */
	struct text_edit edits[TEXT_EDITS_MAX]; /* in the order of the text */
	unsigned edit_count;
	/* With text_reader_tell_named only, but for own.function of TEXT_FUNCTION: */
	bool named; /* the text has its name, and there is nothing to look up: only line, stack, number and own are set
	             */
	uint32_t stack;  /* counted from 0; TEXT_NO_STACK: it repeats a frame, as in a sanitizer's SUMMARY */
	uint32_t number; /* in the stack, as the text has it, else counted from 0 */
	struct text_own own;
};

/* What stands above a stack; what is empty does not. */
struct text_stack {
	const char *words;            /* to stand before the title, such as "Thread " */
	struct text_span title, lead; /* lead: the line above the title, if it says what that is about */
};

struct text_module {
	struct str path;     /* as in the text: a path, or only a name */
	struct str name;     /* under which its symbols are stored */
	struct str id;       /* likewise: a debug id, or what the user gave; empty: the text has not said */
	struct str build_id; /* lower-case hex; empty: not told */
};

struct text_reader;

/* Makes a reader that knows at most max_modules modules. `frame` gets each frame in turn; it returns false to end
 * the reading. NULL if out of memory. */
struct text_reader *text_reader_new(
        uint32_t max_modules, bool (*frame)(void *arg, const struct text_frame *f), void *arg);
void text_reader_free(struct text_reader *r);
/* Bytes that it has taken, which grow as text is read. */
size_t text_reader_memory(const struct text_reader *r);

/* What the user knows: modules of this name have this id, unless the text says otherwise beside a frame. Before the id
 * may stand the name under which its symbols are stored: "app.pdb/4C4C44…1". An empty id:
 * this is a module's name, although it does not look like one. false: no memory. */
bool text_reader_know(struct text_reader *r, struct str name, struct str id);

/* The caller has files, so it can use TEXT_FUNCTION, for frames of modules that the user knows, and TEXT_FIXED: for
 * addresses in memory that no map covers, if the text names their file beside them, or else program is not empty: the
 * path of the file of which the whole text is, which must stay. Call it before reading. */
void text_reader_use_fixed(struct text_reader *r, struct str program);

/* The caller wants all frames: those that have names already, too, and which stack each belongs to. Call it before
 * reading. A frame that stands alone and has a name is not told. titles: text_reader_stack tells what stands above. */
void text_reader_tell_named(struct text_reader *r, bool titles);
/* While `frame` is called: the stack of this frame. */
const struct text_stack *text_reader_stack(const struct text_reader *r);

enum text_result {
	TEXT_OK,
	TEXT_STOPPED, /* frame returned false */
	TEXT_TOO_MANY_MODULES,
	TEXT_NO_MEMORY,
};

/* Reads whole lines of text, which begins where the previous text ended. *used: the bytes of these lines. The rest
 * is an unfinished line, which is read only if `last` says that nothing follows, or if it is longer than
 * TEXT_LINE_MAX. */
enum text_result text_reader_read(struct text_reader *r, struct str text, bool last, size_t *used);

/* The modules that frames refer to, numbered in the order of the text. A module's id may be told by a later line. */
uint32_t text_reader_modules(const struct text_reader *r);
const struct text_module *text_reader_module(const struct text_reader *r, uint32_t index);
/* Gives a frame that is only an address its module and offset, if a memory map in the text says what lies there: the
 * map of the same process, before or after the frame. The frame stays as it is if none does, or if maps do not agree.
 * Frames are given in the order of the text, since below a signal's trampoline stands the place where it came.
 * TEXT_TOO_MANY_MODULES, TEXT_NO_MEMORY. */
enum text_result text_reader_place(struct text_reader *r, struct text_frame *f);
/* Gives a frame whose module was named without a path the one that the maps tell. TEXT_TOO_MANY_MODULES,
 * TEXT_NO_MEMORY. */
enum text_result text_reader_find_path(struct text_reader *r, struct text_frame *f);
/* Frames with names that were told. */
uint64_t text_reader_named(const struct text_reader *r);
/* Names of formats that are read, between commas, perhaps none; NULL behind the last. */
const char *text_format_names(unsigned i);
/* The reader's, if the text had no frames so far; NULL: no line looks like one. */
const struct guess *text_reader_guess(const struct text_reader *r);
/* To be called between batches of a text without end: forgets memory maps if half of the room for them is used. */
void text_reader_trim(struct text_reader *r);
/* Half of the room for modules is used. */
bool text_reader_is_crowded(const struct text_reader *r);
/* Another text begins, of which what was said so far tells nothing; but not what the user knows. Lines are numbered
 * from 1 again, modules from 0; positions of edits go on. */
void text_reader_begin(struct text_reader *r);
/* Forgets all modules and maps, and what the text said about them, but not what the user knows. Numbers begin at 0
 * again. */
void text_reader_forget(struct text_reader *r);

#endif
