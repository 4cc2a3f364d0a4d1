// SPDX-License-Identifier: Apache-2.0
// A link that carries the input in its fragment, which no browser sends to a server.
import { pack, unpack } from "./pack.js";

const MAX = 64 << 20; // bytes that a link may unfold to

export async function fragmentOf(input, modules) {
	return `#i=${await pack({ input, modules })}`;
}

// {input, modules}; null when the fragment carries none, and an exception when it is damaged.
export async function inputOf(fragment) {
	if (!fragment.startsWith("#i="))
		return null;
	const value = await unpack(fragment.slice(3), MAX);
	return { input: String(value.input ?? ""), modules: String(value.modules ?? "") };
}
