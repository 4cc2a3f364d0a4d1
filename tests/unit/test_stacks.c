/* SPDX-License-Identifier: Apache-2.0 */
/* The reader of stacks in texts: a test for each format, and for what is none. Samples of formats whose programs run
 * here were printed by them (gcc 12, clang 14, glibc 2.36, perf 6.1 of Debian 12); those of others follow what is
 * named in docs/stack-text.md. */
#include <config.h>

#include <dirent.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <cmocka.h>

#include "base/buffer.h"
#include "seed.h"
#include "text/file_offsets.h"
#include "text/reader.h"
#include "text/signs.h"
#include "text/write_names.h"

enum { OUT_MAX = 64 << 20, SAMPLE_MAX = 1 << 20 };

/* What was found, as text: a line a frame. */
struct found {
	const char *text;
	struct text_frame *frames;
	size_t count, cap;
	size_t max; /* reading is ended at so many frames */
};

static bool take_frame(void *arg, const struct text_frame *frame)
{
	struct found *f = arg;
	if (f->count == f->cap) {
		f->cap = f->cap ? 2 * f->cap : 16;
		f->frames = realloc(f->frames, f->cap * sizeof *f->frames);
		assert_non_null(f->frames);
	}
	f->frames[f->count++] = *frame;
	return f->count != f->max;
}

/* Reads it in pieces of this size, whatever lines are left over given again. */
static enum text_result read_in_pieces(struct text_reader *r, const char *text, size_t len, size_t piece)
{
	size_t at = 0, end = 0, used;
	enum text_result result = TEXT_OK;
	while (at < len && !result) {
		end = len - end > piece ? end + piece : len;
		result = text_reader_read(r, (struct str){text + at, end - at}, end == len, &used);
		assert_true(used <= end - at);
		at += used;
	}
	return result;
}

static char *show(const struct text_reader *r, const struct found *f)
{
	static const char *const bases[] = {"elf", "image", "file", "code", "exec", "fixed"};
	struct buffer out;
	buffer_init(&out, OUT_MAX);
	for (size_t i = 0; i < f->count; i++) {
		const struct text_frame *frame = &f->frames[i];
		buffer_printf(&out, "%d ", (int)frame->line);
		if (frame->module == TEXT_NO_MODULE) {
			buffer_printf(&out, "no module");
		} else {
			const struct text_module *m = text_reader_module(r, (uint32_t)frame->module);
			buffer_printf(&out, "%.*s %.*s/%.*s %#llx %s", STR_FMT(m->path), STR_FMT(m->name),
			        STR_FMT(m->id), (unsigned long long)frame->address, bases[frame->base]);
		}
		for (unsigned k = 0; k < frame->edit_count; k++)
			buffer_printf(&out, " [%.*s]", (int)frame->edits[k].cut, f->text + frame->edits[k].at);
		buffer_printf(&out, "\n");
	}
	buffer_append(&out, "", 1);
	return (char *)out.data;
}

/* Also given the id of a module with this name, unless that is NULL. */
static char *found_in(const char *name, const char *id, const char *text, size_t piece)
{
	struct found f = {.text = text};
	struct text_reader *r = text_reader_new(1000, take_frame, &f);
	assert_non_null(r);
	if (name)
		assert_true(text_reader_know(r, str_from(name), str_from(id)));
	assert_int_equal(read_in_pieces(r, text, strlen(text), piece), TEXT_OK);
	for (size_t k = 0; k < f.count; k++) {
		assert_int_equal(text_reader_place(r, &f.frames[k]), TEXT_OK);
		assert_int_equal(text_reader_find_path(r, &f.frames[k]), TEXT_OK);
	}
	char *shown = show(r, &f);
	free(f.frames);
	text_reader_free(r);
	return shown;
}

static void expect_after(const char *name, const char *id, const char *text, const char *expected)
{
	static const size_t pieces[] = {1, 7, 64, SIZE_MAX};
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		char *shown = found_in(name, id, text, pieces[i]);
		assert_string_equal(shown, expected);
		free(shown);
	}
}

static void expect(const char *text, const char *expected)
{
	expect_after(NULL, NULL, text, expected);
}

/* ---- formats ---- */

#define ID "93ac61ec5a8eb1396f9fbd350e3169a558528a40"
#define DEBUG_ID "EC61AC938E5A39B16F9FBD350E3169A50"

/* sanitizers */
static void test_sanitizers(void **state)
{
	(void)state;
	expect("==9989==ERROR: AddressSanitizer: heap-buffer-overflow on address 0x602000000020 at pc 0x55d902ef6f37 "
	       "bp\n"
	       "READ of size 4 at 0x602000000020 thread T0\n"
	       "    #0 0x562ff30eb1f3  (/tmp/s/prog+0x11f3)\n"
	       "    #1 0x7fe91ac45249  (/lib/x86_64-linux-gnu/libc.so.6+0x27249) (BuildId: " ID ")\r\n"
	       "    #2 0x562ff30eb214 in outer (/tmp/a (b)/prog+0x1214)\n"
	       "    #3 0x562ff30eb214 in outer(int, char) /tmp/s/a.c:7:10\n"
	       "    #4 0x562ff30eb214  (<unknown module>)\n"
	       "\n"
	       "SUMMARY: AddressSanitizer: heap-buffer-overflow (/tmp/s/prog+0x11f3) \n",
	        "3 /tmp/s/prog prog/ 0x11f3 elf [  ]\n"
	        "4 /lib/x86_64-linux-gnu/libc.so.6 libc.so.6/" DEBUG_ID " 0x27249 elf [  ]\n"
	        "5 /tmp/a (b)/prog prog/ 0x1214 elf [ in outer ]\n"
	        "7 no module []\n"
	        "9 /tmp/s/prog prog/ 0x11f3 image []\n");
}

/* sanitizers */
static void test_thread_sanitizer(void **state)
{
	(void)state;
	expect("    #0 <null> <null> (t.gcc+0x11d0)\n"
	       "    #1 main <null> (t.clang+0xd01b4) (BuildId: " ID ")\n"
	       "    #2 f /tmp/s/t.c:2 (t.gcc+0x11d0)\n",
	        "1 t.gcc t.gcc/ 0x11d0 elf [<null> <null>]\n"
	        "2 t.clang t.clang/" DEBUG_ID " 0xd01b4 elf [main <null>]\n");
}

/* glibc */
static void test_glibc(void **state)
{
	(void)state;
	expect("./a.plain(+0x11c3)[0x564bf04731c3]\n"
	       "/lib/x86_64-linux-gnu/libc.so.6(__libc_start_main+0x85)[0x7f909e2ad305]\n"
	       "/lib/x86_64-linux-gnu/libc.so.6(+0x2724a)[0x7f909e2ad24a]\n"
	       "/lib/x86_64-linux-gnu/libc.so.6(__libc_start_main+0x85)[0x7f909e2ad305]\n"
	       "12:01 prog() [0x401136]\n"
	       "./a.nopie[0x4011a5]\n"
	       "nginx[0x12]\n"
	       "\n"
	       "/lib/x86_64-linux-gnu/libc.so.6(__libc_start_main+0x85)[0x7f909e2ad305]\n"
	       "[0x401f6d]\n",
	        "1 ./a.plain a.plain/ 0x11c2 elf []\n"
	        "3 /lib/x86_64-linux-gnu/libc.so.6 libc.so.6/ 0x27249 elf []\n"
	        "4 /lib/x86_64-linux-gnu/libc.so.6 libc.so.6/ 0x27304 elf []\n"
	        "5 prog prog/ 0x401135 elf []\n"
	        "6 ./a.nopie a.nopie/ 0x4011a4 elf []\n"
	        "10 no module []\n");
}

/* coredumpctl */
static void test_systemd(void **state)
{
	(void)state;
	expect("                Module libc.so.6 with build-id " ID "\n"
	       "                Module /usr/bin/prog with build-id 0123456789abcdef\n"
	       "                Stack trace of thread 4242:\n"
	       "                #0  0x00007f2d5c8a9e3c n/a (libc.so.6 + 0x8ce3c)\n"
	       "                #1  0x000055d0c1c01139 main (prog + 0x1139)\n"
	       "                #2  0x0000000000000000 n/a (n/a + 0x0)\n",
	        "4 libc.so.6 libc.so.6/" DEBUG_ID " 0x8ce3c image [n/a]\n"
	        "5 /usr/bin/prog prog/67452301AB89EFCD00000000000000000 0x1138 image [main]\n"
	        "6 no module [n/a]\n");
}

/* perf script */
static void test_perf(void **state)
{
	(void)state;
	expect("h 26026  1106.529446:   10101010 cpu-clock:u: \n"
	       "\t            1136 [unknown] (/tmp/s/h)\n"
	       "\t            115f main+0x9 (/tmp/s/h)\n"
	       "\t           2724a __libc_start_call_main+0x7a (/usr/lib/x86_64-linux-gnu/libc.so.6)\n"
	       "\n"
	       "h 26026  1106.543409:   10101010 cpu-clock:u: \n"
	       "\t    55d2975ee13c hot+0x13 (/tmp/s/h+0x113c)\n"
	       "\tffffffff81e00c8b asm_exc_page_fault+0x2b ([kernel.kallsyms])\n"
	       "\t    7f0000000000 [unknown] ([unknown])\n",
	        "2 /tmp/s/h h/ 0x1136 file [[unknown]]\n"
	        "3 /tmp/s/h h/ 0x115e file [main+0x9]\n"
	        "4 /usr/lib/x86_64-linux-gnu/libc.so.6 libc.so.6/ 0x27249 file [__libc_start_call_main+0x7a]\n"
	        "7 /tmp/s/h h/ 0x113c file [hot+0x13]\n"
	        "9 no module [[unknown]]\n");
}

/* What terminals and logs put around lines: colours, blanks, dates, marks of quotations. Judged by the lines without.
 */
static void test_lines_with_more_around(void **state)
{
	(void)state;
	expect("\033[31m    #0 0x562ff30eb1f3  (/a+0x11f3)\033[0m\n"
	       "\033[1m./a(+0x11f3) [0x562ff30eb1f3]\033[0m\r\n"
	       "\t            1136 [unknown] (/a)  \n"
	       "> > 2026-11-26T15:00:00.123Z stderr F     #0 0x562ff30eb1f3  (/a+0x11f3)\n"
	       "Nov 26 15:00:00 host a[7]: ./a(+0x11f3) [0x562ff30eb1f3]\n"
	       "{\"log\":\"    #0 0x562ff30eb1f3  (/a+0x11f3)\\n\",\"stream\":\"stderr\"}\n",
	        "1 /a a/ 0x11f3 elf [  ]\n2 ./a a/ 0x11f2 elf []\n3 /a a/ 0x1136 file [[unknown]]\n"
	        "4 /a a/ 0x11f3 elf [  ]\n5 ./a a/ 0x11f2 elf []\n6 /a a/ 0x11f3 elf [  ]\n");
}

/* Which names of the text say that an offset in the file is one in the image. */
static void test_names_that_confirm(void **state)
{
	static const struct {
		const char *name, *function;
		uint64_t behind;
		bool caller, confirms;
	} rows[] = {
	        {"crash+0xd", "crash", 0xd, false, true},
	        {"crash+0xd", "crash", 0xc, true, true},
	        {"crash+0xd", "crash", 0xd, true, false},
	        {"crash+0xd", "crash", 0xe, false, false},
	        {"crash+0xd", "crasher", 0xd, false, false},
	        {"crasher+0xd", "crash", 0xd, false, false},
	        {"ns::crash+0xd", "ns::crash(int, char)", 0xd, false, true},
	        {"crash.isra.0+0xd", "crash", 0xd, false, true},
	        {"read@@GLIBC_2.2.5+0xd", "read", 0xd, false, true},
	        {"std::operator++0x1f", "std::operator+", 0x1f, false, true},
	        {"+0xd", "crash", 0xd, false, false},
	        {"crash", "crash", 0, false, false},
	        {"crash+0x", "crash", 0, false, false},
	        {"crash+13", "crash", 0x13, false, false},
	        {"crash+0xg", "crash", 0, false, false},
	        {"", "crash", 0, false, false},
	};
	(void)state;
	for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
		struct text_frame f = {.offset = 0x1000, .address = 0x1000 - rows[i].caller, .base = TEXT_FILE};
		bool got = text_confirms(&f, str_from(rows[i].name), str_from(rows[i].function), rows[i].behind);
		if (got != rows[i].confirms)
			fail_msg("row %zu: %s", i, rows[i].name);
		f.base = TEXT_IMAGE;
		assert_false(text_confirms(&f, str_from(rows[i].name), str_from(rows[i].function), rows[i].behind));
	}
}

/* perf report */
static void test_perf_report(void **state)
{
	(void)state;
	expect("    47.13%  app      liba.so   [.] 0x0000000000001166\n"
	       "# Overhead  Command  Symbol\n"
	       "    47.13%  app      [.] 0x0000000000001166\n"
	       "# Overhead  Command  Shared Object         Symbol                         \n"
	       "    47.13%  app      liba.so   [.] 0x0000000000001166\n"
	       "            ---0x7f80e3a11166\n"
	       "    16.65%  app      /opt/liba.so        0x1163     B [.] 0x0000000000001163   app.c:1\n"
	       "     5.00%  app      [unknown]  [.] 0x0000000000001163\n"
	       "     5.00%  app      liba.so  [.] 0x00007f80e3a11166\n"
	       "     5.00%  app      liba.so  [.] 0x1166\n"
	       "     5.00%  app      perf-7.map  [.] 0x0000000000001163\n"
	       "# Children      Self  Command  Shared Object     Symbol\n"
	       "    99.90%     0.00%  app      liba.so  [.] 0x0000000000001166\n"
	       "    99.90%     0.10%  app      liba.so  [.] 0x0000000000001166\n"
	       "# Overhead  Command  Symbol   Shared Object\n"
	       "    47.13%  app      [.] 0x0000000000001166   liba.so\n",
	        "5 liba.so liba.so/ 0x1166 file [0x0000000000001166]\n"
	        "7 /opt/liba.so liba.so/ 0x1163 file [0x0000000000001163]\n"
	        "14 liba.so liba.so/ 0x1166 file [0x0000000000001166]\n");
}

/* An address is in the file that its line names, or in the program that the user names, unless there is a map. */
static void test_fixed_addresses(void **state)
{
	static const char text[] = "[0x401672]\n"
	                           "==7==    by 0x401673: ??? (in /opt/b)\n"
	                           " 1# 0x0000000000401674 in ./b\n"
	                           "      #01 pc 0000000000401675  <anonymous:7f0000000000>\n"
	                           "#2  0x0000000000401676 n/a (n/a + 0x0)\n"
	                           "#1  0x0000000000401677 - /opt/b\n"
	                           "#3  0x401678 in ???\n";
	static const char map[] = "00500000-00501000 r-xp 00000000 fe:00 1234 /opt/other\n";
	static const struct {
		const char *program, *before, *expected;
	} cases[] = {
	        {NULL, "",
	                "1 no module\n2 no module\n3 no module\n4 no module\n5 no module\n6 no module\n7 no module\n"},
	        {"", "",
	                "1 no module\n2 /opt/b b/ 0x401673 fixed\n3 ./b b/ 0x401673 fixed\n4 no module\n"
	                "5 no module\n6 /opt/b b/ 0x401676 fixed\n7 no module\n"},
	        {"/a", "",
	                "1 /a a/ 0x401671 fixed\n2 /opt/b b/ 0x401673 fixed\n3 ./b b/ 0x401673 fixed\n4 no module\n"
	                "5 /a a/ 0x401675 fixed\n6 /opt/b b/ 0x401676 fixed\n7 /a a/ 0x401678 fixed\n"},
	        {"/a", map,
	                "2 no module\n3 no module\n4 no module\n5 no module\n6 no module\n7 no module\n8 no module\n"},
	};
	(void)state;
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		char *whole = NULL;
		assert_true(asprintf(&whole, "%s%s", cases[i].before, text) > 0);
		struct found f = {.text = whole};
		struct text_reader *r = text_reader_new(100, take_frame, &f);
		if (cases[i].program)
			text_reader_use_fixed(r, str_from(cases[i].program));
		assert_int_equal(read_in_pieces(r, whole, strlen(whole), SIZE_MAX), TEXT_OK);
		for (size_t k = 0; k < f.count; k++) {
			assert_int_equal(text_reader_place(r, &f.frames[k]), TEXT_OK);
			f.frames[k].edit_count = 0;
		}
		char *shown = show(r, &f);
		assert_string_equal(shown, cases[i].expected);
		free(shown);
		free(f.frames);
		text_reader_free(r);
		free(whole);
	}
}

/* Firefox */
static void test_firefox(void **state)
{
	(void)state;
	expect("GECKO(1234) | #01: ???[/opt/firefox/libxul.so +0x12ab34]\n"
	       "#12: mozilla::Run(int[])[/opt/firefox/libxul.so +0x10]\n"
	       "#03: main (/src/example.c:24)\n"
	       "#04: ???[/opt/firefox/libxul.so+0x10]\n",
	        "1 /opt/firefox/libxul.so libxul.so/ 0x12ab33 image [???]\n"
	        "2 /opt/firefox/libxul.so libxul.so/ 0xf image [mozilla::Run(int[])]\n"
	        "4 /opt/firefox/libxul.so libxul.so/ 0x10 image []\n");
}

/* Android */
static void test_android(void **state)
{
	(void)state;
	expect("      #00 pc 0000000000051b9c  /apex/com.android.runtime/lib64/bionic/libc.so (abort+168) (BuildId: " ID
	       ")\n"
	       "11-22 14:00:00.000  123  124 F DEBUG   :       #01 pc 00012  /system/lib64/libfoo.so (BuildId: " ID
	       ")\n"
	       "      #02 pc 00000000000a1b2c  /data/app/base.apk!libbar.so (offset 0x1000) (run(int)+12)\n"
	       "      #03 pc 0000000000000012  <anonymous:7f00>\n"
	       "    #04    pc 00035249    /system/lib/libhwui.so [armeabi-v7a::1684f58ef694b5c0eb0614f8965c42b6]\n"
	       "       #00 pc 0x845150 libunity.so (BuildId: " ID ")\n"
	       "  #01  pc 0x0000000000845150  /data/app/~~a==/x-b==/lib/arm64/libunity.so (f+12)\n",
	        "1 /apex/com.android.runtime/lib64/bionic/libc.so libc.so/" DEBUG_ID " 0x51b9c elf [ (abort+168)]\n"
	        "2 /system/lib64/libfoo.so libfoo.so/" DEBUG_ID " 0x12 elf []\n"
	        "3 /data/app/base.apk!libbar.so libbar.so/ 0xa1b2c elf [ (run(int)+12)]\n"
	        "4 no module []\n5 /system/lib/libhwui.so libhwui.so/ 0x35249 elf []\n"
	        "6 libunity.so libunity.so/" DEBUG_ID " 0x845150 elf []\n"
	        "7 /data/app/~~a==/x-b==/lib/arm64/libunity.so libunity.so/ 0x845150 elf [ (f+12)]\n");
}

/* macOS */
static void test_macos(void **state)
{
	(void)state;
	expect("Process:               MyApp [4242]\n"
	       "Thread 0 Crashed:: Dispatch queue: com.apple.main-thread\n"
	       "0   MyApp                         \t0x0000000104b5c8d4 0x104b58000 + 18644\n"
	       "1   libsystem_kernel.dylib        \t0x00007ff80e5e9ffa __pthread_kill + 10\n"
	       "2   My Helper                     \t0x0000000104b5c8d5 My Helper + 18645\n"
	       "3   ???                           \t0x0000000104b5c8d5 0 + 4374022357\n"
	       "\n"
	       "Binary Images:\n"
	       "       0x104b58000 -        0x104b5bfff com.example.MyApp (1.0 - 1) "
	       "<11223344-5566-7788-99AA-BBCCDDEEFF00> /Applications/MyApp.app/Contents/MacOS/MyApp\n"
	       "Process:               MyApp [4243]\n"
	       "0   MyApp                         \t0x0000000104b5c8d4 0x104b58000 + 18644\n",
	        "3 /Applications/MyApp.app/Contents/MacOS/MyApp MyApp/112233445566778899AABBCCDDEEFF000 0x48d4 image "
	        "[]\n"
	        "5 My Helper My Helper/ 0x48d4 image []\n"
	        "11 MyApp MyApp/ 0x48d4 image []\n");
}

/* Frames have the name of the bundle, and symbol files that of the file. */
static void test_bundles_of_macos(void **state)
{
	(void)state;
	expect("0   com.example.MyApp \t0x0000000104b5c8d4 0x104b58000 + 18644\n"
	       "1   com.example.Part \t0x0000000104b5c8d4 0x104b58000 + 18644\n"
	       "0x104b58000 - 0x104b5bfff +com.example.MyApp (1.0 - 1) "
	       "<11223344-5566-7788-99AA-BBCCDDEEFF00> /Applications/MyApp.app/Contents/MacOS/My App\n"
	       "0x204b58000 - 0x204b5bfff com.example.Part <11223344-5566-7788-99AA-BBCCDDEEFF01> /Part\n",
	        "1 com.example.MyApp My App/112233445566778899AABBCCDDEEFF000 0x48d4 image []\n"
	        "2 com.example.Part Part/112233445566778899AABBCCDDEEFF010 0x48d3 image []\n");
}

/* minidump-stackwalk */
static void test_minidump_pipes(void **state)
{
	(void)state;
	expect("Module|xul.dll|105.0|xul.pdb|5A9832E5287241C1838ED98914E9B7FF1|0x10000000|0x1fffffff|0\n"
	       "\n"
	       "0|0|xul.dll||||0x29d90\n"
	       "0|1|xul.dll||||0x29d90\n"
	       "0|2|xul.dll|main|a.cpp|12|0x4\n"
	       "0|3|||||0x7ff0\n",
	        "3 xul.dll xul.pdb/5A9832E5287241C1838ED98914E9B7FF1 0x29d90 image [||]\n"
	        "4 xul.dll xul.pdb/5A9832E5287241C1838ED98914E9B7FF1 0x29d8f image [||]\n"
	        "6 no module [||]\n");
}

