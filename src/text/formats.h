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

/* What a text in JSON has said so far. */
enum { TEXT_JSON_DEPTH = 8, TEXT_JSON_VALUE = TEXT_NAME_MAX };

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
	struct text_own own;      /* what the object says itself of a frame; the module is in strings */
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
	bool innermost_first;                /* the list is KSCrash's */
	struct text_frame pending;           /* Sentry's latest, which has a return address unless it is the last */
	bool is_pending;
};

/* Modules whose position in memory is known from the frames just before. */
enum { TEXT_BASES = 8 };

/* Programs whose lines stand among each other. */
enum { TEXT_SOURCES = 16 };

enum { TEXT_SIGNS = 7 }; /* of lines, that formats ask for */

/* Which formats are asked of a line: sets of rows of the table in reader.c, a bit for each. */
struct text_index {
	uint32_t of_sign[TEXT_SIGNS], of_which[3], of_first[256], numbered;
};

struct text_reader {
	struct text_index index;
	struct text_modules modules;
	struct text_maps maps;
	bool uses_fixed;
	struct str program; /* of which the whole text is; empty: unknown */
	struct guess guess;
	uint64_t all_frames; /* to look up, of the whole text */
	struct text_stacks stacks;
	bool (*frame)(void *arg, const struct text_frame *f);
	void *arg;
	enum text_result result;
	/* the line */
	uint64_t line;                    /* its number, where each line inside a string counts, too */
	uint64_t inner_lines;             /* so many of these lines have no number in the text */
	struct text_unescaped *unescaped; /* NULL: not needed so far */
	unsigned escaped;                 /* the line is in `unescaped`, of TEXT_STRING or TEXT_HTML; 0: of neither */
	bool mapped;                      /* the line is in `unescaped` */
	uint64_t at;                      /* where it begins in the whole text */
	const char *start;                /* the same in memory */
	const char *escape;               /* the next character of the text with which colours begin; its end: none */
	unsigned signs;                   /* of the line that a format is asked of */
	unsigned frames;                  /* found in it */
	unsigned named_frames;            /* likewise, which have names already */
	uint64_t frames_before;           /* of the whole text, above it */
	size_t search_left;               /* bytes before its plus signs that may yet be searched for modules */
	bool skips;                       /* it is longer than TEXT_LINE_MAX, and the rest is still to come */
	const char *begins;               /* where the frame begins that stands somewhere in the line; NULL: unknown */
	struct text_common common;
	char prefix[8]; /* how a log's latest prefix begins, its last byte before the blank, and its length */
	char prefix_last;
	size_t prefix_len; /* 0: none was seen, or one that is short */
	struct text_source {
		uint64_t hash;
		uint32_t process;
	} sources[TEXT_SOURCES]; /* who wrote lines, as the prefixes tell it, and the process that they were about last
	                          */
	unsigned source;         /* the last one's number, from 1; 0: no prefix told it */
	unsigned source_count;   /* so many were seen */
	unsigned perf_depth;     /* frames of the sample so far */
	uint64_t bpf_line;       /* the last of bpftrace's stack, or the one above it */
	unsigned bpf_depth;      /* frames of it so far */
	bool perf_report;        /* the header of perf report has the columns that it needs */
	uint64_t signal_line;    /* the one with the place where a signal came: no return address */
	uint64_t signal_again;   /* another one */
	uint64_t unknown_line; /* the one below a return address of which only a map may tell that it is a trampoline */
	bool placed_trampoline;   /* the frame that was placed last is one */
	uint64_t caller_line;     /* the last with a return address, or the place where a signal came */
	unsigned at_depth;        /* addresses of glog's stack so far */
	uint64_t pc_line;         /* the last line "PC: @" */
	bool at_signal;           /* one of them stands before this stack */
	uint64_t at_line;         /* the last line of one */
	uint64_t ada_line;        /* the one below Ada's heading, with the stack */
	unsigned strace_depth;    /* frames of strace's stack so far */
	uint64_t managed_line;    /* the last line "at …" of .NET's */
	uint64_t clickhouse_line; /* the last of ClickHouse's stack */
	struct text_windows {
		char module[256]; /* in which the fault was, and in which line it stood */
		size_t module_len;
		uint64_t module_line;
		bool is_second;                    /* the line above names the program in the same way */
		unsigned offset_number;            /* of Sig[] in a Report.wer; 0: it has none that is known */
		uint64_t modules_line;             /* of Blender's list of modules */
		uint64_t blender_line, mingw_line; /* the last frames of theirs */
		uint64_t portable_line;            /* of Unreal's <PCallStack> */
		unsigned portable_depth;
	} windows;
	struct text_kernel {
		char name[256]; /* of the file whose mapping the line told */
		size_t name_len;
		struct text_segment {
			uint64_t start, size, offset; /* offset: in the file; at which address, the line says */
			bool told;                    /* it is */
		} segment;
		uint64_t line; /* of the mapping; 0: none waits for its registers */
		bool has_pc;
	} kernel;
	struct text_servers {
		uint64_t envoy_fault;  /* the line above Envoy's stack of a crash */
		uint64_t seastar_line; /* the last of Seastar's stack, or the one above it */
		uint64_t fortran_line; /* the last row of Intel Fortran's, or its heading */
		unsigned fortran_rows;
		bool fortran_signal; /* the last may be the trampoline of signals */
	} servers;
	uint64_t mac_exception; /* the line above the addresses of an exception */
	uint64_t awaited;       /* up to this line, frames may have none of the signs; see text_await */
	uint64_t unity_line;    /* the last frame of Unity's */
	bool unity_signal;      /* it was the dispatcher of exceptions */
	char dart_id[64];       /* the build id above Dart's stacks */
	size_t dart_id_len;
	struct str following;   /* the next line; whole for a line with a nameless frame of macOS's call graphs */
	uint64_t following_at;  /* where it begins in the whole text */
	uint64_t pid;           /* in the last ==PID==; 0: none yet */
	unsigned hotspot_depth; /* frames of Java's stack so far, with this line's */
	struct {
		int32_t module;
		uint64_t base;
	} bases[TEXT_BASES];
	unsigned base_count;
	struct text_json json;
	struct text_metrickit *metrickit; /* NULL: no tree of its frames was seen */
	struct text_markup *markup;       /* NULL: none was seen */
	struct text_windbg {
		uint64_t heading, row; /* the last lines of them, or of warnings below; 0: none yet */
		bool next_is_exact;    /* the next row has no return address */
	} windbg;
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

/* Each takes a line without its end, and returns whether the line has one of its formats, which stand above it as in
 * text_formats; (…): it reads what is no frame. docs/development.md says how to add one. */
/* sanitizers, LLVM, gdb, eu-stack, coredumpctl, Firefox, Chromium, Android */
bool text_read_numbered(struct text_reader *r, struct rest line);
/* glibc, Ruby */
bool text_read_glibc(struct text_reader *r, struct rest line);
/* bpftrace */
bool text_read_bpftrace(struct text_reader *r, struct rest line);
/* perf report */
bool text_read_perf_report(struct text_reader *r, struct rest line);
/* perf script, bpftrace */
bool text_read_perf(struct text_reader *r, struct rest line);
/* macOS, Crashlytics */
bool text_read_mac(struct text_reader *r, struct rest line);
/* (tables of modules) */
bool text_read_module_line(struct text_reader *r, struct rest line);
/* LLVM */
bool text_read_markup(struct text_reader *r, struct rest line);
extern const size_t text_markup_size; /* of a struct text_markup */
/* MetricKit, of which text_read_json tells: a list of frames begins, an object begins or has ended at this depth, and
 * has a member, whose value ends at `end`. */
bool text_metrickit_begin(struct text_reader *r);
void text_metrickit_open(struct text_metrickit *m, unsigned depth);
void text_metrickit_close(struct text_metrickit *m, unsigned depth);
void text_metrickit_member(struct text_reader *r, struct str key, struct str value, const char *end);
extern const size_t text_metrickit_size; /* of a struct text_metrickit */
/* minidump-stackwalk */
bool text_read_pipes(struct text_reader *r, struct rest line);
/* minidump-stackwalk, Sentry, .ips of Apple, MetricKit, Node.js, MongoDB, ABRT */
bool text_read_json(struct text_reader *r, struct rest line);
/* Tells the frame that waits to know whether it is the last of its list: another frame follows, perhaps of a later
 * line. */
void text_json_flush(struct text_reader *r);
/* Unreal Engine, Unity, Dart */
bool text_read_engine(struct text_reader *r, struct rest line);
/* (what stands above these) */
bool text_read_engine_head(struct text_reader *r, struct rest line);
/* Windows event log, Unreal Engine, minidump-stackwalk */
bool text_read_windows(struct text_reader *r, struct rest line);
/* NAME+0xOFFSET */
bool text_read_bare_offset(struct text_reader *r, struct rest line);
/* An address of a file of Windows, as it would be where the linker put it, becomes an offset in the image. */
void text_lower_base(struct text_frame *f, struct str path);
/* .NET NativeAOT, ClickHouse */
bool text_read_runtime(struct text_reader *r, struct rest line);
/* (memory maps) */
bool text_read_map(struct text_reader *r, struct rest line);
/* lldb, PyTorch, strace -k, Python, Rust, Swift, Ada, Wine, Node.js, glog, absl, boost, heap profiles */
bool text_read_address(struct text_reader *r, struct rest line);
/* valgrind, gfortran, Zig, D, backward-cpp, callgrind */
bool text_read_unknown(struct text_reader *r, struct rest line);
/* Linux kernel */
bool text_read_kernel(struct text_reader *r, struct rest line);
/* Linux kernel */
bool text_read_oops(struct text_reader *r, struct rest line);
/* (the registers below a line of the Linux kernel) */
bool text_read_registers(struct text_reader *r, struct rest line);
/* Envoy, Seastar, ESP-IDF, DPDK, compute-sanitizer */
bool text_read_servers(struct text_reader *r, struct rest line);
/* folly, Intel Fortran */
bool text_read_columns(struct text_reader *r, struct rest line);
/* (of another process, or of a signal; always false) */
bool text_read_beginning(struct text_reader *r, struct rest line);
/* WinDbg */
bool text_read_windbg(struct text_reader *r, struct rest line);
/* The module that this format, .NET and Unreal name without its extension, which the user may have given with it. */
struct str text_windows_module(const struct text_reader *r, struct str name, char room[TEXT_NAME_MAX]);
/* (what stands above its rows; always false) */
bool text_read_windbg_heading(struct text_reader *r, struct rest line);
/* hs_err of Java, simpleperf, NAME+0xOFFSET */
bool text_read_anything(struct text_reader *r, struct rest line);
/* Whether the line begins as Breakpad's " 1  libx.so + 0x12". */
bool text_is_counted(struct rest line);

#endif
