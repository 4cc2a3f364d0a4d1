/* SPDX-License-Identifier: Apache-2.0 */
/* POST /api/symbols-ranges and /api/symbols-returnpads upload a part of an executable's symbfiles. Errors have a format
 * of their own, with a uuid that is also in the log. */
#include <config.h>

#include <stdlib.h>
#include <string.h>

#include "api/router.h"
#include "api/store_permit.h"
#include "api/upload.h"
#include "base/hash.h"
#include "base/hex.h"
#include "base/log.h"
#include "base/process.h"
#include "keys/auth.h"
#include "api/services.h"
#include "symbfile/symbfile.h"
#include "uploads/arrive.h"

enum { UUID_SIZE = 37, RETRY_AFTER = 2 };

/* ---- replies ---- */

/* The request id as a uuid, so that it is in nginx's log too; a random one if the id has another form. */
static void make_uuid(char out[UUID_SIZE], const struct exchange *x)
{
	char hex[33];
	if (strlen(x->request_id) == 32 && strspn(x->request_id, "0123456789abcdef") == 32)
		memcpy(hex, x->request_id, sizeof hex);
	else
		snprintf(hex, sizeof hex, "%016llx%016llx", (unsigned long long)random_u64(),
		        (unsigned long long)random_u64());
	snprintf(out, UUID_SIZE, "%.8s-%.4s-%.4s-%.4s-%.12s", hex, hex + 8, hex + 12, hex + 16, hex + 20);
}

bool upload_is_failure(enum err err)
{
	return error_http_status(err) >= 500 && err != ERR_BUSY;
}

void sym_upload_reply(struct exchange *x, enum err err, const struct error *e)
{
	if (!err) {
		exchange_reply_text(x, 200, "application/json", NULL, str_from("{\"success\":true,\"status\":200}"));
		return;
	}
	metric_add(upload_is_failure(err) ? M_SYM_UPLOADS_FAILED : M_SYM_UPLOADS_REFUSED, 1);
	exchange_reply_error(x, e, 2);
}

enum err upload_check_token(const char *token, unsigned rights, char key_id[64], struct error *e)
{
	static const char scheme[] = "APIKey ";
	char header[600];
	bool named = strncmp(token, scheme, strlen(scheme)) == 0;
	snprintf(header, sizeof header, "%s%s", named ? "" : scheme, token);
	return auth_check(header, rights, key_id, e);
}

/* Where in the body the mistake is, as other routes tell it: the text of the reader begins with it. */
static void print_place(struct buffer *out, const struct error *e)
{
	unsigned long long byte;
	if (e->code == ERR_BAD_REQUEST && sscanf(e->text, "byte %llu: ", &byte) == 1)
		buffer_printf(out, "\"place\":{\"byte\":%llu},", byte);
}

void upload_refuse(struct exchange *x, const struct error *e)
{
	char uuid[UUID_SIZE], code[16], extra[64];
	int status = error_http_status(e->code);
	make_uuid(uuid, x);
	snprintf(code, sizeof code, "%d", status);
	exchange_error_headers(extra, e->code, RETRY_AFTER);
	log_event(
	        LOG_LEVEL_WARNING, "upload refused", "%s, uuid %s, request %s: %s", code, uuid, x->request_id, e->text);
	struct buffer body;
	buffer_init(&body, 8192);
	buffer_printf(&body, "{\"success\":false,\"uuid\":\"%s\",\"error\":{\"Code\":\"%s\",\"Text\":", uuid, code);
	buffer_append_json(&body, str_from(e->text));
	buffer_printf(&body, "},");
	print_place(&body, e);
	buffer_printf(&body, "\"status\":%d}", status);
	exchange_reply_text(x, status, "application/json", extra,
	        body.failed ? str_from("{\"success\":false}") : (struct str){(char *)body.data, body.len});
	buffer_release(&body);
}

/* ---- what comes before the body ---- */

static enum err read_number(
        const struct exchange *x, const char *param, const char *header, unsigned *number, struct error *e)
{
	const char *text = exchange_param(x, param);
	size_t len = text ? strlen(text) : 0;
	if (!len)
		return error_set(e, ERR_BAD_REQUEST, "the header %s is missing", header);
	if (len > 6 || strspn(text, "0123456789") != len)
		return error_set(e, ERR_BAD_REQUEST, "%s is not a number up to 999999", header);
	*number = (unsigned)strtoul(text, NULL, 10);
	return ERR_OK;
}