/* minidump-stackwalk */
static void test_minidump_json(void **state)
{
	(void)state;
	static const char pretty[] = "{\n"
	                             "  \"crashing_thread\": {\n"
	                             "    \"frames\": [\n"
	                             "      {\n"
	                             "        \"file\": null,\n"
	                             "        \"frame\": 0,\n"
	                             "        \"function\": null,\n"
	                             "        \"inlines\": null,\n"
	                             "        \"line\": null,\n"
	                             "        \"module\": \"xul.dll\",\n"
	                             "        \"module_offset\": \"0x0000a23c\",\n"
	                             "        \"registers\": {\n"
	                             "          \"rip\": \"0x1\"\n"
	                             "        }\n"
	                             "      },\n"
	                             "      {\n"
	                             "        \"function\": \"main\",\n"
	                             "        \"module\": \"xul.dll\",\n"
	                             "        \"module_offset\": \"0x1\"\n"
	                             "      }\n"
	                             "    ]\n"
	                             "  },\n"
	                             "  \"modules\": [\n"
	                             "    {\n"
	                             "      \"debug_file\": \"xul.pdb\",\n"
	                             "      \"debug_id\": \"5A9832E5287241C1838ED98914E9B7FF1\",\n"
	                             "      \"filename\": \"xul.dll\"\n"
	                             "    }\n"
	                             "  ]\n"
	                             "}\n";
	expect(pretty,
	        "15 xul.dll xul.pdb/5A9832E5287241C1838ED98914E9B7FF1 0xa23c image [null] [null] [null] [null]\n");
	expect("{\"threads\":[{\"frames\":[{\"function\":null,\"module\":\"a\\\"b\",\"module_offset\":\"0x1\"},"
	       "{\"function\":null,\"module\":\"libc.so\",\"module_offset\":\"0x2\"}]}]}",
	        "1 a\"b a\"b/ 0x1 image [null]\n"
	        "1 libc.so libc.so/ 0x2 image [null]\n");
}

/* The ids of one report are not those of the next, which come behind its first frames. */
static void test_several_reports_in_json(void **state)
{
	(void)state;
	char text[1000];
	static const char report[] =
	        "{\"crashing_thread\":{\"frames\":[{\"function\":null,\"module\":\"a.dll\",\"module_offset\":\"0x1\"}]}"
	        ","
	        "\"modules\":[{\"debug_file\":\"a.pdb\",\"debug_id\":\"%032dA\",\"filename\":\"a.dll\"}]}\n";
	int n = snprintf(text, sizeof text, report, 1);
	snprintf(text + n, sizeof text - (size_t)n, report, 2);
	expect(text, "1 a.dll a.pdb/00000000000000000000000000000001A 0x1 image [null]\n"
	             "2 a.dll a.pdb/00000000000000000000000000000002A 0x1 image [null]\n");
	/* parts of one */
	expect("{\"debug_file\":\"a.pdb\",\"debug_id\":\"11111111111111111111111111111111A\",\"filename\":\"a.dll\"},\n"
	       "{\"debug_file\":\"b.pdb\",\"debug_id\":\"22222222222222222222222222222222B\",\"filename\":\"b.dll\"}\n"
	       "{\"function\":null,\"module\":\"a.dll\",\"module_offset\":\"0x1\"}\n",
	        "3 a.dll a.pdb/11111111111111111111111111111111A 0x1 image [null]\n");
}

/* Lines of a log that were cut do not make those below them part of a value. */
static void test_json_that_was_cut(void **state)
{
	(void)state;
	expect("{\"a\":\"x\n{\"a\":\"x\n{\"a\":\"x\n{\"a\":\"x\n{\"a\":\"x\n{\"a\":\"x\n{\"a\":\"x\n{\"a\":\"x\n"
	       "{\"function\":null,\"module\":\"a.so\",\"module_offset\":\"0x1\"}\n",
	        "9 a.so a.so/ 0x1 image [null]\n");
}

/* NAME+0xOFFSET */
static void test_anything(void **state)
{
	(void)state;
	expect_after("app", "0123456789ABCDEF0123456789ABCDEF1",
	        "crashed at app+0x1f, then libfoo.so.1+0x20; main+0x4 is none, nor is x+0x\n"
	        " 1  libc-2.31.so + 0x29d90\n"
	        "C:\\Program\\app.exe+0x10 (app+0x2)\n"
	        "MODULE Linux x86_64 000102030405060708090A0B0C0D0E0F0 libbar\n"
	        "libbar+0x3\n",
	        "1 app app/0123456789ABCDEF0123456789ABCDEF1 0x1f image []\n"
	        "1 libfoo.so.1 libfoo.so.1/ 0x20 image []\n"
	        "2 libc-2.31.so libc-2.31.so/ 0x29d8f image []\n"
	        "3 C:\\Program\\app.exe app/0123456789ABCDEF0123456789ABCDEF1 0x10 image []\n"
	        "3 app app/0123456789ABCDEF0123456789ABCDEF1 0x2 image []\n"
	        "5 libbar libbar/000102030405060708090A0B0C0D0E0F0 0x3 image []\n");
}

/* hs_err of Java, minidump-stackwalk: all frames of a stack but the first have return addresses. */
static void test_return_addresses_of_offsets(void **state)
{
	(void)state;
	expect("# C  [libjn.so+0x10fc]\n"
	       "Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)\n"
	       "C  [libjn.so+0x10fc]\n"
	       "C  [libjn.so+0x1118]  Java_J_die+0xb\n"
	       "j  J.die(I)I+0\n"
	       "v  ~StubRoutines::call_stub\n"
	       "V  [libjvm.so+0x8282d2]  JavaCalls::call_helper(JavaValue*)+0x302\n"
	       "\n"
	       "C  [libjn.so+0x10fc]\n",
	        "1 libjn.so libjn.so/ 0x10fc image []\n"
	        "3 libjn.so libjn.so/ 0x10fc image []\n"
	        "4 libjn.so libjn.so/ 0x1117 image []\n"
	        "7 libjvm.so libjvm.so/ 0x8282d1 image []\n"
	        "9 libjn.so libjn.so/ 0x10fc image []\n");
	expect(" 0  a.so + 0x10\n    rip = 0x1\n 1  a.so + 0x20\n 1 a.so + 0x30\n11  a.so + 0x40 b.so + 0x50\n",
	        "1 a.so a.so/ 0x10 image []\n"
	        "3 a.so a.so/ 0x1f image []\n"
	        "4 a.so a.so/ 0x30 image []\n"
	        "5 a.so a.so/ 0x3f image []\n"
	        "5 b.so b.so/ 0x50 image []\n");
}

/* glibc: as the X server (os/backtrace.c) and RocksDB (stack_trace.cc) write it. */
static void test_glibc_in_other_words(void **state)
{
	(void)state;
	expect("[    12.345] (EE) 0: /usr/lib/xorg/Xorg (xorg_backtrace+0x4d) [0x5580a8e0044d]\n"
	       "[    12.345] (EE) 1: /lib/libc.so.6 (0x7f7e8e4cd000+0x3c050) [0x7f7e8e509050]\n"
	       "[    12.345] (EE) 2: /usr/lib/xorg/Xorg (0x5580a8c4a000+0x1b5f39) [0x5580a8dfff39]\n"
	       "[    12.345] (EE) 3: /usr/lib/xorg/Xorg (f+0x12) [0x5580a8dfff49]\n"
	       "[    12.345] (EE) 4: Xvfb (0x5580a8c4a000+0x10) [0x5580a8c4a010]\n"
	       "[    12.345] (EE) 5: /usr/lib/xorg/a_drv.so (?+0x0) [0x7f7e8c1a2b3c]\n"
	       "[    12.345] (EE) 6: /usr/lib/xorg/a_drv.so (0x7f7e8c1a0000+0x10) [0x7f7e8c1a0020]\n",
	        "2 /lib/libc.so.6 libc.so.6/ 0x3c050 image []\n"
	        "3 /usr/lib/xorg/Xorg Xorg/ 0x1b5f39 image []\n"
	        "4 /usr/lib/xorg/Xorg Xorg/ 0x1b5f48 elf []\n"
	        "5 Xvfb Xvfb/ 0xf image []\n");
	expect("#0   /lib/libc.so.6(abort+0x12b) [0x7f3]\t??\t??:0\n"
	       "#1   ./db_bench() [0x5d1a50] ??\t??:?\t\n"
	       "#2   /opt/db/libx.so(+0x1130) [0x7f3a1130] ??\t??:0\n",
	        "2 ./db_bench db_bench/ 0x5d1a4f elf []\n"
	        "3 /opt/db/libx.so libx.so/ 0x112f elf []\n");
	expect("[1] /lib/x86_64-linux-gnu/libc.so.6(+0x3bcf0) [0x7ff6e7c3bcf0] (\?\?:0)\n"
	       "[2] /opt/godot/Godot.x86_64() [0x45e12f9] (\?\?:0)\n"
	       "[3] godot3() [0x47d7a52] (godot-git-build/core/object.cpp:?)\n"
	       "[4] 1eb7c20 (main+1ab7c20) - /opt/godot/Godot.x86_64() [0x1eb7c20]\n",
	        "1 /lib/x86_64-linux-gnu/libc.so.6 libc.so.6/ 0x3bcf0 elf []\n"
	        "2 /opt/godot/Godot.x86_64 Godot.x86_64/ 0x45e12f9 elf []\n"
	        "3 godot3 godot3/ 0x47d7a51 elf []\n"
	        "4 /opt/godot/Godot.x86_64 Godot.x86_64/ 0x1eb7c1f elf []\n");
}

/* hs_err of Java: OpenJ9's native stacks, all of which are return addresses. */
static void test_openj9(void **state)
{
	(void)state;
	expect("protectedBacktrace+0x12 (0x00007F6D7C4DB5F2 [libj9prt29.so+0x2b5f2])\n"
	       " (0x00007F6D7D4E43C0 [libpthread.so.0+0x153c0])\n"
	       "Java_J_die+0x12 (0x00007F6D7D4E4112 [libjn.so+0x112c])\n"
	       "4XENATIVESTACK                (0x00007F6D7D4E4140 [libjn.so+0x1140])\n",
	        "1 libj9prt29.so libj9prt29.so/ 0x2b5f1 image []\n"
	        "2 libpthread.so.0 libpthread.so.0/ 0x153c0 image []\n"
	        "3 libjn.so libjn.so/ 0x112c image []\n"
	        "4 libjn.so libjn.so/ 0x113f image []\n");
}

/* OpenJ9 on newer systems: a function has its library before it. */
static void test_a_function_behind_its_library(void **state)
{
	(void)state;
	expect("    bp: 0x00007f38d149edb0 pc: 0x00007f38d089259f libpthread.so.0::pthread_kill+0x2f\n"
	       "    bp: 0x00007f38d149f060 pc: 0x00007f38cb0392b2 libj9dmp29.so.1.2+0x82b2\n",
	        "2 libj9dmp29.so.1.2 libj9dmp29.so.1.2/ 0x82b2 image []\n");
}

/* LLVM's Symbolizer Markup: a return address lies behind a call, unless its element says otherwise. */
static void test_markup(void **state)
{
	(void)state;
#define CONTEXT                                                                                               \
	"[00002.668] 01032:01039> {{{module:0:libx.so:elf:5f6d123456}}}\n{{{module:1:app:elf:0123456789}}}\n" \
	"{{{mmap:0x7f0000001000:0x2000:load:0:rx:0x1000}}}\n{{{mmap:0x400000:4096:load:1:rx:0x400000}}}\n"
	expect("{{{reset}}}\n" CONTEXT "{{{bt:0:0x7f0000001136}}}\n{{{bt:1:0x7f0000001137}}} and {{{pc:0x400010}}}\n"
	       "{{{bt:2:0x400011:pc}}}\n{{{pc:0x400012:ra}}}\n{{{bt:3:0x7f0000003000}}}\n{{{bt:4:0x7f0000003001}}}\n",
	        "6 libx.so libx.so/34126D5F0056000000000000000000000 0x1136 elf []\n"
	        "7 libx.so libx.so/34126D5F0056000000000000000000000 0x1136 elf []\n"
	        "7 app app/674523010089000000000000000000000 0x400010 elf []\n"
	        "8 app app/674523010089000000000000000000000 0x400011 elf []\n"
	        "9 app app/674523010089000000000000000000000 0x400011 elf []\n"
	        "10 libx.so libx.so/34126D5F0056000000000000000000000 0x2fff elf []\n"
	        "11 no module []\n");
	/* after a reset, where two processes contradict each other, and without context */
	expect(CONTEXT "{{{reset}}}\n{{{bt:0:0x400010}}}\n", "6 no module []\n");
	expect(CONTEXT "{{{mmap:0x400000:4096:load:0:rx:0x400000}}}\n{{{bt:0:0x400010}}}\n", "6 no module []\n");
	expect("{{{bt:0:0x400010}}}\n{{{bt:0}}} {{{bt:0:}}} {{{pc:x}}} {{{bt:0:0x1\n{{{}}}\n", "1 no module []\n");
	expect("{{{module:0:libx.so:macho:5f}}}\n{{{mmap:0x1000:0x1000:load:0:rx:0x0}}}\n{{{bt:0:0x1001}}}\n",
	        "3 no module []\n");
#undef CONTEXT
}

/* simpleperf: report-sample, report, and report_sample.py. */
static void test_simpleperf(void **state)
{
	(void)state;
	expect("sample:\n  event_type: cpu-cycles:u\n  thread_id: 7\n"
	       "  vaddr_in_file: 1136\n  file: /system/lib64/libx.so\n  symbol: libx.so[+1136]\n  callchain:\n"
	       "    vaddr_in_file: 2100\n    file: /system/bin/app_process64\n    symbol: app_process64[+2100]\n"
	       "    vaddr_in_file: 2200\n    file: /system/bin/app_process64\n    symbol: main\n",
	        "6 libx.so libx.so/ 0x1136 elf []\n"
	        "10 app_process64 app_process64/ 0x2100 elf []\n");
	expect("app 7 [000] 1.5: 10 cpu-cycles:\n"
	       "\t      6e8ecbf28c libx.so[+1136] (/system/lib64/libx.so)\n"
	       "\t      5c41a2c app_process64[+2100] (/system/bin/app_process64)\n"
	       "\t      5c41a2c app_process64[+2100] (/system/bin/process64)\n"
	       "\t      5c41a2c array[+1] (see above)\n array[+1]\n libx.so[+1\n [+1] x\n",
	        "2 libx.so libx.so/ 0x1136 elf []\n"
	        "3 app_process64 app_process64/ 0x2100 elf []\n");
	expect("47.13%    app      7     7    /system/lib64/libx.so   libx.so[+1136]\n",
	        "1 libx.so libx.so/ 0x1136 elf []\n");
}

/* WinDbg. The forms are those of Microsoft's documentation of k and of published reports: kn with inlined calls
 * (windows-driver-docs), kb of 32 bits, and STACK_TEXT of !analyze (WinDbg-Feedback #361). */
static void test_windbg(void **state)
{
	(void)state;
	expect(" # Child-SP          RetAddr               Call Site\n"
	       "00 000000c8`2a0ff5c8 00007ff7`12341234     app+0x10\n"
	       "01 (Inline Function) --------`--------     lib!ns::f+0x12 [C:\\src\\a.cpp @ 8] \n"
	       "02 000000c8`2a0ff5d0 00007ff7`12341240     app.dll+0x20\n"
	       "03 000000c8`2a0ff5d0 00007ff7`12341240     lib!operator new+0x8\n"
	       "0a 0012f6c8 00401136 app+0x30 (FPO: [Non-Fpo])\n"
	       "0b 0012f6c8 00401136 <Unloaded_app.dll>+0x30\n"
	       "01 12 13 app+0x40\n",
	        "2 app app/ 0x10 image []\n"
	        "4 app.dll app.dll/ 0x1f image []\n"
	        "6 app app/ 0x2f image []\n");
	/* below a handler of the kernel stands where it was called from, not where it returns to */
	expect("00 000000c8`2a0ff5c8 00007ff7`12341234 ntdll!KiUserExceptionDispatch+0x2e\n"
	       "01 000000c8`2a0ff5d0 00007ff7`12341240 app+0x20\n"
	       "02 000000c8`2a0ff5d8 00007ff7`12341248 app+0x30\n",
	        "2 app app/ 0x20 image []\n"
	        "3 app app/ 0x2f image []\n");
	expect("00 (Inline Function) --------`--------     lib!f+0x12\n"
	       "01 000000c8`2a0ff5d0 00007ff7`12341240     app+0x20\n",
	        "2 app app/ 0x20 image []\n");
	/* without numbers: the heading tells which row is the first, as rows without an offset may stand between */
	expect("ChildEBP RetAddr  Args to Child\n"
	       "WARNING: Stack unwind information not available. Following frames may be wrong.\n"
	       "0019e56c 0040c987 025805a8 0000003f 0019e5bc app+0x11515\n"
	       "0019e768 0040c999 02580000 00000000 00000000 app!main\n"
	       "0019e76c 0040c999 02580000 00000000 00000000 app+0x20\n"
	       "\n"
	       "STACK_TEXT:  \n"
	       "00000016`f1f7b508 00007ffa`3672ecd1     : 00000000`00000000 00000212`a36edc80 : "
	       "lib!wil::DebugBreak+0x2\n"
	       "WARNING: Stack unwind information not available. Following frames may be wrong.\n"
	       "00000016`f1f7b510 00007ffa`366f44c4     : 0000020a`c6b127d8 00000000`00000000 : app+0x30\n",
	        "3 app app/ 0x11515 image []\n"
	        "5 app app/ 0x1f image []\n"
	        "10 app app/ 0x2f image []\n");
	expect("02a0f7f8 71ab265b app+0x10\n02a0f80c 71ab4a9e app+0x20\n",
	        "1 app app/ 0x10 image []\n2 app app/ 0x1f image []\n");
	expect("02a0f7f8 app+0x10\n02a0f7f8 71ab265 app+0x10\n02a0f7f8 71ab265b app+10\n02a0f7f8 71ab265b +0x10\n", "");
	/* a symbol file has the name of the .pdb */
	expect("MODULE windows x86_64 44E4EC8C2F41492B9369D6B9A059577C2 app.pdb\n02a0f7f8 71ab265b app+0x10\n",
	        "2 app.pdb app.pdb/44E4EC8C2F41492B9369D6B9A059577C2 0x10 image []\n");
	/* as long as a name may be */
	char longest[TEXT_NAME_MAX - 3], text[2 * TEXT_NAME_MAX + 100], found[2 * TEXT_NAME_MAX + 100];
	memset(longest, 'a', sizeof longest - 1);
	longest[sizeof longest - 1] = 0;
	snprintf(text, sizeof text, "MODULE windows x86_64 " DEBUG_ID " %s.pdb\n02a0f7f8 71ab265b %s+0x10\n", longest,
	        longest);
	snprintf(found, sizeof found, "2 %s.pdb %s.pdb/" DEBUG_ID " 0x10 image []\n", longest, longest);
	expect(text, found);
}

/* gdb */
static void test_gdb(void **state)
{
	(void)state;
	expect("#0  0x00007ffff7e4e4e1 in ?? ()\n#1  0x00007ffff7e4e4e1 in main () at a.c:4\n",
	        "1 no module [?? ()]\n");
}

/* ---- memory maps ---- */

#define MAP_A                                                                                     \
	"10000-11000 r--p 00000000 fe:00 12    /a\n10000000-10001000 r--p 00000000 fe:00 12 /x\n" \
	"11000-12000 r-xp 00001000 fe:00 12    /a\n12000-13000 rw-p 00002000 fe:00 12   /a\n"
#define AT "    @            0x11010 (unknown)\n"
/* The fourth of glog's addresses is a return address. */
#define HANDLER "@ 0x1 f\n@ 0x2 f\n@ 0x3 f\n"

static void test_maps_before_and_after(void **state)
{
	(void)state;
	expect(MAP_A HANDLER AT, "8 /a a/ 0x100f image [(unknown)]\n");
	expect(HANDLER AT MAP_A, "4 /a a/ 0x100f image [(unknown)]\n");
	expect(AT "\n" MAP_A, "1 /a a/ 0x100f image [(unknown)]\n");
	/* data, a gap, and what is in no file */
	expect("@ 0x12010 (unknown)\n\n@ 0x13000 (unknown)\n\n@ 0x1 (unknown)\n" MAP_A
	       "20000-21000 r-xp 00000000 00:00 0\n"
	       "30000-31000 r-xp 00000000 00:00 0  [vdso]\n@ 0x20001 (unknown)\n\n@ 0x30001 (unknown)\n",
	        "1 no module [(unknown)]\n3 no module [(unknown)]\n5 no module [(unknown)]\n"
	        "12 no module [(unknown)]\n14 no module [(unknown)]\n");
	/* the file was replaced meanwhile; the beginning of another is not mapped */
	expect("@ 0x11010 (unknown)\n11000-12000 r-xp 00000000 fe:00 1 /a b (deleted)\n\n@ 0x21010 (unknown)\n"
	       "21000-22000 r-xp 00001000 fe:00 1 /b\n",
	        "1 /a b a b/ 0xf image [(unknown)]\n4 no module [(unknown)]\n");
	/* a small file of lld: each mapping has its beginning */
	expect("@ 0x11010 (unknown)\n10000-11000 r--p 00000000 fe:00 1 /a\n11000-12000 r-xp 00000000 fe:00 1 /a\n",
	        "1 /a a/ 0x100f image [(unknown)]\n");
}

static void test_maps_that_do_not_agree(void **state)
{
	(void)state;
	expect(MAP_A MAP_A AT, "9 /a a/ 0x100f image [(unknown)]\n");
	expect(MAP_A "11800-11900 r-xp 00000000 fe:00 1 /b\n" AT, "6 no module [(unknown)]\n");
	expect(MAP_A "00000-20000 r-xp 00000000 fe:00 1 /b\n" AT, "6 no module [(unknown)]\n");
	expect(MAP_A "11000-11001 r-xp 00000000 fe:00 1 /a\n" AT, "6 no module [(unknown)]\n");
	expect("18446744073709551615-0 r-xp 0 0:0 0 /a\nffffffffffffffff-10 r-xp 0 0:0 0 /a\n2026-11-24 r-xp 0 0:0 0 "
	       "/a\n" AT,
	        "4 no module [(unknown)]\n");
}

