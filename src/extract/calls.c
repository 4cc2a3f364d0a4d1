/* SPDX-License-Identifier: Apache-2.0 */
#include <config.h>

#include "extract/calls.h"

#include <Zydis/Zydis.h>
#include <elf.h>

#include "base/varint.h"

bool calls_known(uint16_t machine)
{
	return machine == EM_X86_64 || machine == EM_AARCH64;
}

static bool x86_is_call(const ZydisDecodedInstruction *i)
{
	return i->mnemonic == ZYDIS_MNEMONIC_CALL || i->mnemonic == ZYDIS_MNEMONIC_SYSCALL ||
	       i->mnemonic == ZYDIS_MNEMONIC_INT;
}

/* A byte that starts no instruction is skipped. */
static bool x86_next(struct call_cursor *c, size_t *start, size_t *next)
{
	ZydisDecoder decoder;
	ZydisDecoderInit(&decoder, ZYDIS_MACHINE_MODE_LONG_64, ZYDIS_STACK_WIDTH_64);
	ZydisDecoderEnableMode(&decoder, ZYDIS_DECODER_MODE_MINIMAL, ZYAN_TRUE);
	while (c->at < c->len) {
		ZydisDecodedInstruction i;
		size_t at = c->at;
		bool ok = ZYAN_SUCCESS(ZydisDecoderDecodeInstruction(&decoder, NULL, c->bytes + at, c->len - at, &i));
		c->at += ok && i.length > 0 ? i.length : 1;
		if (ok && x86_is_call(&i)) {
			*start = at;
			*next = c->at;
			return true;
		}
	}
	return false;
}

/* BL; BLR; BLRAAZ and BLRABZ; BLRAA and BLRAB; SVC. */
static bool arm_is_call(uint32_t word)
{
	return (word & 0xfc000000) == 0x94000000 || (word & 0xfffffc1f) == 0xd63f0000 ||
	       (word & 0xfffff81f) == 0xd63f081f || (word & 0xfffff800) == 0xd73f0800 ||
	       (word & 0xffe0001f) == 0xd4000001;
}

/* Instructions are little-endian even where data are not. */
static bool arm_next(struct call_cursor *c, size_t *start, size_t *next)
{
	while (c->len - c->at >= 4) {
		uint32_t word = get_u32(c->bytes + c->at);
		c->at += 4;
		if (arm_is_call(word)) {
			*start = c->at - 4;
			*next = c->at;
			return true;
		}
	}
	return false;
}

bool call_next(struct call_cursor *c, size_t *start, size_t *next)
{
	return c->machine == EM_X86_64 ? x86_next(c, start, next)
	                               : c->machine == EM_AARCH64 && arm_next(c, start, next);
}
