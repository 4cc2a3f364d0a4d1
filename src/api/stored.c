/* SPDX-License-Identifier: Apache-2.0 */
/* What is stored as gzip is sent as gzip, and unpacked for those clients that do not take what it is packed with.
 * Ranges are cut out of the stream, so that they work with every source. */
#include <config.h>

#include "api/stored.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "api/services.h"
#include "base/clock.h"
#include "base/log.h"
#include "base/unpack.h"
#include "cache/page_memcached.h"

enum { UNPACKED_SIZE = 64 << 10, EXTRA_MAX = 512 };

struct sending {
	struct exchange *x;
	const struct stored_form *form;
	struct bucket_head head;
	struct packing_head first; /* bytes of the file */
	struct unpacker *unpacker; /* NULL: sent as stored */
	uint8_t *unpacked;
	uint64_t skip, left; /* bytes before those to send; bytes to send */
	char extra[EXTRA_MAX];
	bool begun; /* a reply has been begun */
	bool ended; /* a reply has been made: x is gone */
};

/* ---- the head ---- */

/* Whether it is one whole entity tag, which a header line can hold. */
static bool is_etag(const char *text)
{
	const char *quoted = strncmp(text, "W/", 2) == 0 ? text + 2 : text;
	size_t len = strlen(quoted);
	return len >= 2 && quoted[0] == '"' && strcspn(quoted + 1, "\"\r\n") == len - 2 && quoted[len - 1] == '"';
}

/* Whether a list of entity tags in a header contains the object's, or is an asterisk. */
static bool names_etag(const char *list, const char *etag)
{
	return list && *etag && (strcmp(list, "*") == 0 || strstr(list, etag));
}

/* Whether the client asks for a range, and of the object as it is now: If-Range takes no weak tag and no list. */
static bool wants_range(const struct sending *s)
{
	const char *if_range = exchange_param(s->x, "HTTP_IF_RANGE");
	return str_equal(s->x->method, str_from("GET")) &&
	       (!if_range || (*if_range == '"' && strcmp(if_range, s->head.etag) == 0));
}

/* One range of bytes of an object of this length; false: the header is not one, and is ignored. *satisfiable: it lies
 * within the object. */
static bool read_range(const char *text, uint64_t length, uint64_t *from, uint64_t *to, bool *satisfiable)
{
	char *end;
	if (!text || strncmp(text, "bytes=", 6) != 0)
		return false;
	text += 6;
	bool suffix = *text == '-';
	if (text[suffix] < '0' || text[suffix] > '9')
		return false;
	uint64_t a = strtoull(text + suffix, &end, 10);
	if (suffix) {
		*from = a < length ? length - a : 0;
		*to = length;
		*satisfiable = a > 0 && length > 0;
		return *end == 0;
	}
	if (*end != '-')
		return false;
	bool open = end[1] == 0;
	if (!open && (end[1] < '0' || end[1] > '9'))
		return false;
	uint64_t b = open ? UINT64_MAX : strtoull(end + 1, &end, 10);
	if ((!open && *end) || b < a)
		return false;
	*from = a;
	*to = b < length ? b + 1 : length;
	*satisfiable = a < length;
	return true;
}

static void add_extra(struct sending *s, const char *format, ...) __attribute__((format(printf, 2, 3)));

static void add_extra(struct sending *s, const char *format, ...)
{
	size_t n = strlen(s->extra);
	va_list args;
	va_start(args, format);
	vsnprintf(s->extra + n, sizeof s->extra - n, format, args);
	va_end(args);
}

/* Nothing of the file is sent. */
static bool reply_without(struct sending *s, int status, const char *type, const char *body)
{
	s->ended = true;
	exchange_reply_text(s->x, status, type, s->extra, str_from(body));
	return false;
}

static bool start_unpacking(struct sending *s)
{
	s->unpacker = unpacker_new();
	s->unpacked = malloc(UNPACKED_SIZE);
	return s->unpacker && s->unpacked && unpacker_start(s->unpacker, s->first.packing);
}

/* The part of the object that is asked for; *status becomes 206 or 416 if it is not all of it. */
static void choose_range(struct sending *s, int *status)
{
	bool satisfiable = true;
	uint64_t from = 0, to = s->head.length;
	if (wants_range(s) && read_range(exchange_param(s->x, "HTTP_RANGE"), s->head.length, &from, &to, &satisfiable))
		*status = satisfiable ? 206 : 416;
	s->skip = *status == 206 ? from : 0;
	s->left = *status == 206 ? to - from : s->head.length;
	if (*status == 206)
		add_extra(s, "Content-Range: bytes %llu-%llu/%llu\r\n", (unsigned long long)from,
		        (unsigned long long)to - 1, (unsigned long long)s->head.length);
	else if (*status == 416)
		add_extra(s, "Content-Range: bytes */%llu\r\n", (unsigned long long)s->head.length);
}

static bool must_unpack(const struct sending *s)
{
	return (s->first.packing == PACKING_ZSTD && !exchange_accepts(s->x, "zstd")) ||
	       (s->first.packing == PACKING_GZIP && s->form->unpacks_gzip && !exchange_accepts(s->x, "gzip"));
}

