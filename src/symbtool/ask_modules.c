/* SPDX-License-Identifier: Apache-2.0 */
/* Modules to ask for: where their symbols are. */
#include <config.h>

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/array.h"
#include "base/buffer.h"
#include "extract/ids.h"
#include "symbtool/asker.h"
#include "text/module_table.h"

static void module_release(struct asked_module *m)
{
	free(m->path);
	free(m->place);
	for (unsigned i = 0; i < m->id_count; i++)
		free(m->ids[i].key);
}

void asker_forget(struct asker *a)
{
	for (uint32_t i = 0; i < a->count; i++)
		module_release(&a->modules[i]);
	a->count = 0;
}

/* Takes over what is in m. */
static enum err add_module(struct asker *a, struct asked_module *m, enum err err, struct error *e)
{
	size_t count = a->count;
	if (!err && !array_append(&a->modules, &a->cap, &count, m, sizeof *m))
		err = no_memory(e);
	if (err)
		module_release(m);
	a->count = (uint32_t)count;
	return err;
}

/* ---- ids ---- */

static enum err add_id(struct asked_module *m, struct str name, struct str id, bool own, struct error *e)
{
	struct ask_id *to = &m->ids[m->id_count++];
	*to = (struct ask_id){
	        .key = text_printf("%.*s/%.*s", STR_FMT(name), STR_FMT(id)), .name_len = name.len, .own = own};
	return to->key ? ERR_OK : no_memory(e);
}

/* What the file at path says: its FileID, and where it is loaded. ERR_IO, ERR_NO_MEMORY. */
static enum err add_file_id(struct asked_module *m, const char *path, struct str name, struct error *e)
{
	struct file_id id;
	char hex[FILE_ID_HEX + 1];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	enum err err =
	        fd < 0 ? error_set(e, ERR_IO, "%.150s: %s", path, strerror(errno)) : file_id_of_fd(&id, fd, NULL, e);
	if (fd >= 0)
		close(fd);
	if (err)
		return err;
	file_id_hex(hex, &id);
	return add_id(m, name, str_from(hex), true, e);
}

/* By its FileID; and by its build id, if another file was uploaded, since this was stripped, say. */
static enum err add_file_ids(struct asked_module *m, const char *path, struct error *e)
{
	char hex[BUILD_ID_HEX + 1];
	struct str name = str_from(basename(path));
	enum err err = add_file_id(m, path, name, e);
	if (!err && !(m->place = local_place_read(path)))
		err = no_memory(e);
	if (err || !m->place->found_by.len)
		return err;
	build_id_hex(hex, m->place->found_by.bytes, m->place->found_by.len);
	return add_id(m, name, str_from(hex), false, e);
}

bool ask_is_id(struct str text)
{
	struct file_id file_id;
	struct build_id_question question;
	return file_id_parse(&file_id, text) || build_id_question_parse(&question, text);
}

/* NAME/ID, or an ID, which is its own name. */
static enum err add_name(struct asked_module *m, const char *word, struct error *e)
{
	const char *slash = strrchr(word, '/');
	struct str id = str_from(slash ? slash + 1 : word), name = {word, slash ? (size_t)(slash - word) : id.len};
	if (!slash && !ask_is_id(id))
		return error_set(e, ERR_BAD_REQUEST, "%.150s: no such file, and neither NAME/ID nor an ID", word);
	m->place = calloc(1, sizeof *m->place); /* the user has counted from the image */
	return m->place ? add_id(m, name, id, false, e) : no_memory(e);
}

enum err asker_add_word(struct asker *a, const char *word, struct error *e)
{
	struct asked_module m = {.by = 0};
	struct stat st;
	bool file = stat(word, &st) == 0 && S_ISREG(st.st_mode); /* a directory is none: buckets are made of such */
	return add_module(a, &m, (file ? add_file_ids : add_name)(&m, word, e), e);
}

enum err asker_add_files(struct asker *a, char *const *paths, size_t count, struct error *e)
{
	struct asked_module m = {.path = strdup(paths[0]), .parts = count > 1 ? paths : NULL, .part_count = count};
	return add_module(a, &m, m.path ? ERR_OK : no_memory(e), e);
}

