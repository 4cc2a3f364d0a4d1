// SPDX-License-Identifier: Apache-2.0
// Stacks as rows: a title, inlined calls above their function, runs of system frames folded into one, and only what a search finds.
import { isLibrary } from "./names.js";
import { sentenceOf } from "./reasons.js";
import { sourceOf } from "./source_link.js";
import { isSystem } from "./system_modules.js";
import { count } from "./visible.js";

const FOLD_FROM = 2; // frames of the system, or library calls that were inlined, that follow each other

// A row of a frame: {kind, number, name, place, url, where, tag}. kind: frame, inline, none (without a name) or given (named by the text).
function callRow(kind, call, rules) {
	const source = call.file ? sourceOf(call.file, call.line, rules) : null;
	const place = source ? (call.line ? `${source.path}:${call.line}` : source.path) : "";
	return { kind, name: call.function ?? "?", place, file: call.file ?? "", url: source?.url ?? null, where: "" };
}

function baseOf(path) {
	return path.slice(path.search(/[^/\\]*$/));
}

// Why a frame has no name: what stands in its row, and for copies, which have no more than the rows, as a sentence.
function reasonOf(frame, { reasons, told }) {
	const means = sentenceOf(frame, reasons);
	return { place: told.has(frame) ? frame.reason : means, means };
}

// index: its place in the stack, which is its number where the text does not number frames. The last row is of the frame itself, those
// before it are of inlined calls.
function rowsOf({ number, frame, line }, index, site) {
	const rows = [];
	const where = `${frame.module ?? "?"}+${frame.module_offset}`;
	if (frame.named) {
		const row = callRow("given", frame, site.rules);
		const more = frame.reason ? { ...(row.place ? {} : reasonOf(frame, site)), where } : { where: baseOf(frame.module ?? "") };
		rows.push({ ...row, ...more, file: line.trim() });
	} else if (frame.function) {
		for (const call of frame.inlines ?? [])
			rows.push({ ...callRow("inline", call, site.rules), system: isLibrary(call) });
		rows.push({ ...callRow("frame", frame, site.rules), where });
	} else {
		const name = frame.module && frame.reason !== "no module" ? `${frame.module}+${frame.module_offset}` : frame.module_offset;
		rows.push({ kind: "none", name, ...reasonOf(frame, site), file: line.trim(), url: null, where: "" });
	}
	const system = isSystem(frame) || (frame.named && isLibrary(frame)); // sanitizers have inlined calls as frames
	for (const row of rows)
		Object.assign(row, { weight: system && row.kind === "inline" ? 0 : 1 }, { index, frame: `#${number ?? index}`, module: baseOf(frame.module ?? ""), system: system || Boolean(row.system) });
	return rows;
}

function says(row, words) {
	return `${row.frame} ${row.name} ${row.place} ${row.file} ${row.where}`.toLowerCase().includes(words);
}

// The first row that is shown of a frame has its number.
function numbered(rows) {
	let last = -1;
	return rows.map(row => {
		if (row.kind === "fold")
			return row;
		const number = row.index === last ? "" : row.frame;
		last = row.index;
		return { ...row, number };
	});
}

export class Rows {
	// site: {rules, reasons, told}; told: the frames whose reason stands elsewhere in full.
	constructor(stacks, site) {
		this.stacks = stacks.map(({ lead, title, entries }) => ({ lead, title, frames: entries.map((entry, i) => rowsOf(entry, i, site)) }));
		this.titled = this.stacks.length > 1 || Boolean(this.stacks[0]?.title);
		this.fold = true;
		this.words = "";
		this.unfolded = new Set(); // "stack/row" of the first row of a run
		this.make();
	}

	set({ fold = this.fold, words = this.words }) {
		this.fold = fold;
		this.words = words.trimStart().toLowerCase();
		this.unfolded.clear();
		this.make();
	}

	// Shows a run of rows, or folds it again.
	toggle(key) {
		if (!this.unfolded.delete(key))
			this.unfolded.add(key);
		this.make();
	}

	make() {
		this.shown = [];
		this.hits = 0;
		this.stacks.forEach((stack, i) => {
			const rows = this.words ? this.found(stack) : this.whole(stack, i);
			if (!rows.length && this.words)
				return;
			if (this.titled)
				this.shown.push({ kind: "stack", name: stack.title || `Stack ${i + 1}`, lead: stack.lead, frames: count(stack.frames.length, "frame") });
			for (const row of numbered(rows))
				this.shown.push(row);
		});
	}

	found(stack) {
		const hits = stack.frames.filter(rows => rows.some(row => says(row, this.words)));
		this.hits += hits.length;
		return hits.flat();
	}

	whole({ frames }, stack) {
		const rows = frames.flat(), out = [];
		for (let i = 0; i < rows.length;) {
			let end = i;
			while (end < rows.length && rows[end].system)
				end++;
			const key = `${stack}/${i}`, folds = this.fold && weightOf(rows, i, end) >= FOLD_FROM && end - i < rows.length, open = this.unfolded.has(key);
			if (folds)
				out.push({ kind: "fold", key, open, name: foldName(rows.slice(i, end)) });
			end = Math.max(end, i + 1);
			if (!folds || open)
				out.push(...rows.slice(i, end));
			i = end;
		}
		return out;
	}

	get folds() {
		return this.stacks.some(({ frames }) => frames.flat().some((row, i, all) => row.system && row.weight && all[i + 1]?.system));
	}
}

// Calls that were inlined in a frame of the system are a part of that.
function weightOf(rows, from, to) {
	let weight = 0;
	for (let i = from; i < to; i++)
		weight += rows[i].weight;
	return weight;
}

// "2 frames of libc.so.6 and 3 inlined calls"
function foldName(rows) {
	const frames = rows.filter(row => row.kind !== "inline"), inlined = rows.filter(row => row.kind === "inline" && row.weight).length;
	const all = [...new Set(frames.map(row => row.module).filter(Boolean))];
	const modules = all.length > 3 ? `${all.slice(0, 3).join(", ")} and others` : all.join(", ") || "the system";
	const calls = inlined ? count(inlined, "inlined library call") : "";
	return [frames.length ? `${count(frames.length, "frame")} of ${modules}` : "", calls].filter(Boolean).join(" and ");
}

// A row as a line of text.
export function rowText(row) {
	if (row.kind === "stack")
		return [row.lead, row.name].filter(Boolean).join("\n");
	if (row.kind === "fold")
		return `     (${row.name})`;
	const tail = [row.means ?? row.place, row.where && `(${row.where})`, row.kind === "inline" && "(inlined)"].filter(Boolean);
	return [`${row.number.padEnd(4)} ${row.name}`, ...tail].join("  ");
}