/* Its packing is known. False: the reply is complete. */
static bool begin_reply(struct sending *s)
{
	int status = 200;
	bool head_only = str_equal(s->x->method, str_from("HEAD"));
	bool unpacks = must_unpack(s);
	bool sized = s->head.sized && !unpacks;
	if (!unpacks && *s->head.etag)
		add_extra(s, "ETag: %s\r\n", s->head.etag);
	if (!unpacks && names_etag(exchange_param(s->x, "HTTP_IF_NONE_MATCH"), s->head.etag))
		return reply_without(s, 304, "text/plain", "");
	s->left = EXCHANGE_UNSIZED;
	if (sized)
		choose_range(s, &status);
	if (status == 416)
		return reply_without(s, 416, "application/json",
		        "{\"error\":\"the file ends before this range\",\"title\":\"Range Not "
		        "Satisfiable\",\"status\":416}");
	if (sized)
		add_extra(s, "Accept-Ranges: bytes\r\n");
	if (!unpacks && (s->first.packing == PACKING_GZIP || s->first.packing == PACKING_ZSTD))
		add_extra(s, "Content-Encoding: %s\r\n", s->first.packing == PACKING_GZIP ? "gzip" : "zstd");
	if (unpacks && !head_only && !start_unpacking(s))
		return false;
	s->begun = true;
	exchange_reply_begin_stored(s->x, status, s->form->type, s->extra, s->left);
	if (!head_only)
		return true;
	s->ended = true;
	exchange_reply_end(s->x);
	return false;
}

/* ---- the body ---- */

/* The part of these bytes that is asked for. False: nothing more is needed. */
static bool send_stored(struct sending *s, const uint8_t *data, size_t len)
{
	size_t skip = len < s->skip ? len : (size_t)s->skip;
	s->skip -= skip;
	len -= skip;
	size_t n = len < s->left ? len : (size_t)s->left;
	if (n > 0 && !exchange_reply_add(s->x, data + skip, n))
		return false;
	if (s->left != EXCHANGE_UNSIZED)
		s->left -= n;
	return s->left > 0;
}

static bool send_unpacked(struct sending *s, const uint8_t *data, size_t len)
{
	size_t got;
	do {
		if (unpacker_step(s->unpacker, &data, &len, s->unpacked, UNPACKED_SIZE, &got) ||
		        (got > 0 && !exchange_reply_add(s->x, s->unpacked, got)))
			return false;
	} while (len > 0 || got == UNPACKED_SIZE);
	return true;
}

static bool send_bytes(struct sending *s, const uint8_t *data, size_t len)
{
	return s->unpacker ? send_unpacked(s, data, len) : send_stored(s, data, len);
}

static bool on_begin(void *arg, const struct bucket_head *head)
{
	struct sending *s = arg;
	s->head = *head;
	if (!is_etag(s->head.etag))
		s->head.etag[0] = 0;
	return true;
}

static bool on_bytes(void *arg, const uint8_t *data, size_t len)
{
	struct sending *s = arg;
	if (!packing_look(&s->first, &data, &len))
		return true;
	if (!s->begun && (!begin_reply(s) || !send_bytes(s, s->first.bytes, s->first.len)))
		return false;
	return len == 0 || send_bytes(s, data, len);
}

/* What is left to do when the transfer is over. */
static void finish(struct sending *s, const struct bucket_result *result)
{
	struct error e;
	bool whole = result->outcome == BUCKET_OK;
	if (s->ended)
		return;
	/* a file of a few bytes or none */
	if (whole && !s->begun) {
		s->first.packing = PACKING_NONE;
		if (begin_reply(s))
			send_stored(s, s->first.bytes, s->first.len);
		if (s->ended)
			return;
	}
	whole = s->unpacker ? whole && unpacker_complete(s->unpacker) : whole || s->left == 0;
	if (!s->begun) {
		error_set(&e, ERR_UNAVAILABLE, "the file cannot be fetched right now: %.150s", result->text);
		exchange_reply_error(s->x, &e, 2);
	} else if (whole) {
		exchange_reply_end(s->x);
	} else {
		log_event(LOG_LEVEL_WARNING, "download broken", "%s, request %s", result->text, s->x->request_id);
		exchange_reply_cut(s->x);
	}
}

/* ---- the request ---- */

/* The URL lets anybody read the file, so nobody but the client is told. */
void stored_redirect(struct exchange *x, const char *url)
{
	char *extra = text_printf("Location: %s\r\nCache-Control: no-store\r\n", url);
	struct error e;
	if (!extra) {
		no_memory(&e);
		exchange_reply_error(x, &e, 1);
		return;
	}
	exchange_reply_text(x, 302, "text/plain", extra, str_from(""));
	free(extra);
}

bool stored_send(struct exchange *x, const struct symfile *file, const struct stored_form *form)
{
	struct sending s = {.x = x, .form = form};
	char *url = NULL;
	bool redirects = form->redirects && str_equal(x->method, str_from("GET")), found = true;
	struct symfiles_reader reader = {
	        {on_begin, on_bytes, &s}, exchange_accepts(x, "zstd"), redirects ? &url : NULL, exchange_cancel(x)};
	struct bucket_result result;
	struct error e;
	if (symfiles_get(services_symfiles(), file, &reader, &result, &e))
		exchange_reply_error(x, &e, 1);
	else if (result.outcome == BUCKET_MISSING)
		found = false;
	else if (url)
		stored_redirect(x, url);
	else
		finish(&s, &result);
	free(url);
	unpacker_free(s.unpacker);
	free(s.unpacked);
	return found;
}

/* The module's marker, which other hosts change when its file does; 0 without memcached. */
static uint64_t marker_of(const struct module_hash *hash)
{
	struct root_get get = {.hash = hash};
	struct mc_client *client = modules_memcached(services_modules());
	if (client)
		page_memcached_roots(client, &get, 1, clock_now() + SECOND);
	return get.reached ? get.marker : 0;
}

struct symfiles_since stored_since(const struct symfile *file)
{
	struct symfiles_since since = {.forgotten = symfiles_forgotten(services_symfiles())};
	since.marker = marker_of(&file->hash);
	return since;
}