enum err asker_add_nothing(struct asker *a, const char *name, struct error *e)
{
	struct asked_module m = {.decided = true, .why = REASON_NOT_FOUND, .path = strdup(name)};
	return add_module(a, &m, m.path ? ERR_OK : no_memory(e), e);
}

/* ---- modules of a text ---- */

/* By its FileID, if it is here; by the id in the text, or the file's; and by other names that Windows may have for it.
 */
static enum err add_text_ids(struct asked_module *m, const struct text_module *told, const char *path, struct error *e)
{
	char room[TEXT_NAME_MAX];
	struct str other, id = told->id.len || !m->place ? told->id : str_from(m->place->debug_id);
	enum err err = path ? add_file_id(m, path, told->name, e) : ERR_OK;
	err = err == ERR_NO_MEMORY ? err : ERR_OK;
	if (!err && id.len)
		err = add_id(m, told->name, id, false, e);
	for (unsigned i = 0;
	        !err && text_is_windows_id(id) && m->id_count < ASK_IDS && text_other_name(told->name, i, room, &other);
	        i++)
		err = add_id(m, other, id, false, e);
	return err;
}

static enum err read_text_module(
        struct asker *a, struct asked_module *m, const struct text_module *told, struct error *e)
{
	char path[PATH_MAX];
	enum local_why why = local_symbols_find(a->local, told, path);
	bool found = why == LOCAL_FOUND;
	if (found && !(m->place = local_place_read(path)))
		return no_memory(e);
	enum err err = a->connection ? add_text_ids(m, told, found ? path : NULL, e) : ERR_OK;
	if (!a->connection && found && !(m->path = strdup(path)))
		err = no_memory(e);
	m->decided = !m->path && !m->id_count;
	if (m->decided)
		m->why = why == LOCAL_OTHER_BUILD ? REASON_OTHER_BUILD : told->id.len ? REASON_NOT_FOUND : REASON_NO_ID;
	return err;
}

enum err asker_add_text(struct asker *a, const struct text_module *told, struct error *e)
{
	struct asked_module m = {.by = 0};
	return add_module(a, &m, read_text_module(a, &m, told, e), e);
}

enum err asker_tell_id(struct asker *a, uint32_t module, const struct text_module *told, struct error *e)
{
	struct asked_module *m = &a->modules[module];
	if (!m->decided || m->why != REASON_NO_ID || !told->id.len)
		return ERR_OK;
	module_release(m);
	*m = (struct asked_module){.by = 0};
	return read_text_module(a, m, told, e);
}

/* ---- what is known of them ---- */

uint32_t asker_count(const struct asker *a)
{
	return a->count;
}

struct str asker_name(const struct asker *a, uint32_t module)
{
	const struct asked_module *m = &a->modules[module];
	if (m->id_count)
		return (struct str){m->ids[m->by].key, m->ids[m->by].name_len};
	const char *slash = strrchr(m->path, '/');
	return str_from(slash && slash[1] ? slash + 1 : m->path);
}

const char *asker_key(const struct asker *a, uint32_t module)
{
	const struct asked_module *m = &a->modules[module];
	return m->id_count ? m->ids[m->by].key : m->path;
}

enum ask_found asker_found(const struct asker *a, uint32_t module)
{
	const struct asked_module *m = &a->modules[module];
	return !m->decided ? ASK_UNKNOWN : m->why ? ASK_LACKING : ASK_FOUND;
}

bool asker_knows_file(const struct asker *a, uint32_t module)
{
	const struct asked_module *m = &a->modules[module];
	return m->place ? m->place->file.count : m->file.count;
}

bool asker_knows_base(const struct asked_module *m, const struct ask_frame *f)
{
	if (m->place)
		return local_place_knows(m->place, f->address, f->base);
	return f->base != TEXT_CODE && f->base != TEXT_EXEC && f->base != TEXT_FIXED && f->base != TEXT_FUNCTION;
}
