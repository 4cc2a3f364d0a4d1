/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>
#include <stdlib.h>

#include "extract/undecorate.h"

/* A suffix is one of these words, perhaps followed by a number. */
static const char *const suffixes[] = {".isra", ".part", ".constprop", ".cold", ".llvm", ".lto_priv"};

static bool is_suffix(struct str s)
{
	for (size_t i = 0; i < sizeof suffixes / sizeof *suffixes; i++)
		if (str_equal(s, str_from(suffixes[i])))
			return true;
	return false;
}

static size_t last_dot(struct str s, size_t len)
{
	const char *dot = memrchr(s.data, '.', len);
	return dot ? (size_t)(dot - s.data) : 0;
}

static bool is_number(const char *s, size_t len)
{
	for (size_t i = 0; i < len; i++)
		if (!isdigit((unsigned char)s[i]))
			return false;
	return len > 0;
}

struct str demangle_base(struct str name)
{
	for (size_t cut; (cut = last_dot(name, name.len)) > 0; name.len = cut) {
		size_t word_end = name.len;
		if (is_number(name.data + cut + 1, name.len - cut - 1)) {
			word_end = cut;
			cut = last_dot(name, cut);
		}
		if (cut == 0 || !is_suffix((struct str){name.data + cut, word_end - cut}))
			break;
	}
	return name;
}

/* A short mangled name can stand for gigabytes. The only way to stop the library is to leave its callback; it holds no
 * heap memory while it prints C++ names, and a few bytes for Rust's. */
struct output {
	struct buffer *out;
	size_t max;
	jmp_buf stop;
};

static void append_text(const char *text, size_t len, void *arg)
{
	struct output *o = arg;
	if (o->out->len + len > o->max || !buffer_append(o->out, text, len))
		longjmp(o->stop, 1);
}

static bool starts_with(struct str s, const char *prefix)
{
	size_t n = strlen(prefix);
	return s.len > n && memcmp(s.data, prefix, n) == 0;
}

static bool is_of_d(struct str name)
{
	return starts_with(name, "_D") && (isdigit((unsigned char)name.data[2]) || str_equal(name, str_from("_Dmain")));
}

bool demangle_wanted(struct str name)
{
	return starts_with(name, "_Z") || starts_with(name, "_R") || starts_with(name, "__Z") ||
	       starts_with(name, "?") || is_of_d(name);
}

/* The library cannot be stopped while it demangles names of D, whose references (Q, and how far back in base 26) may
 * each double what was before. So a name is demangled if even then it would be no longer than this. */
enum { D_INPUT_MAX = 4096, D_EXPANDED_MAX = 8 << 20 };

/* How far back the reference at `at` points; 0: none is there. */
static size_t reference_distance(struct str name, size_t at)
{
	size_t distance = 0, i = at + 1;
	while (i < name.len && isupper((unsigned char)name.data[i]) && distance < D_INPUT_MAX)
		distance = 26 * distance + (size_t)(name.data[i++] - 'A');
	if (name.data[at] != 'Q' || i >= name.len || !islower((unsigned char)name.data[i]))
		return 0;
	distance = 26 * distance + (size_t)(name.data[i] - 'a');
	return distance <= at ? distance : 0;
}

static size_t word_length(struct str name, size_t at)
{
	size_t len = 0;
	while (at < name.len && isdigit((unsigned char)name.data[at]) && len < name.len)
		len = 10 * len + (size_t)(name.data[at++] - '0');
	return len < name.len ? len : name.len;
}

static bool d_is_short(struct str name)
{
	uint32_t expanded[D_INPUT_MAX + 1] = {0}; /* the length of what is before each byte */
	for (size_t i = 0; i < name.len; i++) {
		size_t distance = reference_distance(name, i), word = word_length(name, i - distance);
		expanded[i + 1] = expanded[i] + 1;
		if (distance > 0)
			expanded[i + 1] += word > 0 ? (uint32_t)word : expanded[i] - expanded[i - distance];
		if (expanded[i + 1] > D_EXPANDED_MAX)
			return false;
	}
	return true;
}

static bool demangle_d(struct buffer *out, const char *mangled)
{
	char *text = dlang_demangle(mangled, 0);
	size_t len = text ? strlen(text) : 0;
	bool ok = len > 0 && len <= DEMANGLE_OUTPUT_MAX && buffer_append(out, text, len);
	free(text);
	return ok;
}

static bool demangle_either(struct output *o, const char *mangled)
{
	int options = DMGL_PARAMS | DMGL_ANSI | DMGL_NO_RECURSE_LIMIT;
	if (setjmp(o->stop) != 0)
		return false;
	size_t before = o->out->len;
	if (rust_demangle_callback(mangled, options, append_text, o))
		return true;
	o->out->len = before;
	return cplus_demangle_v3_callback(mangled, options, append_text, o);
}

bool demangle(struct buffer *out, struct str mangled)
{
	char text[DEMANGLE_INPUT_MAX];
	if (mangled.len >= sizeof text || !demangle_wanted(mangled))
		return false;
	if (starts_with(mangled, "?"))
		return undecorate(out, mangled, DEMANGLE_OUTPUT_MAX);
	memcpy(text, mangled.data, mangled.len);
	text[mangled.len] = 0;
	size_t before = out->len;
	struct output o = {.out = out, .max = before + DEMANGLE_OUTPUT_MAX};
	bool ok = !is_of_d(mangled) ? demangle_either(&o, text)
	                            : mangled.len <= D_INPUT_MAX && d_is_short(mangled) && demangle_d(out, text);
	if (!ok)
		out->len = before;
	return ok;
}
