/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/undecorate.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/arena.h"

enum {
	BACK_REFERENCES = 10,
	DEPTH_MAX = 64,        /* names and types within each other */
	SCRATCH_PER_BYTE = 16, /* memory for parts of a name, by the most that it may become */
	SCOPES_MAX = 64,
};

/* The text of a type around what it declares: int (* and )(char). */
struct type {
	struct str before, after;
	bool goes_on; /* a function or an array: a pointer to it needs parentheses */
};

/* What names and types are referred to by a digit; a template has its own. */
struct back {
	struct str names[BACK_REFERENCES];
	struct str types[BACK_REFERENCES];
	unsigned name_count, type_count;
};

struct parser {
	const char *at, *end;
	struct arena arena;
	struct back back;
	unsigned depth;
	bool failed;
};

/* The name of a symbol. */
struct symbol_name {
	struct str scopes; /* with "::" behind */
	struct str inner;  /* the innermost scope, whose constructor has its name */
	struct str name;
	char structor;   /* '0' or '1': a constructor or destructor, '\0': neither */
	bool conversion; /* to the type that it returns */
};

static struct str parse_symbol(struct parser *p);
static struct type parse_type(struct parser *p);
static struct str type_text(struct parser *p, struct type t);
static struct str parse_type_name(struct parser *p);
static struct str parse_qualified(struct parser *p, struct str inner, struct str *innermost);

static const struct str nothing = {"", 0};

static struct str fail(struct parser *p)
{
	p->failed = true;
	p->at = p->end;
	return nothing;
}

static bool is_next(const struct parser *p, char c)
{
	return p->at < p->end && *p->at == c;
}

static bool take(struct parser *p, char c)
{
	bool is = is_next(p, c);
	p->at += is;
	return is;
}

static bool take_text(struct parser *p, const char *text)
{
	size_t n = strlen(text);
	bool is = (size_t)(p->end - p->at) >= n && memcmp(p->at, text, n) == 0;
	p->at += is ? n : 0;
	return is;
}

static char next(struct parser *p)
{
	if (p->at < p->end)
		return *p->at++;
	fail(p);
	return 0;
}

/* The texts one behind the other, up to a NULL. */
static struct str join(struct parser *p, const struct str *parts, size_t count)
{
	size_t len = 0;
	for (size_t i = 0; i < count; i++)
		len += parts[i].len;
	char *text = arena_alloc(&p->arena, len + 1);
	if (!text)
		return fail(p);
	struct str all = {text, len};
	for (size_t i = 0; i < count; i++) {
		memcpy(text, parts[i].data, parts[i].len);
		text += parts[i].len;
	}
	return all;
}

static struct str join3(struct parser *p, struct str a, const char *b, struct str c)
{
	return join(p, (struct str[]){a, str_from(b), c}, 3);
}

static bool enter(struct parser *p)
{
	if (++p->depth > DEPTH_MAX)
		fail(p);
	return !p->failed;
}

static void remember(struct str *table, unsigned *count, struct str s)
{
	if (*count < BACK_REFERENCES)
		table[(*count)++] = s;
}

static void remember_name(struct parser *p, struct str s)
{
	for (unsigned i = 0; i < p->back.name_count; i++)
		if (str_equal(p->back.names[i], s))
			return;
	remember(p->back.names, &p->back.name_count, s);
}

/* ---- numbers, simple names ---- */

/* A digit is one less than the number; others are letters for hexadecimal digits, up to '@'. */
static uint64_t parse_number(struct parser *p, bool *negative)
{
	uint64_t v = 0;
	*negative = take(p, '?');
	if (p->at < p->end && *p->at >= '0' && *p->at <= '9')
		return (uint64_t)(*p->at++ - '0') + 1;
	for (unsigned i = 0; i < 17; i++) {
		char c = next(p);
		if (c == '@')
			return v;
		if (c < 'A' || c > 'P')
			break;
		v = v << 4 | (uint64_t)(c - 'A');
	}
	fail(p);
	return 0;
}

static struct str parse_number_text(struct parser *p)
{
	char text[24];
	bool negative;
	uint64_t v = parse_number(p, &negative);
	int n = snprintf(text, sizeof text, "%s%llu", negative ? "-" : "", (unsigned long long)v);
	return join(p, &(struct str){text, (size_t)n}, 1);
}

