/* SPDX-License-Identifier: Apache-2.0 */
/* The formats of stacks, one function each: recognises a line, and says what is in it. */
#ifndef TEXT_FORMATS_H
#define TEXT_FORMATS_H

#include "text/common.h"
#include "text/maps.h"
#include "text/module_table.h"
#include "text/named.h"
#include "text/scan.h"
#include "text/stacks.h"
#include "text/unescape.h"

enum {
	TEXT_FORMATS_MAX = 32,
	TEXT_SIGNS = 7, /* of signs.h, with TEXT_AWAITED */
	TEXT_ASKED = 3,
	TEXT_AWAITED = 64, /* a sign: the line may be of a format that said so in a line above: see text_await */
	TEXT_BASES = 8,
	TEXT_SOURCES = 16, /* programs whose lines stand among each other */
};

struct text_reader;

/* Which lines a format is asked of. */
enum text_asked {
	TEXT_ANCHORED = 1, /* it knows a line by its beginning, or cannot mistake it */
	TEXT_FLOATING = 2, /* it finds its frame anywhere in a line, where another may know more */
	TEXT_ANYWHERE = 4, /* it takes what no other does */
};

/* A row of the table below, in the file of the format. It is asked of a line that has one of its signs, or
 * begins with one of its letters. */
struct text_format {
	const char *names; /* of what it reads, for people; NULL: another row has them, or it reads no frames */
	enum text_asked which;
	unsigned signs; /* signs.h; TEXT_AWAITED */
	const char *begins;
	/* with which its lines begin, behind a prefix, if they begin with a word */
	const char *const *words;
	/* Takes a line without its end. Returns whether it is its own. */
	bool (*read)(struct text_reader *r, struct rest line);
	size_t state_size;                  /* of r->state, which it keeps from line to line; zeros at first */
	const struct text_format *state_of; /* whose state it shares; NULL: it has its own, if any */
	bool late;                          /* its state is made by the first text_state */
};

#define TEXT_FORMAT(row, ...) const struct text_format row = {__VA_ARGS__}
#define TEXT_WORDS(...)           \
	(const char *const[])     \
	{                         \
		__VA_ARGS__, NULL \
	}

#define TEXT_MAP_ADDRESS "0" /* in `begins`: an address as /proc/PID/maps has it */

/* Sets of formats, a bit for each. */
struct text_index {
	uint32_t of_sign[TEXT_SIGNS], of_which[TEXT_ASKED], of_first[256];
	unsigned floating_signs; /* that those have which are asked of a line as it is */
};

struct text_reader {
	/* for all of the text */
	struct text_index index;
	struct text_modules modules;
	struct text_maps maps;
	struct text_stacks stacks;
	struct guess guess;
	bool uses_fixed;
	struct str program;  /* of which the whole text is; empty: unknown */
	uint64_t all_frames; /* to look up */
	bool (*frame)(void *arg, const struct text_frame *f);
	void *arg;
	enum text_result result;
	/* the line */
	uint64_t line;                    /* its number, where each line inside a string counts, too */
	uint64_t inner_lines;             /* so many of these lines have no number in the text */
	uint64_t at;                      /* where it begins in the whole text */
	const char *start;                /* the same in memory */
	struct text_unescaped *unescaped; /* NULL: not needed so far */
	bool mapped;                      /* the line is in `unescaped`, which maps it to the text */
	unsigned escaped;                 /* likewise, of TEXT_STRING or TEXT_HTML; 0: of neither */
	const char *escape;               /* the next character of the text with which colours begin; its end: none */
	bool skips;                       /* it is longer than TEXT_LINE_MAX, and the rest is still to come */
	struct str following;             /* the next line; whole where a format needs it: see find_following */
	uint64_t following_at;            /* where that begins in the whole text */
	/* what is found in it */
	unsigned signs;         /* of what a format is asked of */
	const char *begins;     /* where the frame begins that stands somewhere in the line; NULL: unknown */
	size_t search_left;     /* bytes before its plus signs that may yet be searched for modules */
	unsigned frames;        /* to look up, or whose stack goes on without */
	unsigned named_frames;  /* which have names already */
	uint64_t frames_before; /* of the whole text, above it */
	/* prefixes: see cut.c */
	struct text_common common;
	char prefix[8]; /* how a log's latest prefix begins, its last byte before the blank, and its length */
	char prefix_last;
	size_t prefix_len; /* 0: none was seen, or one that is short */
	/* who wrote lines, as the prefixes tell it, and the process that they were about last */
	struct text_source {
		uint64_t hash;
		uint32_t process;
	} sources[TEXT_SOURCES];
	unsigned source;       /* the last one's number, from 1; 0: no prefix told it */
	unsigned source_count; /* so many were seen */
	/* what formats keep */
	void *states[TEXT_FORMATS_MAX];
	void *state;            /* of these, that of the format that is asked */
	struct text_json *json; /* likewise, of JSON */
	unsigned json_depth;    /* of objects that are open in a value of JSON */
	uint64_t awaited;       /* up to this line, frames may have none of the signs; see text_await */
	/* return addresses; see text_caller */
	uint64_t caller_line;  /* the last with one, or the place where a signal came */
	uint64_t signal_line;  /* the one with the place where a signal came: no return address */
	uint64_t signal_again; /* another one */
	uint64_t unknown_line; /* the one below a return address of which only a map may tell that it is a trampoline */
	bool placed_trampoline; /* the frame that was placed last is one */
	/* stacks that other lines end: frames so far */
	unsigned perf_depth, strace_depth, hotspot_depth; /* of perf's sample; strace's; Java's, with this line's */
	/* modules whose position in memory is known from the frames just before */
	struct {
		int32_t module;
		uint64_t base;
	} bases[TEXT_BASES];
	unsigned base_count;
};

