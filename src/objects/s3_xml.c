/* SPDX-License-Identifier: Apache-2.0 */
/* The few elements of S3's XML that are needed, read by expat piece by piece. */
#include <config.h>

#include "objects/s3.h"

#include <limits.h>
#include <string.h>

#include <expat.h>

#include "base/buffer.h"

/* The text of one element; S3 keys have at most 1,024 bytes, continuation tokens a few hundred. */
enum { TEXT_MAX = 16384, DEPTH_MAX = 64 };

struct xml_reader {
	XML_Parser parser;
	void (*element)(void *arg, unsigned depth, const char *name, struct str text);
	void *arg;
	unsigned depth;
	bool stopped;
	struct buffer text; /* since the last tag */
};

/* Expat may still tell the end of the element that is open. */
static void stop(struct xml_reader *r)
{
	r->stopped = true;
	XML_StopParser(r->parser, XML_FALSE);
}

static void on_start(void *data, const char *name, const char **attributes)
{
	struct xml_reader *r = data;
	(void)name;
	(void)attributes;
	buffer_reset(&r->text);
	if (++r->depth > DEPTH_MAX)
		stop(r);
}

static void on_end(void *data, const char *name)
{
	struct xml_reader *r = data;
	struct str text = {r->text.len ? (const char *)r->text.data : "", r->text.len};
	if (r->stopped)
		return;
	r->element(r->arg, r->depth--, name, text);
	buffer_reset(&r->text);
}

static void on_text(void *data, const char *text, int len)
{
	struct xml_reader *r = data;
	if (!buffer_append(&r->text, text, (size_t)len))
		stop(r);
}

/* S3 sends no document types, and hostile XML is made of entities. */
static void on_doctype(void *data, const char *name, const char *system, const char *public_id, int internal)
{
	struct xml_reader *r = data;
	(void)name;
	(void)system;
	(void)public_id;
	(void)internal;
	stop(r);
}

bool s3_xml_read(const void *data, size_t len,
        void (*element)(void *arg, unsigned depth, const char *name, struct str text), void *arg)
{
	struct xml_reader r = {.parser = XML_ParserCreate("UTF-8"), .element = element, .arg = arg};
	const char *text = data;
	if (!r.parser)
		return false;
	/* some servers keep the connection busy with blanks until they know the answer */
	for (; len && memchr(" \t\r\n", *text, 4); len--)
		text++;
	buffer_init(&r.text, TEXT_MAX);
	XML_SetUserData(r.parser, &r);
	XML_SetElementHandler(r.parser, on_start, on_end);
	XML_SetCharacterDataHandler(r.parser, on_text);
	XML_SetStartDoctypeDeclHandler(r.parser, on_doctype);
	bool whole = len <= INT_MAX && XML_Parse(r.parser, text, (int)len, XML_TRUE) == XML_STATUS_OK;
	XML_ParserFree(r.parser);
	buffer_release(&r.text);
	return whole;
}

static void take_code(void *arg, unsigned depth, const char *name, struct str text)
{
	char *out = arg;
	if (depth != 2 || strcmp(name, "Code") != 0 || text.len >= S3_CODE_SIZE || !str_is_word(text, ""))
		return;
	memcpy(out, text.data, text.len);
	out[text.len] = 0;
}

void s3_error_code(char out[S3_CODE_SIZE], const void *data, size_t len)
{
	out[0] = 0;
	/* The body may be cut off after its code. */
	s3_xml_read(data, len, take_code, out);
}
