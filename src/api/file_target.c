/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "api/file_target.h"

#include <string.h>

#include "api/sym_path.h"

/* A GUID and an age, a code id, or a Mach-O file's UUID and age 0: then the name does not count. */
static bool read_id(struct layout_file *f, struct str id)
{
	struct build_id_question q;
	if (layout_code_id(&f->id, id))
		return true;
	if (!build_id_question_parse(&q, id) || !(q.windows || q.has_first))
		return false;
	f->id = q.whole;
	if (q.windows)
		return true;
	f->name[0] = 0;
	f->id.len = GUID_BYTES;
	for (unsigned i = 0; i < GUID_BYTES; i++)
		f->id.bytes[i] = q.first[guid_order[i]];
	return !f->packed;
}

enum err file_target_named(struct file_target *t, struct str name, struct str id, bool packed, struct error *e)
{
	*t = (struct file_target){.layout = {.use = LAYOUT_DEBUG, .packed = packed}, .name = name, .id = id};
	if (layout_name(t->layout.name, name) && read_id(&t->layout, id))
		return ERR_OK;
	return error_set(e, ERR_NOT_FOUND, "no source can have a file of such a name and id");
}

static enum err read_build_id(struct str path, struct file_target *t, struct error *e)
{
	static const char debuginfo[] = "debuginfo", executable[] = "executable";
	*t = (struct file_target){.layout.use = LAYOUT_DEBUG, .name = path};
	t->id = str_cut(&t->name, '/');
	if (str_equal(t->name, str_from(executable)))
		t->layout.use = LAYOUT_CODE;
	else if (!str_equal(t->name, str_from(debuginfo)))
		return error_set(e, ERR_NOT_FOUND, "the path is not /buildid/ID/debuginfo or executable");
	if (!build_id_parse(&t->layout.id, t->id) || t->layout.id.len < 2)
		return error_set(e, ERR_NOT_FOUND, "the build id is not an even number of hex digits, four or more");
	return ERR_OK;
}

enum err file_target_read(struct exchange *x, struct str path, struct file_target *t, struct error *e)
{
	static const char before[] = "/buildid/";
	const size_t n = strlen(before);
	struct str name, id;
	bool packed;
	if (path.len > n && memcmp(path.data, before, n) == 0 && !file_path_is(path))
		return read_build_id((struct str){path.data + n, path.len - n}, t, e);
	if (!file_path_is(path) || !file_path_read(x, path, &name, &id, &packed))
		return error_set(e, ERR_NOT_FOUND, "the path is not /NAME/ID/NAME");
	return file_target_named(t, name, id, packed, e);
}

struct build_id_question file_target_question(const struct file_target *t)
{
	return (struct build_id_question){
	        .whole = t->layout.id, .windows = t->layout.id.len == WINDOWS_ID_BYTES && *t->layout.name};
}