static void test_maps_of_several_processes(void **state)
{
	static const char *const begins[] = {"Starting program: /a\n", "Process: a [1]\n",
	        "*** Aborted at 1 (unix time)\n", "  PID: 12 (a)\n", "Thread 1 \"a\" received signal SIGSEGV\n",
	        "==12==x\n==13==y\n", "*** SIGSEGV received at time=1 on cpu 0 ***\n", "heap_v2/1\n"};
	(void)state;
	for (size_t i = 0; i < sizeof begins / sizeof *begins; i++) {
		char text[1000], expected[100];
		snprintf(text, sizeof text, "%s%s%s", MAP_A, begins[i], AT);
		snprintf(expected, sizeof expected, "%d no module [(unknown)]\n",
		        strchr(begins[i], 'y') && i == 5 ? 7 : 6);
		expect(text, expected);
		snprintf(text, sizeof text, "%s%s%s", AT, begins[i], MAP_A);
		expect(text, "1 no module [(unknown)]\n");
	}
	/* lines of a report that look alike, and begin none */
	static const char *const others[] = {"Thread 1 (Thread 0x7f00 (LWP 12)):\n", "a received signal SIGHUP\n",
	        "*** SIGNS ***\n", "a received at time=1\n", "Program terminated\n", "==12==x\n==12==y\n"};
	for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
		char text[1000], expected[100];
		snprintf(text, sizeof text, "%s%s%s", MAP_A, others[i], AT);
		snprintf(expected, sizeof expected, "%d /a a/ 0x100f image [(unknown)]\n", i == 5 ? 7 : 6);
		expect(text, expected);
	}
}

static void test_maps_of_debuggers(void **state)
{
	(void)state;
	expect("      0x555555554000     0x555555555000     0x1000        0x0  r--p   /tmp/app\n"
	       "      0x555555555000     0x555555556000     0x1000     0x1000  r-xp   /tmp/app\n"
	       "#0  0x0000555555555142 in ?? ()\n#1  <signal handler called>\n#2  0x0000555555555143 in ?? ()\n"
	       "#3  0x0000555555555144 in ?? () from /tmp/app\n",
	        "3 /tmp/app app/ 0x1142 image [?? ()]\n5 /tmp/app app/ 0x1143 image [?? ()]\n"
	        "6 /tmp/app app/ 0x1143 image [?? ()]\n");
	/* memory of no file, with the blanks that gdb writes, and as an editor leaves them; and files named like it */
	expect("0x1000 0x2000 0x1000 0x0  r-xp   \n0x3000 0x4000 0x1000 0x0  r-xp \n0x5000 0x6000 0x1000 0x0  r-xp\n"
	       "0x7000 0x8000 0x1000 0x0  r-xpq\n0x9000 0xa000 0x1000 0x0  r-x\n"
	       "#0  0x1010 in ?? ()\n#0  0x3010 in ?? ()\n#0  0x5010 in ?? ()\n#0  0x7010 in ?? ()\n#0  0x9010 in ?? "
	       "()\n",
	        "6 no module [?? ()]\n7 no module [?? ()]\n8 no module [?? ()]\n"
	        "9 r-xpq r-xpq/ 0x10 image [?? ()]\n10 r-x r-x/ 0x10 image [?? ()]\n");
	expect("#1  0x00007ffff7fbc115 in ?? ()\n"
	       "0x00007ffff7fbc050  0x00007ffff7fbc11a  Yes (*)     /tmp/libdie.so\n"
	       "0x00007ffff7fcb060  0x00007ffff7ff0111  Yes         /lib64/ld.so\n",
	        "1 /tmp/libdie.so libdie.so/ 0xc4 code [?? ()]\n");
	expect("  * frame #0: 0x00007ffff7fbc0f9 libdie.so`___lldb_unnamed_symbol9\n"
	       "    frame #1: 0x00007ffff7fbc105 libdie.so`___lldb_unnamed_symbol10 + 9\n"
	       "    frame #2: 0x00007ffff7fbc130 libdie.so`die(a=app`___lldb_unnamed_symbol1) + 14\n"
	       "    frame #3: 0x0000000000000130\n"
	       "[  0] 9F9E35E1-464E-F2F4-0A12-892428C41D51-86D8C6FE 0x0000555555554000 /tmp/app \n"
	       "[  1] 93AC61EC-5A8E-B139-6F9F-BD350E3169A5-58528A40 0x00007ffff7fbb000 /tmp/libdie.so \n",
	        "1 /tmp/libdie.so libdie.so/" DEBUG_ID " 0x10f9 image [___lldb_unnamed_symbol9]\n"
	        "2 /tmp/libdie.so libdie.so/" DEBUG_ID " 0x1104 image [___lldb_unnamed_symbol10 + 9]\n"
	        "4 no module []\n");
	expect("    frame #0: 0x0000000102003f9b app`___lldb_unnamed_symbol1\n"
	       "[  0] 9F9E35E1-464E-F2F4-0A12-892428C41D51 0x0000000102000000 /tmp/app \n",
	        "1 /tmp/app app/9F9E35E1464EF2F40A12892428C41D510 0x3f9b image [___lldb_unnamed_symbol1]\n");
}

/* eu-unstrip -n, of a process and of a core whose executable is not there. */
static void test_maps_of_eu_unstrip(void **state)
{
	(void)state;
	static const char id[] = "0123456789abcdef0123456789abcdef01234567";
	char text[1024];
	snprintf(text, sizeof text,
	        "#0  0x00007f0a833e00f9\n#1  0x00007f0a833e0105\n#2  0x00007f0a833e5000\n#3  0x5578496f8177\n"
	        "#4  0x5000\n#5  0x6001\n#6  0x7001\n#7  0x8001\n"
	        "0x7f0a833df000+0x5000 %s@0x7f0a833df248 /l/libx.so - /l/libx.so\n"
	        "0x5578496f7000+0x5000 %s@0x5578496f7368 . - /l/app\n"
	        "0x4000+0x2000 %s@0x4004 . - linux-vdso.so.1\n0x6000+0x1000 - /l/none - none\n"
	        "0x7000+0x1000 %s /l/has blank - has blank\n0x8000+0xffffffffffffffff - /l/none - none\n",
	        id, id, id, id);
	expect(text, "1 /l/libx.so libx.so/67452301AB89EFCD0123456789ABCDEF0 0x10f9 image []\n"
	             "2 /l/libx.so libx.so/67452301AB89EFCD0123456789ABCDEF0 0x1104 image []\n"
	             "3 no module []\n4 /l/app app/67452301AB89EFCD0123456789ABCDEF0 0x1176 image []\n"
	             "5 no module []\n6 /l/none none/ 0 image []\n"
	             "7 /l/has blank has blank/67452301AB89EFCD0123456789ABCDEF0 0 image []\n8 no module []\n");
	expect("#0  0xffffffffffffff00\n0xfffffffffffff000+0xfff - /l/last - none\n",
	        "1 /l/last last/ 0xf00 image []\n"); /* up to the highest address */
	snprintf(text, sizeof text,
	        "0x1000+0x1000 %s@0x1248 /l/libx.so - /l/libx.so\n0x2000+0x1000 123@0x2248 /l/libx.so - /l/libx.so\n"
	        "/l/libx.so(+0x10f9)[0x10f9]\n",
	        id); /* what is no id leaves the one before */
	expect(text, "3 /l/libx.so libx.so/67452301AB89EFCD0123456789ABCDEF0 0x10f8 elf []\n");
}

/* A library that Java names without a path. */
static void test_paths_from_maps(void **state)
{
	(void)state;
	expect("C  [a+0x10]\nC  [libx.so+0x20]\nC  [libx.so+0x20]\nC  [liby.so+0x20]\n" MAP_A
	       "40000-41000 r-xp 00000000 fe:00 1 /l/libx.so\n"
	       "50000-51000 r-xp 00000000 fe:00 1 /l/liby.so\n60000-61000 r-xp 00000000 fe:00 1 /m/liby.so\n",
	        "2 /l/libx.so libx.so/ 0x1f image []\n3 /l/libx.so libx.so/ 0x1f image []\n4 liby.so liby.so/ 0x1f "
	        "image []\n");
	/* of the same process, or else of the only one that has it; with the id that stands beside the frame */
	expect("C  [libx.so+0x20]\n*** Program crashed: 1\nC  [libx.so+0x20]\nC  [libz.so+0x20]\n"
	       "40000-41000 r-xp 00000000 fe:00 1 /l/libx.so\n"
	       "*** Program crashed: 2\nC  [libx.so+0x20]\nlibx.so+0x20 (BuildId: " ID ")\n"
	       "40000-41000 r-xp 00000000 fe:00 1 /m/libx.so\n50000-51000 r-xp 00000000 fe:00 1 /m/libz.so\n",
	        "1 libx.so libx.so/ 0x20 image []\n3 /l/libx.so libx.so/ 0x20 image []\n"
	        "4 /m/libz.so libz.so/ 0x1f image []\n7 /m/libx.so libx.so/ 0x20 image []\n"
	        "8 /m/libx.so libx.so/" DEBUG_ID " 0x20 image []\n");
}

/* glog's stack of a failed CHECK has return addresses from the first on; that of a signal, from the fourth. */
static void test_where_a_signal_came(void **state)
{
	static const char stack[] =
	        "    @ 0x11010 (unknown)\n    @ 0x11020 (unknown)\n    @ 0x11030 (unknown)\n    @ 0x11040 (unknown)\n";
	char text[1000];
	(void)state;
	snprintf(text, sizeof text, "%s*** Check failure stack trace: ***\n%s", MAP_A, stack);
	expect(text,
	        "6 /a a/ 0x100f image [(unknown)]\n7 /a a/ 0x101f image [(unknown)]\n8 /a a/ 0x102f image [(unknown)]\n"
	        "9 /a a/ 0x103f image [(unknown)]\n");
	snprintf(text, sizeof text, "%sPC: @ 0x0 f\n*** SIGSEGV received by PID 1; stack trace: ***\n%s", MAP_A, stack);
	expect(text,
	        "7 /a a/ 0x1010 image [(unknown)]\n8 /a a/ 0x1020 image [(unknown)]\n9 /a a/ 0x1030 image [(unknown)]\n"
	        "10 /a a/ 0x103f image [(unknown)]\n");
}

/* glog, absl, Rust, boost, valgrind, heap profiles */
static void test_addresses(void **state)
{
	(void)state;
	expect(MAP_A "PC: @ 0x11010 (unknown)\n"
	             "    @            0x11011         32  (unknown)\n"
	             "    @            0x11012         32  main\n"
	             "    @            0x11013  (unknown)  main\n"
	             "    @            0x11014  (unknown)  (unknown)\n"
	             "   4:     0x11015 - <unknown>\n"
	             "   5:     0x11016 - main\n"
	             " 0# 0x0000000000011017 in ./a\n"
	             " 1# main in ./a\n"
	             "==12==    at 0x11018: ??? (in /a)\n"
	             "==12==    by 0x11019: main (in /a)\n"
	             "  1: 100 [ 1: 100] @ 0x1101a 0x1101b\n"
	             "@ 0x1101c\n"
	             "mail a@ 0x1101d\n",
	        "5 /a a/ 0x1010 image [(unknown)]\n6 /a a/ 0x1011 image [(unknown)]\n9 /a a/ 0x1013 image [(unknown)]\n"
	        "10 /a a/ 0x1014 image [<unknown>]\n12 /a a/ 0x1016 image []\n14 /a a/ 0x1018 image [???]\n"
	        "16 /a a/ 0x1019 image []\n16 /a a/ 0x101a image []\n17 /a a/ 0x101b image []\n");
}

/* Python 3.14.10 of Debian, an executable with a fixed address. Below the trampoline of libc stands where the signal
 * came. */
static void test_python(void **state)
{
	(void)state;
	expect("Current thread's C stack trace (most recent call first):\n"
	       "  Binary file \"/usr/bin/python3.14\", at _Py_DumpStack+0x4a [0x49b2f9]\n"
	       "  Binary file \"/usr/bin/python3.14\" [0x53d28e]\n"
	       "  Binary file \"/usr/lib/libc.so.6\", at +0x406b0 [0x7fbf608fb6b0]\n"
	       "  Binary file \"/tmp/a b.so\", at +0x1115 [0x7f0123451115]\n"
	       "  Binary file \"/tmp/a b.so\", at +0x1125 [0x7f0123451125]\n"
	       "  Binary file \"/tmp/a b.so\", at crash+0xe [0x7f0123451130]\n"
	       "  Binary file \"/tmp/c.so\", at crash+0xe [0x7f0123451130]\n"
	       "  Binary file \"/tmp/c.so\" [0x7f0123451130]\n"
	       "  Binary file \"/tmp/c.so\", at\n"
	       "  Binary file \"/tmp/c.so\n",
	        "3 /usr/bin/python3.14 python3.14/ 0x53d28d elf []\n4 /usr/lib/libc.so.6 libc.so.6/ 0x406b0 image []\n"
	        "5 /tmp/a b.so a b.so/ 0x1115 image []\n6 /tmp/a b.so a b.so/ 0x1124 image []\n7 /tmp/a b.so a b.so/ "
	        "0x112f image []\n");
}

/* Open MPI 4.1 and Ruby 3.1 of Debian 12, and LLVM 14's programs. */
static void test_where_a_signal_came_by_the_trampoline(void **state)
{
	(void)state;
	expect("[vm:1] [ 0] /lib/libc.so.6(+0x3c050)[0x7f9491f53050]\n"
	       "[vm:1] [ 1] /l/a.so(+0x10f9)[0x7f949224b0f9]\n"
	       "[vm:1] [ 2] /l/a.so(+0x1105)[0x7f949224b105]\n"
	       "/lib/libc.so.6(+0x3c051)[0x7f9491f53051]\n"
	       "/l/a.so(+0x1105)[0x7f949224b105]\n"
	       "/lib/libc.so.6(__restore_rt+0x0) [0x7f6876af9050]\n"
	       "/l/a.so(+0x1105)[0x7f949224b105]\n"
	       " #4 0x00007f8b7d45a050 (/lib/libc.so.6+0x3c050)\n"
	       " #5 0x00007f8b84e20692 (/lib/b.so+0xa20692)\n"
	       " #6 0x00007f8b84e1971f clang::Go(int) (/lib/b.so+0xa1971f)\n"
	       "    #6 0x7f8b84e1971f (/lib/b.so+0xa1971f)\n",
	        "1 /lib/libc.so.6 libc.so.6/ 0x3c050 elf []\n2 /l/a.so a.so/ 0x10f9 elf []\n3 /l/a.so a.so/ 0x1104 elf "
	        "[]\n"
	        "4 /lib/libc.so.6 libc.so.6/ 0x3c050 elf []\n5 /l/a.so a.so/ 0x1104 elf []\n"
	        "7 /l/a.so a.so/ 0x1105 elf []\n"
	        "8 /lib/libc.so.6 libc.so.6/ 0x3c050 elf [ ]\n9 /lib/b.so b.so/ 0xa20692 elf [ ]\n"
	        "10 /lib/b.so b.so/ 0xa1971e elf [ clang::Go(int) ]\n11 /lib/b.so b.so/ 0xa1971f elf [ ]\n");
}

/* strace 6.1, lldb 14, boost 1.74, perf 6.1 with --call-graph=dwarf, hs_err of Java, and Apple's form. */
static void test_where_a_signal_came_in_other_formats(void **state)
{
	(void)state;
	expect(" > /lib/libc.so.6(getppid+0x7) [0xd54f7]\n"
	       " > /lib/libc.so.6(__sigaction+0x40) [0x3c050]\n"
	       " > /a.so() [0x10f9]\n"
	       " > /a.so() [0x1105]\n",
	        "1 /lib/libc.so.6 libc.so.6/ 0xd54f7 image []\n2 /lib/libc.so.6 libc.so.6/ 0x3c050 image []\n"
	        "3 /a.so a.so/ 0x10f9 image []\n4 /a.so a.so/ 0x1104 image []\n");
	expect(MAP_A "frame #1: 0x0000000000011000 libc.so.6`___lldb_unnamed_symbol3310\n"
	             "frame #2: 0x0000000000011010 a`___lldb_unnamed_symbol9\n"
	             "frame #3: 0x0000000000011010 a`___lldb_unnamed_symbol9 + 4\n"
	             "frame #4: 0x0000000000011000 libc.so.6`__restore_rt\n"
	             "frame #5: 0x0000000000011010 a`___lldb_unnamed_symbol9\n",
	        "5 /a a/ 0x1000 image [___lldb_unnamed_symbol3310]\n6 /a a/ 0x1010 image [___lldb_unnamed_symbol9]\n"
	        "7 /a a/ 0x100f image [___lldb_unnamed_symbol9 + 4]\n9 /a a/ 0x1010 image [___lldb_unnamed_symbol9]\n");
	expect(MAP_A " 1# 0x0000000000012000 in /lib/libc.so.6\n"
	             " 2# 0x0000000000011010 in /a\n"
	             " 3# 0x0000000000011010 in /a\n",
	        "5 no module []\n6 /a a/ 0x1010 image []\n7 /a a/ 0x100f image []\n");
	expect("\t    11cf [unknown] (/a)\n"
	       "\t   3c04f [unknown] (/lib/libc.so.6)\n"
	       "\t    10f9 [unknown] (/a.so)\n"
	       "\t    1104 [unknown] (/a.so)\n",
	        "1 /a a/ 0x11cf file [[unknown]]\n2 /lib/libc.so.6 libc.so.6/ 0x3c04e file [[unknown]]\n"
	        "3 /a.so a.so/ 0x10f9 file [[unknown]]\n4 /a.so a.so/ 0x1103 file [[unknown]]\n");
	expect("Native frames: (J=compiled Java code, j=interpreted, Vv=VM code, C=native code)\n"
	       "C  [libjn.so+0x10fc]\nC  [libc.so.6+0x3c050]\nC  [libjn.so+0x10f9]\nC  [libjn.so+0x1105]\n",
	        "2 libjn.so libjn.so/ 0x10fc image []\n3 libc.so.6 libc.so.6/ 0x3c050 image []\n"
	        "4 libjn.so libjn.so/ 0x10f9 image []\n5 libjn.so libjn.so/ 0x1104 image []\n");
	expect("4   libsystem_platform.dylib  0x00000001845c5a24 _sigtramp + 56\n"
	       "5   a   0x0000000104b5c8d4 0x104b58000 + 18644\n"
	       "6   a   0x0000000104b5c8d4 0x104b58000 + 18644\n",
	        "2 a a/ 0x48d4 image []\n3 a a/ 0x48d3 image []\n");
}

/* Each form in which a format writes the frames below a signal's handler: the address where the signal came is exact,
 * those of its callers are one byte below return addresses. Formats whose writers have lowered addresses already, or
 * that unwind from the signal's context, need none. MAP_C is a map of the C library, whose trampoline is at 0x32010. */
