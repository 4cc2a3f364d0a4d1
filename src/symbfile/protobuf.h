/* SPDX-License-Identifier: Apache-2.0 */
/* Protobuf's wire format: reads the fields of a message one after the other, and writes fields. */
#ifndef SYMBFILE_PROTOBUF_H
#define SYMBFILE_PROTOBUF_H

#include "base/str.h"
#include "base/varint.h"

enum proto_wire { PROTO_VARINT, PROTO_FIXED64, PROTO_BYTES, PROTO_GROUP, PROTO_GROUP_END, PROTO_FIXED32 };

enum { PROTO_DEPTH_MAX = 100 }; /* nesting of groups; only unknown fields are groups */

struct proto_field {
	uint32_t number; /* from 1 */
	enum proto_wire wire;
	uint64_t value;    /* of a varint */
	struct str bytes;  /* for PROTO_BYTES; points into the message */
	const uint8_t *at; /* its first byte */
};

/* A position in a message. */
struct proto {
	struct reader in;
	const char *fault; /* after proto_next has returned false: what is wrong with the field at `at`; NULL: the
	                      message ended */
	const uint8_t *at;
};

static inline struct proto proto_start(struct str message)
{
	const uint8_t *p = (const uint8_t *)(message.len ? message.data : "");
	return (struct proto){.in = {p, p + message.len, false}, .at = p};
}

/* Reads the next field. Groups are skipped; their contents must be well-formed. */
bool proto_next(struct proto *p, struct proto_field *f);

/* Writes a field of type varint. */
static inline uint8_t *proto_put_varint(uint8_t *out, uint32_t number, uint64_t value)
{
	return varint_put(varint_put(out, (uint64_t)number << 3 | PROTO_VARINT), value);
}

#endif
