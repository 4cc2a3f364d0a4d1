/* SPDX-License-Identifier: Apache-2.0 */
/* Stacks without numbers: glibc's backtrace_symbols, perf script, tables of modules, and NAME+0xOFFSET anywhere. */
#include <config.h>

#include "text/formats.h"
#include "text/path.h"
#include "text/signs.h"

enum {
	FRAMES_MAX = 64,        /* bytes of a line that is searched for NAME+0xOFFSET */
	SIGNS_MAX = 256,        /* plus signs that are tried in it */
	BUILD_ID_LINE = 4096,   /* bytes of a line that gives a module's id */
	FIXED_MAX = 0x7fffffff, /* addresses of executables that are loaded where they were linked */
	PERF_WIDTH = 16,        /* of its column of addresses */
	REPORT_WIDTH = 18,      /* of an address in perf report */
	FIRST_CODE = 4096,      /* no code is in the first page */
};
#define PERF_OFFSET_MAX (UINT64_C(1) << 40) /* above: an address in the process */

/* ---- glibc ---- */

/* Endings that tell a module's name from a function's when nothing else does. */
static bool is_module(const struct text_reader *r, struct str name)
{
	static const char *const tails[] = {".so", ".dll", ".exe", ".dylib", ".pdb", ".drv", ".sys", ".ocx"};
	for (unsigned i = 0; i < sizeof tails / sizeof *tails; i++)
		if (ends_with(name, tails[i]))
			return name.len > strlen(tails[i]);
	const char *end = name.data + name.len, *so = find_word(name.data, end, ".so.");
	/* OpenJ9: "libpthread.so.0::pthread_kill+0x2f" */
	return (so && !memchr(so, ':', (size_t)(end - so))) || memchr(name.data, '/', name.len) ||
	       text_is_rooted(name.data, end) || text_modules_is_known(&r->modules, name);
}

static uint64_t *base_of(struct text_reader *r, int32_t module)
{
	for (unsigned i = 0; i < r->base_count; i++)
		if (r->bases[i].module == module)
			return &r->bases[i].base;
	return NULL;
}

static void learn_base(struct text_reader *r, int32_t module, uint64_t base)
{
	uint64_t *known = base_of(r, module);
	if (known) {
		*known = base;
	} else if (r->base_count < TEXT_BASES) {
		r->bases[r->base_count].module = module;
		r->bases[r->base_count++].base = base;
	}
}

bool text_found_caller(struct text_reader *r, struct text_frame *f, const struct text_place *at)
{
	struct str none = {"", 0};
	if (at->path.len > TEXT_NAME_MAX)
		return true;
	f->offset = at->offset;
	if (!at->has_offset) {
		int32_t index = text_modules_find(&r->modules, at->path, none, TEXT_ID_GIVEN);
		const uint64_t *base = base_of(r, index);
		if (!base || at->address < *base) {
			text_caller(r, f, at->path, at->name);
			return text_pass_named(r, &(struct text_named){.function = at->name, .module = at->path});
		}
		f->offset = at->address - *base;
	}
	text_caller(r, f, at->path, at->name);
	text_found(r, f, at->path, none, TEXT_ID_GIVEN);
	if (at->has_offset && f->module >= 0 && at->address > at->offset)
		learn_base(r, f->module, at->address - at->offset);
	return true;
}

static const char *word_before(const char *from, const char *end)
{
	const char *word = end;
	while (word > from && !is_blank((unsigned char)word[-1]))
		word--;
	return word;
}

static struct str module_name(const char *from, const char *end)
{
	const char *path = text_path_start(from, end);
	return between(text_is_rooted(path, end) ? path : word_before(from, end), end);
}

/* The module in front of a parenthesis. Programs that overwrite their arguments show these instead of their names:
 * "postgres: postgres postgres [local] SELECT(+0x12) [0x55…]", "redis-server 127.0.0.1:6379(+0x12)[0x55…]". */