#define MAP_C "30000-40000 r-xp 00000000 fe:00 1 /l/libc.so.6\n"
static const struct {
	const char *format, *text, *expected;
} signal_frames[] = {
        {"LLVM",
                " #4 0x00007f8b7d45a050 (/l/libc.so.6+0x3c050)\n #5 0x00007f8b84e20692 (/a+0x1010)\n"
                " #6 0x00007f8b84e20692 (/a+0x1010)\n",
                "2 /a a/ 0x1010 elf [ ]\n3 /a a/ 0x100f elf [ ]\n"},
        {"glibc, Open MPI, Node.js",
                "/l/libc.so.6(+0x3c050)[0x7f9491f53050]\n/a(+0x1010)[0x55f949224b01]\n/a(+0x1010)[0x55f949224b01]\n",
                "2 /a a/ 0x1010 elf []\n3 /a a/ 0x100f elf []\n"},
        {"glibc with symbols",
                "/l/libc.so.6(__restore_rt+0x0)[0x7f9491f53050]\n/a(+0x1010)[0x55f949224b01]\n/"
                "a(+0x1010)[0x55f949224b01]\n",
                "2 /a a/ 0x1010 elf []\n3 /a a/ 0x100f elf []\n"},
        {"glibc to 2.33",
                "/l/libc.so.6(+0x10)[0x7f9491f17010]\n/l/libc.so.6(killpg+0x40)[0x7f9491f53050]\n/"
                "a(+0x1010)[0x55f949224b01]\n/a(+0x1010)[0x55f949224b01]\n",
                "3 /a a/ 0x1010 elf []\n4 /a a/ 0x100f elf []\n"},
        {"glibc to 2.33, threads",
                "/l/libpthread.so.0(+0x10)[0x7f9491f17010]\n/l/libpthread.so.0(funlockfile+0x50)[0x7f9491f53140]\n/"
                "a(+0x1010)[0x55f949224b01]\n/a(+0x1010)[0x55f949224b01]\n",
                "3 /a a/ 0x1010 elf []\n4 /a a/ 0x100f elf []\n"},
        {"glibc of Arm",
                "linux-vdso.so.1(__kernel_rt_sigreturn+0x0)[0x7f9491f53050]\n/a(+0x1010)[0x55f949224b01]\n/"
                "a(+0x1010)[0x55f949224b01]\n",
                "2 /a a/ 0x1010 elf []\n3 /a a/ 0x100f elf []\n"},
        {"Redis", "EIP:\n/a(+0x1010)[0x55f949224b01]\n\nBacktrace:\n/a(+0x1010)[0x55f949224b01]\n",
                "2 /a a/ 0x1010 elf []\n5 /a a/ 0x100f elf []\n"},
        {"Tor",
                "Tor 0.4.9.11 died: Caught signal "
                "11\ntor(+0x20)[0x562f6aefa52e]\n/a(+0x1010)[0x55f949224b01]\n/a(+0x1010)[0x55f949224b01]\n/"
                "a(+0x1010)[0x55f949224b01]\n",
                "3 /a a/ 0x1010 elf []\n4 /a a/ 0x1010 elf []\n5 /a a/ 0x100f elf []\n"},
        {"X server",
                "(EE) 1: /l/libc.so.6 (0x7f9491f17000+0x3c050) [0x7f9491f53050]\n"
                "(EE) 2: /a (0x55f949223000+0x1010) [0x55f949224010]\n"
                "(EE) 3: /a (0x55f949223000+0x1010) [0x55f949224010]\n",
                "2 /a a/ 0x1010 image []\n3 /a a/ 0x100f image []\n"},
        {"PyTorch",
                "frame #1: <unknown function> + 0x3c050 (0x7f9491f53050 in /l/libc.so.6)\nframe #2: <unknown function> "
                "+ 0x1010 (0x7f9491f53050 in /a)\nframe #3: <unknown function> + 0x1010 (0x7f9491f53050 in /a)\n",
                "2 /a a/ 0x1010 image [<unknown function>]\n3 /a a/ 0x100f image [<unknown function>]\n"},
        {"gdb", MAP_A "#2  <signal handler called>\n#3  0x11010 in ?? ()\n#4  0x11010 in ?? ()\n",
                "6 /a a/ 0x1010 image [?? ()]\n7 /a a/ 0x100f image [?? ()]\n"},
        {"gdb by KCrash", MAP_A "[KCrash Handler]\n#4  0x11010 in ?? ()\n#5  0x11010 in ?? ()\n",
                "6 /a a/ 0x1010 image [?? ()]\n7 /a a/ 0x100f image [?? ()]\n"},
        {"eu-stack", MAP_A "#2  0x12000 __restore_rt\n#3  0x11010\n#4  0x11010\n",
                "6 /a a/ 0x1010 image []\n7 /a a/ 0x100f image []\n"},
        {"eu-stack -m", MAP_A "#2  0x12000 - /l/libc.so.6\n#3  0x11010 - /a\n#4  0x11010 - /a\n",
                "6 /a a/ 0x1010 image []\n7 /a a/ 0x100f image []\n"},
        {"eu-stack with a map", MAP_A MAP_C "#2  0x32010\n#3  0x11010\n#4  0x11010\n",
                "7 /a a/ 0x1010 image []\n8 /a a/ 0x100f image []\n"},
        {"eu-stack -b with a map",
                MAP_A MAP_C "#2  0x32010\n    [93ac]@0x7f0d19504000+0x3c050\n#3  0x11010\n    "
                            "[4d17]@0x7f0d196f1000+0x10f9\n#4  0x11010\n",
                "8 /a a/ 0x1010 image []\n10 /a a/ 0x100f image []\n"},
        {"lldb",
                MAP_A "frame #1: 0x12000 libc.so.6`___lldb_unnamed_symbol3310\nframe #2: 0x11010 "
                      "a`___lldb_unnamed_symbol9\nframe #3: 0x11010 a`___lldb_unnamed_symbol9\n",
                "6 /a a/ 0x1010 image [___lldb_unnamed_symbol9]\n7 /a a/ 0x100f image [___lldb_unnamed_symbol9]\n"},
        {"lldb with symbols",
                MAP_A "frame #1: 0x12000 libc.so.6`__restore_rt\nframe #2: 0x11010 a`___lldb_unnamed_symbol9\nframe "
                      "#3: 0x11010 a`___lldb_unnamed_symbol9\n",
                "6 /a a/ 0x1010 image [___lldb_unnamed_symbol9]\n7 /a a/ 0x100f image [___lldb_unnamed_symbol9]\n"},
        {"lldb of macOS",
                MAP_A "frame #1: 0x12000 libsystem_platform.dylib`_sigtramp + 29\nframe #2: 0x11010 "
                      "a`___lldb_unnamed_symbol9\nframe #3: 0x11010 a`___lldb_unnamed_symbol9\n",
                "6 /a a/ 0x1010 image [___lldb_unnamed_symbol9]\n7 /a a/ 0x100f image [___lldb_unnamed_symbol9]\n"},
        {"strace -k",
                " > /l/libc.so.6(getppid+0x7) [0xd54f7]\n > /l/libc.so.6(__sigaction+0x40) [0x3c050]\n > /a() "
                "[0x1010]\n > /a() [0x1010]\n",
                "3 /a a/ 0x1010 image []\n4 /a a/ 0x100f image []\n"},
        {"hs_err of Java", "C  [libjn.so+0x20]\nC  [libc.so.6+0x3c050]\nC  [liba.so+0x1010]\nC  [liba.so+0x1010]\n",
                "3 liba.so liba.so/ 0x1010 image []\n4 liba.so liba.so/ 0x100f image []\n"},
        {"OpenJ9",
                "f+0x12 (0x00007F6D7D4E4112 [libc.so.6+0x3c050])\nf+0x12 (0x00007F6D7D4E4112 [liba.so+0x1010])\nf+0x12 "
                "(0x00007F6D7D4E4112 [liba.so+0x1010])\n",
                "2 liba.so liba.so/ 0x1010 image []\n3 liba.so liba.so/ 0x100f image []\n"},
        {"Python",
                "  Binary file \"/l/libc.so.6\", at +0x3c050 [0x7f9491f53050]\n  Binary file \"/a\", at +0x1010 "
                "[0x55f949224b01]\n  Binary file \"/a\", at +0x1010 [0x55f949224b01]\n",
                "2 /a a/ 0x1010 image []\n3 /a a/ 0x100f image []\n"},
        {"Rust",
                MAP_A
                "   3:     0x12000 - __restore_rt\n   4:     0x11010 - <unknown>\n   5:     0x11010 - <unknown>\n",
                "6 /a a/ 0x1010 image [<unknown>]\n7 /a a/ 0x100f image [<unknown>]\n"},
        {"Rust with a map",
                MAP_A MAP_C
                "   3:     0x32010 - <unknown>\n   4:     0x11010 - <unknown>\n   5:     0x11010 - <unknown>\n",
                "7 /a a/ 0x1010 image [<unknown>]\n8 /a a/ 0x100f image [<unknown>]\n"},
        {"Rust, a name in between",
                MAP_A MAP_C "   3:     0x32010 - <unknown>\n   4:     0x11010 - main\n   5:     0x11010 - <unknown>\n",
                "8 /a a/ 0x100f image [<unknown>]\n"},
        {"Rust, another library", MAP_A "   3:     0x11020 - <unknown>\n   4:     0x11010 - <unknown>\n",
                "6 /a a/ 0x100f image [<unknown>]\n"},
        {"glog",
                MAP_A "PC: @ 0x0 f\n*** SIGSEGV (@0x0) received by PID 1; stack trace: ***\n@ 0x11010 (unknown)\n@ "
                      "0x11010 (unknown)\n@ 0x11010 (unknown)\n@ 0x11010 (unknown)\n",
                "7 /a a/ 0x1010 image [(unknown)]\n8 /a a/ 0x1010 image [(unknown)]\n9 /a a/ 0x1010 image "
                "[(unknown)]\n10 /a a/ 0x100f image [(unknown)]\n"},
        {"boost", MAP_A " 1# 0x12000 in /l/libc.so.6\n 2# 0x11010 in /a\n 3# 0x11010 in /a\n",
                "6 /a a/ 0x1010 image []\n7 /a a/ 0x100f image []\n"},
        {"coredumpctl",
                "#1  0x00007f2d5c8a9e3c n/a (libc.so.6 + 0x3c050)\n#2  0x00007f2d5c8a9e3c n/a (a + 0x1010)\n#3  "
                "0x00007f2d5c8a9e3c n/a (a + 0x1010)\n",
                "2 a a/ 0x1010 image [n/a]\n3 a a/ 0x100f image [n/a]\n"},
        {"coredumpctl with symbols",
                "#1  0x00007f2d5c8a9e3c __restore_rt (libc.so.6 + 0x3c050)\n#2  0x00007f2d5c8a9e3c n/a (a + "
                "0x1010)\n#3  0x00007f2d5c8a9e3c n/a (a + 0x1010)\n",
                "2 a a/ 0x1010 image [n/a]\n3 a a/ 0x100f image [n/a]\n"},
        {"ABRT",
                "{\"frames\":[{\"build_id\":\"" ID "\",\"build_id_offset\":32,\"file_name\":\"/a\"},{\"build_id\":\"" ID
                "\",\"build_id_offset\":245840,\"file_name\":\"/l/"
                "libc.so.6\",\"function_name\":\"__restore_rt\"},{\"build_id\":\"" ID
                "\",\"build_id_offset\":4112,\"file_name\":\"/a\"},{\"build_id\":\"" ID
                "\",\"build_id_offset\":4112,\"file_name\":\"/a\"}]}\n",
                "1 /a a/" DEBUG_ID " 0x1010 image []\n1 /a a/" DEBUG_ID " 0x100f image []\n"},
        {"MongoDB",
                "{\"backtrace\":[{\"b\":\"7F0FBB3F9000\",\"o\":\"42520\",\"s\":\"__sigaction\"},{\"b\":"
                "\"5609C75C7000\",\"o\":\"1010\"},{\"b\":\"5609C75C7000\",\"o\":\"1010\"}],"
                "\"somap\":[{\"b\":\"5609C75C7000\",\"path\":\"/a\",\"elfType\":3}]}\n",
                "1 /a a/ 0x1010 image []\n1 /a a/ 0x100f image []\n"},
        {"perf script",
                "\t    1010 [unknown] (/a)\n\t   3c04f [unknown] (/l/libc.so.6)\n\t    1010 [unknown] (/a)\n\t    1010 "
                "[unknown] (/a)\n",
                "3 /a a/ 0x1010 file [[unknown]]\n4 /a a/ 0x100f file [[unknown]]\n"},
        {"bpftrace", MAP_A MAP_C "@[\n    0x32020\n    0x32010\n    0x11010\n    0x11010\n]: 1\n",
                "9 /a a/ 0x1010 image []\n10 /a a/ 0x100f image []\n"},
        {"ClickHouse",
                "5. ? @ 0x0000000000001010 in /a\n6. ? @ 0x000000000003c050 in /l/libc.so.6\n7. ? @ 0x0000000000001010 "
                "in /a\n8. ? @ 0x0000000000001010 in /a\n",
                "3 /a a/ 0x1010 elf [?]\n4 /a a/ 0x100f elf [?]\n"},
        {"minidump-stackwalk", " 1  libc.so.6 + 0x3c050\n 2  liba.so + 0x1010\n 3  liba.so + 0x1010\n",
                "2 liba.so liba.so/ 0x1010 image []\n3 liba.so liba.so/ 0x100f image []\n"},
        {"Firefox", "#01: ???[/l/libc.so.6 +0x3c050]\n#02: ???[/a +0x1010]\n#03: ???[/a +0x1010]\n",
                "2 /a a/ 0x1010 image [???]\n3 /a a/ 0x100f image [???]\n"},
        {"Chromium",
                MAP_A MAP_C "#3 0x000000032010 <unknown>\n#4 0x000000011010 <unknown>\n#5 0x000000011010 <unknown>\n",
                "7 /a a/ 0x1010 image [<unknown>]\n8 /a a/ 0x100f image [<unknown>]\n"},
        {"Unreal Engine",
                "0x0001 libc.so.6!UnknownFunction(0x3c04f)\n0x0001 liba.so!UnknownFunction(0x100f)\n0x0001 "
                "liba.so!UnknownFunction(0x100f)\n",
                "2 liba.so liba.so/ 0x1010 image []\n3 liba.so liba.so/ 0x100f image []\n"},
        {"Unity",
                "C:\\a.dll:a.dll (0000000000010000), size: 65536 (result: 0), SymType: ''\n"
                "0x0000000000011010 (a) (function-name not available)\n0x00007FF8A5C04F69 (ntdll) "
                "KiUserExceptionDispatcher\n"
                "0x0000000000011010 (a) (function-name not available)\n0x0000000000011010 (a) (function-name not "
                "available)\n",
                "4 C:\\a.dll a.dll/ 0x1010 image [(function-name not available)]\n5 C:\\a.dll a.dll/ 0x100f image "
                "[(function-name not available)]\n"},
        {"Wine",
                "=>0 0x00000321661370 in a (+0x1010) (0x0000000021fcb0)\n  1 0x00000321661370 "
                "KiUserExceptionDispatcher+0x12 in ntdll (+0x1010) (0x0000000021fcb0)\n"
                "  2 0x00000321661370 in a (+0x1010) (0x0000000021fcb0)\n  3 0x00000321661370 in a (+0x1010) "
                "(0x0000000021fcb0)\n",
                "3 a a/ 0x1010 image []\n4 a a/ 0x100f image []\n"},
        {"WinDbg",
                "01 000000c8`2a0ff5c8 00007ff7`12341234 nt!KiBreakpointTrap+0x100\n02 000000c8`2a0ff5c8 "
                "00007ff7`12341234 a+0x1010\n03 000000c8`2a0ff5c8 00007ff7`12341234 a+0x1010\n",
                "2 a a/ 0x1010 image []\n3 a a/ 0x100f image []\n"},
        {".NET NativeAOT", "   at libc!<BaseAddress>+0x3c050\n   at a!<BaseAddress>+0x1010\n",
                "2 a a/ 0x100f image []\n"},
        {"macOS",
                "4   libsystem_platform.dylib  0x00000001845c5a24 _sigtramp + 56\n5   a   0x0000000104b5c8d4 "
                "0x104b58000 + 18644\n6   a   0x0000000104b5c8d4 0x104b58000 + 18644\n",
                "2 a a/ 0x48d4 image []\n3 a a/ 0x48d3 image []\n"},
        {"Crashlytics",
                "4   libsystem_platform.dylib  0x5a24 _sigtramp + 56\n5   a   0x1010 (Missing UUID "
                "93ac61ec5a8eb1396f9fbd350e3169a5)\n6   a   0x1010 (Missing UUID 93ac61ec5a8eb1396f9fbd350e3169a5)\n",
                "2 a a/93AC61EC5A8EB1396F9FBD350E3169A50 0x1010 image []\n3 a a/93AC61EC5A8EB1396F9FBD350E3169A50 "
                "0x100f image []\n"},
        {"KSCrash",
                "{\"binary_images\":[{\"image_addr\":65536,\"image_size\":65536,\"name\":\"/"
                "a\",\"uuid\":\"93AC61EC-5A8E-B139-6F9F-BD350E3169A5\"}],"
                "\"crash\":{\"threads\":[{\"backtrace\":{\"contents\":[{\"object_name\":\"a\",\"symbol_addr\":0,"
                "\"instruction_addr\":69648},"
                "{\"object_name\":\"a\",\"symbol_addr\":0,\"instruction_addr\":69648}],\"skipped\":0}}]}}\n",
                "1 /a a/93AC61EC5A8EB1396F9FBD350E3169A50 0x1010 image []\n1 /a a/93AC61EC5A8EB1396F9FBD350E3169A50 "
                "0x100f image []\n"},
};

static void test_signal_frames(void **state)
{
	bool right = true;
	(void)state;
	for (size_t i = 0; i < sizeof signal_frames / sizeof *signal_frames; i++) {
		char *shown = found_in(NULL, NULL, signal_frames[i].text, SIZE_MAX);
		size_t len = strlen(shown), wanted = strlen(signal_frames[i].expected);
		bool same = len >= wanted && strcmp(shown + len - wanted, signal_frames[i].expected) == 0;
		if (!same)
			print_error(
			        "%s:\n%snot at its end\n%s", signal_frames[i].format, shown, signal_frames[i].expected);
		right = right && same;
		free(shown);
	}
	assert_true(right);
}
#undef MAP_C

/* gdb's bt full, eu-stack -b and -s, perf script -F +srcline: what stands between frames does not end a stack. */
static void test_lines_between_frames(void **state)
{
	(void)state;
	expect(MAP_A "#1  0x0000000000011010 in ?? ()\nNo symbol table info available.\n#2  <signal handler called>\n"
	             "No locals.\n        p = 0x0\n#3  0x0000000000011010 in ?? ()\nNo symbol table info available.\n"
	             "#4  0x0000000000011010 in ?? ()\n",
	        "5 /a a/ 0x100f image [?? ()]\n10 /a a/ 0x1010 image [?? ()]\n12 /a a/ 0x100f image [?? ()]\n");
	expect(MAP_A "#2  0x0000000000012000 __restore_rt\n    [93ac]@0x7f0d19504000+0x3c050\n    signal.c:3:1\n"
	             "#3  0x0000000000011010\n    [4d17]@0x7f0d196f1000+0x10f9\n#4  0x0000000000011010\n",
	        "8 /a a/ 0x1010 image []\n10 /a a/ 0x100f image []\n");
	/* a frame with a name, or another stack, is not where the signal came */
	expect(MAP_A "#2  0x0000000000012000 __restore_rt\n#3  0x0000000000011010 main\n#4  0x0000000000011010\n",
	        "7 /a a/ 0x100f image []\n");
	expect(MAP_A "   3:     0x000000012000 - __restore_rt\n   4:     0x000000011010 - main\n"
	             "   5:     0x000000011010 - <unknown>\n",
	        "7 /a a/ 0x100f image [<unknown>]\n");
	expect(MAP_A "#2  0x0000000000012000 __restore_rt\n\n#1  0x0000000000011010\n", "7 /a a/ 0x100f image []\n");
	expect("a 1 2: 3 cpu-clock:u: \n\t            11cf [unknown] (/a)\n  a[11cf]\n"
	       "\t           3c04f [unknown] (/lib/libc.so.6)\n  signal.c:0\n\t            10f9 [unknown] (/a)\n"
	       "  a[10f9]\n\t            1104 main+0x3\n  a.c:1 (inlined)\n\t            1104 [unknown] (/a)\n"
	       "  a[1104]\n\nb 1 2: 3 cpu-clock:u: \n\t            1104 [unknown] (/a)\n",
	        "2 /a a/ 0x11cf file [[unknown]]\n4 /lib/libc.so.6 libc.so.6/ 0x3c04e file [[unknown]]\n"
	        "6 /a a/ 0x10f9 file [[unknown]]\n10 /a a/ 0x1103 file [[unknown]]\n"
	        "14 /a a/ 0x1104 file [[unknown]]\n");
}

/* Numbers in logs that could be frames; and the same with what makes them some. */
static void test_numbers_in_logs(void **state)
{
	(void)state;
	expect("    1234 running app (/opt/app)\n   12 files (/opt/app)\n  1139 pts/0 00:00:00 (/opt/app)\n"
	       " 0x401139 [/opt/app+0x1142/0x4000]\n",
	        "");
	expect("   1234 main+0x9 (/opt/app)\n   1234 main (/opt/app)\n",
	        "1 /opt/app app/ 0x1234 file [main+0x9]\n2 /opt/app app/ 0x1233 file [main]\n");
}

/* Redis 7.0 and Tor 0.4.9 of Debian 12. */
static void test_where_a_signal_came_by_a_heading(void **state)
{
	(void)state;
	expect("EIP:\n/a.so(+0x10f9)[0x7f961251e0f9]\n\nBacktrace:\n/a.so(+0x10f9)[0x7f961251e0f9]\n",
	        "2 /a.so a.so/ 0x10f9 elf []\n5 /a.so a.so/ 0x10f8 elf []\n");
	expect("Tor 0.4.9.11 died: Caught signal 11\n"
	       "tor(+0xf152e)[0x562f6aefa52e]\n"
	       "/a.so(+0x10f9)[0x7fcfc668b0f9]\n"
	       "/a.so(+0x10f9)[0x7fcfc668b0f9]\n"
	       "/a.so(+0x10f9)[0x7fcfc668b0f9]\n",
	        "2 tor tor/ 0xf152d elf []\n3 /a.so a.so/ 0x10f9 elf []\n4 /a.so a.so/ 0x10f9 elf []\n"
	        "5 /a.so a.so/ 0x10f8 elf []\n");
}

/* PostgreSQL 15 and Redis 7.0 show what they do in place of their names. */
static void test_programs_with_a_title(void **state)
{
	(void)state;
	expect("\tpostgres: postgres postgres [local] SELECT(+0x135c32) [0x557afb9cec32]\n"
	       "\tpostgres: checkpointer (+0x135c32) [0x557afb9cec32]\n"
	       "postgres: 15/main: me db [local] SELECT(int4div+0x53) [0x557afb9cec33]\n"
	       "/usr/bin/redis-server 127.0.0.1:6379(+0x64ef8)[0x5621b06ffef8]\n"
	       "redis-server unixsocket:/tmp/r.sock(+0x64ef8)[0x5621b06ffef8]\n"
	       "postgres: /l/a.so(+0x12)[0x5621b06ffef8]\n",
	        "1 postgres postgres/ 0x135c31 elf []\n2 postgres postgres/ 0x135c31 elf []\n"
	        "3 postgres postgres/ 0x135c32 elf []\n4 /usr/bin/redis-server redis-server/ 0x64ef7 elf []\n"
	        "5 redis-server redis-server/ 0x64ef7 elf []\n6 /l/a.so a.so/ 0x11 elf []\n");
}

/* elfutils 0.188: eu-stack alone, with -m, and with -v. */
static void test_eu_stack(void **state)
{
	(void)state;
	expect(MAP_A "#0  0x0000000000011010\n"
	             "#1  0x0000000000011010\n"
	             "#2  0x0000000000011050 __restore_rt\n"
	             "#3  0x0000000000011010\n"
	             "#4  0x0000000000011010 main\n"
	             "#5  0x0000000000011010 - /a\n"
	             "#6  0x0000000000011010 main - /a\n"
	             "#7  0x0000000000011010 - 1 - /a\n"
	             "#8  0x0000000000011010     - /a\n"
	             "#9  0x0000000000011010 - 1 main - /a\n"
	             "#9  0x0000000000011010 - 12\n",
	        "5 /a a/ 0x1010 image []\n6 /a a/ 0x100f image []\n8 /a a/ 0x1010 image []\n"
	        "10 /a a/ 0x100f image []\n12 /a a/ 0x100f image []\n13 /a a/ 0x1010 image []\n");
}

/* bpftrace 0.17, ustack(perf) of a process that has ended. */
static void test_bpftrace(void **state)
{
	(void)state;
	expect(MAP_A "\t11010 0x11010 ([unknown])\n\t11010 0x11010 ([unknown])\n\t11010 0x11011 ([unknown])\n",
	        "5 /a a/ 0x1010 image [0x11010]\n6 /a a/ 0x100f image [0x11010]\n");
	/* without a mode */
	expect(MAP_A "    0x11010\n@[\n    0x11011\n    spin+9\n    0x11012\n    0x11013 7\n]: 4\n    0x11014\n"
	             "@named[\n    spin+9\n    0x11015\n\n    0x11016\n",
	        "7 /a a/ 0x1011 image []\n9 /a a/ 0x1011 image []\n15 /a a/ 0x1014 image []\n");
}

