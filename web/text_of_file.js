// SPDX-License-Identifier: Apache-2.0
// The text of a file that a person gives: gzip is unpacked, and what is no text is refused with a word of what would be.

const MAX = 32 << 20; // bytes, unpacked; nginx takes no more

const KINDS = [
	["MDMP", "a minidump. minidump-stackwalk prints its stacks as text"],
	["\x7fELF", "a core. gdb prints its stacks as text"],
	["Microsoft C/C++ program database 2.00", "a PDB file of Visual C++ 6 or older, which has no id of today's form"],
	["BSJB", "a portable PDB file of .NET, which has no names of functions"],
	["MSCF", "a cabinet. expand FILE.pd_ FILE.pdb unpacks it"],
	["PK\x03\x04", "a zip archive. Unpack it first"],
	["PERFILE2", "a recording of perf. perf script prints it as text"],
	["\x28\xb5\x2f\xfd", "compressed with zstd. Unpack it first"],
	["\xfd7zXZ", "compressed with xz. Unpack it first"],
];

function startsWith(bytes, text) {
	return [...text].every((c, i) => bytes[i] === c.charCodeAt(0));
}

async function unpacked(file) {
	const chunks = [];
	let size = 0;
	try {
		for await (const chunk of file.stream().pipeThrough(new DecompressionStream("gzip"))) {
			size += chunk.length;
			if (size > MAX)
				break;
			chunks.push(chunk);
		}
	} catch {
		throw new Error("is broken gzip");
	}
	if (size > MAX)
		throw new Error(`is larger than ${MAX >> 20} MiB when unpacked`);
	return new Uint8Array(await new Blob(chunks).arrayBuffer());
}

function decoded(bytes) {
	if (bytes[0] === 0xff && bytes[1] === 0xfe)
		return new TextDecoder("utf-16le").decode(bytes);
	if (bytes[0] === 0xfe && bytes[1] === 0xff)
		return new TextDecoder("utf-16be").decode(bytes);
	for (const [magic, what] of KINDS)
		if (startsWith(bytes, magic))
			throw new Error(`is ${what}`);
	if (bytes.subarray(0, 1 << 16).includes(0))
		throw new Error("is binary. A report as text is needed");
	return new TextDecoder().decode(bytes);
}

// An error says what is wrong, to stand behind the file's name.
export async function textOfFile(file) {
	if (file.size > MAX)
		throw new Error(`is larger than ${MAX >> 20} MiB`);
	const head = new Uint8Array(await file.slice(0, 2).arrayBuffer());
	const packed = head[0] === 0x1f && head[1] === 0x8b;
	return decoded(packed ? await unpacked(file) : new Uint8Array(await file.arrayBuffer()));
}