static struct str module_before(struct rest line, const char *end)
{
	static const struct {
		const char *title;
		size_t name; /* bytes of it */
	} titles[] = {{"postgres: ", 8}, {"redis-server ", 12}};
	const char *word = word_before(line.at, end);
	for (unsigned i = 0; i < sizeof titles / sizeof *titles && !text_is_rooted(word, end); i++) {
		const char *title = find_word(line.at, end, titles[i].title);
		if (title)
			return module_name(line.at, title + titles[i].name);
	}
	return module_name(line.at, end);
}

/* Where the line ends without what addr2line says: "prog() [0x401136] ??:0", "prog() [0x401136] (core/object.cpp:12)"
 */
static const char *before_place(struct rest line)
{
	struct str whole = trimmed(between(line.at, line.end));
	const char *end = NULL;
	if (ends_with(whole, "??:0") || ends_with(whole, "??:?"))
		end = find_word(line.at, line.end, "] ??");
	else if (ends_with(whole, ")"))
		end = find_word(line.at, line.end, "] (");
	return end ? end + 1 : line.end;
}

/* prog(+0x12) [0x55...], prog(f+0x12)[0x55...], prog() [0x401136], prog[0x401136]: all are return addresses. A symbol
 * gives the module's position only together with a frame that has an offset in the module. [0x55...] alone needs a
 * memory map. Ruby writes prog(0x12) [0x55...], or twice the address, and a memory map below:
 * prog(0x55...) [0x55...]. The X server: "prog (f+0x12) [0x55...]" and, with where the module begins,
 * "prog (0x55...+0x12) [0x55...]". RocksDB and Godot: what addr2line says behind it. */
bool text_read_glibc(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_ELF};
	uint64_t address, offset = 0;
	line.end = before_place(line);
	while (line.end > line.at && is_blank(line.end[-1]))
		line.end--;
	struct rest before = line;
	if (!cut_address(&before, &address))
		return false;
	const char *open = before.end;
	/* of a static executable, or of generated code: glibc knows no module */
	if (open == line.at && address >= FIRST_CODE) {
		f.offset = address;
		return text_found_behind(r, &f, TEXT_RETURN, NOTHING, line.end);
	}
	const char *close = open, *inner = open;
	if (close > line.at && close[-1] == ' ')
		close--;
	bool plain = close > line.at && close[-1] != ')';
	if (!plain) {
		if (close == line.at)
			return false;
		inner = text_opening(line.at, --close);
		inner = inner ? inner : find_last(line.at, close, '(');
	}
	struct str module = inner ? module_before(line, inner) : NOTHING;
	bool spaced = !module.len && inner && inner > line.at;
	if (spaced)
		module = module_before(line, inner - 1);
	if (!module.len)
		return false;
	if (plain)
		close = inner + 1; /* an empty pair of parentheses would say the same */
	const char *plus = find_last(inner + 1, close, '+');
	struct rest digits = {plus ? plus + 1 : close, close};
	if (plain && (!is_module(r, module) || address > FIXED_MAX))
		return false;
	if (plus && (!take_0x(&digits, &offset) || digits.at != close))
		return false;
	struct text_place at = {module, between(inner + 1, plus ? plus : close), offset, address, plus == inner + 1};
	struct rest begin = {inner + 1, plus}, again = {inner + 1, close};
	uint64_t base;
	if (plus && take_0x(&begin, &base) && begin.at == plus && base + offset == address) {
		at = (struct text_place){module, {"", 0}, offset, address, true};
		f.base = TEXT_IMAGE;
	} else if (spaced && (!plus || plus == inner + 1 || !is_module(r, module)))
		return false;
	text_edit_one(r, &f, line.end, line.end, TEXT_PARENTHESES);
	if (take_0x(&again, &f.offset) && again.at == close) {
		if (f.offset == address) {
			text_names_file(r, &f, module);
			text_caller(r, &f, module, at.name);
			return text_found(r, &f, NOTHING, NOTHING, TEXT_ID_GIVEN);
		}
		at = (struct text_place){module, {"", 0}, f.offset, address, true};
	}
	if (inner + 1 == close && address <= FIXED_MAX) {
		at.offset = address;
		at.has_offset = true;
	}
	return text_found_caller(r, &f, &at);
}

/* ---- perf script ---- */

