/* SPDX-License-Identifier: Apache-2.0 */
/* The object is called code-ids/HASH, and holds "NAME\nID\nORIGIN\n"; without the last line, an upload said so. */
#include <config.h>

#include "symfiles/code_ids.h"

#include <ctype.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/hash.h"
#include "base/hex.h"
#include "objects/bucket.h"

enum { PATH_SIZE = 64, FILE_MAX = 1024 };

bool code_id_is_told(const struct symfile_facts *f)
{
	return *f->code_file && bucket_can_hold(str_from(f->code_file), str_from(f->code_id));
}

/* False if out of memory, or if the name is too long to be one. */
static bool make_path(char path[PATH_SIZE], struct str code_file, struct str code_id)
{
	char lower[FILE_MAX], hex[2 * sizeof(struct module_hash) + 1];
	struct module_hash hash;
	if (code_file.len > FILE_MAX)
		return false;
	for (size_t i = 0; i < code_file.len; i++)
		lower[i] = (char)tolower((unsigned char)code_file.data[i]);
	if (!module_hash_make(&hash, "code", (struct str){lower, code_file.len}, code_id))
		return false;
	hex_write(hex, hash.bytes, sizeof hash.bytes);
	snprintf(path, PATH_SIZE, "code-ids/%s", hex);
	return true;
}

static const char *const origins[] = {
        [CODE_BY_TRY] = "try", [CODE_BY_UPLOAD] = "upload", [CODE_BY_SOURCE] = "source", [CODE_BY_OWNER] = "owner"};

static enum code_origin origin_of(struct str word)
{
	for (unsigned i = CODE_BY_TRY; i <= CODE_BY_OWNER; i++)
		if (str_equal(word, str_from(origins[i])))
			return (enum code_origin)i;
	return CODE_BY_UPLOAD;
}

static bool is_same_text(struct str a, struct str b)
{
	return a.len == b.len && strncasecmp(a.data, b.data, a.len) == 0;
}

/* Whether a module is called as its code file is, whatever both end in: xul.pdb, xul.dll. */
static bool is_namesake(struct str name, struct str code_file)
{
	const char *dot = memrchr(code_file.data, '.', code_file.len);
	struct str stem = {code_file.data, dot ? (size_t)(dot - code_file.data) : code_file.len};
	return is_same_text(bucket_stem(name), stem) || is_same_text(name, code_file);
}

/* Whether who says a module displaces what was said. */
static bool displaces(struct str name, enum code_origin by, const struct code_module *old, struct str code_file)
{
	if (by != old->by || by == CODE_BY_OWNER)
		return by >= old->by;
	return is_namesake(name, code_file) && !is_namesake(old->name, code_file);
}

enum err code_id_put(struct store_client *c, const struct symfile_facts *f, struct str name, struct str id,
        enum code_origin by, bool *said, const atomic_bool *cancel, struct error *e)
{
	char path[PATH_SIZE], text[CODE_ID_TEXT];
	struct code_module old;
	struct str code_file = str_from(f->code_file), code_id = str_from(f->code_id);
	int n = snprintf(text, sizeof text, "%.*s\n%.*s\n%s\n", STR_FMT(name), STR_FMT(id), origins[by]);
	*said = false;
	if (n >= CODE_ID_TEXT)
		return ERR_OK; /* no client asks for such a module */
	if (!make_path(path, code_file, code_id))
		return no_memory(e);
	enum err err = code_id_get(c, code_file, code_id, &old, cancel, e);
	if (err && err != ERR_MISSING)
		return err;
	bool same = !err && str_equal(old.name, name) && is_same_text(old.id, id);
	if (!err && (same ? by <= old.by : !displaces(name, by, &old, code_file)))
		return ERR_OK;
	err = store_put_object(c, path, (struct str){text, (size_t)n}, e);
	*said = !err;
	return err;
}

enum err code_id_get(struct store_client *c, struct str code_file, struct str code_id, struct code_module *m,
        const atomic_bool *cancel, struct error *e)
{
	char path[PATH_SIZE];
	struct buffer b;
	if (!make_path(path, code_file, code_id))
		return no_memory(e);
	buffer_init(&b, CODE_ID_TEXT);
	enum err err = store_get_object(c, path, &b, cancel, e);
	if (!err)
		memcpy(m->text, b.data, b.len);
	struct str rest = {(const char *)m->text, err ? 0 : b.len};
	buffer_release(&b);
	if (err)
		return err;
	m->name = str_cut(&rest, '\n');
	m->id = str_cut(&rest, '\n');
	m->by = origin_of(str_cut(&rest, '\n'));
	return bucket_can_hold(m->name, m->id) ? ERR_OK : error_set(e, ERR_MISSING, "%s is damaged", path);
}