/* What the upload says about the executable: a build id of length 0 if it names none. */
static enum err read_executable(const struct exchange *x, struct manifest *m, struct error *e)
{
	const char *id = exchange_param(x, "HTTP_BUILDID"), *base = exchange_param(x, "HTTP_IMAGEBASE");
	const char *segments = exchange_param(x, "HTTP_FILESEGMENTS");
	if (id && *id && !build_id_parse(&m->build_id, str_from(id)))
		return error_set(
		        e, ERR_BAD_REQUEST, "BuildID is not an even number of hex digits, at most %d", BUILD_ID_HEX);
	if (segments && *segments && !load_segments_parse(&m->segments, str_from(segments)))
		return error_set(e, ERR_BAD_REQUEST,
		        "FileSegments is not a list of at most %d OFFSET:ADDRESS:FILESIZE:MEMORYSIZE in hex, separated "
		        "by "
		        "commas",
		        LOAD_SEGMENTS_MAX);
	if (!base || !*base)
		return ERR_OK;
	if (strncmp(base, "0x", 2) != 0 || !hex_read_number(str_from(base + 2), &m->image_base))
		return error_set(e, ERR_BAD_REQUEST, "ImageBase is not 0x and up to 16 hex digits");
	return ERR_OK;
}

/* The name of the executable's file, for lists. */
static enum err read_program(const struct exchange *x, struct manifest *m, struct error *e)
{
	const char *name = exchange_param(x, "HTTP_FILENAME");
	size_t len = name ? strlen(name) : 0;
	if (len >= sizeof m->program || (name && !str_is_printable(str_from(name))))
		return error_set(e, ERR_BAD_REQUEST, "FileName is not up to %d printable characters of ASCII",
		        PROGRAM_NAME_SIZE - 1);
	snprintf(m->program, sizeof m->program, "%s", name ? name : "");
	return ERR_OK;
}

/* The index of a header's value among words; the first if there is no such header. */
static enum err read_word(const struct exchange *x, const char *param, const char *header, const char *const words[],
        unsigned count, unsigned *index, struct error *e)
{
	const char *text = exchange_param(x, param);
	*index = 0;
	if (!text || !*text)
		return ERR_OK;
	for (unsigned i = 1; i < count; i++)
		if (strcmp(text, words[i]) == 0) {
			*index = i;
			return ERR_OK;
		}
	return error_set(e, ERR_BAD_REQUEST, "%s is not \"%s\"%s%s%s", header, words[1], count > 2 ? " or \"" : "",
	        count > 2 ? words[2] : "", count > 2 ? "\"" : "");
}

static enum err read_wishes(const struct exchange *x, struct arrival *a, struct error *e)
{
	static const char *const more[] = {"", "1", "0"}, *const force[] = {"", "1"},
	                         *const symbols[] = {"", "dynamic"};
	unsigned word = 0, forced = 0, dynamic = 0;
	enum err err = read_word(x, "HTTP_FILEMORE", "FileMore", more, 3, &word, e);
	if (!err)
		err = read_word(x, "HTTP_FILEFORCE", "FileForce", force, 2, &forced, e);
	if (!err)
		err = read_word(x, "HTTP_FILESYMBOLS", "FileSymbols", symbols, 2, &dynamic, e);
	a->more = (enum arrival_more)word;
	a->about.forced = forced;
	a->about.dynamic = dynamic;
	return err;
}

/* a->set is NULL if the upload names none. */
static enum err read_headers(const struct exchange *x, struct arrival *a, struct error *e)
{
	const char *id = exchange_param(x, "HTTP_FILEID"), *set = exchange_param(x, "HTTP_FILESET");
	const char *address = exchange_param(x, "REMOTE_ADDR");
	struct part_name *p = &a->part;
	if (!id || !file_id_parse(&a->id, str_from(id)))
		return error_set(e, ERR_BAD_REQUEST, "the header FileID is %s",
		        id ? "neither 32 hex digits nor 22 characters of base64" : "missing");
	enum err err = read_number(x, "HTTP_FILEPARTS", "FileParts", &p->parts, e);
	if (!err)
		err = read_number(x, "HTTP_FILEPART", "FilePart", &p->part, e);
	if (err)
		return err;
	if (!p->parts || p->parts > SET_PARTS_MAX)
		return error_set(e, ERR_BAD_REQUEST, "FileParts is not between 1 and %d", SET_PARTS_MAX);
	if (p->part >= p->parts)
		return error_set(e, ERR_BAD_REQUEST, "FilePart %u is not below FileParts, %u", p->part, p->parts);
	a->set = set && *set ? set : NULL;
	a->address = address ? address : "";
	if (a->set && !set_name_is_valid(str_from(a->set)))
		return error_set(e, ERR_BAD_REQUEST, "FileSet is not 1 to %d characters of A-Za-z0-9._-", SET_NAME_MAX);
	err = read_executable(x, &a->about, e);
	err = err ? err : read_program(x, &a->about, e);
	return err ? err : read_wishes(x, a, e);
}

/* ---- the body ---- */