/* --call-graph=dwarf goes back from return addresses itself, and writes the trampoline's so, too; what stands below is
 * where a signal came. Frame pointers pass that place over. */
static void perf_caller(struct text_reader *r, struct text_frame *f, struct str path, bool unknown)
{
	if (r->line != r->signal_line && f->offset)
		f->address--;
	if (unknown && text_may_be_trampoline(f->offset + 1, path))
		r->signal_line = r->line + 1;
}

/* So that "  1234 files (/opt/app)" in some log is no frame. width: of the blanks and the address. */
static bool is_perf_line(const struct text_reader *r, struct str name, ptrdiff_t width)
{
	const char *plus = find_last(name.data, name.data + name.len, '+');
	struct rest offset = {plus ? plus + 1 : NULL, name.data + name.len};
	uint64_t ignored;
	return r->perf_depth || width >= PERF_WIDTH || (plus && take_0x(&offset, &ignored) && offset.at == offset.end);
}

static bool has_two_blanks(struct str name)
{
	for (size_t i = 1; i < name.len; i++)
		if (is_blank((unsigned char)name.data[i]) && is_blank((unsigned char)name.data[i - 1]))
			return true;
	return false;
}

/* perf trace: "      [0x1181] (/tmp/prog)" */
static bool read_traced(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_FILE};
	const char *name = line.at;
	if (!take_literal(&line, "[") || !take_0x(&line, &f.offset) || !take_literal(&line, "]"))
		return false;
	const char *end = line.at;
	if (!take_literal(&line, " (/") || line.end[-1] != ')')
		return false;
	f.address = f.offset;
	if (r->perf_depth++)
		perf_caller(r, &f, between(line.at - 1, line.end - 1), true);
	return text_found_at(r, &f, TEXT_IS_SET, between(line.at - 1, line.end - 1), between(name, end), TEXT_AT);
}

/* The callers of a sample: "            1136 hot+0xd (/tmp/prog)". perf writes file offsets there, and with dsoff also
 * after the path. All but the first of a sample are return addresses. */
static bool read_perf(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_FILE};
	struct text_group g;
	const char *from = line.at;
	if (!blanks(&line))
		return false;
	while (line.end > line.at && is_blank((unsigned char)line.end[-1]))
		line.end--;
	if (peek(&line) == '[')
		return read_traced(r, line);
	if (!take_hex(&line, &f.offset) || !take_literal(&line, " ") || line.end[-1] != ')')
		return false;
	struct str path;
	const char *open;
	if (text_last_group(line, &g) && g.close == line.end && !g.spaced) {
		f.offset = g.offset;
		path = g.path;
		open = g.open;
	} else {
		open = text_path_opening(line.at, line.end - 1);
		if (!open)
			return false;
		path = between(open + 1, line.end - 1);
		if (f.offset >= PERF_OFFSET_MAX)
			path.len = 0;
	}
	if (open == line.at || open[-1] != ' ' || (path.len && *path.data != '/' && *path.data != '['))
		return false;
	if (path.len && *path.data == '[')
		path.len = 0;
	struct str name = between(line.at, open - 1);
	if (has_two_blanks(name)) /* "  12345 main.go:123]     1136 hot (/tmp/prog)": a log's prefix, cut amid it */
		return false;
	if (ends_with(name, "]") && find_word(line.at, open, "[+")) /* simpleperf, whose addresses are in memory */
		return false;
	struct rest hex = {line.at, open - 1};
	uint64_t same;
	bool unknown = str_equal(name, str_from("[unknown]")) ||
	               (take_0x(&hex, &same) && hex.at == hex.end && same == f.offset); /* bpftrace */
	if (!unknown && !is_perf_line(r, name, line.at - 1 - from))
		return false;
	f.address = f.offset;
	if (r->perf_depth++)
		perf_caller(r, &f, path, unknown);
	if (!path.len && !unknown)
		return true; /* of the kernel: it has a name, and nobody knows more */
	return text_found_at(r, &f, TEXT_IS_SET, path, name, TEXT_AT);
}

