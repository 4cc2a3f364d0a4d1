// SPDX-License-Identifier: Apache-2.0
// Values as short text: JSON, deflated, in base64url.

async function through(stream, bytes, max) {
	const out = [];
	let size = 0;
	for await (const chunk of new Blob([bytes]).stream().pipeThrough(stream)) {
		size += chunk.length;
		if (size > max)
			throw new Error("it unpacks to more than this page reads");
		out.push(chunk);
	}
	return new Uint8Array(await new Blob(out).arrayBuffer());
}

export async function pack(value) {
	const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify(value)), Infinity);
	let text = "";
	for (let i = 0; i < bytes.length; i += 8192)
		text += String.fromCharCode(...bytes.subarray(i, i + 8192));
	return btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
}

// max: bytes of JSON. An exception when it is damaged, or longer.
export async function unpack(text, max) {
	const bytes = Uint8Array.from(atob(text.replaceAll("-", "+").replaceAll("_", "/")), c => c.charCodeAt(0));
	const json = await through(new DecompressionStream("deflate-raw"), bytes, max);
	return JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(json));
}
