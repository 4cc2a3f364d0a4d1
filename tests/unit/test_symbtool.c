/* SPDX-License-Identifier: Apache-2.0 */
/* The parts of extraction that need no executable: calls, names, segments of a function, covered code, kept strings. */
#include <config.h>

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <elf.h>
#include <pthread.h>

#include "extract/calls.h"
#include "extract/coverage.h"
#include "extract/demangle.h"
#include "extract/own_name.h"
#include "extract/intern.h"
#include "extract/segments.h"

/* ---- calls ---- */

struct found {
	size_t start, next;
};

static void check_calls(uint16_t machine, const uint8_t *bytes, size_t len, const struct found *want, size_t count)
{
	struct call_cursor c = {machine, bytes, len, 0};
	size_t start, next;
	for (size_t i = 0; i < count; i++) {
		assert_true(call_next(&c, &start, &next));
		assert_int_equal(start, want[i].start);
		assert_int_equal(next, want[i].next);
	}
	assert_false(call_next(&c, &start, &next));
}

static void calls_of_x86_64(void **state)
{
	(void)state;
	static const uint8_t bytes[] = {
	        0xe8, 1, 2, 3, 4,                   /* call near */
	        0xff, 0xd0,                         /* call *%rax */
	        0x41, 0xff, 0x54, 0x24, 8,          /* call *8(%r12) */
	        0xff, 0x1b,                         /* call far *(%rbx) */
	        0x0f, 0x05,                         /* syscall */
	        0xcd, 0x80,                         /* int $0x80 */
	        0xe9, 1, 2, 3, 4,                   /* jmp */
	        0xff, 0xe0,                         /* jmp *%rax */
	        0xcc,                               /* int3 */
	        0x48, 0xb8, 0xe8, 0xe8, 0xe8, 0xe8, /* mov $..., %rax: no call inside of it */
	        0xe8, 0xe8, 0xe8, 0xe8,             /* its end */
	        0x06,                               /* no instruction: skipped */
	        0xe8, 1, 2, 3, 4,                   /* call near */
	        0xe8, 1, 2,                         /* cut off */
	};
	static const struct found want[] = {{0, 5}, {5, 7}, {7, 12}, {12, 14}, {14, 16}, {16, 18}, {37, 42}};
	assert_true(calls_known(EM_X86_64));
	check_calls(EM_X86_64, bytes, sizeof bytes, want, sizeof want / sizeof *want);
}

static void calls_of_aarch64(void **state)
{
	(void)state;
	static const uint32_t words[] = {
	        0x94000010, /* bl */
	        0x14000010, /* b */
	        0xd63f0020, /* blr x1 */
	        0xd61f0020, /* br x1 */
	        0xd63f083f, /* blraaz x1 */
	        0xd63f0c3f, /* blrabz x1 */
	        0xd73f0822, /* blraa x1, x2 */
	        0xd73f0c22, /* blrab x1, x2 */
	        0xd71f0822, /* braa x1, x2 */
	        0xd4000001, /* svc #0 */
	        0xd4000002, /* hvc #0 */
	        0xd65f03c0, /* ret */
	        0x97ffffff, /* bl backwards */
	};
	static const struct found want[] = {
	        {0, 4}, {8, 12}, {16, 20}, {20, 24}, {24, 28}, {28, 32}, {36, 40}, {48, 52}};
	uint8_t bytes[sizeof words + 3] = {0};
	for (size_t i = 0; i < sizeof words; i++)
		bytes[i] = (uint8_t)(words[i / 4] >> 8 * (i % 4));
	check_calls(EM_AARCH64, bytes, sizeof bytes, want, sizeof want / sizeof *want);
	assert_false(calls_known(EM_RISCV));
	check_calls(EM_RISCV, bytes, sizeof bytes, NULL, 0);
}

/* ---- names ---- */

static void check_base(const char *name, const char *want)
{
	struct str got = demangle_base(str_from(name));
	assert_int_equal(got.len, strlen(want));
	assert_memory_equal(got.data, want, got.len);
}