/* Distances have 32 bits. */
static struct str parse_distance_text(struct parser *p)
{
	char text[16];
	bool negative;
	int n = snprintf(text, sizeof text, "%ld", (long)(int32_t)(uint32_t)parse_number(p, &negative));
	return join(p, &(struct str){text, (size_t)n}, 1);
}

static struct str parse_simple(struct parser *p)
{
	const char *end = memchr(p->at, '@', (size_t)(p->end - p->at));
	if (!end || end == p->at)
		return fail(p);
	struct str s = {p->at, (size_t)(end - p->at)};
	p->at = end + 1;
	return s;
}

static struct str parse_back_name(struct parser *p)
{
	unsigned i = (unsigned)(next(p) - '0');
	return i < p->back.name_count ? p->back.names[i] : fail(p);
}

static bool at_digit(const struct parser *p)
{
	return p->at < p->end && *p->at >= '0' && *p->at <= '9';
}

/* ---- operators ---- */

static const char *const operators[] = {['2'] = "operator new",
        ['3'] = "operator delete",
        ['4'] = "operator=",
        ['5'] = "operator>>",
        ['6'] = "operator<<",
        ['7'] = "operator!",
        ['8'] = "operator==",
        ['9'] = "operator!=",
        ['A'] = "operator[]",
        ['B'] = "operator",
        ['C'] = "operator->",
        ['D'] = "operator*",
        ['E'] = "operator++",
        ['F'] = "operator--",
        ['G'] = "operator-",
        ['H'] = "operator+",
        ['I'] = "operator&",
        ['J'] = "operator->*",
        ['K'] = "operator/",
        ['L'] = "operator%",
        ['M'] = "operator<",
        ['N'] = "operator<=",
        ['O'] = "operator>",
        ['P'] = "operator>=",
        ['Q'] = "operator,",
        ['R'] = "operator()",
        ['S'] = "operator~",
        ['T'] = "operator^",
        ['U'] = "operator|",
        ['V'] = "operator&&",
        ['W'] = "operator||",
        ['X'] = "operator*=",
        ['Y'] = "operator+=",
        ['Z'] = "operator-="};
/* behind '_' */
static const char *const more_operators[] = {['0'] = "operator/=",
        ['1'] = "operator%=",
        ['2'] = "operator>>=",
        ['3'] = "operator<<=",
        ['4'] = "operator&=",
        ['5'] = "operator|=",
        ['6'] = "operator^=",
        ['7'] = "`vftable'",
        ['8'] = "`vbtable'",
        ['9'] = "`vcall'",
        ['A'] = "`typeof'",
        ['B'] = "`local static guard'",
        ['C'] = "`string'",
        ['D'] = "`vbase destructor'",
        ['E'] = "`vector deleting destructor'",
        ['F'] = "`default constructor closure'",
        ['G'] = "`scalar deleting destructor'",
        ['H'] = "`vector constructor iterator'",
        ['I'] = "`vector destructor iterator'",
        ['J'] = "`vector vbase constructor iterator'",
        ['K'] = "`virtual displacement map'",
        ['L'] = "`eh vector constructor iterator'",
        ['M'] = "`eh vector destructor iterator'",
        ['N'] = "`eh vector vbase constructor iterator'",
        ['O'] = "`copy constructor closure'",
        ['P'] = "`udt returning'",
        ['S'] = "`local vftable'",
        ['T'] = "`local vftable constructor closure'",
        ['U'] = "operator new[]",
        ['V'] = "operator delete[]",
        ['X'] = "`placement delete closure'",
        ['Y'] = "`placement delete[] closure'"};
/* behind "__" */
static const char *const rare_operators[] = {['A'] = "`managed vector constructor iterator'",
        ['B'] = "`managed vector destructor iterator'",
        ['C'] = "`EH vector copy constructor iterator'",
        ['D'] = "`EH vector vbase copy constructor iterator'",
        ['G'] = "`vector copy constructor iterator'",
        ['H'] = "`vector vbase copy constructor iterator'",
        ['I'] = "`managed vector vbase copy constructor iterator'",
        ['J'] = "`local static thread guard'",
        ['L'] = "operator co_await",
        ['M'] = "operator<=>"};
