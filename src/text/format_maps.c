/* SPDX-License-Identifier: Apache-2.0 */
/* Memory maps: /proc/PID/maps (also in Java's hs_err, and as MAPPED_LIBRARIES of heap profiles), gdb's info proc
 * mappings and info sharedlibrary, lldb's image list, eu-unstrip -n, Swift's list of images. And lines with which a
 * report of another process begins. */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

enum {
	MAP_LINE = 4096,        /* bytes of a line of a map */
	ADDRESS_DIGITS_MIN = 5, /* of /proc/PID/maps; so that no date is one */
	UUID_DIGITS = 32,
	BUILD_ID_DIGITS = 40,
};

static bool add_told(
        struct text_reader *r, struct text_mapping mapping, struct rest path, struct str id, enum text_id kind)
{
	mapping.path = trimmed(between(path.at, path.end));
	return text_mapped(r, &mapping, NOTHING, id, kind);
}

static bool add(struct text_reader *r, struct text_mapping mapping, struct rest path)
{
	return add_told(r, mapping, path, NOTHING, TEXT_ID_GIVEN);
}

/* Four letters such as r-xp; *executable: the third is x. *shared: the last is s, as of a file that is only read. */
static bool take_permissions(struct rest *r, bool *executable, bool *shared)
{
	static const char *const letters[] = {"r-", "w-", "x-", "ps"};
	const char *p = r->at;
	if (r->end - p < 4 || (r->end - p > 4 && !is_blank((unsigned char)p[4])))
		return false;
	for (unsigned i = 0; i < 4; i++)
		if (p[i] != letters[i][0] && p[i] != letters[i][1])
			return false;
	*executable = p[2] == 'x';
	*shared = p[3] == 's';
	r->at += 4;
	return true;
}

/* 7f4640e1e000-7f4640e44000 r-xp 00026000 fe:00 1234   /usr/lib/libc.so.6 */
static bool read_proc(struct text_reader *r, struct rest line)
{
	struct text_mapping m = {.kind = MAP_FILES};
	uint64_t ignored;
	bool shared;
	blanks(&line);
	const char *from = line.at;
	if (!take_hex(&line, &m.start) || line.at - from < ADDRESS_DIGITS_MIN || !take_literal(&line, "-") ||
	        !take_hex(&line, &m.end) || !blanks(&line) || !take_permissions(&line, &m.executable, &shared) ||
	        !blanks(&line) || !take_hex(&line, &m.offset) || !blanks(&line) || !take_hex(&line, &ignored) ||
	        !take_literal(&line, ":") || !take_hex(&line, &ignored) || !blanks(&line) ||
	        !take_decimal(&line, &ignored))
		return false;
	return shared || add(r, m, line);
}

/* gdb:  0x555555555000  0x555555556000  0x1000  0x1000  r-xp  /tmp/app, without permissions before gdb 12 */
static bool read_gdb(struct text_reader *r, struct rest line)
{
	struct text_mapping m = {.kind = MAP_FILES, .executable = true};
	uint64_t size;
	bool shared = false;
	blanks(&line);
	if (!take_0x(&line, &m.start) || !blanks(&line) || !take_0x(&line, &m.end) || !blanks(&line))
		return false;
	if (take_0x(&line, &size)) {
		if (size != m.end - m.start || !blanks(&line) || !take_0x(&line, &m.offset))
			return false;
		blanks(&line);
		take_permissions(&line, &m.executable, &shared);
		return shared || add(r, m, line);
	}
	/* 0x00007ffff7fbc050  0x00007ffff7fbc11a  Yes (*)     /tmp/libdie.so */
	if (!take_literal(&line, "Yes") && !take_literal(&line, "No"))
		return false;
	blanks(&line);
	take_literal(&line, "(*)");
	m.kind = MAP_CODE;
	return blanks(&line) && peek(&line) == '/' && add(r, m, line);
}

/* lldb: [  0] 9F9E35E1-0123-… 0x0000555555554000 /tmp/app */
static bool read_lldb(struct text_reader *r, struct rest line)
{
	struct text_mapping m = {.kind = MAP_STARTS, .executable = true};
	char digits[BUILD_ID_DIGITS];
	size_t n = 0;
	uint64_t number;
	if (!take_literal(&line, "["))
		return false;
	blanks(&line);
	if (!take_decimal(&line, &number) || !take_literal(&line, "] "))
		return false;
	for (int c; n < sizeof digits && (hex_value(c = peek(&line)) >= 0 || c == '-'); line.at++)
		if (c != '-')
			digits[n++] = (char)c;
	if ((n != UUID_DIGITS && n != BUILD_ID_DIGITS) || !blanks(&line) || !take_0x(&line, &m.start) ||
	        !blanks(&line) || peek(&line) != '/')
		return false;
	m.end = m.start + 1;
	return add_told(r, m, line, (struct str){digits, n}, n == BUILD_ID_DIGITS ? TEXT_ID_BUILD : TEXT_ID_UUID);
}

/* The file in "FILE DEBUG-FILE NAME", where a file that is not there is - or . and NAME tells the path if it is known.
 * Empty: there is none, or blanks in a path leave it open where one ends. */
static struct str unstrip_path(struct rest line)
{
	if (take_literal(&line, "- ") || take_literal(&line, ". ")) {
		const char *name = find_word(line.at, line.end, " /");
		return name ? between(name + 1, line.end) : NOTHING;
	}
	const char *debug = find_word(line.at, line.end, " - "), *here = find_word(line.at, line.end, " . ");
	const char *end = debug ? debug : here ? here : find_word(line.at, line.end, " /");
	return end && peek(&line) == '/' ? between(line.at, end) : NOTHING;
}