static void suffixes_of_copies(void **state)
{
	(void)state;
	check_base("f.isra.0", "f");
	check_base("f.constprop.0.isra.1.cold", "f");
	check_base("f.part.12", "f");
	check_base("f.llvm.8371648", "f");
	check_base("f.lto_priv.0", "f");
	check_base("f.0", "f.0");
	check_base("f.isra", "f");
	check_base("f.isramen.0", "f.isramen.0");
	check_base(".cold", ".cold");
	check_base("a.b.cold.3", "a.b");
	check_base("", "");
	check_base(".", ".");
	check_base("12.3", "12.3");
}

static void check_demangled(const char *mangled, const char *want)
{
	struct buffer out;
	buffer_init(&out, 4 * DEMANGLE_OUTPUT_MAX);
	buffer_append(&out, "before", 6);
	bool ok = demangle(&out, str_from(mangled));
	assert_int_equal(ok, want != NULL);
	assert_int_equal(out.len, 6 + (want ? strlen(want) : 0));
	if (want)
		assert_memory_equal(out.data + 6, want, strlen(want));
	buffer_release(&out);
}

static void mangled_names(void **state)
{
	(void)state;
	check_demangled("_ZN3geo3VecIfLi4EE3dotERKS1_", "geo::Vec<float, 4>::dot(geo::Vec<float, 4> const&)");
	check_demangled("_ZN3AcclsEi", "Acc::operator<<(int)");
	check_demangled("_ZltRK1AS1_", "operator<(A const&, A const&)");
	check_demangled("_ZN12_GLOBAL__N_11fEv", "(anonymous namespace)::f()");
	check_demangled("_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE", "core::fmt::Write::write_fmt");
	check_demangled("_RNvC6_123foo3bar", "123foo::bar");
	check_demangled("_D4shop4Till5totalMFiZi", "shop.Till.total(int)");
	check_demangled("_D4shop3Box6__ctorMFNciZSQxQu", "shop.Box.this(int)");
	check_demangled("_Dmain", "D main");
	check_demangled("_D4shop", NULL);
	check_demangled("main", NULL);
	check_demangled("_Z", NULL);
	check_demangled("_Znonsense!", NULL);
	check_demangled("", NULL);
}

static void check_own(const char *name, const char *want)
{
	struct str got = own_name(str_from(name));
	assert_int_equal(got.len, strlen(want));
	assert_memory_equal(got.data, want, got.len);
}

static void own_names(void **state)
{
	(void)state;
	check_own("main", "main");
	check_own("double ns::Widget::turn<double>(double)", "turn");
	check_own("turn<ns::Box<int> >", "turn");
	check_own("pay(int)::{lambda(int)#1}::operator()(int) const", "operator()");
	check_own("operator()<std::basic_string_view<char> >", "operator()");
	check_own("std::ostream& std::operator<< <char>(std::ostream&, char const*)", "operator<<");
	check_own("bool operator< <int>(A<int>, A<int>)", "operator<");
	check_own("Acc::operator->() const", "operator->");
	check_own("Acc::operator[](int)", "operator[]");
	check_own("Acc::operator int() const", "operator");
	check_own("(anonymous namespace)::A::~A()", "~A");
	check_own("f[abi:cxx11](int)", "f");
	check_own("decltype (x->y) ns::g<int>(int)", "g");
	check_own("r::ns::Widget::turn::<f64>", "turn");
	check_own("<r::ns::Widget as r::ns::Shape>::area", "area");
	check_own("core::ptr::const_ptr::<impl *const T>::offset", "offset");
	check_own("r::main::{closure#0}", "closure");
	check_own("r::main::{{closure}}", "closure");
	check_own("void (*f<int>(int))(char)", "");
	check_own("", "");
	check_own("operator", "operator");
	check_own("<<<<((((", "");
	check_own("a>>))::b", "b");
}

