// SPDX-License-Identifier: Apache-2.0
// Bytes of a file that a person gives: those that are needed are read, and no others.

// Fewer, where the file ends.
export async function viewOf(file, from, length) {
	return new DataView(await file.slice(from, from + length).arrayBuffer());
}

// Bytes that must be there.
export async function bytesOf(file, from, length) {
	const view = await viewOf(file, from, length);
	if (view.byteLength < length)
		throw new RangeError("ends early");
	return view;
}

// In lower case.
export function hexOf(view, from, length) {
	let hex = "";
	for (let at = from; at < from + length; at++)
		hex += view.getUint8(at).toString(16).padStart(2, "0");
	return hex;
}

// To the first zero, or the end.
export function textOf(view, from) {
	const bytes = new Uint8Array(view.buffer, view.byteOffset + from, view.byteLength - from), end = bytes.indexOf(0);
	return new TextDecoder().decode(end < 0 ? bytes : bytes.subarray(0, end));
}
