/* SPDX-License-Identifier: Apache-2.0 */
/* What the Linux kernel says of itself, by functions; and of a program that a signal ended. Of the latter, on x86,
 * powerpc and MIPS a line has the address and the mapping that it lies in. On arm64, RISC-V and LoongArch the address
 * is in the registers, some lines below. */
#include <config.h>

#include "text/formats.h"
#include "text/signs.h"

enum { REGISTER_LINES = 12 }; /* from the line with the mapping to that with the registers */

struct segment {
	uint64_t start, size, offset; /* offset: in the file; at which address, the line says */
	bool told;                    /* it is */
};

struct kernel {
	char name[256]; /* of the file whose mapping the line told */
	size_t name_len;
	struct segment segment;
	uint64_t line; /* of the mapping; 0: none waits for its registers */
	bool has_pc;
};

/* "1109,7f3356c8b000+1000]": an offset in the file, and where the mapping begins; older kernels tell no offset. */
static bool take_segment(struct rest *r, struct segment *s)
{
	if (!take_hex(r, &s->start))
		return false;
	s->told = take_literal(r, ",");
	s->offset = s->start;
	return (!s->told || take_hex(r, &s->start)) && take_literal(r, "+") && take_hex(r, &s->size) &&
	       take_literal(r, "]");
}

/* The first " in NAME[…]" behind what tells of the address: names of programs and prefixes of logs, which stand before
 * it, may have one, too. *end: just behind it. */
static bool find_segment(struct rest line, struct str *name, struct segment *s, const char **end)
{
	static const char *const words[] = {" ip ", " ip:", " nip ", "unhandled ", "epc = ", "ra  = ", "ra = "};
	const char *in = NULL;
	for (size_t i = 0; i < sizeof words / sizeof *words && !in; i++) {
		const char *word = find_word(line.at, line.end, words[i]);
		in = word ? find_word(word, line.end, " in ") : NULL;
	}
	const char *from = in ? in + strlen(" in ") : line.end, *open = from;
	while (open < line.end && (open = memchr(open + 1, '[', (size_t)(line.end - open - 1)))) {
		struct rest rest = {open + 1, line.end};
		if (!take_segment(&rest, s))
			continue;
		*name = between(from, open);
		*end = rest.at;
		return true;
	}
	return false;
}

static bool covers(const struct segment *s, uint64_t address)
{
	return address >= s->start && address - s->start < s->size;
}

/* offset: of s->start in the file, if has_offset. end: where the name goes. */
static bool found_in(struct text_reader *r, struct str name, const struct segment *s, uint64_t address,
        enum text_address is, const char *end)
{
	struct text_frame f = {.base = s->told ? TEXT_FILE : TEXT_EXEC, .offset = address - s->start};
	f.offset += s->told ? s->offset : 0;
	return text_found_behind(r, &f, is, name, end);
}

/* Behind the word, unless it is a part of another one. */
static bool find_address(struct rest line, const char *word, uint64_t *address)
{
	const char *at = find_word(line.at, line.end, word);
	struct rest hex = {at ? at + strlen(word) : line.end, line.end};
	return take_hex(&hex, address) && (hex.at == hex.end || is_blank(*hex.at));
}

/* "app[123]: segfault at 0 ip 00007f… sp … error 4 in libdie.so[1109,7f3356c8b000+1000]", "traps: app[123] general
 * protection fault ip:… sp:… error:0 in …", "app[123]: segfault (11) at 0 nip 7fff8a2b0614 lr 7fff8a2b065c code 1 in …"
 * and, in lines of their own, "epc = 77b893dc in …" and "ra  = 77b8930c in …", a return address. */
static bool read_with_address(
        struct text_reader *r, struct rest line, struct str name, const struct segment *s, const char *end)
{
	static const struct {
		const char *word, *also;
		enum text_address is;
	} forms[] = {{" ip ", " error", TEXT_EXACT}, {" ip:", " error", TEXT_EXACT}, {" nip ", " code ", TEXT_EXACT},
	        {"epc = ", " in ", TEXT_EXACT}, {"ra  = ", " in ", TEXT_CALL}, {"ra = ", " in ", TEXT_CALL}};
	struct segment at = *s;
	uint64_t address;
	for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
		if (!find_address(line, forms[i].word, &address) || !find_word(line.at, end, forms[i].also))
			continue;
		if (s->told) /* the offset is that of the address */
			at.start = address;
		return (s->told || covers(s, address)) && found_in(r, name, &at, address, forms[i].is, end);
	}
	return false;
}

/* "app[123]: unhandled exception: DABT (lower EL), ESR 0x92000046, level 2 translation fault in
 * app[aaaad5c50000+1000]", "app[123]: unhandled signal 11 code 0x1 at 0x0000000000000000 in app[2aaaaaa000+1000]". */
static bool note_segment(
        struct text_reader *r, struct rest line, struct str name, const struct segment *s, const char *end)
{
	struct kernel *k = r->state;
	if (!find_word(line.at, end, "unhandled ") || name.len > sizeof k->name)
		return false;
	memcpy(k->name, name.data, name.len);
	k->name_len = name.len;
	k->segment = *s;
	k->line = r->line;
	k->has_pc = false;
	text_await(r, REGISTER_LINES);
	return s->told && found_in(r, name, &(struct segment){.told = true, .offset = s->offset}, 0, TEXT_EXACT, end);
}

/* "pc : 0000aaaad5c50754", "pc : [<0000007f8a2b0112>]": *end is behind the digits and what is around them. */
static bool take_register(struct rest *line, const char *const *names, uint64_t *address)
{
	struct rest r = *line;
	for (; *names; names++) {
		if (!take_literal(&r, *names))
			continue;
		blanks(&r);
		if (!take_literal(&r, ":"))
			return false;
		blanks(&r);
		bool marked = take_literal(&r, "[<");
		if (!take_hex(&r, address) || (marked && !take_literal(&r, ">]")))
			return false;
		*line = r;
		return true;
	}
	return false;
}