/* A name of 300 bytes that stands for one of 2^30: each argument is a pair of the one before. */
static void a_name_that_explodes(void **state)
{
	(void)state;
	static const char digits[] = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ";
	char name[1024] = "_Z1f1AIiE1BIS0_S0_E";
	check_demangled(name, "f(A<int>, B<A<int>, A<int> >)");
	for (const char *d = digits + 2; d < digits + 32; d++)
		snprintf(name + strlen(name), sizeof name - strlen(name), "S1_IS%c_S%c_E", *d, *d);
	check_demangled(name, NULL);
}

/* The same of D: each argument is two references to the one before, 8 bytes back. */
static void a_name_of_d_that_explodes(void **state)
{
	(void)state;
	char name[1024];
	check_demangled("_D1a1fFHiiHQeQgZi", "a.f(int[int], int[int][int[int]])");
	strcpy(name, "_D1a1fFHii");
	size_t before = strlen(name) - 3;
	for (int i = 0; i < 60; i++) {
		size_t at = strlen(name);
		name[at] = 'H';
		snprintf(name + at + 1, sizeof name - at - 1, "Q%cQ%c", (int)('a' + at + 1 - before),
		        (int)('a' + at + 3 - before));
		before = at;
	}
	strcat(name, "Zi");
	check_demangled(name, NULL);
}

/* Demangling recurses: names as long as are taken must fit on the stack that extraction gives its threads. */
static void *demangle_deep(void *arg)
{
	(void)arg;
	static const char *const nested[] = {
	        "P", "1AI", "F", "N1A", "X", "Dp", "K", "S", "T", "sr", "pp", "cv", "L", "J", "I"};
	for (size_t i = 0; i < sizeof nested / sizeof *nested; i++) {
		char *name = calloc(1, DEMANGLE_INPUT_MAX + 1);
		size_t len = strlen(strcpy(name, "_Z1f"));
		for (size_t n = strlen(nested[i]); len + n < DEMANGLE_INPUT_MAX; len += n)
			memcpy(name + len, nested[i], n);
		struct buffer out;
		buffer_init(&out, 4 * DEMANGLE_OUTPUT_MAX);
		demangle(&out, (struct str){name, len});
		demangle(&out, (struct str){name, len - 1});
		buffer_release(&out);
		free(name);
	}
	return NULL;
}

static void names_that_nest_deeply(void **state)
{
	(void)state;
	pthread_attr_t attr;
	pthread_t thread;
	assert_int_equal(pthread_attr_init(&attr), 0);
	assert_int_equal(pthread_attr_setstacksize(&attr, 64 << 20), 0);
	assert_int_equal(pthread_create(&thread, &attr, demangle_deep, NULL), 0);
	assert_int_equal(pthread_join(thread, NULL), 0);
	pthread_attr_destroy(&attr);
}

/* ---- segments ---- */

static void check_segments(
        struct code_node *nodes, const struct code_piece *pieces, size_t n, const struct segment *want, size_t count)
{
	struct segments s = {0};
	assert_true(segments_make(&s, nodes, pieces, n));
	assert_int_equal(s.count, count);
	for (size_t i = 0; i < count; i++) {
		assert_int_equal(s.items[i].start, want[i].start);
		assert_int_equal(s.items[i].end, want[i].end);
		assert_int_equal(s.items[i].node, want[i].node);
	}
	segments_release(&s);
}

static void calls_within_calls(void **state)
{
	(void)state;
	struct code_node nodes[] = {{.parent = NO_NODE}, {.parent = 0, .depth = 1}, {.parent = 1, .depth = 2}};
	static const struct code_piece pieces[] = {
	        {100, 200, 0}, {110, 150, 1}, {110, 120, 2}, {140, 160, 2}, {300, 310, 0}};
	static const struct segment want[] = {
	        {100, 110, 0}, {110, 120, 2}, {120, 140, 1}, {140, 150, 2}, {150, 200, 0}, {300, 310, 0}};
	check_segments(nodes, pieces, 5, want, 6);
}

