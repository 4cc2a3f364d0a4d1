/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "symbfile/protobuf.h"

static bool fault(struct proto *p, const char *text)
{
	p->fault = text;
	return false;
}

static bool take_bytes(struct proto *p, uint64_t len, struct proto_field *f)
{
	if (len > (uint64_t)(p->in.end - p->in.at))
		return fault(p, "a field that is longer than its message");
	f->bytes = (struct str){(const char *)p->in.at, (size_t)len};
	p->in.at += len;
	return true;
}

static bool read_tag(struct proto *p, struct proto_field *f)
{
	f->at = p->at = p->in.at;
	uint64_t tag = reader_varint(&p->in);
	if (p->in.bad || tag > UINT32_MAX)
		return fault(p, "a bad field number");
	f->number = (uint32_t)tag >> 3;
	f->wire = tag & 7;
	return f->number != 0 || fault(p, "field number 0");
}

/* Reads what follows the tag, unless it is a group. */
static inline bool read_value(struct proto *p, struct proto_field *f)
{
	switch (f->wire) {
	case PROTO_VARINT:
		f->value = reader_varint(&p->in);
		return !p->in.bad || fault(p, "a bad varint");
	case PROTO_FIXED64:
		return take_bytes(p, 8, f);
	case PROTO_FIXED32:
		return take_bytes(p, 4, f);
	case PROTO_BYTES: {
		uint64_t len = reader_varint(&p->in);
		return p->in.bad ? fault(p, "a bad length") : take_bytes(p, len, f);
	}
	case PROTO_GROUP_END:
		return fault(p, "an end of a group that was not begun");
	default:
		return fault(p, "an unknown wire type");
	}
}

/* Skips to the end of the group `number`. The numbers of open groups within it are on a stack. */
static bool skip_group(struct proto *p, uint32_t number)
{
	uint32_t open[PROTO_DEPTH_MAX];
	unsigned depth = 1;
	open[0] = number;
	while (depth > 0) {
		struct proto_field f;
		if (p->in.at == p->in.end)
			return fault(p, "a group without an end");
		if (!read_tag(p, &f))
			return false;
		if (f.wire == PROTO_GROUP && depth == PROTO_DEPTH_MAX)
			return fault(p, "too many groups inside each other");
		if (f.wire == PROTO_GROUP)
			open[depth++] = f.number;
		else if (f.wire == PROTO_GROUP_END && open[depth - 1] == f.number)
			depth--;
		else if (!read_value(p, &f))
			return false;
	}
	return true;
}

bool proto_next(struct proto *p, struct proto_field *f)
{
	if (p->fault || p->in.at == p->in.end || !read_tag(p, f))
		return false;
	return f->wire == PROTO_GROUP ? skip_group(p, f->number) : read_value(p, f);
}
