/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: what comes as text from clients and buckets: names and ids of modules, FileIDs, Authorization headers,
 * JSON strings, XML of S3, and gzip. The first byte chooses. */
#include <config.h>

#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include "base/buffer.h"
#include "base/gzip.h"
#include "base/utf8.h"
#include "fuzz.h"
#include "keys/auth.h"
#include "objects/bucket.h"
#include "objects/bucket_backend.h"
#include "objects/s3.h"
#include "symbfile/file_id.h"

enum { NAMES, FILE_ID, AUTHORIZATION, ESCAPES, XML, GUNZIP, OBJECT, KINDS, TEXT_MAX = 1 << 20 };

/* The name before the first LF, the id behind it. */
static void read_names(const uint8_t *data, size_t size)
{
	static char path[BUCKET_PATH_MAX];
	const uint8_t *end = memchr(data, '\n', size);
	size_t n = end ? (size_t)(end - data) : size;
	struct str name = {(const char *)data, n}, id = {(const char *)data + n, size - n};
	if (id.len)
		id = (struct str){id.data + 1, id.len - 1};
	if (!bucket_can_hold(name, id))
		return;
	size_t len = bucket_object_path(path, name, id);
	unsigned slashes = 0;
	fuzz_check(len < sizeof path && len > name.len + id.len, "a path of another length");
	for (size_t i = 0; i < len; i++) {
		slashes += path[i] == '/';
		fuzz_check(
		        (unsigned char)path[i] > ' ' && (unsigned char)path[i] < 0x7f && !strchr("\\?#&=\"<>", path[i]),
		        "a byte that is not encoded");
	}
	fuzz_check(slashes == 2 && path[0] != '/', "another number of segments");
	fuzz_check(strncmp(path, "../", 3) != 0 && strncmp(path, "./", 2) != 0, "a segment that leads upwards");
}

/* What is read, written and read again is the same. */
static void read_file_id(const uint8_t *data, size_t size)
{
	struct file_id id, again;
	char hex[FILE_ID_HEX + 1], letters[FILE_ID_BASE64 + 1];
	if (!file_id_parse(&id, (struct str){(const char *)data, size}))
		return;
	file_id_hex(hex, &id);
	fuzz_check(file_id_parse(&again, str_from(hex)) && memcmp(&id, &again, sizeof id) == 0, "another id from hex");
	file_id_base64(letters, &id);
	fuzz_check(file_id_parse(&again, str_from(letters)) && memcmp(&id, &again, sizeof id) == 0,
	        "another id from base64");
}

/* The key of "fuzz" is known to nobody: nobody is let in. */
static void read_authorization(const uint8_t *data, size_t size)
{
	static const char keys[] = "fuzz:upload:00000000000000000000000000000000:"
	                           "0bea27cd2baa3e7aa21d7c1cbf9eb0d9f1c9ce9f7e4eb4d5bc9fd8cb2ca5b3e2\n";
	static bool loaded;
	struct error e = {0};
	char id[64], path[64], *header = malloc(size + 1);
	fuzz_check(header, "no memory");
	if (!loaded) {
		int fd = memfd_create("keys", MFD_CLOEXEC);
		fuzz_check(fd >= 0 && fchmod(fd, 0600) == 0 && write(fd, keys, sizeof keys - 1) == sizeof keys - 1,
		        "no file");
		snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
		fuzz_check(auth_load(path, &e) == ERR_OK, e.text);
		close(fd);
		loaded = true;
	}
	memcpy(header, data, size);
	header[size] = 0;
	enum err err = auth_check(header, RIGHT_UPLOAD, id, &e);
	fuzz_check(err == ERR_UNAUTHORIZED || err == ERR_FORBIDDEN, "let in, or another error");
	fuzz_check(*e.text && strlen(e.text) < sizeof e.text, "no text");
	fuzz_check(auth_check(header, RIGHT_INVALIDATE, id, &e) == err, "another error for another right");
	free(header);
}

static void check_escapes(const uint8_t *data, size_t size)
{
	size_t len = json_escaped_length(data, size);
	uint8_t *out = malloc(len + 1);
	fuzz_check(out, "no memory");
	fuzz_check(len <= 6 * size && json_escape(out, data, size) == len, "another length than was announced");
	for (size_t i = 0, n; i < len; i += n) {
		n = utf8_sequence(out + i, len - i);
		fuzz_check(n && out[i] >= 0x20, "not escaped");
	}
	free(out);
}

static void see_element(void *arg, unsigned depth, const char *name, struct str text)
{
	uint64_t *sum = arg;
	*sum += depth + strlen(name);
	for (size_t i = 0; i < text.len; i++)
		*sum += (unsigned char)text.data[i];
}

static void read_xml(const uint8_t *data, size_t size)
{
	uint64_t sum = 0, again = 0;
	char code[S3_CODE_SIZE];
	bool good = s3_xml_read(data, size, see_element, &sum);
	fuzz_check(
	        s3_xml_read(data, size, see_element, &again) == good && sum == again, "another text the second time");
	s3_error_code(code, data, size);
	for (const char *c = code; *c; c++)
		fuzz_check((*c >= '0' && *c <= '9') || (*c >= 'A' && *c <= 'Z') || (*c >= 'a' && *c <= 'z'),
		        "another letter");
}

