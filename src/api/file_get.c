/* SPDX-License-Identifier: Apache-2.0 */
/* Executables and debug files for debuggers: as servers for symsrv (WinDbg, Visual Studio) have them, /NAME/ID/NAME;
 * and as debuginfod does (gdb, lldb, perf, elfutils), /buildid/ID/.... */
#include <config.h>

#include <string.h>
#include <unistd.h>

#include "api/file_target.h"
#include "api/missing.h"
#include "api/router.h"
#include "api/services.h"
#include "api/stored.h"
#include "api/sym_path.h"
#include "base/account.h"
#include "elf/layouts.h"
#include "elf/source_code.h"

static void refuse(struct exchange *x, enum err code, const char *text)
{
	struct error e;
	error_set(&e, code, "%s", text);
	exchange_reply_error(x, &e, 1);
}

static bool is_off(struct exchange *x)
{
	if (x->config->file_downloads != DOWNLOADS_NO)
		return false;
	refuse(x, ERR_NOT_FOUND, "no such page");
	return true;
}

static bool path_of(const void *arg, enum bucket_kind kind, unsigned number, char out[SYMFILE_PATH_MAX])
{
	_Static_assert((int)LAYOUT_NAMED_MAX <= (int)SYMFILE_PATH_MAX, "a path of the layouts fits");
	return layout_file_path(out, kind, number, arg);
}

static void answer(struct exchange *x, const struct file_target *t)
{
	const struct layout_file *f = &t->layout;
	const struct stored_form form = {
	        "application/octet-stream", true, x->config->file_downloads == DOWNLOADS_REDIRECT};
	struct symfile file = {.name = t->name,
	        .id = t->id,
	        .sort = f->packed ? SYMFILE_PACKED : SYMFILE_FILE,
	        .path = path_of,
	        .path_arg = f};
	struct module_want want;
	if (!module_want_init(&want, x->config->lookup, t->name, t->id)) {
		refuse(x, ERR_NO_MEMORY, "out of memory");
		return;
	}
	file.hash = want.own.hash;
	struct symfiles_since since = stored_since(&file);
	bool missing = symfiles_is_missing(services_symfiles(), &file, since.marker);
	if (!missing) {
		struct error e;
		if (exchange_enter(x, services_turnstile(TURNSTILE_DOWNLOADS), &e)) { /* until the reply has ended */
			exchange_reply_error(x, &e, 1);
			return;
		}
		if (stored_send(x, &file, &form))
			return;
		symfiles_set_missing(services_symfiles(), &file, &since);
	}
	if (*f->name && !f->packed)
		missing_note_request(x, t->name, t->id);
	refuse(x, ERR_NOT_FOUND, "no source has this file");
}

/* ---- /NAME/ID/NAME ---- */

void file_get_handle(struct exchange *x)
{
	struct file_target t;
	struct error e;
	if (is_off(x))
		return;
	if (file_target_read(x, x->path, &t, &e))
		exchange_reply_error(x, &e, 1);
	else
		answer(x, &t);
}

/* ---- /buildid/ID/... ---- */

/* *charged: whether there is room for it, which the caller gives back. */
static enum err get_source(struct exchange *x, const struct build_id *id, struct str file, struct buffer *text,
        bool *charged, struct error *e)
{
	const struct elf_asker asker = {x->client, exchange_cancel(x)};
	enum err err = exchange_enter(x, services_turnstile(TURNSTILE_CODE), e);
	if (err)
		return err;
	/* not before: those who wait in its line may be many */
	*charged = account_take(ACCOUNT_REPLIES, SOURCE_CODE_ROOM);
	err = *charged ? elf_code_source(services_code(), &asker, id, file, text, e)
	               : error_set(e, ERR_UNAVAILABLE, "too much memory is in use; try again");
	exchange_leave(x);
	return err;
}

static void send_source(struct exchange *x, const struct build_id *id, struct str path)
{
	struct buffer text;
	struct str file;
	struct error e;
	bool charged = false;
	/* /source/usr/src/a.c: the slash belongs to the name; elfutils sends it as %2F after the first */
	enum err err = sym_path_decode(x, path, &file);
	buffer_init(&text, SOURCE_CODE_ROOM);
	err = err ? error_set(&e, err, "the path cannot be read") : get_source(x, id, file, &text, &charged, &e);
	if (err == ERR_MISSING || err == ERR_TOO_LARGE || err == ERR_CORRUPT)
		e.code = ERR_NOT_FOUND;
	if (err)
		exchange_reply_error(x, &e, 1);
	else
		exchange_reply_text(
		        x, 200, "application/octet-stream", NULL, (struct str){(char *)text.data, text.len});
	buffer_release(&text);
	if (charged)
		account_add(ACCOUNT_REPLIES, -SOURCE_CODE_ROOM);
}

static enum err send_section_file(void *arg, int file, uint64_t size)
{
	struct exchange *x = arg;
	uint8_t block[32 << 10];
	ssize_t n = 0;
	bool head_only = str_equal(x->method, str_from("HEAD"));
	exchange_reply_begin_stored(x, 200, "application/octet-stream", NULL, size);
	for (uint64_t at = 0; !head_only && at < size; at += (uint64_t)n)
		if ((n = pread(file, block, sizeof block, (off_t)at)) <= 0 ||
		        !exchange_reply_add(x, block, (size_t)n)) {
			exchange_reply_cut(x);
			return ERR_OK;
		}
	exchange_reply_end(x);
	return ERR_OK;
}

static void send_section(struct exchange *x, const struct build_id *id, struct str name)
{
	char text[SECTION_NAME_MAX];
	struct str decoded;
	struct error e;
	if (sym_path_decode(x, name, &decoded) || decoded.len >= sizeof text || !str_is_word(decoded, "._+-")) {
		refuse(x, ERR_NOT_FOUND, "no file has such a section");
		return;
	}
	memcpy(text, decoded.data, decoded.len);
	text[decoded.len] = 0;
	const struct elf_asker asker = {x->client, exchange_cancel(x)};
	if (!exchange_enter(x, services_turnstile(TURNSTILE_CODE), &e) && /* until the reply has ended */
	        !elf_code_section(services_code(), &asker, id, text, send_section_file, x, &e))
		return;
	if (e.code == ERR_MISSING || e.code == ERR_CORRUPT)
		e.code = ERR_NOT_FOUND;
	exchange_reply_error(x, &e, 1);
}

void buildid_get_handle(struct exchange *x)
{
	static const char source[] = "source", section[] = "section";
	struct file_target t;
	struct build_id id;
	struct error e;
	struct str rest = {x->path.data + strlen("/buildid/"), x->path.len - strlen("/buildid/")};
	if (is_off(x))
		return;
	struct str hex = str_cut(&rest, '/'), whole = rest, what = str_cut(&rest, '/');
	if (!build_id_parse(&id, hex)) {
		refuse(x, ERR_BAD_REQUEST, "the build id is not an even number of hex digits");
	} else if (rest.len > 0 && str_equal(what, str_from(source))) {
		send_source(x, &id, (struct str){whole.data + strlen(source), whole.len - strlen(source)});
	} else if (rest.len > 0 && str_equal(what, str_from(section))) {
		send_section(x, &id, rest);
	} else if (file_target_read(x, x->path, &t, &e)) {
		exchange_reply_error(x, &e, 1);
	} else {
		answer(x, &t);
	}
}