/* Reports one frame of the line to the caller, after looking up its module. An empty path: only an address. Returns
 * true, so that callers can return the result. */
bool text_found(struct text_reader *r, struct text_frame *f, struct str path, struct str id, enum text_id kind);
/* Reports a frame that has a name already, if the caller wants such: parts of the line. */
void text_found_named(struct text_reader *r, const struct text_named *named);
void text_found_own(struct text_reader *r, const struct text_own *own);
/* The line says of which file an address is, but not where that lies in memory. */
void text_names_file(struct text_reader *r, struct text_frame *f, struct str path);
/* The next lines, so many, are read whatever signs they have. */
static inline void text_await(struct text_reader *r, unsigned lines)
{
	r->awaited = r->awaited > r->line + lines ? r->awaited : r->line + lines;
}
/* f->edits is one: from, to are in the line. */
void text_edit_one(
        const struct text_reader *r, struct text_frame *f, const char *from, const char *to, enum text_style style);
/* What f->address is. */
enum text_address {
	TEXT_EXACT,  /* f->offset */
	TEXT_CALL,   /* one byte before it: f->offset is a return address */
	TEXT_RETURN, /* as text_caller says, of a function without a name */
	TEXT_IS_SET,
};
/* Reports a frame of which the line has no id, and whose name goes in place of `gap` in the line. Returns true. */
bool text_found_at(struct text_reader *r, struct text_frame *f, enum text_address address, struct str path,
        struct str gap, enum text_style style);
/* The same where a name goes in parentheses behind `end`; name: of a module of Windows, which may lack its extension.
 */
bool text_found_behind(
        struct text_reader *r, struct text_frame *f, enum text_address address, struct str path, const char *end);
bool text_found_windows(
        struct text_reader *r, struct text_frame *f, enum text_address address, struct str name, const char *end);
/* The same of each address in a list: "0x401136 0x401157". Whether there is one. */
bool text_found_addresses(struct text_reader *r, struct rest line, enum text_address address);
/* A frame of which nothing is to be looked up, with a name or where nobody can know more: its stack goes on. Returns
 * true. */
bool text_pass_named(struct text_reader *r, const struct text_named *named);
/* The C library, in which signal handlers return to a function of its own, at a multiple of 16; other return addresses
 * seldom are. */
bool text_may_be_trampoline(uint64_t offset, struct str path);
/* f->offset is a return address, unless it is where a signal came. Sets f->address, and notes whether this frame is the
 * C library's trampoline, below which that place stands. name: of the function; empty: the text has none. */
void text_caller(struct text_reader *r, struct text_frame *f, struct str path, struct str name);
/* Reports a frame with a return address in this module. Without an offset, it is found from the frames just before that
 * have one in the same module, if there are any. Returns true. */