struct upload {
	struct symbfile_reader *reader;
	struct sha256 *hash;
	struct store_put *put;
	uint64_t bytes;
};

/* If the file is refused, that is the client's mistake. */
static enum err blame(enum err err, struct error *e)
{
	return err == ERR_CORRUPT ? (e->code = ERR_BAD_REQUEST) : err;
}

static enum err take_piece(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct upload *u = arg;
	enum err err = blame(symbfile_reader_feed(u->reader, data, len, e), e);
	u->bytes += len;
	if (!err && !sha256_add(u->hash, data, len))
		err = no_memory(e);
	return err ? err : store_put_write(u->put, data, len, e);
}

/* Stores what has arrived, and makes all hosts look again. */
static enum err keep(struct upload *u, struct store_client *c, struct arrival *a, struct error *e)
{
	struct modules *m = services_modules();
	char hash[SHA256_HEX + 1];
	if (!sha256_end(u->hash, hash))
		return no_memory(e);
	snprintf(a->part.hash, sizeof a->part.hash, "%.*s", PART_HASH, hash);
	a->about.size = u->bytes;
	enum err err = symbfile_arrive(a, c, u->put, e);
	u->put = NULL;
	/* even after a failure: it may have been stored although the reply was lost */
	if (err || a->visible)
		modules_forget_file(m, &a->id);
	if ((err || a->visible) && a->about.build_id.len)
		modules_forget_build_id(m, &a->about.build_id);
	return err;
}

/* Checks and counts the body while it arrives, and stores it. */
static enum err receive(struct exchange *x, struct store_client *c, struct arrival *a, uint64_t *bytes, struct error *e)
{
	struct symbfile_sink sink = symbfile_counts_sink(&a->part.counts);
	struct upload u = {.reader = symbfile_reader_new(&sink), .hash = sha256_new()};
	enum err err = u.reader && u.hash ? ERR_OK : no_memory(e);
	if (!err && !(u.put = store_put_begin(c, e)))
		err = e->code;
	if (!err)
		err = exchange_stream_body(x, x->config->max_upload, take_piece, &u, e);
	if (!err)
		err = blame(symbfile_reader_finish(u.reader, e), e);
	*bytes = u.bytes;
	if (!err)
		err = keep(&u, c, a, e);
	store_put_abort(u.put);
	symbfile_reader_free(u.reader);
	sha256_free(u.hash);
	return err;
}

static void log_stored(const struct exchange *x, const struct arrival *a, uint64_t bytes)
{
	const struct manifest *m = &a->about;
	char hex[FILE_ID_HEX + 1], build_id[BUILD_ID_HEX + 1];
	file_id_hex(hex, &a->id);
	build_id_hex(build_id, m->build_id.bytes, m->build_id.len);
	log_event(LOG_LEVEL_INFO, "uploaded",
	        "%s of %s%s%s, set %s, part %u of %u, %llu bytes%s%s%s, by key %s, request %s",
	        symbfile_kind_names[m->kind], hex, *build_id ? ", build id " : "", build_id, a->name, a->part.part,
	        a->part.parts, (unsigned long long)bytes, a->visible ? ", complete: " : "",
	        a->visible ? set_quality_name(set_quality_of(&m->counts, m->dynamic)) : "", m->forced ? ", forced" : "",
	        m->uploader, x->request_id);
}

static enum err store_part(struct exchange *x, enum symbfile_kind kind, struct error *e)
{
	struct arrival a = {.about.kind = kind};
	uint64_t bytes = 0;
	enum err err = auth_check(exchange_param(x, "HTTP_AUTHORIZATION"), RIGHT_UPLOAD, a.about.uploader, e);
	if (!err)
		err = read_headers(x, &a, e);
	if (err)
		return err;
	struct store_client *c = store_permit_take(x, e);
	if (!c)
		return e->code;
	err = receive(x, c, &a, &bytes, e);
	store_permit_give(x, c);
	if (err)
		return err;
	metric_add(M_UPLOADS_STORED, 1);
	metric_add(M_UPLOAD_BYTES, (int64_t)bytes);
	log_stored(x, &a, bytes);
	return ERR_OK;
}

static void upload(struct exchange *x, enum symbfile_kind kind)
{
	struct error e;
	enum err err = store_part(x, kind, &e);
	if (!err) {
		exchange_reply_text(x, 200, "application/json", NULL, str_from("{\"success\":true,\"status\":200}"));
		return;
	}
	metric_add(upload_is_failure(err) ? M_UPLOADS_FAILED : M_UPLOADS_REFUSED, 1);
	upload_refuse(x, &e);
}

void upload_ranges_handle(struct exchange *x)
{
	upload(x, SYMBFILE_RANGES);
}

void upload_returnpads_handle(struct exchange *x)
{
	upload(x, SYMBFILE_RETURNPADS);
}
