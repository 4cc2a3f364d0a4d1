// SPDX-License-Identifier: Apache-2.0
// Replies of the server as rows to be shown, and as text to be copied. No access to the page: a worker runs this.

const LONGEST = 4000; // characters of a row that are shown

// What would change how its neighbours are read is shown as its code point: control characters and marks of direction.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

export function visible(text) {
	const shown = text.replace(HIDDEN, c => `\\u{${c.codePointAt(0).toString(16)}}`);
	return shown.length > LONGEST ? `${shown.slice(0, LONGEST)}…` : shown;
}

const REASONS = {
	"no module": "an address alone, in no module",
	"no id": "nothing tells which build of the module it is",
	"not found": "no source has symbols of the module",
	"corrupt": "a source has a file of the module, which cannot be used",
	"parts missing": "of what was uploaded for the module parts are missing",
	"no function": "the offset is in no function of the module",
	"no offset": "there is no offset",
	"no integer": "the offset is no integer",
};

function told(reason, detail) {
	return `${REASONS[reason] ?? reason}${detail ? `: ${detail}` : ""}`;
}

function place(frame) {
	if (!frame.file)
		return "";
	return frame.line ? `${frame.file}:${frame.line}` : frame.file;
}

// One row: kind is stack, frame, inline or none (a frame without a name).
function frameRows(frame, number) {
	const offset = frame.module_offset ?? frame.offset ?? "";
	const head = `#${number} `;
	const out = [];
	let name = frame.function, kind = "frame", where = place(frame);
	if (name === undefined || name === null) {
		kind = "none";
		name = `${frame.module || "?"}+${offset}`;
		where = frame.reason ? told(frame.reason, frame.detail) : "";
	} else {
		where = [where, `(${frame.module || "?"}+${offset})`].filter(Boolean).join("  ");
	}
	// The innermost call is listed first by the server; it stands below the function that it was inlined into.
	out.push({ kind, text: visible(head + name), place: visible(where) });
	for (const inline of [...(frame.inlines ?? [])].reverse())
		out.push({ kind: "inline", text: visible(inline.function ?? "?"), place: visible(place(inline)) });
	return out;
}

function count(list, singular) {
	return `${list} ${singular}${list === 1 ? "" : "s"}`;
}

// The modules of a reply of version 5 that some frame without a name is in: [name, id] by "name/id".
export function unnamedModules(request, reply) {
	const out = new Map();
	jobsOf(request).forEach((job, i) => reply.results[i].stacks.forEach((frames, k) => frames.forEach((frame, f) => {
		const module = job.memoryMap[job.stacks[k][f][0]];
		if (!frame.function && module)
			out.set(module.join("/"), module);
	})));
	return out;
}

function jobsOf(request) {
	const value = JSON.parse(request.body);
	return value.jobs ?? [value];
}

// reasons: what the server says of modules, by "name/id", as "corrupt: byte 17: …".
function reasonOf(frame, module, found, reasons) {
	const key = module?.join("/");
	const [reason, detail] = splitReason(reasons[key]);
	if (!module)
		return { reason: "no module" };
	if (frame.module_offset === "-0x1")
		return { reason: "no offset" };
	if (!/^0x[0-9a-f]+$/.test(frame.module_offset))
		return { reason: "no integer" };
	if (found[key] === null)
		return { reason: "no id" };
	return { reason: reason ?? (found[key] ? "no function" : "not found"), detail };
}

function splitReason(text) {
	const at = text?.indexOf(": ") ?? -1;
	return at < 0 ? [text] : [text.slice(0, at), text.slice(at + 2)];
}

function withReasons(frames, job, stack, found, reasons) {
	return frames.map((frame, f) => frame.function ? frame
		: { ...frame, ...reasonOf(frame, job.memoryMap[job.stacks[stack][f][0]], found, reasons) });
}

// The stacks of a reply of any kind: [{title, frames, modules: {name: found}}].
function stacksOf(request, reply, reasons) {
	if (request.kind === "text")
		return [{ title: null, frames: reply.frames }];
	const jobs = jobsOf(request);
	return reply.results.flatMap(({ stacks, found_modules: found }, job) => stacks.map((frames, i) =>
		({ title: `Job ${job}, stack ${i}`, frames: withReasons(frames, jobs[job], i, found, reasons), found })));
}

function missingModules(request, stacks, reasons) {
	const out = new Map();
	for (const { found, frames } of stacks) {
		for (const [name, has] of Object.entries(found ?? {}))
			if (has === false)
				out.set(name, visible(told(...splitReason(reasons[name] ?? "not found"))));
		for (const frame of request.kind === "text" ? frames : [])
			if (frame.module && ["no id", "not found", "corrupt"].includes(frame.reason))
				out.set(frame.id ? `${frame.module}/${frame.id}` : frame.module, visible(told(frame.reason, frame.detail)));
	}
	return [...out].map(([name, reason]) => ({ name: visible(name), reason }));
}

export function build(request, reply, reasons) {
	const stacks = stacksOf(request, reply, reasons);
	const rows = [];
	let frames = 0, named = 0;
	for (const stack of stacks) {
		if (stack.title && stacks.length > 1)
			rows.push({ kind: "stack", text: stack.title, place: "" });
		stack.frames.forEach((frame, i) => {
			frames++;
			named += frame.function ? 1 : 0;
			for (const row of frameRows(frame, frame.frame ?? i))
				rows.push(row);
		});
	}
	return { rows, missing: missingModules(request, stacks, reasons), summary: `${count(frames, "frame")}, ${named} with a name` };
}

function rowText(row) {
	const indent = row.kind === "inline" ? "    " : "";
	return `${indent}${row.text}${row.place ? `  ${row.place}` : ""}`;
}

// The lines of the text view: the text itself with its names, or the rows as text.
export function textRows(request, text, rows) {
	const lines = text === null ? rows.map(rowText) : text.split("\n").slice(request.added);
	return lines.map(line => ({ kind: "frame", text: visible(line.replace(/\r$/, "").replaceAll("\t", "        ")), place: "" }));
}

export function copy(as, reply, rows) {
	if (as === "json")
		return JSON.stringify(reply, null, 2);
	const text = rows.map(rowText).join("\n");
	if (as === "text")
		return `${text}\n`;
	// A fence longer than any in the text.
	const longest = Math.max(2, ...[...text.matchAll(/`+/g)].map(m => m[0].length));
	const fence = "`".repeat(longest + 1);
	return `${fence}\n${text}\n${fence}\n`;
}
