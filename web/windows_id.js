// SPDX-License-Identifier: Apache-2.0
// The debug ids of Windows programs and of their PDB files.
import { bytesOf, textOf } from "./file_bytes.js";

const SECTION = 40, SECTIONS_MAX = 96, ENTRY = 28, ENTRIES_MAX = 32, NAME_MAX = 512; // bytes, and how many
const CODEVIEW = 2, RSDS = 0x53445352;

const hex = (value, digits = 0) => value.toString(16).toUpperCase().padStart(digits, "0");

// As debug ids have it: its first three numbers are little-endian.
function guidOf(view, at) {
	let guid = hex(view.getUint32(at, true), 8) + hex(view.getUint16(at + 4, true), 4) + hex(view.getUint16(at + 6, true), 4);
	for (let i = 8; i < 16; i++)
		guid += hex(view.getUint8(at + i), 2);
	return guid;
}

// ---- programs ----

// {id, debugName}: of its PDB file; without one, its code id alone.
export async function peId(file, head) {
	const at = head.getUint32(0x3c, true), header = await bytesOf(file, at, 24);
	if (header.getUint32(0) !== 0x50450000)
		throw new Error("is a program of DOS");
	const sections = header.getUint16(6, true), size = header.getUint16(20, true);
	const optional = await bytesOf(file, at + 24, size);
	const directories = optional.getUint16(0, true) === 0x20b ? 112 : 96, debug = directories + 6 * 8; // the seventh
	if (debug + 8 <= size && optional.getUint32(directories - 4, true) > 6) {
		const table = await bytesOf(file, at + 24 + size, Math.min(sections, SECTIONS_MAX) * SECTION);
		const place = placeOf(table, optional.getUint32(debug, true));
		const found = place && await codeView(file, place, optional.getUint32(debug + 4, true));
		if (found)
			return found;
	}
	return { id: hex(header.getUint32(8, true), 8) + optional.getUint32(56, true).toString(16) };
}

// Where an address is in the file. Null: nowhere.
function placeOf(table, address) {
	for (let s = 0; s < table.byteLength; s += SECTION) {
		const start = table.getUint32(s + 12, true);
		if (address >= start && address < start + table.getUint32(s + 16, true))
			return table.getUint32(s + 20, true) + address - start;
	}
	return null;
}

async function codeView(file, place, size) {
	const entries = await bytesOf(file, place, Math.min(Math.floor(size / ENTRY), ENTRIES_MAX) * ENTRY);
	for (let e = 0; e < entries.byteLength; e += ENTRY) {
		const length = entries.getUint32(e + 16, true);
		if (entries.getUint32(e + 12, true) !== CODEVIEW || length < 25)
			continue;
		const record = await bytesOf(file, entries.getUint32(e + 24, true), Math.min(length, NAME_MAX));
		if (record.getUint32(0, true) === RSDS)
			return { id: guidOf(record, 4) + hex(record.getUint32(20, true)), debugName: textOf(record, 24).replace(/^.*[\\/]/, "") };
	}
	return null;
}

// ---- PDB files ----

const PDB = 1, DBI = 3, NONE = 0xffffffff; // streams; the size of one that is not there

// The GUID of the first stream, and the age of the third, which programs have too.
export async function pdbId(file, head) {
	const block = head.getUint32(32, true), bytes = head.getUint32(44, true), list = head.getUint32(52, true);
	if (block < 512 || block > 1 << 20)
		throw new RangeError("has blocks of an odd size");
	// A word of the directory, whose blocks the list tells.
	const word = async at => {
		if (at + 4 > bytes)
			throw new RangeError("has a short directory");
		const number = (await bytesOf(file, list * block + Math.floor(at / block) * 4, 4)).getUint32(0, true);
		return (await bytesOf(file, number * block + at % block, 4)).getUint32(0, true);
	};
	const streams = await word(0);
	const blocksOf = [];
	for (let s = 0; s < Math.min(streams, DBI + 1); s++) {
		const size = await word(4 + 4 * s);
		blocksOf.push(size === NONE ? 0 : Math.ceil(size / block));
	}
	const start = async (stream, length) => {
		if (!blocksOf[stream])
			throw new Error("has no debug data");
		const before = blocksOf.slice(0, stream).reduce((sum, count) => sum + count, 0);
		return bytesOf(file, await word(4 + 4 * (streams + before)) * block, length);
	};
	return { id: guidOf(await start(PDB, 28), 12) + hex((await start(DBI, 12)).getUint32(8, true)) };
}