/* behind "_R" */
static const char *const descriptors[] = {['1'] = "`RTTI Base Class Descriptor'",
        ['2'] = "`RTTI Base Class Array'",
        ['3'] = "`RTTI Class Hierarchy Descriptor'",
        ['4'] = "`RTTI Complete Object Locator'"};

static struct str named(struct parser *p, const char *const *table, size_t size)
{
	unsigned char c = (unsigned char)next(p);
	return c < size && table[c] ? str_from(table[c]) : fail(p);
}
#define NAMED(p, table) named(p, table, sizeof table / sizeof *table)

/* What initializes a variable, or destroys it: its name, or as that of a static member its whole symbol. */
static struct str parse_initializer(struct parser *p, const char *what)
{
	struct str of;
	if (is_next(p, '?')) {
		of = parse_symbol(p);
		take(p, '@'); /* of two, one ends the name around it */
	} else {
		of = parse_qualified(p, nothing, NULL);
		p->at -= !p->failed; /* the last '@' ends the name around it, too */
	}
	return join(p, (struct str[]){str_from("`"), str_from(what), str_from(" for '"), of, str_from("''")}, 5);
}

static struct str parse_operator(struct parser *p, struct symbol_name *n)
{
	if (take_text(p, "_C@_")) { /* a digest of the text follows */
		p->at = p->end;
		return str_from("`string'");
	}
	if (is_next(p, '0') || is_next(p, '1')) {
		n->structor = next(p);
		return nothing;
	}
	if (!take(p, '_')) {
		n->conversion = is_next(p, 'B');
		return NAMED(p, operators);
	}
	if (take_text(p, "R0"))
		return join3(p, type_text(p, parse_type(p)), " ", str_from("`RTTI Type Descriptor'"));
	if (take(p, 'R')) {
		bool place = is_next(p, '1'), negative; /* four numbers: where the base class is */
		struct str name = NAMED(p, descriptors);
		for (unsigned i = 0; i < 4 && place; i++)
			parse_number(p, &negative);
		return name;
	}
	if (!take(p, '_'))
		return NAMED(p, more_operators);
	if (take(p, 'E'))
		return parse_initializer(p, "dynamic initializer");
	if (take(p, 'F'))
		return parse_initializer(p, "dynamic atexit destructor");
	if (take(p, 'K'))
		return join3(p, str_from("operator \"\""), "", parse_simple(p));
	return NAMED(p, rare_operators);
}

/* ---- templates ---- */

/* Pointers to members and functions, of a kind with so many numbers behind the symbol. */
static struct str parse_member_argument(struct parser *p, unsigned numbers, bool symbol)
{
	struct str s = symbol ? parse_symbol(p) : nothing;
	for (unsigned i = 0; i < numbers && !p->failed; i++)
		s = join3(p, s, s.len ? "," : "", parse_number_text(p));
	return join(p, (struct str[]){str_from("{"), s, str_from("}")}, 3);
}

static struct str type_text(struct parser *p, struct type t)
{
	return join(p, (struct str[]){t.before, t.after}, 2);
}

static struct str parse_constant(struct parser *p)
{
	switch (next(p)) {
	case '0':
		return parse_number_text(p);
	case '1':
		return join3(p, str_from("&"), "", parse_symbol(p));
	case 'E':
		return parse_symbol(p);
	case 'H':
		return parse_member_argument(p, 1, true);
	case 'I':
		return parse_member_argument(p, 2, true);
	case 'J':
		return parse_member_argument(p, 3, true);
	case 'F':
		return parse_member_argument(p, 2, false);
	case 'G':
		return parse_member_argument(p, 3, false);
	case 'M': /* the type of the constant comes first */
		parse_type(p);
		return parse_constant(p);
	default:
		return fail(p);
	}
}

/* False: an empty pack, which is no argument. */
static bool parse_template_argument(struct parser *p, struct str *out)
{
	if (take_text(p, "$S") || take_text(p, "$$V") || take_text(p, "$$$V") || take_text(p, "$$Z"))
		return false;
	if (take_text(p, "$$Y"))
		*out = parse_type_name(p);
	else if (is_next(p, '$') && p->end - p->at > 1 && p->at[1] != '$') {
		p->at++;
		*out = parse_constant(p);
	} else
		*out = type_text(p, parse_type(p));
	return true;
}

