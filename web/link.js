// SPDX-License-Identifier: Apache-2.0
// A link that carries the input in its fragment, which no browser sends to a server: deflated, in base64url.

const MAX = 32 << 20; // bytes of input that a link may unfold to

async function through(stream, bytes) {
	const out = [];
	let size = 0;
	for await (const chunk of new Blob([bytes]).stream().pipeThrough(stream)) {
		size += chunk.length;
		if (size > MAX)
			throw new Error("the link's input is too large");
		out.push(chunk);
	}
	return new Uint8Array(await new Blob(out).arrayBuffer());
}

export async function fragmentOf(input, modules) {
	const bytes = await through(new CompressionStream("deflate-raw"), new TextEncoder().encode(JSON.stringify({ input, modules })));
	let text = "";
	for (let i = 0; i < bytes.length; i += 8192)
		text += String.fromCharCode(...bytes.subarray(i, i + 8192));
	return `#i=${btoa(text).replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "")}`;
}

// {input, modules}; null when the fragment carries none, and an exception when it is damaged.
export async function inputOf(fragment) {
	if (!fragment.startsWith("#i="))
		return null;
	const text = atob(fragment.slice(3).replaceAll("-", "+").replaceAll("_", "/"));
	const bytes = await through(new DecompressionStream("deflate-raw"), Uint8Array.from(text, c => c.charCodeAt(0)));
	const value = JSON.parse(new TextDecoder("utf-8", { fatal: true }).decode(bytes));
	return { input: String(value.input ?? ""), modules: String(value.modules ?? "") };
}
