/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "elf/layouts.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

enum { CODE_ID_BYTES = 8 }; /* of a Windows program: its time stamp and the size of its image */
enum { DIVIDED_MIN = 2 };   /* bytes; a folder has the first */

/* The build id stands between the two texts, whole, or with a slash behind its first two digits. Debug files come
 * before executables: they name more. Only executables have code. */
static const struct layout {
	enum bucket_kind kind;
	enum layout_use use;
	const char *before, *after;
	bool divided;
	bool other; /* the file is for another use, but may do */
} layouts[] = {
        {BUCKET_DEBUGINFOD, LAYOUT_DEBUG, "buildid/", "/debuginfo", false, false},
        {BUCKET_DEBUGINFOD, LAYOUT_DEBUG, "buildid/", "/executable", false, true},
        {BUCKET_DEBUGINFOD, LAYOUT_CODE, "buildid/", "/executable", false, false},
        {BUCKET_ELF, LAYOUT_DEBUG, ".build-id/", ".debug", true, false},                  /* distributions, gdb */
        {BUCKET_ELF, LAYOUT_DEBUG, "_.debug/elf-buildid-sym-", "/_.debug", false, false}, /* symbol servers (SSQP) */
        {BUCKET_ELF, LAYOUT_DEBUG, "", "/debuginfo", true, false},       /* Symbolicator's unified layout */
        {BUCKET_ELF, LAYOUT_DEBUG, ".build-id/", "/debug", true, false}, /* perf buildid-cache */
        {BUCKET_ELF, LAYOUT_DEBUG, ".build-id/", "/elf", true, true},    /* the same */
        {BUCKET_ELF, LAYOUT_DEBUG, "", "/executable", true, true},       /* unified */
        {BUCKET_ELF, LAYOUT_CODE, ".build-id/", "", true, false},        /* distributions: a link to the program */
        {BUCKET_ELF, LAYOUT_CODE, ".build-id/", "/elf", true, false},
        {BUCKET_ELF, LAYOUT_CODE, "", "/executable", true, false},
        {BUCKET_ELF, LAYOUT_CODE, ".build-id/", ".debug", true, true}, /* not every such file is without code */
};

/* False: it is too short for one. A path that ends with its first byte is that of a folder, of which web servers have a
 * listing. */
static bool print_path(char out[LAYOUT_PATH_MAX], const struct layout *l, const struct build_id *id)
{
	char hex[BUILD_ID_HEX + 1];
	build_id_hex(hex, id->bytes, id->len);
	snprintf(out, LAYOUT_PATH_MAX, "%s%.2s%s%s%s", l->before, hex, l->divided ? "/" : "", hex + 2, l->after);
	return id->len >= DIVIDED_MIN;
}

bool layout_path(char out[LAYOUT_PATH_MAX], enum bucket_kind kind, enum layout_use use, unsigned number,
        const struct build_id *id)
{
	const struct layout *l = layouts, *end = l + sizeof layouts / sizeof *layouts;
	while (l < end && (l->kind != kind || l->use != use || number-- > 0))
		l++;
	return l < end && print_path(out, l, id);
}

bool layout_name(char out[LAYOUT_NAME_MAX], struct str name)
{
	bool ok = name.len < LAYOUT_NAME_MAX && str_is_word(name, "._+-") && name.data[0] != '.';
	if (ok)
		memcpy(out, name.data, name.len);
	out[ok ? name.len : 0] = 0;
	return ok;
}

static void lower(char *text)
{
	for (; *text; text++)
		*text = *text >= 'A' && *text <= 'Z' ? (char)(*text - 'A' + 'a') : *text;
}

/* Microsoft's tools have capitals in the time stamp and the GUID only, and beside a file, or in its place, a cabinet
 * whose name ends with '_'; SSQP has no capitals anywhere. */
