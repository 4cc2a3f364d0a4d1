// SPDX-License-Identifier: Apache-2.0
// Where in what was typed an error of the server lies.

// Where in the input the place lies that an error of the server has. Null where it has none.
export function errorPlace({ byte, job, stack, frame, module } = {}, input) {
	if (byte !== undefined) {
		const before = new TextEncoder().encode(input).subarray(0, byte);
		const at = new TextDecoder().decode(before).length;
		return [at, at + 1];
	}
	const path = module !== undefined ? ["memoryMap", module] : stack !== undefined ? ["stacks", stack, ...(frame !== undefined ? [frame] : [])] : null;
	return path && (find(input, path) ?? find(input, ["jobs", job ?? 0, ...path]));
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
