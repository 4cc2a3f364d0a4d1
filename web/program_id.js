// SPDX-License-Identifier: Apache-2.0
// The id of a program, or of a file with its debug data, which is read here and goes nowhere.
import { elfId } from "./elf_id.js";
import { textOf, viewOf } from "./file_bytes.js";
import { machoId, universalId } from "./mac_id.js";
import { pdbId, peId } from "./windows_id.js";

const HEAD = 4096; // bytes

// {id, debugName}; debugName: of the file with the debug data, if that is told. Null: it is no such file. An error says what is wrong, to
// stand behind the file's name.
export async function programId(file) {
	const head = await viewOf(file, 0, HEAD);
	try {
		return head.byteLength < 64 ? null : await idBy(file, head);
	} catch (problem) {
		throw problem instanceof RangeError ? new Error("is damaged: its id is not where it should be") : problem;
	}
}

async function idBy(file, head) {
	switch (head.getUint32(0)) {
	case 0x7f454c46: {
		const id = await elfId(file, head);
		return id && { id };
	}
	case 0xcefaedfe: case 0xcffaedfe:
		return machoId(file, head);
	case 0xcafebabe: case 0xcafebabf:
		return universalId(file, head);
	}
	if (head.getUint16(0) === 0x4d5a)
		return peId(file, head);
	return textOf(head, 0).startsWith("Microsoft C/C++ MSF 7.00\r\n\x1aDS") ? pdbId(file, head) : null;
}
