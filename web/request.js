// SPDX-License-Identifier: Apache-2.0
// What was typed becomes a request: JSON as it is, everything else as text with stacks. JSON of version 4 is one job of version 5, whose
// reply has places, inlined calls and reasons too.

// {kind, url, body, headers, added}, or {error, from, to} with the place of an error in the input.
export function requestOf(input, modules) {
	const text = input.trim();
	if (!text)
		return { error: "There is nothing to look up.", from: 0, to: 0 };
	if (/^\{\s*"(jobs|memoryMap|stacks|version)"/.test(text))
		return { kind: "v5", url: "v5", body: input, headers: { "Content-Type": "application/json" }, added: 0 };
	const lines = modules.split("\n").map(line => line.trim()).filter(Boolean);
	const records = [];
	for (const line of lines) {
		const parts = /^(.+)=([0-9A-Fa-f]{16,128})$/.exec(line);
		if (!parts)
			return { error: `A module is written NAME=ID, with an id of 16 to 128 hex digits: ${line}`, field: "modules", from: 0, to: 0 };
		records.push(`MODULE Linux x86_64 ${parts[2]} ${parts[1]}`);
	}
	const body = records.map(record => `${record}\n`).join("") + input;
	return { kind: "text", url: "text", body, headers: { Accept: "application/json" }, added: records.length };
}

// Where in the input the place lies that an error of the server names: "job 1: stack 0 frame 3: …", "… memoryMap entry 2 …",
// "byte 17". Null when it names none.
export function errorPlace(error, input) {
	const byte = /\bbyte (\d+)/.exec(error);
	if (byte) {
		const before = new TextEncoder().encode(input).subarray(0, Number(byte[1]));
		const at = new TextDecoder().decode(before).length;
		return [at, at + 1];
	}
	const job = /\bjob (\d+)/.exec(error), stack = /\bstack (\d+)/.exec(error), frame = /\bframe (\d+)/.exec(error);
	if (!stack)
		return null;
	const path = [...(/^\s*\{\s*"jobs"/.test(input) ? ["jobs", Number(job?.[1] ?? 0)] : []), "stacks", Number(stack[1])];
	if (frame)
		path.push(Number(frame[1]));
	return find(input, path);
}

// The first and last place of a value in JSON that JSON.parse takes.
export function find(text, path) {
	let at = 0;
	const space = () => { while (" \t\r\n".includes(text[at]) && at < text.length) at++; };
	const string = () => {
		const from = at++;
		while (text[at] !== '"')
			at += text[at] === "\\" ? 2 : 1;
		return JSON.parse(text.slice(from, ++at));
	};
	let result = null;
	// Without recursion: nesting is the sender's. Each open list or object has its key and how much of path it matches.
	const open = [];
	const begin = depth => {
		if (depth === path.length && !result)
			result = [at, -1];
		return result !== null && result[1] === -1 && depth === path.length;
	};
	let matched = 0, marked = begin(0);
	while (at < text.length) {
		space();
		const c = text[at];
		if (c === "{" || c === "[") {
			open.push({ list: c === "[", index: 0, matched, marked });
			at++;
			space();
			if ("}]".includes(text[at])) {
				matched = -1;
				marked = false;
			} else {
				[matched, marked] = next(open.at(-1));
			}
			continue;
		}
		if (c === "}" || c === "]") {
			at++;
			({ marked } = open.pop());
		} else if (c === '"') {
			string();
		} else {
			while (at < text.length && !",]} \t\r\n".includes(text[at]))
				at++;
		}
		if (marked) {
			result[1] = at;
			return result;
		}
		space();
		if (text[at] === ",") {
			at++;
			space();
			open.at(-1).index++;
			[matched, marked] = next(open.at(-1));
		} else if (open.length === 0) {
			return null;
		}
	}
	return null;

	function next(one) {
		let key = one.index;
		if (!one.list) {
			key = string();
			space();
			at++; // the colon
			space();
		}
		const depth = one.matched >= 0 && path[one.matched] === key ? one.matched + 1 : -1;
		return [depth, begin(depth)];
	}
}