/* "name<arguments>", behind "?$". */
static struct str parse_template(struct parser *p, struct symbol_name *n)
{
	struct back outer = p->back;
	struct str all, argument;
	p->back = (struct back){.name_count = 0};
	if (!enter(p))
		return nothing;
	if (take(p, '?')) {
		all = parse_operator(p, n);
	} else {
		all = parse_simple(p);
		remember_name(p, all);
	}
	all = join3(p, all, "<", nothing);
	for (bool first = true; !p->failed && !take(p, '@');) {
		if (!parse_template_argument(p, &argument))
			continue;
		all = join3(p, all, first ? "" : ",", argument);
		first = false;
	}
	bool nested = all.len && all.data[all.len - 1] == '>';
	p->back = outer;
	p->depth--;
	return join3(p, all, nested ? " >" : ">", nothing);
}

/* ---- scopes ---- */

/* "?1??f@@YAXXZ": in a block of a function. */
static bool at_local_scope(const struct parser *p)
{
	const char *at = p->at + 1;
	if (at < p->end && *at >= '0' && *at <= '9')
		return at + 1 < p->end && at[1] == '?';
	while (at < p->end && *at >= 'A' && *at <= 'P')
		at++;
	return at + 1 < p->end && at > p->at + 1 && at[0] == '@' && at[1] == '?';
}

static struct str parse_scope(struct parser *p)
{
	struct symbol_name unused = {.structor = 0};
	if (at_digit(p))
		return parse_back_name(p);
	if (!is_next(p, '?')) {
		struct str s = parse_simple(p);
		remember_name(p, s);
		return s;
	}
	if (at_local_scope(p)) {
		p->at++;
		struct str number = parse_number_text(p);
		p->at++;
		struct str symbol = parse_symbol(p);
		return join(p, (struct str[]){str_from("`"), symbol, str_from("'::`"), number, str_from("'")}, 5);
	}
	p->at++;
	if (take(p, '$')) {
		struct str s = parse_template(p, &unused);
		remember_name(p, s);
		return s;
	}
	if (!take(p, 'A'))
		return fail(p);
	const char *end = memchr(p->at, '@', (size_t)(p->end - p->at));
	if (!end)
		return fail(p);
	p->at = end + 1;
	struct str s = str_from("`anonymous namespace'");
	remember(p->back.names, &p->back.name_count, s);
	return s;
}

/* The scopes behind a name, the innermost first, up to '@'; before the name, which may be empty. */
static struct str parse_scopes(struct parser *p, struct str name, struct str *innermost)
{
	struct str parts[2 * SCOPES_MAX + 1];
	size_t at = 2 * SCOPES_MAX;
	parts[at] = name;
	for (bool first = true; !p->failed && !take(p, '@'); first = false) {
		if (at < 2)
			return fail(p);
		parts[--at] = str_from("::");
		parts[--at] = parse_scope(p);
		if (first && innermost)
			*innermost = parts[at];
	}
	return join(p, parts + at, 2 * SCOPES_MAX + 1 - at);
}

/* A name that is not a symbol's own, with its scopes. */
static struct str parse_qualified(struct parser *p, struct str name, struct str *innermost)
{
	if (!enter(p))
		return nothing;
	if (!name.len)
		name = parse_scope(p);
	struct str s = parse_scopes(p, name, innermost);
	p->depth--;
	return s;
}

static struct str parse_type_name(struct parser *p)
{
	return parse_qualified(p, nothing, NULL);
}

/* ---- types ---- */

static const char *basic_type(char c)
{
	static const char *const names[] = {['C'] = "signed char",
	        ['D'] = "char",
	        ['E'] = "unsigned char",
	        ['F'] = "short",
	        ['G'] = "unsigned short",
	        ['H'] = "int",
	        ['I'] = "unsigned int",
	        ['J'] = "long",
	        ['K'] = "unsigned long",
	        ['M'] = "float",
	        ['N'] = "double",
	        ['O'] = "long double",
	        ['X'] = "void"};
	return c >= 0 && (size_t)c < sizeof names / sizeof *names ? names[(size_t)c] : NULL;
}

