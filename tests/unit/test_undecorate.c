/* SPDX-License-Identifier: Apache-2.0 */
/* Names that Microsoft's compilers decorate: real ones from its libraries, beside what llvm-undname says of them, but
 * for style; and damaged ones. */
#include <config.h>

#include "extract/undecorate.h"

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "extract/demangle.h"
#include "seed.h"

static const struct {
	const char *decorated, *plain;
} names[] = {
        {"?trace@@YAXPEBDZZ", "trace(char const *, ...)"},
        {"?_Atexit@@YAXP6AXXZ@Z", "_Atexit(void (*)())"},
        {"??BEnv@Napi@@QEBAPEAUnapi_env__@@XZ", "Napi::Env::operator napi_env__ *() const"},
        {"??_GAgent@@UEAAPEAXI@Z", "Agent::`scalar deleting destructor'(unsigned int)"},
        {"??_U@YAPAXI@Z", "operator new[](unsigned int)"},
        {"??4?$_Yarn@D@std@@QAEAAV01@PBD@Z", "std::_Yarn<char>::operator=(char const *)"},
        {"??4?$__crt_unique_heap_ptr@DU__crt_internal_free_policy@@@@QAEAAV0@$$QAV0@@Z",
                "__crt_unique_heap_ptr<char,__crt_internal_free_policy>::operator=(__crt_unique_heap_ptr<char,"
                "__crt_internal_free_policy> &&)"},
        {"??$?6$08@?$GStringBuilder@_W@@QEAAAEAV0@AEBU?$ValueString@_W$08@@@Z",
                "GStringBuilder<wchar_t>::operator<<<9>(ValueString<wchar_t,9> const &)"},
        {"??$winpty_snprintf@$0BB@@@YAHAEAY0BB@DPEBDZZ", "winpty_snprintf<17>(char (&)[17], char const *, ...)"},
        {"??R<lambda_6607a66f2a10a1261ff9db96cba1015b>@@QBE@QADQBDIIID@Z",
                "<lambda_6607a66f2a10a1261ff9db96cba1015b>::operator()(char * const, char const * const, unsigned int, "
                "unsigned int, unsigned int, char) const"},
        {"??_E?$basic_ostream@DU?$char_traits@D@std@@@std@@$4PPPPPPPM@A@AEPAXI@Z",
                "[thunk]: std::basic_ostream<char,std::char_traits<char> >::`vector deleting "
                "destructor'`vtordisp{-4, 0}'(unsigned int)"},
        {"??$_Deallocate@$07@std@@YAXPAXI@Z", "std::_Deallocate<8>(void *, unsigned int)"},
        {"??1?$unique_ptr@$$BY0A@DU?$default_delete@$$BY0A@D@std@@@std@@QEAA@XZ",
                "std::unique_ptr<char[],std::default_delete<char[]> >::~unique_ptr<char[],std::default_delete<char[]> "
                ">()"},
        {"??$WrapVoidCallback@V<lambda_1>@?1??CallJS@ThreadSafeFunction@Napi@@CAXPEAUnapi_env__@@PEAUnapi_value__@@"
         "PEAX2@Z@@details@Napi@@YAXV<lambda_1>@?1??CallJS@ThreadSafeFunction@1@CAXPEAUnapi_env__@@PEAUnapi_value__@@"
         "PEAX2@Z@@Z",
                "Napi::details::WrapVoidCallback<`Napi::ThreadSafeFunction::CallJS(napi_env__ *, napi_value__ *, void "
                "*, void *)'::`2'::<lambda_1> >(`Napi::ThreadSafeFunction::CallJS(napi_env__ *, napi_value__ *, void "
                "*, void *)'::`2'::<lambda_1>)"},
        {"??$_Emplace_reallocate@AEBQEAVNamedPipe@@@?$vector@PEAVNamedPipe@@V?$allocator@PEAVNamedPipe@@@std@@@std@@"
         "AEAAPEAPEAVNamedPipe@@QEAPEAV2@AEBQEAV2@@Z",
                "std::vector<NamedPipe *,std::allocator<NamedPipe *> >::_Emplace_reallocate<NamedPipe * const "
                "&>(NamedPipe ** const, NamedPipe * const &)"},
        {"?_BADOFF@std@@3_JB", "std::_BADOFF"},
        {"?g_debugConfig@@3REAXEA", "g_debugConfig"},
        {"??_7Agent@@6BDsrSender@@@", "Agent::`vftable'"},
        {"??_C@_01BGIBIIDJ@?$HP@", "`string'"},
        {"??_R0?AVError@Napi@@@8", "Napi::Error `RTTI Type Descriptor'"},
        {"??_R1A@?0A@EA@type_info@@8", "type_info::`RTTI Base Class Descriptor'"},
        {"??__Efoo@@YAXXZ", "`dynamic initializer for 'foo''()"},
        {"??__F?s@Bar@@0HA@@YAXXZ", "`dynamic atexit destructor for 'Bar::s''()"},
        {"?f@?A0x1234abcd@@YAHP8C@@EBAHH@Z@Z", "`anonymous namespace'::f(int (C::*)(int) const)"},
        {"?g@@YAHPEQC@@H@Z", "g(int C::*)"},
};

