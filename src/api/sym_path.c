/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/sym_path.h"

#include <string.h>

#include "base/hex.h"
#include "objects/bucket.h"
#include "objects/percent.h"

enum { SEGMENTS = 3 };

/* Splits "/a/b/c"; false if there are more segments. Of fewer, the last are empty. */
static bool split(struct str path, struct str segments[SEGMENTS])
{
	if (str_cut(&path, '/').len)
		return false;
	segments[0] = str_cut(&path, '/');
	segments[1] = str_cut(&path, '/');
	segments[2] = path;
	return !path.len || !memchr(path.data, '/', path.len);
}

static bool ends_in_sym(struct str s)
{
	return s.len > 4 && memcmp(s.data + s.len - 4, ".sym", 4) == 0;
}

bool sym_path_is(struct str path)
{
	struct str s[SEGMENTS];
	return split(path, s) && s[0].len && s[1].len && ends_in_sym(s[2]) && hex_only(s[1]);
}

enum err sym_path_decode(struct exchange *x, struct str segment, struct str *out)
{
	char *text = arena_alloc(x->arena, segment.len + 1);
	if (!text)
		return ERR_NO_MEMORY;
	if (!percent_decode(text, segment))
		return ERR_BAD_REQUEST;
	*out = str_from(text);
	return ERR_OK;
}

static struct str without_ending(struct str name)
{
	const char *dot = memrchr(name.data, '.', name.len);
	return dot ? str_first(name, (size_t)(dot - name.data)) : name;
}

bool sym_path_read(struct exchange *x, struct str path, struct str *name, struct str *id, enum sym_path_file *called)
{
	struct str s[SEGMENTS], file;
	if (!split(path, s) || sym_path_decode(x, s[0], name) || sym_path_decode(x, s[1], id) ||
	        sym_path_decode(x, s[2], &file) || !bucket_can_hold(*name, *id) || !ends_in_sym(file))
		return false;
	file.len -= strlen(".sym");
	*called = str_equal(file, bucket_stem(*name))      ? SYM_FILE_OWN
	          : str_equal(file, without_ending(*name)) ? SYM_FILE_BARE
	                                                   : SYM_FILE_OTHER;
	return true;
}

/* Whether b is a, or the name of the cabinet with a. */
static bool is_name_of(struct str a, struct str b)
{
	return a.len > 0 && a.len == b.len && memcmp(a.data, b.data, a.len - 1) == 0 &&
	       (b.data[a.len - 1] == a.data[a.len - 1] || b.data[a.len - 1] == '_');
}

bool file_path_is(struct str path)
{
	struct str s[SEGMENTS];
	return split(path, s) && s[1].len && hex_only(s[1]) && is_name_of(s[0], s[2]);
}

bool file_path_read(struct exchange *x, struct str path, struct str *name, struct str *id, bool *packed)
{
	struct str s[SEGMENTS];
	if (!split(path, s) || sym_path_decode(x, s[0], name) || sym_path_decode(x, s[1], id) ||
	        !bucket_can_hold(*name, *id))
		return false;
	*packed = !str_equal(s[0], s[2]);
	return true;
}

struct str sym_path_without_try(struct str path)
{
	static const char before[] = "/" BUCKET_TRY;
	const size_t n = strlen(before);
	if (path.len <= n || memcmp(path.data, before, n) != 0)
		return path;
	struct str rest = {path.data + n, path.len - n};
	return sym_path_is(rest) || file_path_is(rest) ? rest : path;
}
