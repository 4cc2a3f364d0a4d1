/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbtool/file_kind.h"

#include <elf.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "extract/view.h"
#include "symbtool/input.h"

enum { HEAD = 512, MACHO_OBJECT = 1 };

#define READ_IT "symbtool extract, push-symbols and symbolicate read it"
#define UNPACK "unpack it first"
#define NO_FILE "perhaps a server's error message, saved in place of the file"

/* The first row that fits. */
static const struct kind {
	const char *magic;
	unsigned len, at, takes; /* takes: by whom it is read */
	enum other_kind other;
	const char *name, *advice;
} kinds[] = {
        {"\177ELF", 4, 0, TAKES_ELF, OTHER_REFUSED, "an ELF file", READ_IT},
        {"symbfile", 8, 0, TAKES_SYMBFILE, OTHER_UNKNOWN, "a symbfile", "symbtool dump, check and symbolicate read it"},
        {"MODULE ", 7, 0, TAKES_SYM | TAKES_TEXT, OTHER_TEXT, "a Breakpad symbol file",
                "symbtool check, push-symbols and symbolicate read it"},
        {"Microsoft C/C++ MSF ", 20, 0, TAKES_ELF, OTHER_REFUSED, "a PDB file", READ_IT},
        {"MZ", 2, 0, TAKES_ELF, OTHER_REFUSED, "a Windows program", READ_IT},
        {"\xcf\xfa\xed\xfe", 4, 0, TAKES_ELF, OTHER_REFUSED, "a Mach-O file", READ_IT},
        {"\xce\xfa\xed\xfe", 4, 0, TAKES_ELF, OTHER_REFUSED, "a Mach-O file", READ_IT},
        {"\xca\xfe\xba\xbe", 4, 0, TAKES_ELF, OTHER_REFUSED, "a universal Mach-O file", READ_IT},
        {"\xca\xfe\xba\xbf", 4, 0, TAKES_ELF, OTHER_REFUSED, "a universal Mach-O file", READ_IT},
        {"\0asm", 4, 0, 0, OTHER_REFUSED, "a WebAssembly module", "symbtool cannot read these"},
        {"MDMP", 4, 0, 0, OTHER_UNKNOWN, "a minidump",
                "run minidump-stackwalk; symbtool symbolicate --filter reads its output"},
        {"\x1f\x8b", 2, 0, TAKES_TEXT, OTHER_PACKED, "a gzip file", UNPACK},
        {"\x28\xb5\x2f\xfd", 4, 0, TAKES_TEXT, OTHER_PACKED, "a zstd file", UNPACK},
        {"\xfd\x37zXZ", 5, 0, 0, OTHER_PACKED, "an xz file", UNPACK},
        {"BZh", 3, 0, 0, OTHER_PACKED, "a bzip2 file", UNPACK},
        {"PK\3\4", 4, 0, 0, OTHER_PACKED, "a ZIP file", UNPACK},
        {"MSCF", 4, 0, 0, OTHER_PACKED, "a Windows cabinet", UNPACK},
        {"!<arch>\n", 8, 0, 0, OTHER_OBJECT, "an ar archive, such as a static library or a .deb", UNPACK},
        {"ustar", 5, 257, 0, OTHER_PACKED, "a tar archive", UNPACK},
        {"version https://git-lfs", 23, 0, TAKES_TEXT, OTHER_TEXT, "a Git LFS pointer",
                "git lfs pull fetches the file"},
        {"<", 1, 0, TAKES_TEXT, OTHER_TEXT, "HTML or XML", NO_FILE},
        {"{", 1, 0, TAKES_TEXT, OTHER_TEXT, "JSON", NO_FILE},
};

struct head {
	char bytes[HEAD];
	size_t len;
};

static bool read_head(struct head *h, const char *path, bool unpacked)
{
	struct error ignored;
	if (unpacked)
		return !input_head(path, h->bytes, sizeof h->bytes, &h->len, &ignored);
	int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
	ssize_t n = fd < 0 ? -1 : pread(fd, h->bytes, sizeof h->bytes, 0);
	if (fd >= 0)
		close(fd);
	h->len = n > 0 ? (size_t)n : 0;
	return n >= 0;
}

static bool is_text(const struct head *h)
{
	for (size_t i = 0; i < h->len; i++)
		if (!h->bytes[i] || ((unsigned char)h->bytes[i] < 0x20 && !strchr("\t\n\r\f\033", h->bytes[i])))
			return false;
	return h->len > 0;
}

static const struct kind *find_kind(const struct head *h)
{
	static const struct kind text = {.takes = TAKES_TEXT | TAKES_LINES,
	        .other = OTHER_TEXT,
	        .name = "text without a MODULE line",
	        .advice = "symbtool symbolicate --filter adds names to stacks in text"};
	for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++) {
		const struct kind *k = &kinds[i];
		if (h->len >= k->at + k->len && memcmp(h->bytes + k->at, k->magic, k->len) == 0)
			return k;
	}
	return is_text(h) ? &text : NULL;
}

static const char *name_of(unsigned takes)
{
	switch (takes) {
	case TAKES_ELF:
		return "an executable";
	case TAKES_SYMBFILE:
		return "a symbfile";
	case TAKES_SYM:
		return "a Breakpad symbol file";
	case TAKES_TEXT:
		return "text";
	default:
		return takes & TAKES_ELF ? "an executable or symbol file" : "a symbol file";
	}
}

enum err file_kind_check(const char *path, unsigned takes, struct error *e)
{
	struct head head;
	if (!read_head(&head, path, takes & (TAKES_SYMBFILE | TAKES_SYM)))
		return ERR_OK;
	const char *refused = file_format_refused((const uint8_t *)head.bytes, head.len);
	const struct kind *k = find_kind(&head);
	if (refused)
		return error_set(e, ERR_CORRUPT, "not %s, but %s", name_of(takes), refused);
	if (!head.len && !(takes & (TAKES_TEXT | TAKES_LINES)))
		return error_set(e, ERR_CORRUPT, "not %s, but empty", name_of(takes));
	if (!k || (k->takes & takes))
		return ERR_OK;
	return error_set(e, ERR_CORRUPT, "not %s, but %s: %s", name_of(takes), k->name, k->advice);
}

enum err file_kind_explain(const char *path, unsigned takes, enum err err, struct error *e)
{
	struct error other;
	if (err == ERR_CORRUPT && file_kind_check(path, takes, &other))
		*e = other;
	return err;
}

/* Object files of COFF begin with their machine. */
static bool is_object(const uint8_t *head, size_t len)
{
	static const char *const begins[] = {"!<thin>\n", "\x64\x86", "\x4c\x01", "\x64\xaa"};
	for (unsigned i = 0; i < sizeof begins / sizeof *begins; i++)
		if (len >= strlen(begins[i]) && memcmp(head, begins[i], strlen(begins[i])) == 0)
			return true;
	enum file_format format = file_format_of(head, len);
	return (format == FORMAT_ELF && len > 17 && head[16] + head[17] == ET_REL) ||
	       (format == FORMAT_MACHO && len > 12 && head[12] == MACHO_OBJECT);
}

enum other_kind file_kind_other(const char *path)
{
	struct head h;
	if (!read_head(&h, path, false))
		return OTHER_LINK;
	const uint8_t *head = (const uint8_t *)h.bytes;
	const struct kind *kind = find_kind(&h);
	if (!h.len)
		return OTHER_EMPTY;
	if (is_object(head, h.len))
		return OTHER_OBJECT;
	if (file_format_refused(head, h.len))
		return OTHER_REFUSED;
	return kind ? kind->other : OTHER_UNKNOWN;
}