/* Chromium, whose driver prints what backtrace() gives. */
static void test_chromium(void **state)
{
	(void)state;
	expect(MAP_A "#0 0x11010 <unknown>\n#1 0x11011 <unknown>\n#2 0x11012 <unknown> at 7\n#3 0x11013 main\n",
	        "5 /a a/ 0x100f image [<unknown>]\n6 /a a/ 0x1010 image [<unknown>]\n");
}

/* PyTorch */
static void test_torch(void **state)
{
	(void)state;
	expect("frame #1: c10::f(char const*) + 0xfc (0x7f38398098de in /lib/libc10.so)\n"
	       "frame #2: <unknown function> + 0x1209 (0x5583d456c209 in ./t h)\n"
	       "frame #3: enter + 0x9 (0x5583d456c13e in ./t h)\n"
	       "frame #4: enter + 0x9\n",
	        "2 ./t h t h/ 0x1208 image [<unknown function>]\n3 ./t h t h/ 0x113d image [enter]\n");
}

/* What valgrind (massif), gfortran, Zig, backward-cpp, D and Ruby mark as unknown: all are addresses of calls. */
static void test_unknown(void **state)
{
	(void)state;
	expect(MAP_A "->99.99% (10B) 0x11010: ??? (in /a)\n"
	             "#3  0x11011 in ???\n"
	             "???:?:?: 0x11012 in ??? (/a)\n"
	             "#1    Object \"/a\", at 0x11013, in \n"
	             "#1    Object \"/a\", at 0x11014, in main\n"
	             "??:? ???[0x11015]\n"
	             "??:? [0x11016]\n"
	             "??:? f [0x11017]\n"
	             "b.zig:3:4: 0x11018 in main (/a)\n"
	             "/a(0x11019) [0x11019]\n"
	             "/a(0x101a) [0x1101a]\n",
	        "5 /a a/ 0x1010 image [???]\n6 /a a/ 0x1011 image [???]\n7 /a a/ 0x1012 image [???]\n8 /a a/ 0x1013 "
	        "image []\n"
	        "10 /a a/ 0x1015 image []\n11 /a a/ 0x1016 image []\n14 /a a/ 0x1018 image []\n15 /a a/ 0x1019 elf "
	        "[]\n");
}

/* Ada: only the line below its heading. */
static void test_ada(void **state)
{
	(void)state;
	expect(MAP_A "0x11009\nCall stack traceback locations:\n0x11010 0x11011\n0x11012\n",
	        "7 /a a/ 0x1010 image []\n7 /a a/ 0x1011 image []\n");
	expect(MAP_A "Execution of task 7\nCall stack traceback locations:\n0x11010\n"
	             "Execution of ./a terminated by unhandled exception\nCall stack traceback locations:\n0x11010\n",
	        "7 /a a/ 0x1010 image []\n10 no module []\n");
}

/* Swift */
static void test_swift(void **state)
{
	(void)state;
	expect("12                    0x0000000000011010 <unknown> in a\n"
	       "13 [ra]               0x0000000000011011 <unknown> in a\n"
	       "14 [ra] [system]      0x0000000000011011 <unknown> in a\n"
	       "15 [async] [thunk]    0x0000000000011011 <unknown> in a\n"
	       "16 [ra]               0x0000000000011011 main + 3 in a\n"
	       "17 [ra]               0x0000000000011011 <unknown>\n"
	       "18 [ra                0x0000000000011011 <unknown> in a\n"
	       "0x0000000000010000\xe2\x80\x93"
	       "0x0000000000012000 " ID " a        /x y/a\n"
	       "0x0000000000020000-0x0000000000022000 " ID " b        /x y/b\n"
	       "*** Program crashed: Illegal instruction at 0x11 ***\n"
	       "0 [ra] 0x0000000000011011 <unknown> in a\n",
	        "1 /x y/a a/" DEBUG_ID " 0x1010 image [<unknown>]\n2 /x y/a a/" DEBUG_ID " 0x1010 image [<unknown>]\n"
	        "3 /x y/a a/" DEBUG_ID " 0x1010 image [<unknown>]\n4 /x y/a a/" DEBUG_ID " 0x1011 image [<unknown>]\n"
	        "11 no module [<unknown>]\n");
}

/* Wine. Below the dispatcher stands where the exception came. */
static void test_wine(void **state)
{
	(void)state;
	expect("=>0 0x00000321661370 in crash (+0x1370) (0x0000000021fcb0)\n"
	       "  1 0x00000321661380 in my app (+0x1380) (0x0000000021fcb0)\n"
	       "  2 0x00000140001557 main+0x9(unknown=<internal error>) [Z:\\a.c:61] in app (0x0000000021fd40)\n"
	       "  3 0x00000170011040 KiUserExceptionDispatcher+0x2e in ntdll (0x0000000021fd40)\n"
	       "  4 0x00000140001557 in app (+0x1557) (0000000000000000)\n"
	       "  5 0x00000140001557 in app (+1557) (0000000000000000)\n"
	       "  6 0x00000140001557 in app (+0x1557)\n",
	        "1 crash crash/ 0x1370 image []\n2 my app my app/ 0x137f image []\n5 app app/ 0x1557 image []\n");
}

/* callgrind */
static void test_callgrind(void **state)
{
	(void)state;
	expect(" 27,852 (17.01%)  ???:0x0000000000001115 [/a b/x.so]\n"
	       " 27,846 (17.00%)  >   ???:0x000000000000110a (12x) [/x.so]\n"
	       " 27,846 (17.00%)  ???:enter [/x.so]\n"
	       " 27,846 (17.00%)  ???:0x000000000000110a [x.so]\n"
	       " 27,846 (17.00%)  ???:0x000000000000110a [/x.so] \n"
	       " ???:0x000000000000110a [/x.so]\n",
	        "1 /a b/x.so x.so/ 0x1115 elf []\n2 /x.so x.so/ 0x110a elf []\n5 /x.so x.so/ 0x110a elf []\n");
}

/* Ruby maps the files that it reads names from, next to their images. */
static void test_a_map_of_who_reads_the_file(void **state)
{
	(void)state;
	expect("10000-14000 r--s 00000000 fe:00 1 /a\n14000-15000 r--p 00000000 fe:00 1 /a\n15000-16000 r-xp 00001000 "
	       "fe:00 1 /a\n"
	       "20000-24000 r--p 00000000 fe:00 1 /b\n24000-25000 r--p 00000000 fe:00 1 /b\n25000-26000 r-xp 00001000 "
	       "fe:00 1 /b\n"
	       "30000-31000 r--p 00000000 fe:00 1 /c\n31000-32000 r-xp 00000000 fe:00 1 /c\n"
	       "#0  0x15010 in ???\n  #0  0x25010 in ???\n  #0  0x31010 in ???\n",
	        "9 /a a/ 0x1010 image [???]\n10 no module [???]\n11 /c c/ 0x1010 image [???]\n");
}

/* macOS: call graphs of sample and spindump */
static void test_mac_graphs(void **state)
{
	(void)state;
	expect("Call graph:\n"
	       "    869 Thread_331472   DispatchQueue_1: com.apple.main-thread  (serial)\n"
	       "    + 869 start  (in dyld) + 6992  [0x1804abe00]\n"
	       "    +   869 ???  (in my app)  load address 0x1048e0000 + 0x740  [0x1048e0740]\n"
	       "    +     800 ???  (in my app)  load address 0x1048e0000 + 0x840  [0x1048e0840]\n"
	       "    +     ! 800 nanosleep  (in libsystem_c.dylib) + 220  [0x180705cc0]\n"
	       "    +     69 ???  (in my app)  load address 0x1048e0000 + 0x940  [0x1048e0940]\n"
	       "    +   1 ???  (in my app)  load address 0x1048e0000 + 0x740,0x750  [0x1048e0740,0x1048e0750]\n"
	       "    +   1 ???  (in my app)  load address 0x1048e0000 + 0x740  [0x1048e0741]\n"
	       "    +   1 ???  (in )  load address 0x1048e0000 + 0x740  [0x1048e0740]\n"
	       "    +   1 ???  (in x)  load address 0x1048e0000 + 0x740  [0x1048e0740]",
	        "4 my app my app/ 0x73f image [???]\n5 my app my app/ 0x83f image [???]\n"
	        "7 my app my app/ 0x940 image [???]\n11 x x/ 0x740 image [???]\n");
	expect("  8  ??? (Foundation + 97964) [0x1821c0eac]\n"
	       "    8  ??? (libsystem_kernel.dylib + 2732) [0x1bb3f9aac] 1-8\n"
	       "     *8  ??? [0xfffffff0071a86d4]\n"
	       "  5  ??? (A + 3) [0x3]\n"
	       "  5  ??? (B + 4) [0x4]\n"
	       "\n",
	        "1 Foundation Foundation/ 0x17eab image [???]\n"
	        "2 libsystem_kernel.dylib libsystem_kernel.dylib/ 0xaab image [???]\n5 B B/ 0x4 image [???]\n");
}

/* Windows event log */
static void test_event_log(void **state)
{
	(void)state;
	expect("Faulting module name: ucrtbase.dll, version: 10.0.26100.33158, time stamp: 0x32c000ad\r\n"
	       "Exception code: 0xc0000005\r\n"
	       "Fault offset: 0x00000000000edb0b\r\n"
	       "Fault offset: 0x00000000000edb0b\n"
	       "Faulting module name: unknown, version: 0.0.0.0, time stamp: 0x00000000\n"
	       "Fault offset: 0x00000000000edb0b\n"
	       "                 Faulting module name: a b.dll\n"
	       "                 Fault offset: 0x000015c6\n"
	       "Faulting module name: far.dll\n\n\n\n\n\n\n\n\n"
	       "Fault offset: 0x000015c6\n",
	        "3 ucrtbase.dll ucrtbase.dll/ 0xedb0b image []\n8 a b.dll a b.dll/ 0x15c6 image []\n");
}

/* Lines that end like its names of modules, but are frames or none. */
static void test_other_lines_with_a_stamp(void **state)
{
	(void)state;
	expect("#1 0x1 f(int, char) (/opt/app+0x1014), 0x00001014\n"
	       "f(int, char) /opt/app+0x00001014\n"
	       "heap: block 3 of 1.2.3, at 0x0804a008\n"
	       "heap: block 4 of 1.2.3, at 0x0804a018\n"
	       "\n"
	       "value 0x1234\n",
	        "1 /opt/app app/ 0x1014 elf [ f(int, char) ]\n2 /opt/app app/ 0x1014 image []\n");
}

/* The first of a 32-bit program's images have no blanks before them. */
static void test_32_bit_images_of_macos(void **state)
{
	(void)state;
	expect("0   libfoo.dylib                  \t0x00102fca 0x00100000 + 12234\n"
	       "0x00100000 - 0x0010ffff  libfoo.dylib (1.0) <11223344556677889900aabbccddeeff> /usr/lib/libfoo.dylib\n",
	        "1 /usr/lib/libfoo.dylib libfoo.dylib/11223344556677889900AABBCCDDEEFF0 0x2fca image []\n");
}

/* .NET NativeAOT */
static void test_native_aot(void **state)
{
	(void)state;
	expect("   at AOTRepro!<BaseAddress>+0x254fc3\n"
	       "   at System.Runtime.TypeCast.CheckCastClass(MethodTable*, Object) + 0x2b\n"
	       "   at Spire.Doc.Base!<BaseAddress>+0x29119d0\n"
	       "   at A!<BaseAddress>+0x10 at offset 283 in file:line:column <filename unknown>:0:0\n"
	       "--- End of inner exception stack trace ---\n"
	       "   at A!<BaseAddress>+0x10\n"
	       "   at !<BaseAddress>+0x10\n"
	       "   at A!<BaseAddress>+0x10g\n",
	        "1 AOTRepro AOTRepro/ 0x254fc3 image []\n3 Spire.Doc.Base Spire.Doc.Base/ 0x29119cf image []\n"
	        "4 A A/ 0xf image []\n6 A A/ 0x10 image []\n");
}

/* Crashlytics */
static void test_crashlytics(void **state)
{
	(void)state;
	expect("0  Flutter                        0x10d6c (Missing UUID 4c4c446555553144a14939a372500a7c)\n"
	       "1  Flutter                        0x11334 (Missing UUID 4c4c446555553144a14939a372500a7c)\n"
	       "2  CoreFoundation                 0x3757c __CFNOTIFICATIONCENTER_IS_CALLING_OUT_TO_AN_OBSERVER__ + "
	       "128\n"
	       "3  My App                         0x566a78 (\xe7\xbc\xba\xe5\xb0\x91 UUID "
	       "b5f419596300357c85f161f5e6e0920d)\n"
	       "4  Flutter                        0x10d6c (Missing UUID 4c4c446555553144a14939a372500a)\n"
	       "5  Flutter                        0x10d6c (a UUID)\n",
	        "1 Flutter Flutter/4C4C446555553144A14939A372500A7C0 0x10d6c image []\n"
	        "2 Flutter Flutter/4C4C446555553144A14939A372500A7C0 0x11333 image []\n"
	        "4 My App My App/B5F419596300357C85F161F5E6E0920D0 0x566a77 image []\n");
}

/* ClickHouse */
static void test_clickhouse(void **state)
{
	(void)state;
	expect("2023.08.08 05:58:02.282797 [ 340 ] {} <Fatal> BaseDaemon: 3. ? @ 0x000000000ea0704f in "
	       "/usr/bin/clickhouse\n"
	       "2023.08.08 05:58:02.282800 [ 340 ] {} <Fatal> BaseDaemon: 4.1. inlined from a.cpp:1: f\n"
	       "2023.08.08 05:58:02.282801 [ 340 ] {} <Fatal> BaseDaemon: 4. std::list. g(1. ) @ 0x000000000ea0704f in "
	       "/c\n"
	       "2023.08.08 05:58:02.282805 [ 340 ] {} <Fatal> BaseDaemon: 16. ? @ 0x000000000ea0d041 in "
	       "/usr/bin/clickhouse\n"
	       "7f9c96700000-7f9c96800000 r-xp 00000000 fe:00 12 /lib/libc.so.6\n"
	       "17. ? @ 0x00007f9c96745609 in ?\n18. ? @ 0x00007f9c96745619\n19. ?? @ 0x12 in /c\n? @ 0x12 in /c\n",
	        "1 /usr/bin/clickhouse clickhouse/ 0xea0704f elf [?]\n4 /usr/bin/clickhouse clickhouse/ 0xea0d040 elf "
	        "[?]\n"
	        "6 /lib/libc.so.6 libc.so.6/ 0x45608 image [?]\n7 /lib/libc.so.6 libc.so.6/ 0x45618 image [?]\n");
}

/* Node.js: the native stack of a report */
static void test_node_report(void **state)
{
	(void)state;
	expect("{\"nativeStack\": [\n"
	       "    {\n"
	       "      \"pc\": \"0x0000000000c6e1c5\",\n"
	       "      \"symbol\": \" [node]\"\n"
	       "    },\n"
	       "    {\"pc\":\"0x0000000000c45d95\",\"symbol\":\"node::OnFatalError(char const*) [node]\"},\n"
	       "    {\"pc\":\"0x0000000000c45d95\",\"symbol\":\" [/usr/bin/no de]\"},\n"
	       "    {\"pc\":\"0x00007f662e02f110\",\"symbol\":\" [/opt/libx.so]\"},\n"
	       "    {\"pc\":\"x\",\"symbol\":\" [node]\"},{\"symbol\":\" [node]\"},{\"pc\":\"0x1\",\"symbol\":\" "
	       "[]\"}]}\n"
	       "7f662e02e000-7f662e02f000 r--p 00000000 fe:00 762113                     /opt/libx.so\n"
	       "7f662e02f000-7f662e030000 r-xp 00001000 fe:00 762113                     /opt/libx.so\n",
	        "5 node node/ 0xc6e1c4 elf []\n7 /usr/bin/no de no de/ 0xc45d94 elf []\n"
	        "8 /opt/libx.so libx.so/ 0x110f image []\n");
}

/* Node.js */
static void test_node(void **state)
{
	(void)state;
	expect(" 1: 0xb78db3 node::OOMErrorHandler(char const*, v8::OOMDetails const&) [node]\n"
	       " 4: 0x10fb205  [node]\n"
	       "10: 0x195e476  [/usr/bin/node]\n",
	        "2 node node/ 0x10fb204 elf []\n3 /usr/bin/node node/ 0x195e475 elf []\n");
}

/* Linux kernel */
static void test_kernel(void **state)
{
	(void)state;
	expect("[ 7132.3] app[2]: segfault at 0 ip 00007f1416ff50f9 sp 00007fff79c78748 error 4 in "
	       "libcrash.so[10f9,7f1416ff5000+1000] likely on CPU 1\n"
	       "app[2]: segfault at 0 ip 00007f1416ff50f9 sp 00007fff79c78748 error 4 in "
	       "libcrash.so[7f1416ff5000+1000]\n"
	       "app[2]: segfault at 0 ip 00007f1416ff50f9 sp 00007fff79c78748 error 4 in "
	       "libcrash.so[7f1416ff6000+1000]\n"
	       "traps: app[3] general protection fault ip:4005d4 sp:7ffd error:0 in app[400000+1000]\n",
	        "1 libcrash.so libcrash.so/ 0x10f9 file []\n2 libcrash.so libcrash.so/ 0xf9 exec []\n4 app app/ 0x5d4 "
	        "exec []\n");
}

/* macOS: addresses of an exception, what iOS hides, an offset beside a name, as the list of images explains them. */
static void test_addresses_of_macos(void **state)
{
	(void)state;
	expect("Last Exception Backtrace:\n"
	       "(0x18e7d2ed8 0x104b5c8d4)\n"
	       "\n"
	       "Thread 0 Crashed:\n"
	       "0   UIKitCore                     \t0x000000018e7d2ed8 <redacted> + 300\n"
	       "1   UIKitCore                     \t0x000000018e7d2ed8 <redacted>\n"
	       "2   MyApp                         \t0x0000000104b5c8d4 0x104b58000 + 18644 (MyApp + 124)\n"
	       "3   MyApp                         \t0x0000000104b5c8d4 ??? (MyApp + 124)\n"
	       "4   MyApp                         \t0x0000000104b5c8d4 0x104b58000 + 0x48d4\n"
	       "5   MyApp                         \t0x0000000104b5c8d4 main + 12 (main.m:3)\n"
	       "6   MyApp                         \t0x0000000104b5c8d4 0x104b58000 + 18644 (MyApp)\n"
	       "7   Unmapped                      \t0x0000000204b5c8d4 <redacted> + 12\n"
	       "\n"
	       "Binary Images:\n"
	       "0x104b58000 - 0x104b5ffff MyApp arm64  <44e4ec8c2f41492b9369d6b9a059577c> /var/MyApp.app/MyApp\n"
	       "0x18e700000 - 0x18e7fffff UIKitCore arm64  <54e4ec8c2f41492b9369d6b9a059577c> /System/UIKitCore\n"
	       "(0x104b5c8d4)\n",
	        "2 /System/UIKitCore UIKitCore/54E4EC8C2F41492B9369D6B9A059577C0 0xd2ed7 image []\n"
	        "2 /var/MyApp.app/MyApp MyApp/44E4EC8C2F41492B9369D6B9A059577C0 0x48d3 image []\n"
	        "5 /System/UIKitCore UIKitCore/54E4EC8C2F41492B9369D6B9A059577C0 0xd2ed8 image []\n"
	        "6 /System/UIKitCore UIKitCore/54E4EC8C2F41492B9369D6B9A059577C0 0xd2ed7 image []\n"
	        "7 /var/MyApp.app/MyApp MyApp/44E4EC8C2F41492B9369D6B9A059577C0 0x7b image []\n"
	        "8 /var/MyApp.app/MyApp MyApp/44E4EC8C2F41492B9369D6B9A059577C0 0x7b image []\n"
	        "9 /var/MyApp.app/MyApp MyApp/44E4EC8C2F41492B9369D6B9A059577C0 0x48d3 image []\n"
	        "12 no module []\n");
}

/* As jq -C writes it: what goes has colours in it, and all of it goes. */
static void test_json_with_colours_in_what_goes(void **state)
{
	(void)state;
	expect("{\"frames\":[{\"instruction_addr\":\"0x1001\",\033[34;1m\"function\"\033[0m:\033[0;32m\"<unknown>"
	       "\"\033[0m}]}\n",
	        "1 no module [\"function\"\033[0m:\033[0;32m\"<unknown>\"]\n");
}

/* MetricKit: members in any order; deep trees; the innermost call is outside. */
static void test_metrickit(void **state)
{
	(void)state;
	expect("{\"crashDiagnostics\":[{\"callStackTree\":{\"callStacks\":[{\"callStackRootFrames\":["
	       "{\"binaryUUID\":\"70B89F27-1634-3580-A695-57CDB41D7743\",\"offsetIntoBinaryTextSegment\":165304,"
	       "\"sampleCount\":1,\"binaryName\":\"MyApp\",\"address\":7170766264,\"subFrames\":[\n"
	       "{\"binaryName\":\"dyld\",\"binaryUUID\":\"77A62F2E-8212-30F3-84C1-E8497440ACF8\","
	       "\"subFrames\":[{\"binaryName\":\"x\"}],\"offsetIntoBinaryTextSegment\":16}]}]}]}}],\n"
	       "\"binaryName\":\"a\",\"binaryUUID\":\"77A62F2E-8212-30F3-84C1-E8497440ACF8\","
	       "\"offsetIntoBinaryTextSegment\":16}\n",
	        "1 MyApp MyApp/70B89F2716343580A69557CDB41D77430 0x285b8 image []\n"
	        "2 dyld dyld/77A62F2E821230F384C1E8497440ACF80 0xf image []\n");
}