static const char *extended_type(char c)
{
	static const char *const names[] = {['D'] = "signed char",
	        ['E'] = "unsigned char",
	        ['F'] = "short",
	        ['G'] = "unsigned short",
	        ['H'] = "int",
	        ['I'] = "unsigned int",
	        ['J'] = "long long",
	        ['K'] = "unsigned long long",
	        ['L'] = "int128_t",
	        ['M'] = "uint128_t",
	        ['N'] = "bool",
	        ['P'] = "auto",
	        ['Q'] = "char8_t",
	        ['S'] = "char16_t",
	        ['T'] = "decltype(auto)",
	        ['U'] = "char32_t",
	        ['W'] = "wchar_t"};
	return c >= 0 && (size_t)c < sizeof names / sizeof *names ? names[(size_t)c] : NULL;
}

static const char *const qualifier_texts[] = {"", " const", " volatile", " const volatile"};

/* A to D; Q to T are those of members. */
static const char *parse_qualifiers(struct parser *p, bool *member)
{
	char c = next(p);
	*member = c >= 'Q' && c <= 'T';
	unsigned i = (unsigned)(c - (*member ? 'Q' : 'A'));
	if (i < 4)
		return qualifier_texts[i];
	fail(p);
	return "";
}

/* Of pointers: __ptr64, __restrict, __unaligned. */
static void skip_extended(struct parser *p)
{
	while (is_next(p, 'E') || is_next(p, 'I') || is_next(p, 'F'))
		p->at++;
}

/* A type says once that it is constant, by itself or by the pointer to it. */
static struct str qualify(struct parser *p, struct str type, const char *qualifiers)
{
	size_t n = strlen(qualifiers);
	bool has = type.len > n && memcmp(type.data + type.len - n, qualifiers, n) == 0;
	return has || !n ? type : join3(p, type, qualifiers, nothing);
}

static struct str parse_arguments(struct parser *p)
{
	struct str all = str_from("("), one;
	if (take(p, 'X'))
		return str_from("()");
	for (bool first = true; !p->failed; first = false) {
		if (take(p, '@'))
			return join3(p, all, ")", nothing);
		if (take(p, 'Z'))
			return join3(p, all, first ? "...)" : ", ...)", nothing);
		if (at_digit(p)) {
			unsigned i = (unsigned)(next(p) - '0');
			one = i < p->back.type_count ? p->back.types[i] : fail(p);
		} else {
			const char *start = p->at;
			one = type_text(p, parse_type(p));
			if (p->at - start > 1)
				remember(p->back.types, &p->back.type_count, one);
		}
		all = join3(p, all, first ? "" : ", ", one);
	}
	return nothing;
}

/* Of a member function: "this" is constant, and so on. */
static struct str parse_this(struct parser *p)
{
	bool member;
	const char *reference = "";
	for (;; p->at++) {
		if (is_next(p, 'G') || is_next(p, 'H'))
			reference = is_next(p, 'G') ? " &" : " &&";
		else if (!is_next(p, 'E') && !is_next(p, 'I') && !is_next(p, 'F'))
			break;
	}
	const char *qualifiers = parse_qualifiers(p, &member);
	return join3(p, str_from(qualifiers), reference, nothing);
}

/* From the calling convention on: what it returns, arguments, and what it throws. arguments: with what "this" is. */
static struct type parse_function(struct parser *p, struct str this, struct str *arguments)
{
	struct type result = {nothing, nothing, true};
	bool member;
	next(p);
	if (!take(p, '@')) {
		const char *qualifiers = take(p, '?') ? parse_qualifiers(p, &member) : "";
		result = parse_type(p);
		result.before = qualify(p, result.before, qualifiers);
	}
	*arguments = join3(p, parse_arguments(p), "", this);
	if (!take_text(p, "_E"))
		take(p, 'Z');
	result.after = join3(p, *arguments, "", result.after);
	result.goes_on = true;
	return result;
}

/* A pointer or reference to a type: its sign, perhaps with a class before it. */
static struct type point(struct parser *p, struct type to, struct str class, const char *sign, const char *qualifiers)
{
	char last = to.before.len ? to.before.data[to.before.len - 1] : '(';
	bool space = to.goes_on || class.len || (last != '*' && last != '&' && last != '(');
	const char *open = to.goes_on ? " (" : space ? " " : "";
	struct type t = {.goes_on = false};
	t.before = join(p,
	        (struct str[]){to.before, str_from(open), class, str_from(class.len ? "::" : ""), str_from(sign),
	                str_from(qualifiers)},
	        6);
	t.after = to.goes_on ? join3(p, str_from(")"), "", to.after) : to.after;
	return t;
}