struct bpftrace {
	uint64_t line;  /* the last of a stack, or the one above it */
	unsigned depth; /* frames of it so far */
};

/* bpftrace: below "@[" or "@name[", innermost first, "    0x7fd028a3a171" or, with a name, "    spin+9". */
static bool read_bpftrace(struct text_reader *r, struct rest line)
{
	struct bpftrace *s = r->state;
	struct text_frame f = {.base = TEXT_ELF};
	if (peek(&line) == '@' && line.end[-1] == '[') {
		s->line = r->line;
		s->depth = 0;
		return true;
	}
	if (!s->line || s->line + 1 != r->line || !blanks(&line))
		return false;
	s->line = r->caller_line = r->line;
	s->depth++;
	struct str name = between(line.at, line.end);
	if (!take_0x(&line, &f.offset) || line.at != line.end) {
		text_found_named(r, &(struct text_named){.function = name});
		return false;
	}
	return text_found_behind(r, &f, s->depth > 1 ? TEXT_RETURN : TEXT_EXACT, NOTHING, line.end);
}

/* The columns of perf report: the module must stand before the symbol, as it does by default. */
static bool read_report_header(struct text_reader *r, struct rest line)
{
	static const char module[] = "Shared Object";
	bool *has_columns = r->state;
	blanks(&line);
	if (!take_literal(&line, "# ") ||
	        (!find_word(line.at, line.end, "Overhead") && !find_word(line.at, line.end, "Children")))
		return false;
	const char *object = find_word(line.at, line.end, module);
	struct rest next = {object ? object + sizeof module - 1 : line.end, line.end};
	*has_columns = object && blanks(&next) && take_literal(&next, "Symbol");
	return true;
}

/* "47.13%"; *some: it is not 0.00%. */
static bool take_percentage(struct rest *r, bool *some)
{
	const char *from = r->at;
	bool any = false;
	*some = false;
	for (blanks(r); is_digit(peek(r)) || peek(r) == '.'; r->at++, any = true)
		*some = *some || (*r->at != '.' && *r->at != '0');
	if (any && take_literal(r, "%"))
		return true;
	r->at = from;
	return false;
}

/* The last column of the text, which is cut off: two blanks stand before it. */
static struct str cut_column(struct str *text)
{
	while (text->len && is_blank((unsigned char)text->data[text->len - 1]))
		text->len--;
	const char *end = text->data + text->len;
	while (text->len && !(is_blank((unsigned char)text->data[text->len - 1]) &&
	                            (text->len == 1 || is_blank((unsigned char)text->data[text->len - 2]))))
		text->len--;
	return between(text->data + text->len, end);
}

/* "    47.13%  app      libcrash.so     [.] 0x0000000000001166", with -v a path and "0x1166   B" before "[.]". Callers
 * that have no samples of their own have addresses in memory. */
static bool read_report(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_FILE};
	bool some, own;
	const bool *has_columns = r->state;
	if (!*has_columns || !take_percentage(&line, &some))
		return false;
	if (take_percentage(&line, &own)) /* of all, with its callees */
		some = own;
	const char *mark = find_word(line.at, line.end, " [.] 0x");
	struct rest hex = {mark ? mark + strlen(" [.] ") : line.end, line.end};
	const char *from = hex.at;
	if (!mark || !take_0x(&hex, &f.offset) || hex.at - from != REPORT_WIDTH ||
	        (hex.at < hex.end && !is_blank(*hex.at)))
		return false;
	struct str before = between(line.at, mark), path = cut_column(&before);
	if (path.len == 1) {
		cut_column(&before);
		path = cut_column(&before);
	}
	if (!some || !path.len || *path.data == '[' || ends_with(path, ".map") || f.offset >= PERF_OFFSET_MAX)
		return true;
	return text_found_at(r, &f, TEXT_EXACT, path, between(from, hex.at), TEXT_AT);
}

static bool read_perf_report(struct text_reader *r, struct rest line)
{
	return read_report_header(r, line) || read_report(r, line);
}

/* ---- tables of modules ---- */