/* Linux kernel: other processors, whose addresses stand among the registers. */
static void test_kernel_of_other_processors(void **state)
{
	(void)state;
	expect("[ 9.1] app[1]: unhandled exception: DABT (lower EL), ESR 0x0000000092000046, level 2 translation fault "
	       "in "
	       "libcrash.so[ffff8a2b0000+1000]\n"
	       "[ 9.1] CPU: 1 PID: 1 Comm: app Not tainted 6.1.0-13-arm64 #1\n"
	       "[ 9.1] pstate: 60001000 (nZCv daif -PAN -UAO -TCO -DIT +SSBS BTYPE=--)\n"
	       "[ 9.1] pc : 0000ffff8a2b0112\n"
	       "[ 9.1] lr : 0000ffff8a2b0200\n"
	       "[ 9.2] init[1]: unhandled signal 11 code 0x1 at 0x0000000000000000 in libc.so[10f0,3fb3ed8000+185000]\n"
	       "[ 9.2] CPU: 0 PID: 1 Comm: init\n"
	       "[ 9.2] epc : 0000003fb3ed80f0 ra : 0000003fb3ed9000 sp : 00ffffffc58199f0\n"
	       "[ 9.3] do_page_fault(): sending SIGSEGV to init for invalid read access from 0000003c\n"
	       "[ 9.3] epc = 77b893dc in ld-uClibc-1.0.39.so[77b84000+8000]\n"
	       "[ 9.3] ra  = 77b8930c in ld-uClibc-1.0.39.so[77b84000+8000]\n"
	       "[ 9.4] app[7]: segfault (11) at 0 nip 7fff8a2b0614 lr 7fff8a2b065c code 1 in "
	       "libx.so[7fff8a2b0000+10000]\n"
	       "[ 9.5] pc : 0000ffff8a2b0112\n"
	       "[ 9.6] epc = 77b993dc in ld-uClibc-1.0.39.so[77b84000+8000]\n",
	        "4 libcrash.so libcrash.so/ 0x112 exec []\n5 libcrash.so libcrash.so/ 0x1ff exec []\n"
	        "6 libc.so libc.so/ 0x10f0 file []\n8 libc.so libc.so/ 0x1fff file []\n"
	        "10 ld-uClibc-1.0.39.so ld-uClibc-1.0.39.so/ 0x53dc exec []\n"
	        "11 ld-uClibc-1.0.39.so ld-uClibc-1.0.39.so/ 0x530b exec []\n12 libx.so libx.so/ 0x614 exec []\n");
}

/* What stands before the address may have the words that stand before the mapping. */
static void test_kernel_of_a_program_with_in_in_its_name(void **state)
{
	(void)state;
	expect("[ 7.3] plug in host[2]: segfault at 0 ip 00007f1416ff50f9 sp 00007fff79c78748 error 4 in "
	       "libcrash.so[7f1416ff5000+1000]\n"
	       "logged in rack 3: app[2]: segfault at 0 ip 00007f1416ff50f9 sp 00007fff79c78748 error 4 in "
	       "plug in host[7f1416ff5000+1000]\n",
	        "1 libcrash.so libcrash.so/ 0xf9 exec []\n2 plug in host plug in host/ 0xf9 exec []\n");
}

/* Envoy: the trampoline of signals is the first of a crash. */
static void test_envoy(void **state)
{
	(void)state;
#define ENVOY "[2026-11-26 18:56:33.123][12][critical][backtrace] [./source/server/backtrace.h:"
	expect(ENVOY "127] Caught Segmentation fault, suspect faulting address 0x0\n" ENVOY
	             "111] Backtrace (use tools/stack_decode.py to get line numbers):\n" ENVOY
	             "112] Envoy version: 1\n" ENVOY
	             "114] Address mapping: 555555554000-5555570a0000 /usr/local/bin/envoy\n" ENVOY
	             "121] #0: __restore_rt [0x7f1a2b3c4d50]\n" ENVOY "123] #1: [0x555555555112]\n" ENVOY
	             "123] #2: [0x555555555200]\n" ENVOY "121] #3: main [0x555555555300]\n"
	             "#4: [0x55555555]x\n",
	        "6 /usr/local/bin/envoy envoy/ 0x1112 exec []\n7 /usr/local/bin/envoy envoy/ 0x11ff exec []\n");
#undef ENVOY
}

/* Seastar: in one line, or with a line for each. */
static void test_seastar(void **state)
{
	(void)state;
	expect("Segmentation fault on shard 0.\nBacktrace:\n  0x2c7d3a1\n  /lib64/libc.so.6+0x3df9f\n   --------\n"
	       "   seastar::continuation<int>\n  0x12\n  0x12 34\n  0x13\n"
	       "Reactor stalled for 32 ms on shard 0. Backtrace: 0x1e0b2c1 /lib64/libc.so.6+0x3df9f 0x5 x 0x6\n",
	        "3 scylla scylla/ 0x2c7d3a1 image []\n4 /lib64/libc.so.6 libc.so.6/ 0x3df9f image []\n"
	        "7 scylla scylla/ 0x12 image []\n"
	        "10 scylla scylla/ 0x1e0b2c1 image []\n10 /lib64/libc.so.6 libc.so.6/ 0x3df9f image []\n"
	        "10 scylla scylla/ 0x5 image []\n");
}

/* ESP-IDF: addresses of calls, each with the stack's. */
static void test_esp_idf(void **state)
{
	(void)state;
	expect("abort() was called at PC 0x400d1f2a on core 0\n"
	       "Backtrace: 0x400d1f2a:0x3ffb4f60 0x400d1f4e:0x3ffb4f80 |<-CORRUPTED\n"
	       "Backtrace:0x400d1f2a:0x3ffb4f60\nBacktrace: 0x400d1f2a:\n",
	        "2 firmware.elf firmware.elf/ 0x400d1f2a elf []\n2 firmware.elf firmware.elf/ 0x400d1f4e elf []\n"
	        "3 firmware.elf firmware.elf/ 0x400d1f2a elf []\n");
}

/* DPDK: rte_dump_stack() before and since it stopped to use backtrace_symbols(). */
static void test_dpdk(void **state)
{
	(void)state;
	expect("0: /opt/my app (5594abc00000+0x1139) [5594abc01139]\n1: /opt/app (main+0x12) [5594abc01139]\n"
	       "2: ?? [7f00]\n3: /opt/app (5594abc00000+0x1139) [5594abc0113a]\n"
	       "4: [./app(+0x1139) [0x55d9c3a01139]]\n3: [./app(main+0x1b) [0x55d9c3a0112b]]\n2: [./app() "
	       "[0x401136]]\n",
	        "1 /opt/my app my app/ 0x1138 image []\n5 ./app app/ 0x1138 elf []\n6 ./app app/ 0x112a elf []\n"
	        "7 ./app app/ 0x401135 elf []\n");
}

/* folly: as glog writes it, without 0x, and addresses of calls. */
static void test_folly(void **state)
{
	(void)state;
	expect("*** Aborted at 1 (Unix time, try 'date -d @1') ***\n"
	       "*** Signal 11 (SIGSEGV) (0x0) received by PID 1 (pthread TID 0x7f) (code: 1), stack trace: ***\n"
	       "    @ 00007f7d4c23be42 (unknown)\n    @ 00007f7d4c23be42 main\n    @ 7f7d4c23be42 (unknown)\n"
	       "7f7d4c200000-7f7d4c300000 r-xp 00000000 fe:00 12 /lib/libc.so.6\n",
	        "3 /lib/libc.so.6 libc.so.6/ 0x3be42 image [(unknown)]\n");
}

/* Intel Fortran: below the trampoline stands where the signal came. */
static void test_intel_fortran(void **state)
{
	(void)state;
	expect("forrtl: severe (174): SIGSEGV, segmentation fault occurred\n"
	       "Image              PC                Routine            Line        Source             \n"
	       "wrf.exe            0000000004A057CA  Unknown               Unknown  Unknown\n"
	       "libpthread-2.28.s  0000145A47CE6D80  Unknown               Unknown  Unknown\n"
	       "wrf.exe            000000000355EE1B  Unknown               Unknown  Unknown\n"
	       "calypso.x          000000000070789B  readvasp_                  86  ReadVasp.F90\n"
	       "wrf.exe            00000000026D1546  Unknown               Unknown  Unknown\n"
	       "\n"
	       "the end\n\n\n"
	       "wrf.exe            00000000026D1546  Unknown               Unknown  Unknown\n",
	        "3 wrf.exe wrf.exe/ 0x4a057c9 elf [Unknown]\n4 no module [Unknown]\n5 wrf.exe wrf.exe/ 0x355ee1b elf "
	        "[Unknown]\n7 wrf.exe wrf.exe/ 0x26d1545 elf [Unknown]\n");
}

/* compute-sanitizer: the file stands in the next line, or behind; with cuda-memcheck before. */
static void test_compute_sanitizer(void **state)
{
	(void)state;
	expect("=========     Saved host backtrace up to driver entry point at kernel launch time\n"
	       "=========     Host Frame: [0x2dfbef]\n"
	       "=========                in /lib/x86_64-linux-gnu/libcuda.so.1\n"
	       "=========     Host Frame:cudaLaunchKernel [0x759f0]\n"
	       "=========                in /usr/lib/libcudart.so.12\n"
	       "=========     Host Frame: [0x123456] in libcuda.so\n"
	       "=========     Host Frame:/usr/lib/libcuda.so.1 [0x2b9d77]\n"
	       "=========     Host Frame:/home/me/a.cu:3:f(int) [0x12]\n"
	       "=========                in /home/me/app\n"
	       "=========     Host Frame: [0x12]\n"
	       "=========     Host Frame: [0x13]\n",
	        "2 /lib/x86_64-linux-gnu/libcuda.so.1 libcuda.so.1/ 0x2dfbee image []\n"
	        "6 libcuda.so libcuda.so/ 0x123455 image []\n7 /usr/lib/libcuda.so.1 libcuda.so.1/ 0x2b9d76 image "
	        "[]\n");
}

/* In a string or among colours, what the next line of the text says is not of the frame, nor in the buffer of the line
 * that is read: it has the frame's name alone. */
static void test_compute_sanitizer_in_strings_and_colours(void **state)
{
	(void)state;
#define ABOVE "=========     Host Frame: [0x20] in a.so\n"
#define BELOW "=========                in /usr/lib/libcuda.so.1"
	static const char *const cases[][3] = {
	        {ABOVE "\033[31m=========     Host Frame:red [0x10]\033[0m\n" BELOW "\n", "red", ""},
	        {ABOVE "=========     Host Frame:f&lt;int&gt; [0x10]\n" BELOW "\n", "f&lt;int&gt;", ""},
	        {ABOVE "{\"log\":\"=========     Host Frame:quoted [0x10]\\n\"}\n{\"log\":\"" BELOW "\\n\"}\n",
	                "quoted", ""},
	        {ABOVE "=========     Host Frame:plain [0x10]\n" BELOW "\n", "plain", "/usr/lib/libcuda.so.1"}};
#undef ABOVE
#undef BELOW
	for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
		struct found f = {.text = cases[i][0]};
		struct text_reader *r = text_reader_new(10, take_frame, &f);
		assert_non_null(r);
		text_reader_tell_named(r, true);
		assert_int_equal(read_in_pieces(r, f.text, strlen(f.text), SIZE_MAX), TEXT_OK);
		assert_int_equal(f.count, 2);
		const struct text_own *own = &f.frames[1].own;
		struct str name = {f.text + own->function.at, own->function.len};
		struct str module = {f.text + own->module.at, own->module.len};
		assert_true(str_equal(name, str_from(cases[i][1])) && str_equal(module, str_from(cases[i][2])));
		text_reader_free(r);
		free(f.frames);
	}
}

/* strace -k */
static void test_strace(void **state)
{
	(void)state;
	expect("--- SIGSEGV {si_signo=SIGSEGV} ---\n"
	       " > /opt/libcrash.so() [0x10f9]\n"
	       " > /opt/libcrash.so(crash+0xe) [0x1130]\n"
	       " > /opt/app (1)(std::f(int)+0xe) [0x1131]\n"
	       " > unexpected_backtracing_error [0x1]\n"
	       "getpid() = 1\n"
	       " > /opt/libcrash.so() [0x10f9]\n",
	        "2 /opt/libcrash.so libcrash.so/ 0x10f9 image []\n3 /opt/libcrash.so libcrash.so/ 0x112f image []\n"
	        "4 /opt/app (1) app (1)/ 0x1130 image []\n7 /opt/libcrash.so libcrash.so/ 0x10f9 image []\n");
}

/* .ips of Apple, as "Interpreting the JSON format of a crash report" has it: a header, then the report, whose images
 * come last. */
static void test_ips(void **state)
{
	(void)state;
	expect("{\"app_name\":\"MyApp\",\"bug_type\":\"309\"}\n"
	       "{\n"
	       "  \"pid\" : 77,\n"
	       "  \"threads\" : [{\"triggered\":true,\"frames\":[{\"imageOffset\":18644,\"imageIndex\":1},"
	       "{\"imageOffset\":100,\"symbol\":\"main\",\"symbolLocation\":3,\"imageIndex\":0},"
	       "{\"imageOffset\":200,\"imageIndex\":0},{\"imageOffset\":999999,\"imageIndex\":0},"
	       "{\"imageOffset\":1,\"imageIndex\":2}]},{\"frames\":[{\"imageOffset\":300,\"imageIndex\":0}]}],\n"
	       "  \"lastExceptionBacktrace\" : [{\"imageOffset\":400,\"imageIndex\":0}],\n"
	       "  \"usedImages\" : [\n"
	       "  {\n"
	       "    \"source\" : \"P\",\n"
	       "    \"base\" : 4372152320,\n"
	       "    \"size\" : 16384,\n"
	       "    \"uuid\" : \"5a9832e5-2872-41c1-838e-d98914e9b7ff\",\n"
	       "    \"path\" : \"\\/Applications\\/My App\"\n"
	       "  },\n"
	       "  "
	       "{\"base\":1,\"size\":32768,\"uuid\":\"00000000-0000-0000-0000-000000000001\",\"path\":\"\\/usr\\/lib\\/"
	       "a.dylib\"}\n"
	       "],\n"
	       "  \"rollouts\" : [{\"base\":4372152320,\"size\":16384,\"path\":\"y\"}],\n"
	       "  \"sharedCache\" : {\"base\":4372152320,\"size\":4,\"path\":\"x\"}\n"
	       "}\n",
	        "4 /usr/lib/a.dylib a.dylib/000000000000000000000000000000010 0x48d4 image []\n"
	        "4 /Applications/My App My App/5a9832e5287241c1838ed98914e9b7ff0 0xc7 image []\n"
	        "4 no module []\n"
	        "4 no module []\n"
	        "4 /Applications/My App My App/5a9832e5287241c1838ed98914e9b7ff0 0x12c image []\n"
	        "5 /Applications/My App My App/5a9832e5287241c1838ed98914e9b7ff0 0x18f image []\n");
}

/* Sentry's documentation of events: stack traces from the oldest frame to the newest, and images with debug ids. */
static void test_sentry(void **state)
{
	static const char images[] = "\"debug_meta\":{\"images\":[{\"type\":\"elf\",\"code_file\":\"/opt/"
	                             "app\",\"image_addr\":\"0x5000\",\"image_size\":8192,"
	                             "\"debug_id\":\"ec61ac93-8e5a-39b1-6f9f-bd350e3169a5\"},{\"type\":\"pe\",\"debug_"
	                             "file\":\"C:\\\\a.pdb\"},"
	                             "{\"type\":\"pe_dotnet\",\"image_addr\":\"0x9000\",\"image_size\":4096,\"code_"
	                             "file\":\"a.dll\",\"debug_file\":\"a.pdb\","
	                             "\"debug_id\":\"ec61ac93-8e5a-39b1-6f9f-bd350e3169a5-1f\"}]}";
	static const char frames[] = "\"exception\":{\"values\":[{\"type\":\"SIGSEGV\",\"stacktrace\":{\"frames\":[{"
	                             "\"instruction_addr\":\"0x5010\"},"
	                             "{\"instruction_addr\":\"0x9020\",\"function\":null,\"vars\":{\"a\":[1]}},{"
	                             "\"instruction_addr\":\"0x5030\",\"function\":\"f\"},"
	                             "{\"instruction_addr\":\"0x5040\",\"package\":\"/opt/"
	                             "app\"}]}},{\"stacktrace\":{\"frames\":[{\"instruction_addr\":20560}]}}]}";
	static const char expected[] = "1 /opt/app app/ec61ac938e5a39b16f9fbd350e3169a50 0xf image []\n"
	                               "1 a.dll a.pdb/ec61ac938e5a39b16f9fbd350e3169a51f 0x1f image [null]\n"
	                               "1 /opt/app app/ec61ac938e5a39b16f9fbd350e3169a50 0x40 image []\n"
	                               "1 /opt/app app/ec61ac938e5a39b16f9fbd350e3169a50 0x50 image []\n";
	char text[4000];
	(void)state;
	snprintf(text, sizeof text, "{%s,%s}\n", images, frames);
	expect(text, expected);
	snprintf(text, sizeof text, "{%s,%s}", frames, images);
	expect(text, expected);
	/* an event of its own, of another process */
	snprintf(text, sizeof text, "{%s}\n{%s}\n", images, frames);
	expect(text, "2 no module []\n2 no module [null]\n2 no module []\n2 no module []\n");
	snprintf(text, sizeof text, "5000-6000 r-xp 0 0:0 0 /opt/app\n{%s}\n", frames);
	expect(text, "2 no module []\n2 no module [null]\n2 no module []\n2 no module []\n");
}

static void test_prefixes_of_logs(void **state)
{
	(void)state;
	static const char *const prefixes[] = {
	        "Nov 26 18:56:33 host app[123]: ", "Nov  6 08:56:33 host kernel: ", "2026-11-26T18:56:33.1234567Z ",
	        "2026-11-26T18:56:33.123+01:00 host app[1]: ", "2026-11-26 18:56:33,123 ",
	        "2026-11-26T00:17:09.669794202Z stderr F ", "web-1  | ", "[pod/web-1/app] ", "[app] ",
	        "[ 1234.567890] ", "[2026-11-26 18:56:33] ", "18:56:33.5 ", "> ", ">> ", "> > ",
	        "2026-11-26T18:56:33.1234567Z web-1  | ", "\033[36mweb-1  | \033[0m"};
	static const char *const lines[] = {"            1136 [unknown] (/tmp/prog)",
	        "            1140 [unknown] (/tmp/prog)", " > /tmp/prog(f+0x9) [0x1115]",
	        " > /tmp/prog(f+0x9) [0x1125]", "C  [prog.so+0x112c]", "C  [prog.so+0x113c]",
	        "  4:     0x55d9f3f4a1b2 - <unknown>", "55d9f3f49000-55d9f3f4b000 r-xp 00000000 fe:00 12   /tmp/other"};
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		char text[2048];
		size_t n = 0;
		for (size_t k = 0; k < sizeof lines / sizeof *lines; k++)
			n += (size_t)snprintf(text + n, sizeof text - n, "%s%s\n", prefixes[i], lines[k]);
		expect(text, "1 /tmp/prog prog/ 0x1136 file [[unknown]]\n"
		             "2 /tmp/prog prog/ 0x113f file [[unknown]]\n"
		             "3 /tmp/prog prog/ 0x1115 image []\n"
		             "4 /tmp/prog prog/ 0x1124 image []\n"
		             "5 prog.so prog.so/ 0x112c image []\n"
		             "6 prog.so prog.so/ 0x113b image []\n"
		             "7 /tmp/other other/ 0x11b1 image [<unknown>]\n");
	}
	expect("\t > /tmp/prog(f+0x9) [0x1115]\n\t > /tmp/prog(f+0x9) [0x1125]\n",
	        "1 /tmp/prog prog/ 0x1115 image []\n2 /tmp/prog prog/ 0x1124 image []\n");
	expect("> 869 ???  (in MyApp)  load address 0x1048e0000 + 0x740  [0x1048e0740]\n"
	       ">   869 ???  (in MyApp)  load address 0x1048e0000 + 0x750  [0x1048e0750]\n",
	        "1 MyApp MyApp/ 0x73f image [???]\n2 MyApp MyApp/ 0x750 image [???]\n");
	expect("12:30 #1 0x55 in x (/tmp/a/b+0x12)\nnot | 1136 [unknown] (/tmp/prog)\n",
	        "1 /tmp/a/b b/ 0x12 elf [ in x ]\n");
}

/* A line that does not tell who wrote it stands above those that do. */
static void test_prefixes_that_get_longer(void **state)
{
	static const char *const prefixes[][2] = {
	        {"Nov 26 18:56:33 host sudo: ", "Nov 26 18:56:33 host app[123]: "},
	        {"2026-11-26T18:56:33.123456789Z ", "2026-11-26T18:56:33.123456789Z host kernel: "},
	        {"2026-11-26 18:56:33 ", "2026-11-26 18:56:33 web-1  | "},
	        {"[2026-11-26 18:56:33] ", "[2026-11-26 18:56:33] [app] "},
	        {"[2026-11-26 18:56:33] ", "[2026-11-26 18:56:33] > "},
	};
	(void)state;
	for (size_t i = 0; i < sizeof prefixes / sizeof *prefixes; i++) {
		char text[1000];
		snprintf(text, sizeof text,
		        "%snothing\n%s  4:     0x55d9f3f4a1b2 - <unknown>\n"
		        "%s55d9f3f49000-55d9f3f4b000 r-xp 00000000 fe:00 12   /tmp/a\n",
		        prefixes[i][0], prefixes[i][1], prefixes[i][1]);
		expect(text, "2 /tmp/a a/ 0x11b1 image [<unknown>]\n");
	}
}