/* Inflates in pieces of the given size; false: refused. The output stops at TEXT_MAX. */
static bool inflate_pieces(const uint8_t *data, size_t size, size_t piece, struct buffer *text)
{
	uint8_t out[512];
	struct gunzip *g = gunzip_new();
	enum err err = ERR_OK;
	fuzz_check(g, "no memory");
	for (size_t at = 0; at < size && !err && text->len < TEXT_MAX; at += piece) {
		size_t left = size - at < piece ? size - at : piece, n;
		uint8_t *exact = fuzz_copy(data + at, left);
		const uint8_t *in = exact;
		do {
			err = gunzip_step(g, &in, &left, out, sizeof out, &n);
			fuzz_check(n <= sizeof out && buffer_append(text, out, n), "more than there is room for");
		} while (!err && (left || n == sizeof out) && text->len < TEXT_MAX);
		free(exact);
	}
	bool whole = !err && gunzip_complete(g);
	gunzip_free(g);
	return whole;
}

/* By zlib, whole members only. */
static bool inflate_zlib(const uint8_t *data, size_t size, struct buffer *text)
{
	uint8_t out[4096];
	bool good = true, ended = false;
	z_stream z = {.next_in = (uint8_t *)data, .avail_in = (unsigned)size};
	fuzz_check(inflateInit2(&z, 15 + 16) == Z_OK, "no memory");
	while (good && text->len < TEXT_MAX) {
		z.next_out = out;
		z.avail_out = sizeof out;
		int result = inflate(&z, Z_NO_FLUSH);
		fuzz_check(buffer_append(text, out, sizeof out - z.avail_out), "no memory");
		ended = result == Z_STREAM_END;
		good = result == Z_OK || ended;
		if (ended && !z.avail_in)
			break;
		if (ended)
			good = inflateReset(&z) == Z_OK;
	}
	inflateEnd(&z);
	return good && ended;
}

static void read_gzip(const uint8_t *data, size_t size)
{
	struct buffer whole, pieces, zlib;
	buffer_init(&whole, 2 * TEXT_MAX);
	buffer_init(&pieces, 2 * TEXT_MAX);
	buffer_init(&zlib, 2 * TEXT_MAX);
	bool good = inflate_pieces(data, size, SIZE_MAX / 2, &whole);
	fuzz_check(inflate_pieces(data, size, 3, &pieces) == good, "in pieces gzip or not");
	bool good_zlib = inflate_zlib(data, size, &zlib);
	if (whole.len < TEXT_MAX && zlib.len < TEXT_MAX && good && good_zlib)
		fuzz_check(whole.len == pieces.len && whole.len == zlib.len &&
		                   (!whole.len || (memcmp(whole.data, zlib.data, whole.len) == 0 &&
		                                          memcmp(whole.data, pieces.data, whole.len) == 0)),
		        "another text");
	buffer_release(&whole);
	buffer_release(&pieces);
	buffer_release(&zlib);
}

struct taken {
	uint8_t bytes[100];
	uint64_t sum, count;
};

static uint8_t *take_space(void *arg, size_t *room)
{
	struct taken *t = arg;
	*room = sizeof t->bytes;
	return t->bytes;
}

static bool take_commit(void *arg, size_t n)
{
	struct taken *t = arg;
	fuzz_check(n <= sizeof t->bytes, "more than there is room for");
	for (size_t i = 0; i < n; i++)
		t->sum = t->sum * 31 + t->bytes[i];
	t->count += n;
	return true;
}

static enum bucket_outcome read_body(const uint8_t *data, size_t size, size_t piece, struct taken *t)
{
	struct bucket_sink sink = {.space = take_space, .commit = take_commit, .arg = t};
	enum bucket_outcome outcome = BUCKET_OK;
	struct bucket_body b = {0};
	bucket_body_start(&b, &sink, TEXT_MAX);
	for (size_t at = 0; at < size && !outcome; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		uint8_t *exact = fuzz_copy(data + at, n);
		outcome = bucket_body_add(&b, exact, n);
		free(exact);
	}
	if (!outcome)
		outcome = bucket_body_end(&b);
	fuzz_check(t->count <= TEXT_MAX, "more text than is allowed");
	fuzz_check(!outcome || *b.problem, "a failure without a reason");
	bucket_body_release(&b);
	return outcome;
}

/* An object of a bucket: plain, gzip or gzip in gzip. */
static void read_object(const uint8_t *data, size_t size)
{
	struct taken whole = {.count = 0}, pieces = {.count = 0};
	enum bucket_outcome outcome = read_body(data, size, SIZE_MAX / 2, &whole);
	/* of one that is damaged and too large either may be seen first */
	fuzz_check(!read_body(data, size, 5, &pieces) == !outcome, "another outcome in pieces");
	fuzz_check(outcome || (whole.count == pieces.count && whole.sum == pieces.sum), "another text in pieces");
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static void (*const readers[KINDS])(const uint8_t *, size_t) = {
	        [NAMES] = read_names,
	        [FILE_ID] = read_file_id,
	        [AUTHORIZATION] = read_authorization,
	        [ESCAPES] = check_escapes,
	        [XML] = read_xml,
	        [GUNZIP] = read_gzip,
	        [OBJECT] = read_object,
	};
	if (!size)
		return 0;
	uint8_t *exact = fuzz_copy(data + 1, size - 1);
	readers[data[0] % KINDS](exact, size - 1);
	free(exact);
	return 0;
}
