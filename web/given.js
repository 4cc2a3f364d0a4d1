// SPDX-License-Identifier: Apache-2.0
// Frames that the text names itself, taken apart: {name, args, file, line, where}, so that they stand in the same columns as others.

const PLACE = /^(.+?):(\d+)(?::\d+)?$/;

function placeOf(text) {
	const found = PLACE.exec(text);
	return found ? { file: found[1], line: Number(found[2]) } : { file: text, line: null };
}

function baseOf(path) {
	return path.slice(path.lastIndexOf("/") + 1);
}

// Where the parenthesis begins that ends the text; -1: nowhere.
function opening(text) {
	let depth = 0;
	for (let i = text.length - 1; i >= 0; i--) {
		depth += text[i] === ")" ? 1 : text[i] === "(" ? -1 : 0;
		if (!depth)
			return i;
	}
	return -1;
}

// "0x… in f (n=1) at a.c:3", "f () from /lib/libx.so"
function ofGdb(text) {
	const found = /^(?:0x[0-9a-f]+ in )?(\S.*\))(?: at (\S.*:\d+)| from (\/\S.*))?$/.exec(text);
	const at = found ? opening(found[1]) : -1;
	if (at < 2 || found[1][at - 1] !== " ")
		return null;
	return { name: found[1].slice(0, at - 1), args: found[1].slice(at), ...found[2] && placeOf(found[2]), where: found[3] && baseOf(found[3]) };
}

const FORMS = [
	// sanitizers: "0x… in f(int) /src/a.c:3:5", "0x… in f (/lib/libx.so+0x12) (BuildId: …)"
	[/^(?:0x[0-9a-f]+ in )?(\S.*?) \(([^()\s]+\+0x[0-9a-f]+)\)(?: \(BuildId: \w+\))?$/, (name, where) => ({ name, where: baseOf(where) })],
	[/^(?:0x[0-9a-f]+ in )?(\S.*) (\/[^\s:]+(?::\d+){1,2})$/, (name, place) => ({ name, ...placeOf(place) })],
	[/^0x[0-9a-f]+ in ((?:(?! at ).)+) ([^\s:()]+(?::\d+){1,2})$/, (name, place) => ({ name, ...placeOf(place) })], // a path that is relative
	// valgrind: "0x4853104: f (a.c:3)", "0x4853104: f (in /lib/libx.so)"
	[/^0x[0-9A-F]+: (\S.*) \(in (\/\S.*)\)$/, (name, path) => ({ name, where: baseOf(path) })],
	[/^0x[0-9A-F]+: (\S.*) \(([^()]+:\d+)\)$/, (name, place) => ({ name, ...placeOf(place) })],
	// WinDbg: "app!ns::f+0x12 [C:\\src\\a.cpp @ 8]", "app!f+0x12 (FPO: [Non-Fpo])"
	[/^([\w.]+)!(.*?)(\+0x[0-9a-f]+)?(?: \(.*\))?(?: \[(.*) @ (\d+)\])?$/, (module, name, offset, file, line) => ({ name, where: module, ...file && { file, line: Number(line) } })],
	// Node.js: "0xf50bdf f(int) [node]"
	[/^0x[0-9a-f]+ (\S.*) \[(.*)\]$/, (name, path) => ({ name, where: baseOf(path) })],
	// MariaDB, after addr2line: "a.c:3(f)[0x…]", and glibc: "/lib/libx.so(f+0x12)[0x…]"
	[/^(\S+:\d+)\(([^()\s]+)\) ?\[0x[0-9a-f]+\]$/, (place, name) => ({ name, ...placeOf(place) })],
	[/^(\S+)\(([^()\s]+\+0x[0-9a-f]+)\) ?\[0x[0-9a-f]+\]$/, (path, name) => ({ name, where: baseOf(path) })],
	// glog, absl: "0x7fe2defc7130 crash", "0x7fe2defc7130   32  crash"
	[/^0x[0-9a-f]+\s+(?:\d+\s+)?((?!in |- |\d)(?:(?! - ).)+)$/, name => ({ name })],
];

export function givenParts(text) {
	for (const [pattern, make] of FORMS) {
		const found = pattern.exec(text);
		if (found)
			return make(...found.slice(1));
	}
	return ofGdb(text) ?? { name: text };
}