static void calls_that_share_code(void **state)
{
	(void)state;
	struct code_node nodes[] = {{.parent = NO_NODE}, {.parent = 0, .depth = 1}, {.parent = 0, .depth = 1}};
	static const struct code_piece pieces[] = {{0, 100, 0}, {10, 60, 1}, {20, 30, 2}, {50, 80, 2}};
	static const struct segment want[] = {
	        {0, 10, 0}, {10, 20, 1}, {20, 30, 2}, {30, 50, 1}, {50, 80, 2}, {80, 100, 0}};
	check_segments(nodes, pieces, 4, want, 6);
}

/* A call whose caller is not there counts all the same; one that is nowhere in the function does not. */
static void calls_outside_of_their_callers(void **state)
{
	(void)state;
	struct code_node nodes[] = {{.parent = NO_NODE}, {.parent = 0, .depth = 1}, {.parent = 1, .depth = 2}};
	static const struct code_piece pieces[] = {
	        {0, 5, 2}, {10, 100, 0}, {20, 30, 2}, {40, 50, 1}, {90, 120, 1}, {200, 300, 1}};
	static const struct segment want[] = {
	        {10, 20, 0}, {20, 30, 2}, {30, 40, 0}, {40, 50, 1}, {50, 90, 0}, {90, 100, 1}};
	check_segments(nodes, pieces, 6, want, 6);
}

/* ---- covered code ---- */

static void covered_code(void **state)
{
	(void)state;
	struct code_section sections[] = {
	        {.start = 100, .end = 300}, {.start = 300, .end = 400}, {.start = 1000, .end = 1010}};
	struct code_map map = {.sections = sections, .count = 3};
	struct coverage c;
	assert_int_equal(coverage_init(&c, &map, NULL), ERR_OK);
	assert_int_equal(coverage_free(&c, 100, 400), 100);
	assert_int_equal(coverage_take(&c, 150, 350), 350);
	assert_int_equal(coverage_take(&c, 100, 400), 150);
	assert_int_equal(coverage_take(&c, 150, 160), 150);
	assert_int_equal(coverage_free(&c, 100, 400), 350);
	assert_int_equal(coverage_free(&c, 100, 340), 340);
	assert_int_equal(coverage_take(&c, 350, 1010), 400);
	assert_int_equal(coverage_take(&c, 500, 600), 500);
	assert_int_equal(coverage_take(&c, 1000, 1010), 1010);
	assert_int_equal(coverage_free(&c, 1000, 1010), 1010);
	coverage_release(&c);
}

/* ---- strings ---- */

static void strings_are_kept_once(void **state)
{
	(void)state;
	struct intern set = {0};
	const char *first[5000];
	char text[32];
	for (int round = 0; round < 2; round++) {
		for (int i = 0; i < 5000; i++) {
			int n = snprintf(text, sizeof text, "string %d", i);
			struct str s = intern_add(&set, (struct str){text, (size_t)n});
			assert_string_equal(s.data, text);
			if (round == 0)
				first[i] = s.data;
			assert_ptr_equal(s.data, first[i]);
		}
	}
	assert_string_equal(intern_add(&set, str_from("a\xff\xc3")).data, "a??");
	assert_string_equal(intern_add(&set, str_from("\xc3\xa4")).data, "\xc3\xa4");
	assert_non_null(intern_add(&set, str_from("")).data);
	intern_release(&set);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(calls_of_x86_64),
	        cmocka_unit_test(calls_of_aarch64),
	        cmocka_unit_test(suffixes_of_copies),
	        cmocka_unit_test(mangled_names),
	        cmocka_unit_test(own_names),
	        cmocka_unit_test(a_name_that_explodes),
	        cmocka_unit_test(a_name_of_d_that_explodes),
	        cmocka_unit_test(names_that_nest_deeply),
	        cmocka_unit_test(calls_within_calls),
	        cmocka_unit_test(calls_that_share_code),
	        cmocka_unit_test(calls_outside_of_their_callers),
	        cmocka_unit_test(covered_code),
	        cmocka_unit_test(strings_are_kept_once),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
