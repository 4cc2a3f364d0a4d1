/* SPDX-License-Identifier: Apache-2.0 */
/* The address that an attribute of a debug entry gives. */
#include <config.h>

#include <dwarf.h>

#include "extract/die_scan.h"

/* The entry of .debug_addr whose number is at r. */
static bool indexed(const struct die_unit *u, struct reader *r, Dwarf_Addr *address)
{
	Dwarf_Attribute a = {.code = DW_AT_low_pc,
	        .form = DW_FORM_addrx,
	        .valp = (unsigned char *)(uintptr_t)r->at,
	        .cu = u->root.cu};
	reader_varint(r);
	return !r->bad && dwarf_formaddr(&a, address) == 0;
}

static bool operand(const struct die_unit *u, struct reader *r, uint8_t operation, Dwarf_Addr *value)
{
	switch (operation) {
	case DW_OP_addrx:
		return indexed(u, r, value);
	case DW_OP_addr:
		*value = u->address_size == 4 || u->address_size == 8 ? read_fixed(r, u->address_size, u->big) : 0;
		break;
	case DW_OP_const1u:
		*value = read_fixed(r, 1, u->big);
		break;
	case DW_OP_const2u:
		*value = read_fixed(r, 2, u->big);
		break;
	case DW_OP_const4u:
		*value = read_fixed(r, 4, u->big);
		break;
	case DW_OP_const8u:
		*value = read_fixed(r, 8, u->big);
		break;
	case DW_OP_constu:
		*value = reader_varint(r);
		break;
	default:
		return false;
	}
	return !r->bad;
}

/* An address, or the sum of an address and another operand: compilers write nothing else here. */
static bool evaluate(const struct die_unit *u, struct reader *r, Dwarf_Addr *address)
{
	Dwarf_Addr more;
	uint8_t first = (uint8_t)read_fixed(r, 1, u->big);
	if (r->bad || !operand(u, r, first, address))
		return false;
	if (r->at == r->end)
		return true;
	uint8_t next = (uint8_t)read_fixed(r, 1, u->big);
	if (next == DW_OP_plus_uconst)
		more = reader_varint(r);
	else if (!operand(u, r, next, &more) || read_fixed(r, 1, u->big) != DW_OP_plus)
		return false;
	*address += more;
	return !r->bad && r->at == r->end;
}

bool die_address(const struct die_unit *u, Dwarf_Attribute *a, Dwarf_Addr *address)
{
	struct reader r = {.at = a->valp, .end = u->end};
	if (a->form == FORM_LLVM_ADDRX_OFFSET) {
		bool ok = indexed(u, &r, address);
		*address += read_fixed(&r, 4, u->big);
		return ok && !r.bad;
	}
	if (a->form != DW_FORM_exprloc)
		return dwarf_formaddr(a, address) == 0;
	uint64_t len = reader_varint(&r);
	if (r.bad || len > (uint64_t)(r.end - r.at))
		return false;
	r.end = r.at + len;
	return evaluate(u, &r, address);
}