bool layout_windows_path(char out[LAYOUT_NAMED_MAX], unsigned number, const char *name, const struct build_id *id)
{
	char hex[BUILD_ID_HEX + 1];
	if ((id->len != CODE_ID_BYTES && id->len != WINDOWS_ID_BYTES) || number > 2 || !*name)
		return false;
	const uint8_t *b = id->bytes, *last = b + id->len - 4;
	uint32_t size = (uint32_t)last[0] << 24 | (uint32_t)last[1] << 16 | (uint32_t)last[2] << 8 | last[3];
	size_t digits = 2 * (id->len - 4);
	for (size_t i = 0; i < id->len - 4; i++)
		snprintf(hex + 2 * i, 3, "%02X", b[id->len == CODE_ID_BYTES ? i : guid_order[i]]);
	int n = snprintf(out, LAYOUT_NAMED_MAX, "%s/%.*s%" PRIx32 "/%s", name, (int)digits, hex, size, name);
	if (number == 1)
		out[n - 1] = '_';
	if (number == 2)
		lower(out);
	return true;
}

bool layout_pointer_path(char out[LAYOUT_NAMED_MAX], const char *name, const struct build_id *id)
{
	if (!layout_windows_path(out, 0, name, id))
		return false;
	strcpy(strrchr(out, '/') + 1, "file.ptr"); /* the room is for two names */
	return true;
}

bool layout_flat_path(char out[LAYOUT_NAMED_MAX], unsigned number, const char *name, const struct build_id *id)
{
	static const char *const programs[] = {"exe", "dll"};
	const char *end = strrchr(name, '.');
	bool is_pdb = end && strcasecmp(end, ".pdb") == 0;
	if ((id->len != CODE_ID_BYTES && id->len != WINDOWS_ID_BYTES) || !*name || number > (is_pdb ? 2 : 0))
		return false;
	int stem = (int)(is_pdb && number ? end + 1 - name : 0);
	snprintf(out, LAYOUT_NAMED_MAX, "%.*s%s", stem, name, stem ? programs[number - 1] : name);
	return true;
}

bool layout_mac_path(char out[LAYOUT_NAMED_MAX], unsigned number, const char *name, const struct build_id *id)
{
	char hex[BUILD_ID_HEX + 1], upper[BUILD_ID_HEX + 1] = {0};
	if (id->len != GUID_BYTES)
		return false;
	build_id_hex(hex, id->bytes, id->len);
	str_upper(upper, str_from(hex));
	const char *u = upper;
	switch (number) {
	case 0: /* lldb's tree */
		snprintf(out, LAYOUT_NAMED_MAX, "%.4s/%.4s/%.4s/%.4s/%.4s/%s", u, u + 4, u + 8, u + 12, u + 16, u + 20);
		return true;
	case 1: /* symbol servers (SSQP) */
		snprintf(out, LAYOUT_NAMED_MAX, "_.dwarf/mach-uuid-sym-%s/_.dwarf", hex);
		return true;
	case 2: /* Symbolicator's unified layout */
		snprintf(out, LAYOUT_NAMED_MAX, "%.2s/%s/debuginfo", hex, hex + 2);
		return true;
	case 3: /* a folder of bundles */
		snprintf(out, LAYOUT_NAMED_MAX, "%s.dSYM/Contents/Resources/DWARF/%s", name, name);
		return *name;
	default:
		return false;
	}
}

bool layout_code_id(struct build_id *id, struct str hex)
{
	char digits[2 * CODE_ID_BYTES + 1] = "0000000000000000";
	const size_t stamp = CODE_ID_BYTES;
	if (hex.len <= stamp || hex.len > 2 * CODE_ID_BYTES)
		return false;
	memcpy(digits, hex.data, stamp);
	memcpy(digits + 2 * CODE_ID_BYTES - (hex.len - stamp), hex.data + stamp, hex.len - stamp);
	return build_id_parse(id, str_from(digits));
}

static bool windows_file(char out[LAYOUT_NAMED_MAX], unsigned number, const struct layout_file *f)
{
	static const unsigned numbers[2][2] = {{0, 2}, {1, 1}};
	if (number > 1 || !layout_windows_path(out, numbers[f->packed][number], f->name, &f->id))
		return false;
	if (f->packed && number == 1)
		lower(out);
	return true;
}

