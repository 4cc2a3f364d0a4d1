// SPDX-License-Identifier: Apache-2.0
// A folder that is dropped: of a bundle with debug data of macOS (app.dSYM), the file in it.

const called = (object, method, ...given) => new Promise((done, failed) => object[method](...given, done, failed));

// folder: a FileSystemDirectoryEntry. An error says what is wrong, to stand behind its name.
export async function fileOfBundle(folder) {
	const inside = await called(folder, "getDirectory", "Contents/Resources/DWARF", {}).catch(() => null);
	const files = inside ? (await called(inside.createReader(), "readEntries")).filter(entry => entry.isFile) : [];
	if (files.length !== 1)
		throw new Error(inside ? `has ${files.length} files with debug data. Drop one of them` : "is a folder, and no bundle with debug data. Drop a file");
	return called(files[0], "file");
}