static struct type parse_pointer(struct parser *p, const char *sign, const char *own)
{
	struct str class = nothing, arguments;
	bool member;
	if (take(p, '6'))
		return point(p, parse_function(p, nothing, &arguments), nothing, sign, own);
	if (take(p, '8')) {
		class = parse_type_name(p);
		struct str this = parse_this(p);
		return point(p, parse_function(p, this, &arguments), class, sign, own);
	}
	skip_extended(p);
	const char *qualifiers = parse_qualifiers(p, &member);
	if (member)
		class = parse_type_name(p);
	struct type to = parse_type(p);
	to.before = qualify(p, to.before, qualifiers);
	return point(p, to, class, sign, own);
}

/* Dimensions, and the type of an element. */
static struct type parse_array(struct parser *p)
{
	bool negative, member;
	uint64_t count = parse_number(p, &negative);
	struct str dimensions = nothing;
	if (count == 0 || count > DEPTH_MAX)
		fail(p);
	for (uint64_t i = 0; i < count && !p->failed; i++) {
		struct str number = parse_number_text(p); /* 0: it is not said */
		dimensions = join(p,
		        (struct str[]){dimensions, str_from("["), str_equal(number, str_from("0")) ? nothing : number,
		                str_from("]")},
		        4);
	}
	const char *qualifiers = take_text(p, "$$C") ? parse_qualifiers(p, &member) : "";
	struct type t = parse_type(p);
	t.before = qualify(p, t.before, qualifiers);
	t.after = join3(p, dimensions, "", t.after);
	t.goes_on = true;
	return t;
}

static struct type parse_special(struct parser *p)
{
	struct str arguments;
	bool member;
	if (take_text(p, "$A8@@"))
		return parse_function(p, parse_this(p), &arguments);
	if (take_text(p, "$A6"))
		return parse_function(p, nothing, &arguments);
	if (take_text(p, "$B"))
		return parse_type(p);
	if (take_text(p, "$Q"))
		return parse_pointer(p, "&&", "");
	if (take_text(p, "$R"))
		return parse_pointer(p, "&&", " volatile");
	if (take_text(p, "$T"))
		return (struct type){str_from("std::nullptr_t"), nothing, false};
	if (take_text(p, "$C")) {
		const char *qualifiers = parse_qualifiers(p, &member);
		struct type t = parse_type(p);
		t.before = qualify(p, t.before, qualifiers);
		return t;
	}
	return (struct type){fail(p), nothing, false};
}

static struct type parse_plain(struct parser *p, char c)
{
	switch (c) {
	case 'P':
	case 'Q':
	case 'R':
	case 'S':
		return parse_pointer(p, "*", qualifier_texts[c - 'P']);
	case 'A':
		return parse_pointer(p, "&", "");
	case 'B':
		return parse_pointer(p, "&", " volatile");
	case 'Y':
		return parse_array(p);
	case '$':
		return parse_special(p);
	case 'W':
		next(p); /* what the enumeration is made of */
		return (struct type){parse_type_name(p), nothing, false};
	case 'T':
	case 'U':
	case 'V':
		return (struct type){parse_type_name(p), nothing, false};
	default: {
		const char *name = c == '_' ? extended_type(next(p)) : basic_type(c);
		return (struct type){name ? str_from(name) : fail(p), nothing, false};
	}
	}
}

static struct type parse_type(struct parser *p)
{
	bool member;
	struct type t = {nothing, nothing, false};
	if (!enter(p))
		return t;
	const char *qualifiers = take(p, '?') ? parse_qualifiers(p, &member) : "";
	t = parse_plain(p, next(p));
	t.before = qualify(p, t.before, qualifiers);
	p->depth--;
	return t;
}

/* ---- symbols ---- */