bool layout_file_path(char out[LAYOUT_NAMED_MAX], enum bucket_kind kind, unsigned number, const struct layout_file *f)
{
	if (*f->name)
		return kind == BUCKET_ELF && windows_file(out, number, f);
	for (unsigned i = 0; i < sizeof layouts / sizeof *layouts; i++) {
		const struct layout *l = &layouts[i];
		if (l->kind == kind && l->use == f->use && !l->other && number-- == 0)
			return print_path(out, l, &f->id);
	}
	/* the layouts of Mach-O files that are not among those of ELF, and have the UUID in the path */
	return kind == BUCKET_ELF && f->use == LAYOUT_DEBUG && number < 2 && layout_mac_path(out, number, "", &f->id);
}

void layout_file_place(char out[LAYOUT_NAMED_MAX], const struct layout_file *f)
{
	char hex[BUILD_ID_HEX + 1];
	if (*f->name) {
		layout_windows_path(out, f->packed, f->name, &f->id);
		return;
	}
	build_id_hex(hex, f->id.bytes, f->id.len);
	snprintf(out, LAYOUT_NAMED_MAX, "%.2s/%s/%s", hex, hex + 2, f->use == LAYOUT_CODE ? "executable" : "debuginfo");
}

/* Letters, digits and few others, in parts that lead nowhere else. */
static bool harmless(const char *path)
{
	if (path[strspn(path, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-._+/")])
		return false;
	while (strspn(path, ".") < strcspn(path, "/")) {
		path += strcspn(path, "/");
		if (!*path++)
			return true;
	}
	return false;
}

bool layout_shared_path(char out[LAYOUT_SHARED_MAX], enum bucket_kind kind, struct str name)
{
	static const char folder[] = "/.dwz/";
	const char *at = name.len > 0 ? memmem(name.data, name.len, folder, strlen(folder)) : NULL;
	if (kind != BUCKET_ELF || !at)
		return false;
	struct str path = {at + 1, name.len - (size_t)(at + 1 - name.data)};
	return path.len < LAYOUT_SHARED_MAX &&
	       snprintf(out, LAYOUT_SHARED_MAX, "%.*s", STR_FMT(path)) == (int)path.len && harmless(out);
}

/* In trees it is beside the file: gdb, LLVM and lldb add .dwp, lldb also in place of .debug. A debuginfod server with
 * packages, as lldb expects it, has the package as debug file, and the skeletons in the executable. */
bool layout_package_path(char out[LAYOUT_PATH_MAX], enum bucket_kind kind, unsigned number, const char *path)
{
	static const char *const ends[] = {".debug", "/executable"};
	size_t len = strlen(path), end = strlen(ends[kind == BUCKET_DEBUGINFOD]);
	bool ends_so = len > end && strcmp(path + len - end, ends[kind == BUCKET_DEBUGINFOD]) == 0;
	const char *after = kind == BUCKET_DEBUGINFOD ? "/debuginfo" : ".dwp";
	if (kind == BUCKET_ELF && number == 0)
		end = 0;
	else if (number > (kind == BUCKET_ELF) || !ends_so)
		return false;
	return snprintf(out, LAYOUT_PATH_MAX, "%.*s%s", (int)(len - end), path, after) < LAYOUT_PATH_MAX;
}

bool layout_folder(char out[LAYOUT_PATH_MAX], enum bucket_kind kind, unsigned number, uint8_t first)
{
	static const char *const above[] = {".build-id/", ""};
	if (kind != BUCKET_ELF || number >= sizeof above / sizeof *above)
		return false;
	snprintf(out, LAYOUT_PATH_MAX, "%s%02x", above[number], first);
	return true;
}

bool layout_entry(struct build_id *id, uint8_t first, const char *name)
{
	char hex[BUILD_ID_HEX + 1];
	size_t digits = strspn(name, "0123456789abcdef");
	if (digits + 2 > BUILD_ID_HEX || (name[digits] && strcmp(name + digits, ".debug") != 0))
		return false;
	snprintf(hex, sizeof hex, "%02x%.*s", first, (int)digits, name);
	return build_id_parse(id, str_from(hex));
}