/* Output in strings of JSON: of a log line by line, or a report of several. Names go into the string. */
static void test_strings_of_json(void **state)
{
	(void)state;
	expect("{\"log\":\"            1136 [unknown] "
	       "(/tmp/prog)\\n\",\"stream\":\"stderr\",\"time\":\"2026-11-26T18:56:33+01:00\"}\n"
	       "{\"log\":\"            1140 [unknown] (/tmp/prog)\\r\\n\",\"stream\":\"stderr\"}\n{\"log\":\"  "
	       "prog[1140]\\n\"}\n{\"log\":\"            1150 [unknown] (/tmp/prog)\\n\"}\n"
	       "{\"log\":\"\\n\"}\n{\"log\":\"            1140 [unknown] (/tmp/prog)\\n\"}\n",
	        "1 /tmp/prog prog/ 0x1136 file [[unknown]]\n2 /tmp/prog prog/ 0x113f file [[unknown]]\n"
	        "4 /tmp/prog prog/ 0x114f file [[unknown]]\n6 /tmp/prog prog/ 0x1140 file [[unknown]]\n");
	expect("{\"msg\":\"crash\",\"stack\":\"Binary file \\\"/tmp/p\\\", at +0x1115 [0x7f2211111115]\\n\\t#0 "
	       "\\u003cnull\\u003e <null> (prog+0x11d0)\\n\\n\"}\n"
	       "level=error msg=\"  4:     0x55d9f3f4a1b2 - \\u003cunknown>\\n55d9f3f49000-55d9f3f4b000 r-xp 00000000 "
	       "fe:00 12 /tmp/p\\n\"\n"
	       "  4:     0x55d9f3f4a1b2 - <unknown>\n",
	        "1 /tmp/p p/ 0x1114 image []\n1 prog prog/ 0x11d0 elf [\\u003cnull\\u003e <null>]\n"
	        "2 /tmp/p p/ 0x11b1 image [\\u003cunknown>]\n3 no module [<unknown>]\n");
	/* what stands around a string with frames is none */
	expect("err=\"#0 0x562ff30eb1f3  (/tmp/s/prog+0x11f3)\\n\" at /tmp/s/log+0x20\n",
	        "1 /tmp/s/prog prog/ 0x11f3 elf [  ]\n");
	expect("{\"a\":\"\\n\\", "");
	expect("{\"a\":\"\\n\\u00\"}\n\"\\n\\u\"\n\"\\n", "");
}

/* Positions of modules are those of one program. */
static void test_positions_of_another_program(void **state)
{
	(void)state;
#define FIRST "/l/x.so(+0x10)[0x7f0000001010]"
#define SECOND "/l/x.so(f+0x10)[0x7f0000002010]"
	expect(FIRST "\n" SECOND "\n", "1 /l/x.so x.so/ 0xf elf []\n2 /l/x.so x.so/ 0x100f elf []\n");
	expect("Nov 26 18:56:33 host a[1]: " FIRST "\nNov 26 18:56:33 host b[2]: " SECOND "\n",
	        "1 /l/x.so x.so/ 0xf elf []\n");
	expect("{\"a\":\"-\\n" FIRST "\\n\",\"b\":\"" SECOND "\\n-\\n\"}\n" SECOND "\n",
	        "1 /l/x.so x.so/ 0xf elf []\n");
	expect(FIRST "\n{\"b\":\"" SECOND "\\n-\\n\"}\n", "1 /l/x.so x.so/ 0xf elf []\n");
#undef FIRST
#undef SECOND
}

static void test_objects_on_several_lines(void **state)
{
	(void)state;
	expect("{\n\"frames\":[\n{\"instruction_addr\":\"0x5010\"},\n{\"instruction_addr\":\"0x5020\"\n}\n]}\n",
	        "3 no module []\n5 no module []\n");
}

/* A byte order mark, and colours in a string. */
static void test_what_stands_before_a_line(void **state)
{
	(void)state;
	expect("\xef\xbb\xbf{\"frames\":[{\"function\":null,\"module\":\"a.so\",\"module_offset\":\"0x1\"}]}\n",
	        "1 a.so a.so/ 0x1 image [null]\n");
	expect("\xef\xbb\xbf#0 0x7fe9 (/lib/a.so+0x12)\r\n", "1 /lib/a.so a.so/ 0x12 elf [ ]\n");
	expect("{\"log\":\"\\u001b[31m  4:     0x5010 - \\u003cunknown\\u003e\\u001b[0m\\n\"}\n"
	       "{\"log\":\"5000-6000 r-xp 0 0:0 0 /a\\n\"}\n{\"log\":\"05000-06000 r-xp 0 0:0 0 /a\\n\"}\n",
	        "1 /a a/ 0xf image [\\u003cunknown\\u003e]\n");
}

/* Lines that were copied from the source of a page. Names go in as HTML, too. */
static void test_html(void **state)
{
	(void)state;
	expect("  4:     0x55d9f3f4a1b2 - &lt;unknown&gt;\n&gt; 55d9f3f49000-55d9f3f4b000 r-xp 00000000 fe:00 12 "
	       "/tmp/p\n",
	        "1 /tmp/p p/ 0x11b1 image [&lt;unknown&gt;]\n");
	/* what is not read has no sign, however it arrives: the # is in the next line */
	expect("[app]   4:     0x55d9f3f4a1b2 - &lt;unknown&gt;\n"
	       "[app] &gt; 55d9f3f49000-55d9f3f4b000 r-xp 00000000 fe:00 12 /tmp/p\n#\n                \n",
	        "1 no module [&lt;unknown&gt;]\n");
	expect("#0 &lt;null&gt; &lt;null&gt; (prog+0x11d0)\r\n&gt;&nbsp;#0 &#60; &lt;null&gt; (a&amp;b+0x11d0)\n",
	        "1 prog prog/ 0x11d0 elf [&lt;null&gt; &lt;null&gt;]\n2 a&b a&b/ 0x11d0 elf [&#60; &lt;null&gt;]\n");
	expect("&amp;gt; \"a\\n\" #1 0x7fe9 (/lib/a&amp;+0x12)\n  &quot;/tmp/p&quot; #2 0x7fe9 (/lib/a&ampb;+0x12)\n",
	        "1 /lib/a& a&/ 0x12 elf [ ]\n2 /lib/a&ampb; a&ampb;/ 0x12 elf [ ]\n");
	expect("&lt;h1&gt; &", "");
	expect("{\"a\":1,\n\"frames\":[{\"function\":null,\"module\":\"&lt;\",\"module_offset\":\"0x12\"}]}", "");
}

/* Unreal Engine, Unity: bases, and what is none of their frames. */
static void test_engines(void **state)
{
	(void)state;
	expect("0x00007f04622e0d90 libc.so.6!UnknownFunction(0x29d8f)\n0x0000000004d33788 "
	       "Game!UnknownFunction(0x4b33788)\n"
	       "Game!UnknownFunction(12)\n!UnknownFunction(0x12)\nGame!UnknownFunction(0x12\n0x1 "
	       "libc.so.6!clone(+0x3e)\n",
	        "1 libc.so.6 libc.so.6/ 0x29d8f image []\n2 Game Game/ 0x4b33789 image []\n");
	expect("0x00007FFC5AFB36A0 (UnityPlayer) (function-name not available)\n"
	       "0x00007FFC5AFB36A2 (UnityPlayer) (function-name not available)\n"
	       "C:\\UnityPlayer.dll:UnityPlayer.dll (00007FFC5AFB0000), size: 13985 (result: 0), SymType: 'PDB', PDB: "
	       "''\n"
	       "C:\\x.dll:x.dll (FFFFFFFFFFFFFFFF), size: 14000 (result: 0), SymType: 'PDB', PDB: ''\n(), size: 1 "
	       "(result: \n",
	        "1 C:\\UnityPlayer.dll UnityPlayer.dll/ 0x36a0 image [(function-name not available)]\n"
	        "2 no module [(function-name not available)]\n");
}

/* Dart */
static void test_dart(void **state)
{
	(void)state;
	expect("build_id: '" ID "'\n    #00 abs 0000 virt 1ed6d7 _kDartIsolateSnapshotInstructions+0x1e26d7\n"
	       "  #00 abs 0000 _kDartIsolateSnapshotInstructions+0x1e26d7\n#00 abs 0 virt 12 _other+0x1\n"
	       "build_id: 'none'\n    #00 abs 0000 virt 1ed6d7 _kDartIsolateSnapshotInstructions+0x1e26d7\n",
	        "2 libapp.so libapp.so/" DEBUG_ID " 0x1ed6d7 elf []\n");
}

/* MongoDB, ABRT: bounds of what addresses are made of. */
static void test_json_of_mongodb_and_abrt(void **state)
{
	(void)state;
	expect("{\"backtrace\":[{\"b\":\"7F0FBB3F9000\",\"o\":\"1FFFFFFF\"},{\"b\":\"7F0FBB3F9000\",\"o\":\"20000000\"}"
	       ","
	       "{\"b\":\"FF0FBB3F9000\",\"o\":\"20\"},{\"b\":\"0x7f\",\"o\":\"20\"}],\"somap\":[{\"b\":"
	       "\"7F0FBB3F9000\",\"elfType\":3,"
	       "\"buildId\":\"" ID "\"}]}\n",
	        "1 mongod mongod/" DEBUG_ID " 0x1ffffffe image []\n");
	expect("{ \"frames\":\n [ {   \"build_id\": \"" ID
	       "\"\n ,   \"build_id_offset\": 4345\n ,   \"file_name\": \"/lib/libx.so\"\n }\n"
	       " , {   \"build_id_offset\": 4345\n ,   \"file_name\": \"/lib/libx.so\"\n } ]\n}\n, \"x\": 1\n",
	        "5 /lib/libx.so libx.so/" DEBUG_ID " 0x10f9 image []\n");
}

/* Calls f for each file in a folder below the sources. */
static void for_each_file(const char *folder, void (*f)(const char *name, const char *text, void *arg), void *arg)
{
	char path[4096];
	const char *top = getenv("srcdir");
	snprintf(path, sizeof path, "%s/%s", top ? top : ".", folder);
	size_t len = strlen(path);
	DIR *dir = opendir(path);
	assert_non_null(dir);
	for (const struct dirent *e; (e = readdir(dir));) {
		if (*e->d_name == '.')
			continue;
		snprintf(path + len, sizeof path - len, "/%s", e->d_name);
		FILE *file = fopen(path, "r");
		char *text = calloc(1, SAMPLE_MAX);
		assert_non_null(file);
		assert_non_null(text);
		assert_in_range(fread(text, 1, SAMPLE_MAX, file), 1, SAMPLE_MAX - 1);
		fclose(file);
		f(e->d_name, text, arg);
		free(text);
	}
	closedir(dir);
}

/* What is found in real samples does not depend on how their bytes arrive. */
static void try_pieces_of(const char *module, const char *id, const char *name, const char *text, unsigned *samples)
{
	static const size_t pieces[] = {1, 7, 64, 4096};
	if (!strstr(name, ".txt") && !strstr(name, ".json"))
		return;
	char *whole = found_in(module, id, text, SIZE_MAX);
	assert_true(*whole);
	for (size_t i = 0; i < sizeof pieces / sizeof *pieces; i++) {
		char *shown = found_in(module, id, text, pieces[i]);
		assert_string_equal(shown, whole);
		free(shown);
	}
	free(whole);
	++*samples;
}

static void try_pieces(const char *name, const char *text, void *samples)
{
	try_pieces_of(NULL, NULL, name, text, samples);
}

static void try_pieces_of_windows(const char *name, const char *text, void *samples)
{
	try_pieces_of("app.exe", "4C4C44445555314450444E4C204455441", name, text, samples);
}

static void test_samples_in_pieces(void **state)
{
	unsigned samples = 0;
	(void)state;
	for_each_file("tests/data/text/crash", try_pieces, &samples);
	assert_true(samples > 30);
	for_each_file("tests/data/text/windows", try_pieces_of_windows, &samples);
	assert_true(samples > 45);
}

/* The text with `odd` in the middle of each path with a root and a folder: behind the folder's name. */
static char *with_odd_paths(const char *text, const char *odd)
{
	struct buffer out;
	buffer_init(&out, OUT_MAX);
	for (const char *at = text; *at; at++) {
		bool begins = *at == '/' && (at == text || strchr(" \t\n([<>\"{=", at[-1]) ||
		                                    (at - text > 1 && !strncmp(at - 2, "\\n", 2)));
		size_t name =
		        begins ? strspn(at + 1, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-")
		               : 0;
		buffer_append(&out, at, 1);
		if (!name || at[1 + name] != '/')
			continue;
		buffer_append(&out, at + 1, name);
		buffer_append(&out, odd, strlen(odd));
		at += name;
	}
	buffer_append(&out, "", 1);
	return (char *)out.data;
}

struct odd {
	const char *as_is, *escaped; /* escaped: in strings of JSON; NULL: the same */
	unsigned tried;
};

/* Bytes of paths are never taken for what stands around them: with blanks, parentheses and so on in all paths of a
 * sample the same is found, in these paths. */
static void try_odd_paths(const char *name, const char *text, void *arg)
{
	struct odd *odd = arg;
	bool json = *text == '{' && text[strlen(text) - 2] == '}';
	if (!json && odd->escaped && strchr(text, '{') && strstr(text, "\":"))
		return; /* JSON is only a part of it */
	char *odd_text = with_odd_paths(text, json && odd->escaped ? odd->escaped : odd->as_is);
	char *plain = found_in(NULL, NULL, text, SIZE_MAX), *expected = with_odd_paths(plain, odd->as_is);
	char *shown = found_in(NULL, NULL, odd_text, SIZE_MAX);
	if (strcmp(shown, expected) != 0)
		print_error("%s, with \"%s\" in paths:\n", name, odd->as_is);
	assert_string_equal(shown, expected);
	odd->tried += strcmp(odd_text, text) != 0 && *plain;
	free(plain);
	free(expected);
	free(shown);
	free(odd_text);
}

static void test_odd_paths(void **state)
{
	static const struct odd all[] = {{.as_is = " b"}, {.as_is = " (x86)"}, {.as_is = "(b"}, {.as_is = "b)"},
	        {.as_is = " b) c"}, {.as_is = " [1]"}, {.as_is = "c++"}, {.as_is = " + d"}, {.as_is = "+0x12"},
	        {.as_is = "'b' c'"}, {.as_is = " \"b\" c", .escaped = " \\\"b\\\" c"},
	        {.as_is = "\\b", .escaped = "\\\\b"}, {.as_is = "#1"}, {.as_is = ", b: c"},
	        {.as_is = "\xc3\xbc \xe2\x82\xac"}};
	(void)state;
	for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
		struct odd odd = all[i];
		for_each_file("tests/data/text/crash", try_odd_paths, &odd);
		for_each_file("tests/fuzz/corpus/stacks", try_odd_paths, &odd);
		assert_true(odd.tried > 40);
	}
}

/* Paths of Windows in the formats that are written there, too. */
static void test_paths_of_windows(void **state)
{
	(void)state;
#define APP "C:\\Program Files (x86)\\My App\\app.exe"
#define JSON_APP "C:\\\\Program Files (x86)\\\\My App\\\\app.exe"
	expect("    #0 0x7ff712341139  (" APP "+0x1139)\n"
	       "    #1 0x7ff712341139 in f(int) (" APP "+0x1139)\n"
	       "    #2 main <null> (" APP "+0x1139)\n"
	       "C  [" APP "+0x1139]\n"
	       "Crash at " APP "+0x1139, read of 0x0\n"
	       "at \"" APP "\" + 0x1139\n"
	       "#05: ???[" APP " +0x1139]\n"
	       "frame #0: <unknown function> + 0x1139 (0x7ff712341139 in " APP ")\n"
	       "=>0 0x00000140001139 in app (x86) (+0x1139) (0x0000000021fcb0)\n"
	       "#6 0x7ff712341139 n/a (" APP " + 0x1139)\n"
	       "{\"msg\":\"  #7 0x7ff712341139  (" JSON_APP "+0x1139)\\n\"}\n",
	        "1 " APP " app.exe/ 0x1139 elf [  ]\n2 " APP " app.exe/ 0x1139 elf [ in f(int) ]\n"
	        "3 " APP " app.exe/ 0x1139 elf [main <null>]\n4 " APP " app.exe/ 0x1139 image []\n"
	        "5 " APP " app.exe/ 0x1139 image []\n6 " APP " app.exe/ 0x1139 image []\n"
	        "7 " APP " app.exe/ 0x1138 image [???]\n8 " APP " app.exe/ 0x1138 image [<unknown function>]\n"
	        "9 app (x86) app (x86)/ 0x1139 image []\n10 " APP " app.exe/ 0x1138 image [n/a]\n"
	        "11 " APP " app.exe/ 0x1139 elf [  ]\n");
	expect("{\"frames\":[{\"instruction_addr\":\"0x140001139\",\"package\":\"" JSON_APP "\"}],"
	       "\"images\":[{\"image_addr\":\"0x140000000\",\"image_size\":16384,\"code_file\":\"" JSON_APP
	       "\",\"debug_file\":\"D:\\\\b\\\\app.pdb\",\"debug_id\":\"EC61AC938E5A39B16F9FBD350E3169A51\"}]}\n",
	        "1 " APP " app.pdb/EC61AC938E5A39B16F9FBD350E3169A51 0x1139 image []\n");
#undef APP
#undef JSON_APP
}

/* A prefix of a form that nobody told: what two lines have in common before the part that is known. The first frame is
 * read again when the second tells, as is a heading above it. Judged by the lines without. */
static void test_prefixes_of_unknown_forms(void **state)
{
	(void)state;
	expect("(Worker pid=9)   4:     0x11010 - <unknown>\n(Worker pid=10)   5:     0x11010 - <unknown>\n"
	       "(Worker pid=10)     @ 0x11010 (unknown)\nplain\n(Worker pid=7) 10000-20000 r-xp 00000000 fe:00 1 /a\n",
	        "1 /a a/ 0x100f image [<unknown>]\n2 /a a/ 0x100f image [<unknown>]\n3 /a a/ 0x100f image "
	        "[(unknown)]\n");
	expect("[rank0]:Tor 0.4.9.11 died: Caught signal 11\n[rank0]:tor(+0x20)[0x562f6aefa52e]\n"
	       "[rank0]:/a(+0x10f9)[0x7fcfc668b0f9]\n[rank0]:/a(+0x10f9)[0x7fcfc668b0f9]\n[rank0]:/"
	       "a(+0x10f9)[0x7fcfc668b0f9]\n",
	        "2 tor tor/ 0x1f elf []\n3 /a a/ 0x10f9 elf []\n4 /a a/ 0x10f9 elf []\n5 /a a/ 0x10f8 elf []\n");
	/* of Java's frames all but the first have return addresses, wherever the line has its module */
	expect("x y: C  [liba.so+0x20]\nx y: C  [liba.so+0x20]\nx y: C  [liba.so+0x20]\n",
	        "1 liba.so liba.so/ 0x20 image []\n2 liba.so liba.so/ 0x1f image []\n3 liba.so liba.so/ 0x1f image "
	        "[]\n");
	expect("remote: {\nremote:   \"frames\": [ { \"function\": null,\nremote: \"module\": \"a.so\", "
	       "\"module_offset\": \"0x1\" } ]\n"
	       "remote: }\n",
	        "3 a.so a.so/ 0x1 image [null]\n");
}

/* Colours inside a line, which stay; line feeds of rsyslog; records of JSON with a line each; blanks at the end. */
static void test_lines_as_logs_keep_them(void **state)
{
	(void)state;
	expect(MAP_A "#1  \033[34m0x0000000000011010\033[m in \033[33m??\033[m () from \033[32m/l/x.so\033[m\n"
	             "\033[36m> \033[0m  4:     0x11010 - <unknown>\033[0m  \r\n",
	        "5 /a a/ 0x100f image [??]\n6 /a a/ 0x100f image [<unknown>]\n");
	expect("Nov 26 18:56:33 host app[1]: crash#012    #0 0x562ff30eb1f3  (/a+0x11f3)#012#011  1136 [unknown] "
	       "(/a)#012\n"
	       "Nov 26 18:56:33 host app[1]: that was #012\n",
	        "1 /a a/ 0x11f3 elf [  ]\n1 /a a/ 0x1136 file [[unknown]]\n");
	expect("{\"time\":\"2026-11-26T18:56:33+01:00\",\"msg\":\"    #0 0x562ff30eb1f3  (/a \\\"b\\\"/c+0x11f3)\"}\n"
	       "{\"msg\":\"C  [liba.so+0x20]\",\"level\":\"fatal\"}\n{\"msg\":\"C  "
	       "[liba.so+0x20]\",\"level\":\"fatal\"}\n",
	        "1 /a \"b\"/c c/ 0x11f3 elf [  ]\n2 liba.so liba.so/ 0x20 image []\n3 liba.so liba.so/ 0x1f image "
	        "[]\n");
	expect("    #0 0x562ff30eb1f3  (/a+0x11f3)   \n  4:     0x11010 - <unknown> \t\r\n" MAP_A,
	        "1 /a a/ 0x11f3 elf [  ]\n2 /a a/ 0x100f image [<unknown>]\n");
}

/* Lines of two programs stand among each other, each with addresses of its own. */
static void test_programs_in_one_log(void **state)
{
	(void)state;
#define A "Nov 26 18:56:33 host a[1]: "
#define B "Nov 26 18:56:33 host b[2]: "
#define FRAME "  4:     0x55d9f3f4a1b2 - <unknown>\n"
#define MAP(name) "55d9f3f49000-55d9f3f4b000 r-xp 00000000 fe:00 12   /tmp/" name "\n"
	expect(A FRAME B FRAME B MAP("b") A MAP("a"),
	        "1 /tmp/a a/ 0x11b1 image [<unknown>]\n2 /tmp/b b/ 0x11b1 image [<unknown>]\n");
	expect(A FRAME B MAP("b"), "1 no module [<unknown>]\n");
	expect(A FRAME A "thread 'x' panicked\n" A MAP("a") B "hello\n" A FRAME,
	        "1 no module [<unknown>]\n5 /tmp/a a/ 0x11b1 image [<unknown>]\n");
#undef A
#undef B
#undef FRAME
#undef MAP
}

static void test_what_is_no_frame(void **state)
{
	(void)state;
	expect("Nov 22 14:00:01 host sshd[12]: #1 issue (+0x12) | <a+b> [0x12] 1+0x2 /usr/lib +0x\n"
	       "# 12 0x\n#\n(\n)\n+0x1\n + 0x1\n(+0x1)\n[0x1]\n()[0x1]\n||||||\n0|0|\n{{{{\n}}}}}}\n\"\n\"a\":\n#0 "
	       "0x\n#1: [ +0x1\n",
	        "");
}

