/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/guess.h"

enum {
	SEARCHED = 1000, /* bytes of a line */
	ADDRESS_DIGITS = 6,
	LANGUAGE = 3, /* points for a frame of a language that prints names */
};

static const char has_name[] = "It has a name already.";
static const char lacks_module[] =
        "It has an address but no module: add the memory map of the process (/proc/PID/maps, or the "
        "debugger's list of modules) to the text.";
static const char lacks_address[] =
        "It has no name and no address: nothing can be looked up. Run the program so that it prints addresses, "
        "or take the stack from a core dump, with gdb or coredumpctl.";
static const char lacks_id[] =
        "Offsets in a function are not looked up. If the name before + is a module, give its id: as NAME=ID, or in "
        "a line MODULE Linux x86_64 ID NAME.";

static bool has(struct rest line, const char *word)
{
	return find_word(line.at, line.end, word) != NULL;
}

/* k is rarer than u. */
static bool has_unknown(struct rest line)
{
	const char *at = line.at;
	while ((at = find_word(at, line.end, "known"))) {
		if (at - line.at >= 2 && at[-2] == 'u' && at[-1] == 'n')
			return true;
		at++;
	}
	return false;
}

/* A number that is written as an address. */
static bool has_address(struct rest line)
{
	const char *at = line.at;
	while ((at = find_0x(at, line.end))) {
		struct rest digits = {at, line.end};
		uint64_t ignored;
		if (take_0x(&digits, &ignored) && digits.at - at >= ADDRESS_DIGITS + 2)
			return true;
		at += 2;
	}
	return false;
}

/* "#3 ", "3: ", "at ", "by ", "@ ", "frame #3" at its beginning, behind valgrind's "==123==" or lldb's "*". */
static bool begins_like_frame(struct rest line)
{
	uint64_t number;
	struct rest marked = line;
	if (take_literal(&marked, "==") && take_decimal(&marked, &number) && take_literal(&marked, "=="))
		line = marked;
	blanks(&line);
	take_literal(&line, "* ");
	blanks(&line);
	struct rest counted = line;
	bool sign = take_literal(&counted, "#");
	if (take_decimal(&counted, &number) && (sign || take_literal(&counted, ": ") || take_literal(&counted, "# ")))
		return true;
	return take_literal(&line, "at ") || take_literal(&line, "by ") || take_literal(&line, "@ ") ||
	       take_literal(&line, "frame ");
}

/* glibc's "app(main+0x12) [0x55d9f3f4a1b2]", whose module may lie anywhere. */
static bool is_named_by_glibc(struct rest line)
{
	return has(line, ") [0x") || has(line, ")[0x");
}

/* Go's "	/src/main.go:8 +0x1a" */
static bool is_named_by_go(struct rest line)
{
	const char *plus = line.at;
	while ((plus = find_word(plus, line.end, "+0x")) && (plus == line.at || plus[-1] != ' '))
		plus++;
	return plus && has(line, ".go:");
}

/* Python's "  File "a.py", line 3, in f" */
static bool is_named_by_python(struct rest line)
{
	const char *file = find_word(line.at, line.end, "File \"");
	return file && file - line.at >= 2 && file[-1] == ' ' && file[-2] == ' ' && has(line, ", line ");
}

/* NAME+0x12, where NAME is not empty. */
static bool has_offset(struct rest line)
{
	const char *plus = find_word(line.at, line.end, "+0x");
	return plus && plus > line.at && !is_blank((unsigned char)plus[-1]) && plus[-1] != '(';
}

void guess_look(struct guess *g, struct rest line, uint64_t number, bool hex)
{
	if (line.end - line.at > SEARCHED)
		line.end = line.at + SEARCHED;
	bool begins = begins_like_frame(line), address = hex && has_address(line), offset = hex && has_offset(line);
	bool nameless = has(line, "??") || has_unknown(line) || has(line, "<null>");
	unsigned score = 2 * begins + 2 * address + 2 * nameless + 2 * offset;
	bool language = (hex && is_named_by_go(line)) || is_named_by_python(line),
	     named = language || (address && !nameless && (offset ? is_named_by_glibc(line) : begins));
	g->named += named;
	score += LANGUAGE * language;
	score += 2 * (address && nameless);                                     /* others have a name already */
	score += offset && !memchr(line.at, ' ', (size_t)(line.end - line.at)); /* in prose it stands among words */
	if (!(address || offset || nameless || language) || score + 2 <= g->score)
		return;
	score += has(line, ".so") + has(line, " in ");
	if (score < 3 || score <= g->score)
		return;
	g->score = score;
	g->line = number;
	g->is_named = named;
	g->missing = named ? has_name : offset ? lacks_id : address ? lacks_module : lacks_address;
	g->len = line.end - line.at < GUESS_MAX ? (size_t)(line.end - line.at) : GUESS_MAX;
	memcpy(g->text, line.at, g->len);
}
