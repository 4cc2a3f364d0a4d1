/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "text/known_name.h"

#include "base/hex.h"

/* Either may lack the other's parameters, version and the like. */
static bool is_same_function(struct str a, struct str b)
{
	struct str less = a.len < b.len ? a : b, more = a.len < b.len ? b : a;
	return less.len && memcmp(less.data, more.data, less.len) == 0 &&
	       (less.len == more.len || strchr("(<@. ", more.data[less.len]));
}

bool text_confirms(const struct text_frame *f, struct str name, struct str function, uint64_t behind)
{
	struct str offset = {name.data + name.len, 0};
	uint64_t told;
	if (f->base != TEXT_FILE)
		return false;
	for (; name.len && name.data[name.len - 1] != '+'; name.len--, offset.len++)
		offset.data--;
	bool is_told = name.len && offset.len > 2 && memcmp(offset.data, "0x", 2) == 0 &&
	               hex_read_number((struct str){offset.data + 2, offset.len - 2}, &told);
	/* what is looked up of a return address is the byte before it */
	return is_told && told == behind + (f->offset - f->address) &&
	       is_same_function((struct str){name.data, name.len - 1}, function);
}
