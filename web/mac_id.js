// SPDX-License-Identifier: Apache-2.0
// The debug ids of Mach-O files: UUIDs, with the age 0.
import { bytesOf, hexOf, viewOf } from "./file_bytes.js";

const COMMANDS_MAX = 1 << 20, SLICES_MAX = 16; // bytes, and how many; a Java class, which begins like a universal file, says more
const LC_UUID = 0x1b;
const MAGIC = { 0xcefaedfe: 28, 0xcffaedfe: 32 }; // little-endian, with the bytes of their headers
const ARCHITECTURES = { 7: "i386", 12: "arm", 0x1000007: "x86_64", 0x100000c: "arm64", 0x200000c: "arm64_32" };

// Null: the slice at this place has none.
async function uuidAt(file, from, head) {
	const size = head.byteLength >= 28 && MAGIC[head.getUint32(0)];
	if (!size)
		return null;
	const commands = await viewOf(file, from + size, Math.min(head.getUint32(20, true), COMMANDS_MAX));
	for (let at = 0; at + 8 <= commands.byteLength;) {
		const length = commands.getUint32(at + 4, true);
		if (length < 8)
			break;
		if (commands.getUint32(at, true) === LC_UUID && at + 24 <= commands.byteLength)
			return `${hexOf(commands, at + 8, 16).toUpperCase()}0`;
		at += length;
	}
	return null;
}

export async function machoId(file, head) {
	const id = await uuidAt(file, 0, head);
	if (!id)
		throw new Error("is a program of macOS without a UUID");
	return { id };
}

// Of a universal file with several slices nothing tells which of them ran. Null: it is none.
export async function universalId(file, head) {
	const wide = head.getUint8(3) === 0xbf, count = head.getUint32(4), entry = wide ? 32 : 20, found = [];
	if (count > SLICES_MAX)
		return null;
	const table = await bytesOf(file, 8, count * entry);
	for (let at = 0; at < table.byteLength; at += entry) {
		const from = wide ? Number(table.getBigUint64(at + 8)) : table.getUint32(at + 8);
		const id = await uuidAt(file, from, await viewOf(file, from, 32));
		if (id)
			found.push({ id, name: ARCHITECTURES[table.getUint32(at)] ?? "another processor" });
	}
	if (found.length === 1)
		return found[0];
	if (!found.length)
		throw new Error("is a universal file without UUIDs");
	throw new Error(`has several ids, of which the one that ran is to be typed: ${found.map(({ name, id }) => `${id} (${name})`).join(", ")}`);
}
