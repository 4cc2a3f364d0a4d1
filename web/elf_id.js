// SPDX-License-Identifier: Apache-2.0
// The build id of an ELF file.
import { hexOf, viewOf } from "./file_bytes.js";

const HEADERS_MAX = 1 << 22, NOTES_MAX = 1 << 16, SEGMENTS_MAX = 64; // bytes of each, and how many have notes
const PT_NOTE = 4, ET_CORE = 4, NT_GNU_BUILD_ID = 3;

// In lower-case hex. Null: it is a core, which is no program.
export async function elfId(file, head) {
	const wide = head.getUint8(4) === 2, little = head.getUint8(5) === 1;
	const word = (view, at) => wide ? Number(view.getBigUint64(at, little)) : view.getUint32(at, little);
	if (head.getUint16(16, little) === ET_CORE)
		return null;
	const table = word(head, wide ? 32 : 28), size = head.getUint16(wide ? 54 : 42, little), count = head.getUint16(wide ? 56 : 44, little);
	const headers = await viewOf(file, table, Math.min(size * count, HEADERS_MAX));
	let left = SEGMENTS_MAX;
	for (let at = 0; left && size >= (wide ? 56 : 32) && at + size <= headers.byteLength; at += size) {
		if (headers.getUint32(at, little) !== PT_NOTE)
			continue;
		left--;
		const from = word(headers, at + (wide ? 8 : 4)), length = word(headers, at + (wide ? 32 : 16));
		const id = idInNotes(await viewOf(file, from, Math.min(length, NOTES_MAX)), little);
		if (id)
			return id;
	}
	throw new Error("has no build id. Its symbols can be found by a debug id alone: symbtool file-id prints it");
}

function idInNotes(notes, little) {
	const padded = size => Math.ceil(size / 4) * 4; // not by bits: they would make a large one negative
	for (let at = 0; at + 12 <= notes.byteLength;) {
		const name = notes.getUint32(at, little), size = notes.getUint32(at + 4, little), type = notes.getUint32(at + 8, little);
		const from = at + 12 + padded(name);
		if (type === NT_GNU_BUILD_ID && name === 4 && size >= 8 && from + size <= notes.byteLength)
			return hexOf(notes, from, size);
		at = from + padded(size);
	}
	return null;
}