/* systemd: "Module libc.so.6 with build-id 93ac…", "Found module /usr/bin/prog with build-id: …" */
static bool read_systemd(struct text_reader *r, struct rest line)
{
	const char *word = find_word(line.at, line.end, "odule ");
	if (!word || word == line.at || (word[-1] | 0x20) != 'm')
		return false;
	word += strlen("odule ");
	const char *with = find_word(word, line.end, " with build-id");
	if (!with)
		return false;
	struct rest id = {with + strlen(" with build-id"), line.end};
	take_literal(&id, ":");
	blanks(&id);
	return text_told(r, between(word, with), NOTHING, take_hex_digits(&id), TEXT_ID_BUILD);
}

/* Breakpad: MODULE Linux x86_64 0123…0 libc.so.6 */
static bool read_breakpad(struct text_reader *r, struct rest line)
{
	if (!take_literal(&line, "MODULE "))
		return false;
	take_word(&line);
	take_word(&line);
	struct str id = take_word(&line);
	blanks(&line);
	return text_told(r, between(line.at, line.end), NOTHING, id, TEXT_ID_GIVEN);
}

static bool read_module_line(struct text_reader *r, struct rest line)
{
	return line.end - line.at <= BUILD_ID_LINE && (read_systemd(r, line) || read_breakpad(r, line));
}

/* ---- anything ---- */

/* Where the module begins in " 1  libc.so.6 + 0x29d90" of Breakpad's minidump_stackwalk; NULL: the line is another. */
static const char *breakpad_module(struct rest line, uint64_t *number)
{
	blanks(&line);
	return take_decimal(&line, number) && take_literal(&line, "  ") && !is_blank(peek(&line)) ? line.at : NULL;
}

static bool ends_name(int c)
{
	return c < 0 || is_blank(c) || strchr("()[]<>{}\"'`,;=|!", c);
}

bool text_is_counted(struct rest line)
{
	uint64_t number;
	blanks(&line);
	return is_digit(peek(&line)) && breakpad_module(line, &number);
}

/* simpleperf: "libart.so[+13728c]" in place of a symbol, an address of the file. Executables have names like others',
 * so a label stands before them, or their path behind: "    symbol: app_process64[+1a2c]", "  5c41a2c
 * app_process64[+1a2c] (/system/bin/app_process64)". Callers are lowered already. plus: of "[+". */
static const char *read_simpleperf(struct text_reader *r, struct rest line, const char *plus)
{
	struct text_frame f = {.base = TEXT_ELF};
	struct rest hex = {plus + 1, line.end};
	const char *end = plus - 1, *name = end;
	if (!take_hex(&hex, &f.offset) || !take_literal(&hex, "]"))
		return NULL;
	while (name > line.at && end - name <= TEXT_NAME_MAX && !ends_name((unsigned char)name[-1]))
		name--;
	struct str module = between(name, end), behind = between(hex.at, line.end);
	blanks(&line);
	bool labelled = take_literal(&line, "symbol: ") && line.at == name;
	bool told = behind.len > module.len + 1 && str_equal(str_first(behind, 2), str_from(" (")) &&
	            behind.data[behind.len - 1] == ')' && behind.data[behind.len - 2 - module.len] == '/' &&
	            !memcmp(behind.data + behind.len - 1 - module.len, name, module.len);
	if (!module.len || !(labelled || told || is_module(r, module)))
		return NULL;
	text_found_behind(r, &f, TEXT_EXACT, module, hex.at);
	return hex.at;
}

/* The module that ends at `end`, before a plus. from: where the frame may begin. close: the bracket behind the offset;
 * NULL: there is none. */
static const char *anything_module(
        const struct text_reader *r, struct rest line, const char *from, const char *end, const char *close)
{
	uint64_t ignored;
	const char *open = close ? text_path_opening(from, close) : NULL;
	const char *counted = from == line.at ? breakpad_module(line, &ignored) : NULL;
	if (counted && counted < end && is_blank((unsigned char)*end))
		return counted;
	if (open && (text_is_rooted(open + 1, end) || (r->hotspot_depth && *open == '[')))
		return open + 1;
	return text_path_start(from, end);
}