/* eu-unstrip -n: 0x7fe8be9f2000+0x5000 4d17…@0x7fe8be9f2248 /opt/libx.so - /opt/libx.so */
static bool read_unstrip(struct text_reader *r, struct rest line)
{
	struct text_mapping m = {.kind = MAP_STARTS, .executable = true};
	uint64_t size, ignored;
	if (!take_0x(&line, &m.start) || !take_literal(&line, "+") || !take_0x(&line, &size) ||
	        !take_literal(&line, " "))
		return false;
	struct str id = take_hex_digits(&line);
	if (id.len ? take_literal(&line, "@") && !take_0x(&line, &ignored) : !take_literal(&line, "-"))
		return false;
	if (!take_literal(&line, " "))
		return false;
	struct str path = unstrip_path(line);
	m.end = size <= UINT64_MAX - m.start ? m.start + size : m.start;
	return add_told(r, m, (struct rest){path.data, path.data + path.len}, id, TEXT_ID_BUILD);
}

/* Swift: 0x000055c0ba2d0000–0x000055c0ba2d7000 4d17… libx.so    /opt/libx.so */
static bool read_swift(struct text_reader *r, struct rest line)
{
	struct text_mapping m = {.kind = MAP_STARTS, .executable = true};
	if (!take_0x(&line, &m.start) || !take_literal(&line, "\xe2\x80\x93") || !take_0x(&line, &m.end) ||
	        !take_literal(&line, " "))
		return false;
	struct str id = take_hex_digits(&line);
	const char *path = find_word(line.at, line.end, " /");
	if (!path || (!id.len && !take_literal(&line, "<no build ID>")))
		return false;
	line.at = path + 1;
	return add_told(r, m, line, id, id.len == UUID_DIGITS ? TEXT_ID_UUID : TEXT_ID_BUILD);
}

static bool read_map(struct text_reader *r, struct rest line)
{
	blanks(&line);
	return line.end - line.at <= MAP_LINE && (read_proc(r, line) || read_gdb(r, line) || read_lldb(r, line) ||
	                                                 read_unstrip(r, line) || read_swift(r, line));
}

/* ---- another process ---- */

/* "==1234==ERROR: …" of sanitizers and valgrind, where the number changes. */
static bool other_pid(struct text_reader *r, struct rest line)
{
	uint64_t pid, *last = r->state;
	if (!take_literal(&line, "==") || !take_decimal(&line, &pid) || !take_literal(&line, "=="))
		return false;
	bool other = *last && pid != *last;
	*last = pid;
	return other;
}

/* Where a signal came stands below "[KCrash Handler]", with which KDE stands in for the frames of the handler, alone
 * below Redis' "EIP:", and twice below the handler's frame in Tor's "Tor 0.4.9 died:
 * Caught signal 11": in place of the trampoline, and where it is anyway. */
static void note_signal(struct text_reader *r, struct rest line)
{
	struct str whole = between(line.at, line.end);
	if (str_equal(whole, str_from("EIP:")) || str_equal(whole, str_from("[KCrash Handler]")))
		r->signal_line = r->line + 1;
	else if (take_literal(&line, "Tor ") && find_word(line.at, line.end, " died: Caught signal "))
		r->signal_again = 1 + (r->signal_line = r->line + 2);
}

static bool read_beginning(struct text_reader *r, struct rest line)
{
	/* how a line begins, and what it has later */
	static const char *const begins[][2] = {{"Process: "}, {"Incident Identifier: "}, {"Starting program: "},
	        {"Core was generated by "}, {"Program received signal "}, {"(lldb) target create "},
	        {"*** Aborted at "}, {"thread '"}, {"heap profile: "}, {"heap_v2/"}, {"Fatal Python error: "},
	        {"# A fatal error has been detected by the Java Runtime Environment"}, {"*** Program crashed: "},
	        {"SymInit: Symbol-SearchPath: "}, {"PID: "} /* coredumpctl */,
	        {"Thread ", " received signal "} /* gdb */, {"*** SIG", " received at time="} /* absl */,
	        {"Execution of ", " terminated by unhandled exc"} /* Ada */};
	blanks(&line);
	int first = peek(&line);
	bool begin = first == '=' && other_pid(r, line);
	if (first == 'E' || first == '[' || first == 'T')
		note_signal(r, line);
	for (unsigned i = 0; i < sizeof begins / sizeof *begins && !begin; i++)
		if (*begins[i][0] == first)
			begin = take_literal(&line, begins[i][0]) &&
			        (!begins[i][1] || find_word(line.at, line.end, begins[i][1]));
	if (begin)
		text_maps_begin_process(&r->maps);
	return false; /* whatever else the line says */
}

TEXT_FORMAT(text_beginnings, .which = TEXT_ANCHORED, .begins = "PISC(*thF#TE=[", .words = TEXT_WORDS("Tor ", "EIP:"),
        .read = read_beginning, .state_size = sizeof(uint64_t) /* the pid in the last ==PID==; 0: none yet */);

TEXT_FORMAT(text_memory_maps, .which = TEXT_ANCHORED, .signs = SIGN_HEX, .begins = TEXT_MAP_ADDRESS, .read = read_map);