static struct symbol_name parse_symbol_name(struct parser *p)
{
	struct symbol_name n = {nothing, nothing, nothing, 0, false};
	if (take_text(p, "?$")) {
		n.name = parse_template(p, &n);
	} else if (take(p, '?')) {
		n.name = parse_operator(p, &n);
	} else if (at_digit(p)) {
		n.name = parse_back_name(p);
	} else {
		n.name = parse_simple(p);
		remember_name(p, n.name);
	}
	n.scopes = p->at == p->end ? nothing : parse_scopes(p, nothing, &n.inner);
	if (n.structor)
		n.name = join3(p, str_from(n.structor == '1' ? "~" : ""), "", join3(p, n.inner, "", n.name));
	return n;
}

/* A variable: its type, which nobody needs. */
static void skip_variable(struct parser *p)
{
	bool member, pointer = p->at < p->end && strchr("PQRSAB", *p->at);
	parse_type(p);
	if (pointer)
		skip_extended(p);
	parse_qualifiers(p, &member);
	if (member)
		parse_type_name(p);
}

/* Tables of virtual functions and the like: for which base classes. */
static void skip_table(struct parser *p)
{
	bool member;
	parse_qualifiers(p, &member);
	while (!p->failed && !take(p, '@'))
		parse_type_name(p);
}

/* Of code that goes on to a virtual function. */
static struct str parse_thunk(struct parser *p, char kind)
{
	struct str numbers = nothing;
	unsigned count = kind == 'R' ? 4 : kind >= '0' && kind <= '5' ? 2 : 1;
	for (unsigned i = 0; i < count && !p->failed; i++)
		numbers = join3(p, numbers, i ? ", " : "", parse_distance_text(p));
	const char *what = kind == 'R' ? "`vtordispex{" : count == 2 ? "`vtordisp{" : "`adjustor{";
	return join(p, (struct str[]){str_from(what), numbers, str_from("}'")}, 3);
}

static struct str parse_encoding(struct parser *p, struct symbol_name *n)
{
	struct str this = nothing, thunk = nothing;
	take_text(p, "$$J0");
	char c = next(p);
	if (c >= '0' && c <= '4') {
		skip_variable(p);
		return join3(p, n->scopes, "", n->name);
	}
	if (c == '6' || c == '7')
		skip_table(p);
	if (c == '5' || c == '6' || c == '7' || c == '8' || c == '9')
		return join3(p, n->scopes, "", n->name);
	if (c == '$') {
		c = next(p);
		if (c == 'B') { /* a call by the number in a table */
			struct str number = parse_number_text(p);
			next(p);
			next(p);
			return join(p, (struct str[]){n->scopes, n->name, str_from("{"), number, str_from("}'")}, 5);
		}
		char kind = c == 'R' ? next(p) : c;
		if (kind < '0' || kind > '5')
			return fail(p);
		thunk = parse_thunk(p, c);
		this = parse_this(p);
	} else if (c < 'A' || c > 'Z') {
		return fail(p);
	} else if (c < 'Y') { /* of a class: eight letters for each access, static ones are the third and fourth */
		unsigned kind = (unsigned)(c - 'A') % 8;
		if (kind >= 6)
			thunk = parse_thunk(p, 'A');
		if (kind != 2 && kind != 3)
			this = parse_this(p);
	}
	struct str arguments;
	struct type f = parse_function(p, this, &arguments);
	struct str to = n->conversion ? join3(p, str_from(" "), "", f.before) : nothing;
	return join(
	        p, (struct str[]){str_from(thunk.len ? "[thunk]: " : ""), n->scopes, n->name, to, thunk, arguments}, 6);
}

static struct str parse_symbol(struct parser *p)
{
	if (!enter(p) || !take(p, '?'))
		return fail(p);
	struct symbol_name n = parse_symbol_name(p);
	struct str s = p->at == p->end && !p->failed ? join3(p, n.scopes, "", n.name) : parse_encoding(p, &n);
	p->depth--;
	return s;
}

bool undecorate(struct buffer *out, struct str name, size_t max)
{
	struct parser p = {.at = name.data, .end = name.data + name.len};
	arena_init(&p.arena, SCRATCH_PER_BYTE * max);
	struct str s = parse_symbol(&p);
	bool ok = !p.failed && p.at == p.end && s.len > 0 && s.len <= max && buffer_append_str(out, s);
	arena_release(&p.arena);
	return ok;
}