/* The frame around this plus sign; returns what follows it, or NULL. */
static const char *read_at(struct text_reader *r, struct rest line, const char *plus, const char *from)
{
	struct text_frame f = {.base = TEXT_IMAGE};
	struct rest hex = {plus + 1, line.end};
	uint64_t number;
	bool spaced = plus > from && plus[-1] == ' ' && take_literal(&hex, " ");
	if (!take_0x(&hex, &f.offset) || hex_value(peek(&hex)) >= 0 || (peek(&hex) | 0x20) == 'x')
		return NULL;
	/* a folder's name, or SystemTap's size: who knows which of these are return addresses? */
	if (peek(&hex) == '/' || peek(&hex) == '\\')
		return NULL;
	const char *end = spaced ? plus - 1 : plus, *close = peek(&hex) == ')' || peek(&hex) == ']' ? hex.at : NULL;
	size_t before = end - from < TEXT_NAME_MAX ? (size_t)(end - from) : TEXT_NAME_MAX;
	if (before > r->search_left)
		return NULL;
	r->search_left -= before;
	if (end > from && end[-1] == '"')
		end--;
	const char *name = anything_module(r, line, from, end, close);
	if (name >= end || !is_module(r, between(name, end)))
		return NULL;
	if (close && name > from && name[-1] == (*close == ')' ? '(' : '['))
		hex.at++;
	f.address = f.offset;
	/* OpenJ9: "Java_J_die+0x12 (0x00007F6D7D4E4112 [libjn.so+0x112c])" */
	bool caller = hex.at[-1] == ']' && peek(&hex) == ')';
	if (from == line.at)
		caller = caller || r->hotspot_depth > 1 || (breakpad_module(line, &number) == name && number);
	if (caller)
		text_caller(r, &f, between(name, end), NOTHING);
	text_lower_base(&f, between(name, end));
	if (!r->hotspot_depth && !text_is_counted(line))
		r->begins = name; /* the line may say more than this frame */
	text_edit_one(r, &f, hex.at, hex.at, TEXT_PARENTHESES);
	text_found(r, &f, between(name, end), text_build_id((struct rest){hex.at, line.end}), TEXT_ID_BUILD);
	return hex.at;
}

static bool read_anything(struct text_reader *r, struct rest line)
{
	const char *from = line.at, *at = from;
	for (unsigned i = 0; i < SIGNS_MAX && r->frames < FRAMES_MAX && at < line.end && !r->result; i++) {
		const char *plus = memchr(at, '+', (size_t)(line.end - at));
		if (!plus)
			break;
		bool bracket = plus > line.at && plus[-1] == '[';
		const char *after = bracket ? read_simpleperf(r, line, plus) : read_at(r, line, plus, from);
		from = after ? after : from;
		at = after ? after : plus + 1;
	}
	return r->frames > 0;
}

TEXT_FORMAT(text_glibc, .names = "glibc, Ruby", .which = TEXT_FLOATING, .signs = SIGN_HEX, .read = text_read_glibc);

TEXT_FORMAT(text_perf, .names = "perf script", .which = TEXT_ANCHORED, .signs = SIGN_PAREN, .read = read_perf);

TEXT_FORMAT(text_perf_report, .names = "perf report", .which = TEXT_ANCHORED, .signs = SIGN_HEX | SIGN_QUOTE,
        .read = read_perf_report, .state_size = sizeof(bool) /* the heading has the columns that it needs */);

TEXT_FORMAT(text_bpftrace, .names = "bpftrace", .which = TEXT_ANCHORED, .signs = SIGN_HEX | SIGN_PLUS, .begins = "@",
        .read = read_bpftrace, .state_size = sizeof(struct bpftrace));

TEXT_FORMAT(text_module_lines, .which = TEXT_ANCHORED, .signs = SIGN_BUILD, .begins = "M",
        .words = TEXT_WORDS("MODULE "), .read = read_module_line);

TEXT_FORMAT(text_anything, .names = "hs_err of Java, simpleperf, NAME+0xOFFSET", .which = TEXT_ANYWHERE,
        .signs = SIGN_PLUS, .words = TEXT_WORDS("symbol: "), .read = read_anything);