/* Where the signal came, and the return address of a function that called no other. */
static bool read_registers(struct text_reader *r, struct rest line)
{
	static const char *const counters[] = {"epc", "pc", "era", NULL}, *const links[] = {"ra", "lr", NULL};
	struct kernel *k = r->state;
	struct str name = {k->name, k->name_len};
	uint64_t address;
	if (!k->line || r->line - k->line > REGISTER_LINES)
		return false;
	blanks(&line);
	if (!k->has_pc && take_register(&line, counters, &address)) {
		bool told = k->segment.told;
		k->has_pc = covers(&k->segment, address);
		if (told && k->has_pc) /* so far the offset is that of this address */
			k->segment.offset -= address - k->segment.start;
		else if (k->has_pc)
			found_in(r, name, &k->segment, address, TEXT_EXACT, line.at);
	}
	blanks(&line);
	if (k->has_pc && take_register(&line, links, &address)) {
		k->line = 0;
		if (covers(&k->segment, address))
			found_in(r, name, &k->segment, address, TEXT_CALL, line.at);
	}
	return r->frames > 0;
}

static bool read_kernel(struct text_reader *r, struct rest line)
{
	struct segment segment;
	struct str name;
	const char *end;
	if (!find_segment(line, &name, &segment, &end))
		return false;
	return read_with_address(r, line, name, &segment, end) || note_segment(r, line, name, &segment, end);
}

/* ---- the kernel itself ---- */

static bool ends_symbol(int c)
{
	return !is_letter(c) && !is_digit(c) && !strchr("_.$", c);
}

/* " [xfs]", also with a build id behind the name; *end is passed. Empty: nothing, or what is no module's. */
static struct str take_module(const char **end, const char *stop)
{
	struct rest r = {*end, stop};
	if (!take_literal(&r, " ["))
		return NOTHING;
	const char *from = r.at;
	while (!ends_symbol(peek(&r)) || peek(&r) == '-')
		r.at++;
	struct str name = between(from, r.at);
	blanks(&r);
	take_hex_digits(&r);
	if (!take_literal(&r, "]"))
		return NOTHING;
	*end = r.at;
	return name;
}

/* Under which name the user has told the file; empty: under none. */
static struct str known_module(const struct text_reader *r, struct str name, char room[TEXT_NAME_MAX])
{
	struct str file = {room, name.len + strlen(".ko")};
	if (!name.len)
		name = str_from("vmlinux");
	if (text_modules_is_known(&r->modules, name) || file.len > TEXT_NAME_MAX)
		return text_modules_is_known(&r->modules, name) ? name : NOTHING;
	memcpy(room, name.data, name.len);
	memcpy(room + name.len, ".ko", strlen(".ko"));
	return text_modules_is_known(&r->modules, file) ? file : NOTHING;
}

/* Where the kernel stopped, and no return address, stands behind one of these. */
static bool is_where_it_stopped(const char *from, const char *name)
{
	static const char *const words[] = {
	        "IP: ", "IP is at ", "pc : ", "PC is at ", "epc : ", "epc   : ", " ERA: ", "NIP ", "WARNING: "};
	for (size_t i = 0; i < sizeof words / sizeof *words; i++)
		if (find_word(from, name, words[i]))
			return true;
	return false;
}

/* "RIP: 0010:f+0x12/0x40", " ? f+0x12/0x40 [mod]": an offset in a function of this size, of a module for which the user
 * gives a file. */
static bool read_oops(struct text_reader *r, struct rest line)
{
	struct text_frame f = {.base = TEXT_FUNCTION};
	struct rest at = line;
	char room[TEXT_NAME_MAX];
	const char *plus = r->uses_fixed ? find_word(line.at, line.end, "+0x") : NULL, *name = plus;
	at.at = plus ? plus + 1 : line.end;
	if (!take_0x(&at, &f.offset) || !take_literal(&at, "/") || !take_0x(&at, &f.function_size) ||
	        f.offset > f.function_size)
		return false;
	while (name > line.at && plus - name < TEXT_NAME_MAX && !ends_symbol((unsigned char)name[-1]))
		name--;
	const char *end = at.at;
	struct str module = take_module(&end, line.end);
	if (name == plus || (peek(&at) == ' ' && !module.len && at.end - at.at > 1 && at.at[1] == '['))
		return false; /* SystemTap's "f+0x12/0x40 [/usr/bin/app]" */
	module = known_module(r, module, room);
	if (!module.len)
		return false;
	r->begins = name;
	f.own.function = text_span_of(r, between(name, plus));
	/* several such lines have "RIP: 0010:" in common, as if that were a log's prefix */
	bool exact = is_where_it_stopped(r->mapped ? r->unescaped->text : r->start, name);
	return text_found_behind(r, &f, exact ? TEXT_EXACT : TEXT_CALL, module, end);
}

TEXT_FORMAT(text_kernel, .names = "Linux kernel", .which = TEXT_ANCHORED, .signs = SIGN_PLUS, .read = read_kernel,
        .state_size = sizeof(struct kernel));

TEXT_FORMAT(text_registers, .which = TEXT_ANCHORED, .signs = TEXT_AWAITED,
        .words = TEXT_WORDS("epc", "ra ", "pc ", "lr "), .read = read_registers, .state_of = &text_kernel);

TEXT_FORMAT(text_oops, .which = TEXT_FLOATING, .signs = SIGN_PLUS, .read = read_oops);