struct text_place {
	struct str path, name;    /* name: of the function; empty: the text has none */
	uint64_t offset, address; /* in the module, and in memory */
	bool has_offset;
};
bool text_found_caller(struct text_reader *r, struct text_frame *f, const struct text_place *at);
/* Notes what a line says about a module's id. Returns true. */
bool text_told(struct text_reader *r, struct str path, struct str symbols, struct str id, enum text_id kind);
/* Notes where a file lies in memory, and its id, if that is not empty. Returns true. */
bool text_mapped(struct text_reader *r, struct text_mapping *m, struct str symbols, struct str id, enum text_id kind);

/* A module with an offset in parentheses: "(/lib/libc.so.6+0x27249)", or with blanks around the plus. */
struct text_group {
	const char *open, *close; /* the parentheses; close: just after them */
	struct str path;
	uint64_t offset;
	bool spaced;
};
/* Finds the last one in the line. */
bool text_last_group(struct rest line, struct text_group *g);
/* The text in "(BuildId: ...)" after a frame; empty if it is absent. */
struct str text_build_id(struct rest after);

/* A row of WinDbg: its number, and what it names. */
bool text_windbg_number(struct rest line, uint64_t *number);
bool text_windbg_symbol(struct rest line, struct text_named *out);

/* The table: the first format that recognises a line takes it. */
#define TEXT_FORMATS(ROW)         \
	ROW(text_beginnings)      \
	ROW(text_windbg_headings) \
	ROW(text_windows)         \
	ROW(text_memory_maps)     \
	ROW(text_markup)          \
	ROW(text_json)            \
	ROW(text_metrickit)       \
	ROW(text_engines)         \
	ROW(text_engine_headings) \
	ROW(text_runtimes)        \
	ROW(text_servers)         \
	ROW(text_addresses)       \
	ROW(text_columns)         \
	ROW(text_unknown)         \
	ROW(text_numbered)        \
	ROW(text_glibc)           \
	ROW(text_perf_report)     \
	ROW(text_perf)            \
	ROW(text_bpftrace)        \
	ROW(text_mac)             \
	ROW(text_module_lines)    \
	ROW(text_pipes)           \
	ROW(text_kernel)          \
	ROW(text_registers)       \
	ROW(text_oops)            \
	ROW(text_windbg)          \
	ROW(text_anything)        \
	ROW(text_bare_offsets)
#define TEXT_DECLARE(row) extern const struct text_format row;
TEXT_FORMATS(TEXT_DECLARE)

/* What a format keeps. NULL: it has none so far. */
void *text_state_so_far(struct text_reader *r, const struct text_format *f);
/* The same, made if it is late. NULL: no memory, which ends the reading. */
void *text_state(struct text_reader *r, const struct text_format *f);
/* Bytes of all states that are not late, which text_states_init gives to a reader: zeros. */
size_t text_states_size(void);
void text_states_init(struct text_reader *r, void *states);
/* Those that are late. */
size_t text_states_late(const struct text_reader *r);
void text_states_free_late(struct text_reader *r);

void text_index_init(struct text_index *index);
/* The formats that have headings which begin as this line does, or maps. */
uint32_t text_formats_by_beginning(const struct text_index *index, const char *at, const char *end);
/* Whether one of the formats takes the line. signs: of the line; which: a set of enum text_asked. */
bool text_formats_ask(struct text_reader *r, struct rest line, unsigned signs, unsigned which);
/* Whether the line begins with a word of a format. */
bool text_formats_have_word(struct rest line);

/* glibc's, of DPDK too */
bool text_read_glibc(struct text_reader *r, struct rest line);
/* A line of JSON. */
bool text_read_json(struct text_reader *r, struct rest line);
/* Tells the frame that waits to know whether it is the last of its list: another frame follows, perhaps of a later
 * line. */
void text_json_flush(struct text_reader *r);
/* MetricKit, of which text_read_json tells: a list of frames begins at this depth, an object begins or has ended there,
 * and has a member, whose value ends at `end`. */
void text_metrickit_begin(struct text_reader *r, unsigned depth);
void text_metrickit_open(struct text_reader *r, unsigned depth);
void text_metrickit_close(struct text_reader *r, unsigned depth);
void text_metrickit_member(struct text_reader *r, unsigned depth, struct str key, struct str value, const char *end);
/* An address of a file of Windows, as it would be where the linker put it, becomes an offset in the image. */
void text_lower_base(struct text_frame *f, struct str path);
/* Whether the line begins as Breakpad's " 1  libx.so + 0x12". */
bool text_is_counted(struct rest line);

#endif
