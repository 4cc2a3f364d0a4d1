/* SPDX-License-Identifier: Apache-2.0 */
/* libFuzzer: a body of multipart/form-data. However it is cut into pieces, the same parts and bytes come of it, or the
 * same error. The first byte says how long the pieces are; a line with the Content-Type follows. */
#include <config.h>

#include "api/multipart.h"
#include "base/hash.h"
#include "fuzz.h"

/* What the visitor saw: the parts and their bytes, whatever pieces they came in. */
struct seen {
	struct text_hash *hash;
	uint64_t parts, bytes;
};

static void add_text(struct seen *s, struct str text)
{
	uint8_t *copy = fuzz_copy(text.data, text.len);
	text_hash_add(s->hash, (const uint8_t *)&text.len, sizeof text.len);
	text_hash_add(s->hash, copy, text.len);
	free(copy);
}

static enum err begin(void *arg, struct str name, struct str filename, struct error *e)
{
	struct seen *s = arg;
	const uint8_t is_file = filename.data != NULL;
	(void)e;
	s->parts++;
	add_text(s, name);
	text_hash_add(s->hash, &is_file, 1);
	if (is_file)
		add_text(s, filename);
	return ERR_OK;
}

static enum err add(void *arg, const uint8_t *data, size_t len, struct error *e)
{
	struct seen *s = arg;
	(void)e;
	fuzz_check(s->parts > 0, "bytes before the first part");
	s->bytes += len;
	text_hash_add(s->hash, data, len);
	return ERR_OK;
}

static enum err read_in_pieces(
        const char *type, const uint8_t *data, size_t size, size_t piece, struct seen *s, struct error *e)
{
	const struct multipart_visitor visitor = {begin, add, s};
	*s = (struct seen){.hash = text_hash_new()};
	struct multipart *m = multipart_new(type, &visitor, e);
	enum err err = m ? ERR_OK : e->code;
	for (size_t at = 0; at < size && !err; at += piece) {
		size_t n = size - at < piece ? size - at : piece;
		uint8_t *copy = fuzz_copy(data + at, n);
		err = multipart_add(m, copy, n, e);
		free(copy);
	}
	if (!err)
		err = multipart_end(m, e);
	multipart_free(m);
	fuzz_check(!err || (err == e->code && *e->text), "an error without a text");
	fuzz_check(s->bytes <= size, "more bytes than came");
	return err;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	enum { TYPE_SIZE = 256 };
	char type[TYPE_SIZE] = "";
	const uint8_t *line = size > 1 ? memchr(data + 1, '\n', size - 1) : NULL;
	if (!line || line - data - 1 >= TYPE_SIZE)
		return 0;
	memcpy(type, data + 1, (size_t)(line - data - 1));
	struct seen whole, cut;
	struct error e, e_cut;
	const uint8_t *body = line + 1;
	size_t len = size - (size_t)(body - data);
	enum err err = read_in_pieces(type, body, len, len + 1, &whole, &e);
	enum err err_cut = read_in_pieces(type, body, len, data[0] % 64 + 1U, &cut, &e_cut);
	fuzz_check(err == err_cut, "pieces change the result");
	if (!err)
		fuzz_check(whole.parts == cut.parts && whole.bytes == cut.bytes &&
		                   text_hash_value(whole.hash) == text_hash_value(cut.hash),
		        "pieces change what was read");
	text_hash_free(whole.hash);
	text_hash_free(cut.hash);
	return 0;
}
