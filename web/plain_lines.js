// SPDX-License-Identifier: Apache-2.0
// The lines of a text without what a log has around them, as the reply tells it, and without entities of HTML.

function unquoted(string) {
	try {
		return JSON.parse(`"${string}"`).replace(/[\r\n]+$/, "");
	} catch {
		return string;
	}
}

const ENTITIES = { "&lt;": "<", "&gt;": ">", "&amp;": "&", "&quot;": '"', "&#34;": '"', "&#39;": "'", "&#x27;": "'", "&apos;": "'", "&nbsp;": " " };
const ENTITY = new RegExp(Object.keys(ENTITIES).join("|"), "g");

// around: [[line, before, after]…], each from its line on; with bytes after it a line is a string of JSON.
export function plainLines(text, around = []) {
	const encoder = new TextEncoder(), decoder = new TextDecoder("utf-8", { ignoreBOM: true });
	const lines = text.split("\n");
	around.forEach(([from, before, after], i) => {
		const to = around[i + 1]?.[0] ?? lines.length + 1;
		for (let at = from - 1; (before || after) && at < to - 1; at++) {
			const bytes = encoder.encode(lines[at]);
			const line = decoder.decode(bytes.subarray(before, bytes.length - after));
			lines[at] = after ? unquoted(line) : line;
		}
	});
	return lines.map(line => line.includes("&") ? line.replace(ENTITY, entity => ENTITIES[entity]) : line);
}