/* The end is the same, no sign is missed, and in the last line none is invented. */
static void test_signs_by_sixteen_and_one_by_one(void **state)
{
	static const char letters[] = "0xd-+{|}\"#(\n az\x7f\x80\xff";
	(void)state;
	/* whether the next line has come does not matter: "Backtrace:" is no heading here, but its line had a 0x behind
	 * it */
	expect("  lr : 0000aaaad5c50754#012{#012Backtrace:\n    0x1e0b2c1", "");
	uint64_t seed = seed_of(31);
	for (unsigned i = 0; i < 20000; i++) {
		char text[100];
		size_t len = next_random(&seed) % sizeof text;
		for (size_t k = 0; k < len; k++)
			text[k] = next_random(&seed) % 4 ? 'a' : letters[next_random(&seed) % (sizeof letters - 1)];
		unsigned fast, plain;
		const char *stop = text_scan_line_plain(text, text + len, &plain);
		assert_ptr_equal(text_scan_line(text, text + len, &fast), stop);
		assert_int_equal(fast, plain); /* also where another line follows: texts come in pieces */
	}
}

/* ---- ids ---- */

static void test_ids_that_change(void **state)
{
	(void)state;
	expect("a.so+0x1\nMODULE Linux x86 11111111111111111111111111111111A a.so\na.so+0x2\n"
	       "MODULE Linux x86 22222222222222222222222222222222B a.so\n/lib/a.so+0x3\n",
	        "1 a.so a.so/11111111111111111111111111111111A 0x1 image []\n"
	        "3 a.so a.so/11111111111111111111111111111111A 0x2 image []\n"
	        "5 /lib/a.so a.so/22222222222222222222222222222222B 0x3 image []\n");
	/* what the user says holds, but for what stands beside the frame */
	expect_after("a.so", ID,
	        "MODULE Linux x86 22222222222222222222222222222222B a.so\na.so+0x3\n"
	        "#0 0x1 (/lib/a.so+0x4) (BuildId: 0102030405060708)\n",
	        "2 a.so a.so/" DEBUG_ID " 0x3 image []\n"
	        "3 /lib/a.so a.so/04030201060508070000000000000000"
	        "0 0x4 elf [ ]\n");
}

#define OTHER_ID "0123456789abcdef0123456789abcdef01234567"
#define OTHER_DEBUG_ID "67452301AB89EFCD0123456789ABCDEF0"

/* A list of images has the id of each, whatever another one, or that of another process, says of the same name. */
static void test_ids_beside_addresses(void **state)
{
	(void)state;
	static const char one_process[] =
	        "#0  0x1010\n#0  0x3010\n0x1000+0x1000 " ID "@0x1248 /a/libx.so - /a/libx.so\n"
	        "0x3000+0x1000 " OTHER_ID "@0x3248 /b/libx.so - /b/libx.so\n",
	                  two_processes[] = "*** Program crashed: 1\n#0  0x1010\n"
	                                    "0x1000+0x1000 " ID "@0x1248 /a/libx.so - /a/libx.so\n"
	                                    "*** Program crashed: 2\n#0  0x1010\n"
	                                    "0x1000+0x1000 " OTHER_ID "@0x1248 /a/libx.so - /a/libx.so\n",
	                  frames[] = "{\"frames\":[{\"imageOffset\":16,\"imageIndex\":0}],\"usedImages\":[{\"base\":1,"
	                             "\"size\":99,\"path\":\"/a/x\",\"uuid\":\"%032d\"}]}\n";
	expect(one_process, "1 /a/libx.so libx.so/" DEBUG_ID " 0x10 image []\n2 /b/libx.so libx.so/" OTHER_DEBUG_ID
	                    " 0x10 image []\n");
	expect(two_processes, "2 /a/libx.so libx.so/" DEBUG_ID " 0x10 image []\n5 /a/libx.so libx.so/" OTHER_DEBUG_ID
	                      " 0x10 image []\n");
	expect_after("libx.so", ID, two_processes,
	        "2 /a/libx.so libx.so/" DEBUG_ID " 0x10 image []\n5 /a/libx.so libx.so/" DEBUG_ID " 0x10 image []\n");
	char text[1000];
	int n = snprintf(text, sizeof text, frames, 1);
	snprintf(text + n, sizeof text - (size_t)n, frames, 2);
	expect(text, "1 /a/x x/000000000000000000000000000000010 0x10 image []\n"
	             "2 /a/x x/000000000000000000000000000000020 0x10 image []\n");
	/* who knows which of them the process had? */
	expect("0x1000+0x1000 " ID "@0x1248 /a/libx.so - /a/libx.so\n0x1000+0x1000 " OTHER_ID
	       "@0x1248 /a/libx.so - /a/libx.so\n#0  0x1010\n",
	        "3 no module []\n");
}

static void test_forgetting(void **state)
{
	(void)state;
	struct found f = {.text = ""};
	size_t used;
	struct text_reader *r = text_reader_new(4, take_frame, &f);
	assert_true(text_reader_know(r, str_from("u.so"), str_from("33333333333333333333333333333333C")));
	static const char text[] =
	        "MODULE Linux x86 22222222222222222222222222222222B a.so\na.so+0x3\nb.so+0x3\nu.so+0x1\n";
	assert_int_equal(text_reader_read(r, str_from(text), true, &used), TEXT_OK);
	assert_true(text_reader_is_crowded(r));
	text_reader_forget(r);
	assert_int_equal(text_reader_modules(r), 0);
	assert_int_equal(text_reader_read(r, str_from("a.so+0x3\nu.so+0x1\n"), true, &used), TEXT_OK);
	assert_int_equal(text_reader_modules(r), 2);
	assert_int_equal(text_reader_module(r, 0)->id.len, 0);
	assert_int_equal(text_reader_module(r, 1)->id.len, 33);
	assert_int_equal(f.frames[f.count - 1].line, 6);
	assert_int_equal(
	        text_reader_read(r, str_from("c.so+0x1\nd.so+0x1\ne.so+0x1\n"), true, &used), TEXT_TOO_MANY_MODULES);
	text_reader_free(r);
	free(f.frames);
}

/* ---- hostile text ---- */

/* A line above the limit is passed over, however it is cut, and the next is read. */
static void test_long_lines(void **state)
{
	(void)state;
	size_t len = 3 * (size_t)TEXT_LINE_MAX, used, at = 0;
	char *text = malloc(len + 32);
	memset(text, 'x', len);
	static const char frame[] = "a.so+0x1\n";
	memcpy(text + 10, frame, sizeof frame - 2); /* no LF */
	text[len] = '\n';
	memcpy(text + len + 1, frame, sizeof frame);
	len += sizeof frame;
	struct found f = {.text = text};
	struct text_reader *r = text_reader_new(4, take_frame, &f);
	while (at < len) {
		size_t n = len - at > TEXT_LINE_MAX + 1 ? TEXT_LINE_MAX + 1 : len - at;
		assert_int_equal(text_reader_read(r, (struct str){text + at, n}, false, &used), TEXT_OK);
		assert_true(used > 0);
		at += used;
	}
	assert_int_equal(f.count, 1);
	assert_int_equal(f.frames[0].line, 2);
	assert_int_equal(f.frames[0].edits[0].at, len - 1);
	text_reader_free(r);
	free(f.frames);
	free(text);
}

/* The last line of a file may lack its end. The next file begins with a line of its own. */
static void test_text_after_the_last_line(void **state)
{
	(void)state;
	size_t used;
	struct found f = {.text = "a.so+0x1"};
	struct text_reader *r = text_reader_new(4, take_frame, &f);
	for (unsigned i = 1; i <= 2; i++) {
		assert_int_equal(text_reader_read(r, str_from(f.text), true, &used), TEXT_OK);
		assert_int_equal(f.count, i);
		assert_int_equal(f.frames[i - 1].line, i);
	}
	text_reader_free(r);
	free(f.frames);
}

/* Ten million frames of one module, and lines of 4 MB full of whatever begins a frame: done in no time. */
static void test_many_frames(void **state)
{
	(void)state;
	static const char *const units[] = {"#1 ", "+0x1)", " (/a+0x1", "a.so+0x1 ", "{\"function\":null,", "\"\\",
	        "[0x1]", "(", "|", "{\"module\":\"a\",\"function\":null,\"module_offset\":\"0x1\"},", "<", "#0 0x1 (",
	        "Module ", " ip in [1+"};
	char *text = malloc(TEXT_LINE_MAX);
	for (size_t i = 0; i < sizeof units / sizeof *units; i++) {
		size_t n = strlen(units[i]), len = 0, used;
		for (; len + n < TEXT_LINE_MAX; len += n)
			memcpy(text + len, units[i], n);
		struct found f = {.text = text};
		struct text_reader *r = text_reader_new(100, take_frame, &f);
		assert_int_equal(text_reader_read(r, (struct str){text, len}, true, &used), TEXT_OK);
		assert_int_equal(used, len);
		text_reader_free(r);
		free(f.frames);
	}
	struct found f = {.text = text, .max = rounds(10000000) / slowness()};
	size_t used, len = 0;
	for (; len + 9 < TEXT_LINE_MAX; len += 9)
		memcpy(text + len, "a.so+0x1\n", 9);
	struct text_reader *r = text_reader_new(100, take_frame, &f);
	enum text_result result = TEXT_OK;
	while (!result) {
		f.count = f.count > 1000000 ? 0 : f.count; /* frames are the caller's to bound */
		f.max -= len / 9 < f.max ? len / 9 : f.max;
		if (!f.max)
			break;
		result = text_reader_read(r, (struct str){text, len}, true, &used);
	}
	assert_int_equal(text_reader_modules(r), 1);
	text_reader_free(r);
	free(f.frames);
	free(text);
}

/* Seconds of processor time to read so many bytes of one line again and again. */
static double time_of(const char *line, size_t len)
{
	struct buffer text;
	size_t used;
	buffer_init(&text, len + TEXT_LINE_MAX);
	while (text.len < len)
		buffer_printf(&text, "%s\n", line);
	struct found f = {.text = (char *)text.data};
	struct text_reader *r = text_reader_new(100, take_frame, &f);
	clock_t begin = clock();
	assert_int_equal(text_reader_read(r, (struct str){f.text, text.len}, true, &used), TEXT_OK);
	clock_t end = clock();
	text_reader_free(r);
	free(f.frames);
	buffer_release(&text);
	return (double)(end - begin) / CLOCKS_PER_SEC;
}

/* What might be a path, again and again before a module: no more work than for anything else. */
static void test_many_parentheses(void **state)
{
	char plain[1100] = "#0 x", hostile[1100] = "#0 x";
	(void)state;
	while (strlen(hostile) < 1000) {
		strcat(plain, " ((");
		strcat(hostile, " (/");
	}
	strcat(plain, " ) (a+0x1)");
	strcat(hostile, " ) (a+0x1)");
	double usual = time_of(plain, rounds(8 << 20)), most = time_of(hostile, rounds(8 << 20));
	print_message("%.3f s, %.3f s\n", usual, most);
	assert_true(most < 5 * usual + 0.1);
}

static void test_many_modules(void **state)
{
	(void)state;
	struct buffer text;
	size_t used;
	buffer_init(&text, OUT_MAX);
	const unsigned n = rounds(200000);
	for (unsigned i = 0; i < n; i++)
		buffer_printf(&text, "MODULE Linux x86 %032XA m.so\nm.so+0x1\n/%u/m.so+0x1\n", i + 1, i);
	struct found f = {.text = (char *)text.data};
	struct text_reader *r = text_reader_new(1000000, take_frame, &f);
	assert_int_equal(text_reader_read(r, (struct str){f.text, text.len}, true, &used), TEXT_OK);
	assert_int_equal(f.count, 2 * n);
	assert_int_equal(text_reader_modules(r), 2 * n);
	text_reader_free(r);
	r = text_reader_new(1000, take_frame, &f);
	assert_int_equal(text_reader_read(r, (struct str){f.text, text.len}, true, &used), TEXT_TOO_MANY_MODULES);
	text_reader_free(r);
	free(f.frames);
	buffer_release(&text);
}

static void test_stopping(void **state)
{
	(void)state;
	struct found f = {.text = "", .max = 2};
	size_t used;
	struct text_reader *r = text_reader_new(4, take_frame, &f);
	assert_int_equal(
	        text_reader_read(r, str_from("a.so+0x3 a.so+0x3 a.so+0x3\na.so+0x3\n"), true, &used), TEXT_STOPPED);
	assert_int_equal(f.count, 2);
	text_reader_free(r);
	free(f.frames);
}

/* ---- names ---- */

static void expect_names(enum text_style style, const struct text_call *calls, size_t count, const char *expected)
{
	struct buffer out;
	buffer_init(&out, 1 << 20);
	text_write_names(&out, &(struct text_edit){.style = (uint8_t)style}, calls, count);
	buffer_append(&out, "", 1);
	assert_string_equal((const char *)out.data, expected);
	buffer_release(&out);
}

/* What a text makes the reader keep is told, so that it can be charged. */
static void test_memory(void **state)
{
	(void)state;
	struct found f = {0};
	size_t used, last;
	struct text_reader *r = text_reader_new(1000, take_frame, &f);
	assert_non_null(r);
	last = text_reader_memory(r);
	static const struct {
		const char *text;
		size_t least;
	} texts[] = {{"{{{reset}}}\n", 40000}, {"\"a\\nb\"\n", 16 << 10}, {"#0 0x1 (/lib/libx.so+0x1)\n", 12},
	        {"55d9f3f49000-55d9f3f4b000 r-xp 00000000 fe:00 12 /tmp/p\n", 40}, {"nothing\n", 0}};
	for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
		assert_int_equal(text_reader_read(r, str_from(texts[i].text), true, &used), TEXT_OK);
		size_t now = text_reader_memory(r);
		assert_true(now - last >= texts[i].least && (now > last) == (texts[i].least > 0));
		last = now;
	}
	free(f.frames);
	text_reader_free(r);
}

static void test_names(void **state)
{
	(void)state;
	const struct text_call calls[] = {
	        {{"f", 1}, {"a.c", 3}, 3}, {{"g", 1}, {"b.c", 3}, 0}, {{"main", 4}, {"", 0}, 9}};
	expect_names(TEXT_AT, calls, 3, "f at a.c:3, inlined by g at b.c, inlined by main");
	expect_names(TEXT_IN, calls, 2, " in f a.c:3, inlined by g b.c ");
	expect_names(TEXT_BLANK, calls, 1, "f a.c:3");
	expect_names(TEXT_PARENTHESES, calls, 1, " (f at a.c:3)");
	expect_names(TEXT_FIELDS, calls, 1, "f|a.c|3");
	expect_names(TEXT_FIELDS, calls, 3, "main||");
	expect_names(TEXT_JSON_FUNCTION, calls, 2, "\"g\"");
	expect_names((enum text_style)(TEXT_IN | TEXT_STRING), calls, 2, " in f a.c:3, inlined by g b.c ");
	const struct text_call cpp = {{"a<b>::operator&", 15}, {"<std>/a.h", 9}, 3};
	expect_names((enum text_style)(TEXT_AT | TEXT_HTML), &cpp, 1, "a&lt;b&gt;::operator&amp; at &lt;std&gt;/a.h:3");
	expect_names(TEXT_JSON_FILE, calls + 2, 1, "null");
	expect_names(TEXT_JSON_LINE, calls, 1, "3");
	expect_names(TEXT_JSON_INLINES, calls, 1, "null");
	expect_names(TEXT_JSON_INLINES, calls, 2, "[{\"file\":\"a.c\",\"function\":\"f\",\"line\":3}]");
}

/* A name never becomes more than a part of its line, and never speaks to a terminal. */
static void test_names_with_control_characters(void **state)
{
	(void)state;
	static const char name[] = "a\\\"b\\\\c\\n\\u001b[1m\x7f\xc2\x9b|\xc3\xa9";
	const struct text_call call = {{name, sizeof name - 1}, {"", 0}, 0};
	expect_names(TEXT_AT, &call, 1, "a\"b\\c\\n\\u001b[1m\\u007f\\u009b|\xc3\xa9");
	expect_names(TEXT_FIELDS, &call, 1, "a\"b\\c\\n\\u001b[1m\\u007f\\u009b_\xc3\xa9||");
	expect_names(TEXT_JSON_FUNCTION, &call, 1, "\"a\\\"b\\\\c\\n\\u001b[1m\x7f\xc2\x9b|\xc3\xa9\"");
	expect_names(
	        (enum text_style)(TEXT_AT | TEXT_STRING), &call, 1, "a\\\"b\\\\c\\n\\u001b[1m\x7f\xc2\x9b|\xc3\xa9");
}

int main(void)
{
	const struct CMUnitTest tests[] = {
	        cmocka_unit_test(test_sanitizers),
	        cmocka_unit_test(test_thread_sanitizer),
	        cmocka_unit_test(test_glibc),
	        cmocka_unit_test(test_systemd),
	        cmocka_unit_test(test_perf),
	        cmocka_unit_test(test_names_that_confirm),
	        cmocka_unit_test(test_lines_with_more_around),
	        cmocka_unit_test(test_chromium),
	        cmocka_unit_test(test_perf_report),
	        cmocka_unit_test(test_fixed_addresses),
	        cmocka_unit_test(test_firefox),
	        cmocka_unit_test(test_android),
	        cmocka_unit_test(test_macos),
	        cmocka_unit_test(test_bundles_of_macos),
	        cmocka_unit_test(test_minidump_pipes),
	        cmocka_unit_test(test_minidump_json),
	        cmocka_unit_test(test_several_reports_in_json),
	        cmocka_unit_test(test_json_that_was_cut),
	        cmocka_unit_test(test_anything),
	        cmocka_unit_test(test_return_addresses_of_offsets),
	        cmocka_unit_test(test_glibc_in_other_words),
	        cmocka_unit_test(test_openj9),
	        cmocka_unit_test(test_a_function_behind_its_library),
	        cmocka_unit_test(test_markup),
	        cmocka_unit_test(test_simpleperf),
	        cmocka_unit_test(test_windbg),
	        cmocka_unit_test(test_gdb),
	        cmocka_unit_test(test_maps_before_and_after),
	        cmocka_unit_test(test_maps_that_do_not_agree),
	        cmocka_unit_test(test_maps_of_several_processes),
	        cmocka_unit_test(test_maps_of_debuggers),
	        cmocka_unit_test(test_maps_of_eu_unstrip),
	        cmocka_unit_test(test_paths_from_maps),
	        cmocka_unit_test(test_addresses),
	        cmocka_unit_test(test_where_a_signal_came),
	        cmocka_unit_test(test_python),
	        cmocka_unit_test(test_where_a_signal_came_by_the_trampoline),
	        cmocka_unit_test(test_torch),
	        cmocka_unit_test(test_where_a_signal_came_in_other_formats),
	        cmocka_unit_test(test_signal_frames),
	        cmocka_unit_test(test_lines_between_frames),
	        cmocka_unit_test(test_numbers_in_logs),
	        cmocka_unit_test(test_where_a_signal_came_by_a_heading),
	        cmocka_unit_test(test_programs_with_a_title),
	        cmocka_unit_test(test_eu_stack),
	        cmocka_unit_test(test_bpftrace),
	        cmocka_unit_test(test_unknown),
	        cmocka_unit_test(test_ada),
	        cmocka_unit_test(test_swift),
	        cmocka_unit_test(test_wine),
	        cmocka_unit_test(test_callgrind),
	        cmocka_unit_test(test_a_map_of_who_reads_the_file),
	        cmocka_unit_test(test_node),
	        cmocka_unit_test(test_node_report),
	        cmocka_unit_test(test_mac_graphs),
	        cmocka_unit_test(test_event_log),
	        cmocka_unit_test(test_other_lines_with_a_stamp),
	        cmocka_unit_test(test_32_bit_images_of_macos),
	        cmocka_unit_test(test_native_aot),
	        cmocka_unit_test(test_clickhouse),
	        cmocka_unit_test(test_crashlytics),
	        cmocka_unit_test(test_kernel),
	        cmocka_unit_test(test_addresses_of_macos),
	        cmocka_unit_test(test_metrickit),
	        cmocka_unit_test(test_kernel_of_other_processors),
	        cmocka_unit_test(test_kernel_of_a_program_with_in_in_its_name),
	        cmocka_unit_test(test_envoy),
	        cmocka_unit_test(test_seastar),
	        cmocka_unit_test(test_esp_idf),
	        cmocka_unit_test(test_dpdk),
	        cmocka_unit_test(test_folly),
	        cmocka_unit_test(test_intel_fortran),
	        cmocka_unit_test(test_compute_sanitizer),
	        cmocka_unit_test(test_compute_sanitizer_in_strings_and_colours),
	        cmocka_unit_test(test_strace),
	        cmocka_unit_test(test_ips),
	        cmocka_unit_test(test_sentry),
	        cmocka_unit_test(test_prefixes_of_logs),
	        cmocka_unit_test(test_prefixes_that_get_longer),
	        cmocka_unit_test(test_strings_of_json),
	        cmocka_unit_test(test_positions_of_another_program),
	        cmocka_unit_test(test_objects_on_several_lines),
	        cmocka_unit_test(test_what_stands_before_a_line),
	        cmocka_unit_test(test_html),
	        cmocka_unit_test(test_memory),
	        cmocka_unit_test(test_engines),
	        cmocka_unit_test(test_dart),
	        cmocka_unit_test(test_json_of_mongodb_and_abrt),
	        cmocka_unit_test(test_json_with_colours_in_what_goes),
	        cmocka_unit_test(test_samples_in_pieces),
	        cmocka_unit_test(test_odd_paths),
	        cmocka_unit_test(test_prefixes_of_unknown_forms),
	        cmocka_unit_test(test_lines_as_logs_keep_them),
	        cmocka_unit_test(test_paths_of_windows),
	        cmocka_unit_test(test_programs_in_one_log),
	        cmocka_unit_test(test_what_is_no_frame),
	        cmocka_unit_test(test_signs_by_sixteen_and_one_by_one),
	        cmocka_unit_test(test_ids_that_change),
	        cmocka_unit_test(test_ids_beside_addresses),
	        cmocka_unit_test(test_forgetting),
	        cmocka_unit_test(test_long_lines),
	        cmocka_unit_test(test_text_after_the_last_line),
	        cmocka_unit_test(test_many_frames),
	        cmocka_unit_test(test_many_parentheses),
	        cmocka_unit_test(test_many_modules),
	        cmocka_unit_test(test_stopping),
	        cmocka_unit_test(test_names),
	        cmocka_unit_test(test_names_with_control_characters),
	};
	return cmocka_run_group_tests(tests, NULL, NULL);
}
