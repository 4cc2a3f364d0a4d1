/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/demangle.h"

#include <ctype.h>
#include <libiberty/demangle.h>
#include <setjmp.h>

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

bool demangle_wanted(struct str name)
{
	return starts_with(name, "_Z") || starts_with(name, "_R") || starts_with(name, "__Z");
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
	memcpy(text, mangled.data, mangled.len);
	text[mangled.len] = 0;
	size_t before = out->len;
	struct output o = {.out = out, .max = before + DEMANGLE_OUTPUT_MAX};
	bool ok = demangle_either(&o, text);
	if (!ok)
		out->len = before;
	return ok;
}