static char *plain_of(struct str decorated)
{
	struct buffer out;
	buffer_init(&out, 1 << 20);
	buffer_append(&out, "x", 1);
	bool ok = undecorate(&out, decorated, DEMANGLE_OUTPUT_MAX);
	assert_true(ok || out.len == 1);
	char *plain = ok ? str_dup((struct str){(const char *)out.data + 1, out.len - 1}) : NULL;
	buffer_release(&out);
	return plain;
}

static void real_names(void **state)
{
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		char *plain = plain_of(str_from(names[i].decorated));
		assert_non_null(plain);
		assert_string_equal(plain, names[i].plain);
		free(plain);
	}
}

/* Each beginning of a name, and each with a byte changed, ends in bounded time: as it is, or as another name. */
static void damaged_names(void **state)
{
	uint64_t random = seed_of(5);
	(void)state;
	for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
		size_t len = strlen(names[i].decorated);
		for (size_t n = 0; n < len; n++) {
			char *copy = str_dup((struct str){names[i].decorated, len});
			assert_non_null(copy);
			free(plain_of((struct str){copy, n}));
			random = random * 6364136223846793005u + 1442695040888963407u;
			copy[n] = "?@$0A1Z6YPX"[(random >> 40) % 11];
			free(plain_of((struct str){copy, len}));
			free(copy);
		}
	}
}

/* Templates in templates, pointers to pointers, functions in scopes of functions; back-references that double a type.
 */
static void deep_names(void **state)
{
	static const char *const starts[] = {
	        "?f@?$T@V?$T@", "P6AXPEA", "?1??f@?1??f@", "?f@@YAXPEAPEA", "?f@@YAXY0A@Y0A@"};
	char text[DEMANGLE_INPUT_MAX];
	(void)state;
	for (size_t i = 0; i < sizeof starts / sizeof *starts; i++) {
		for (size_t at = 0; at < sizeof text; at++)
			text[at] = starts[i][at % strlen(starts[i])];
		memcpy(text, "?f@", 3);
		assert_null(plain_of((struct str){text, sizeof text}));
	}
	struct buffer doubling;
	buffer_init(&doubling, sizeof text);
	buffer_printf(&doubling, "?f@@YAXPEAUa@@");
	for (unsigned i = 0; i < 9; i++)
		buffer_printf(&doubling, "P6AX%u%u%u%u@Z", i, i, i, i);
	buffer_printf(&doubling, "9999@Z");
	free(plain_of((struct str){(const char *)doubling.data, doubling.len}));
	buffer_release(&doubling);
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(real_names),
	        cmocka_unit_test(damaged_names),
	        cmocka_unit_test(deep_names),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
