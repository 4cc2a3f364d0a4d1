// SPDX-License-Identifier: Apache-2.0
// Stacks as rows: a title, inlined calls above their function, runs of system frames folded into one, and only what a search finds.
import { sentenceOf } from "./reasons.js";
import { sourceOf } from "./source_link.js";
import { isSystem } from "./system_modules.js";
import { count } from "./visible.js";

const FOLD_FROM = 2; // frames of the system in a row

// A row of a frame: {kind, number, name, place, url, where, tag}. kind: frame, inline, none (without a name) or given (named by the text).
function callRow(kind, call, rules) {
	const source = call.file ? sourceOf(call.file, call.line, rules) : null;
	const place = source ? (call.line ? `${source.path}:${call.line}` : source.path) : "";
	return { kind, number: "", name: call.function ?? "?", place, file: call.file ?? "", url: source?.url ?? null, where: "" };
}

function baseOf(path) {
	return path.slice(path.search(/[^/\\]*$/));
}

// Why a frame has no name: what stands in its row, and for copies, which have no more than the rows, as a sentence.
function reasonOf(frame, { reasons, told }) {
	const means = sentenceOf(frame, reasons);
	return { place: told.has(frame) ? frame.reason : means, means };
}

// index: its place in the stack, which is its number where the text does not number frames.
function rowsOf({ number, frame, line }, index, site) {
	const rows = [];
	const where = `${frame.module ?? "?"}+${frame.module_offset}`;
	if (frame.named) {
		const row = callRow("given", frame, site.rules);
		const more = frame.reason ? { ...(row.place ? {} : reasonOf(frame, site)), where } : { where: baseOf(frame.module ?? "") };
		rows.push({ ...row, ...more, file: line.trim() });
	} else if (frame.function) {
		for (const call of frame.inlines ?? [])
			rows.push(callRow("inline", call, site.rules));
		rows.push({ ...callRow("frame", frame, site.rules), where });
	} else {
		const name = frame.module && frame.reason !== "no module" ? `${frame.module}+${frame.module_offset}` : frame.module_offset;
		rows.push({ kind: "none", number: "", name, ...reasonOf(frame, site), file: line.trim(), url: null, where: "" });
	}
	rows[0].number = `#${number ?? index}`;
	return rows;
}

function says(row, words) {
	return `${row.number} ${row.name} ${row.args ?? ""} ${row.place} ${row.file} ${row.where}`.toLowerCase().includes(words);
}

export class Rows {
	// site: {rules, reasons, told}; told: the frames whose reason stands elsewhere in full.
	constructor(stacks, site) {
		this.stacks = stacks.map(({ lead, title, entries }) => ({ lead, title, frames: entries.map((entry, i) => ({
			rows: rowsOf(entry, i, site), module: baseOf(entry.frame.module ?? ""), system: isSystem(entry.frame),
		})) }));
		this.titled = this.stacks.length > 1 || Boolean(this.stacks[0]?.title);
		this.fold = true;
		this.words = "";
		this.unfolded = new Set(); // "stack/frame" of the first frame of a run
		this.make();
	}

	set({ fold = this.fold, words = this.words }) {
		this.fold = fold;
		this.words = words.trimStart().toLowerCase();
		this.unfolded.clear();
		this.make();
	}

	unfold(key) {
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
			for (const row of rows)
				this.shown.push(row);
		});
	}

	found(stack) {
		const rows = [];
		for (const frame of stack.frames)
			if (frame.rows.some(row => says(row, this.words))) {
				this.hits++;
				rows.push(...frame.rows);
			}
		return rows;
	}

	whole({ frames }, stack) {
		const rows = [];
		for (let i = 0; i < frames.length;) {
			let end = i;
			while (end < frames.length && frames[end].system)
				end++;
			const key = `${stack}/${i}`;
			if (this.fold && end - i >= FOLD_FROM && end - i < frames.length && !this.unfolded.has(key)) {
				rows.push({ kind: "fold", key, name: this.nameOf(frames.slice(i, end)) });
				i = end;
				continue;
			}
			for (end = Math.max(end, i + 1); i < end; i++)
				rows.push(...(frames[i].system ? frames[i].rows.map(row => ({ ...row, system: true })) : frames[i].rows));
		}
		return rows;
	}

	nameOf(frames) {
		const all = [...new Set(frames.map(frame => frame.module).filter(Boolean))];
		const modules = all.length > 3 ? `${all.slice(0, 3).join(", ")} and others` : all.join(", ");
		return modules ? `${frames.length} frames of ${modules}` : `${frames.length} frames of the system`;
	}

	get folds() {
		return this.stacks.some(({ frames }) => frames.some((frame, i) => frame.system && frames[i + 1]?.system));
	}
}

// A row as a line of text.
export function rowText(row) {
	if (row.kind === "stack")
		return [row.lead, row.name].filter(Boolean).join("\n");
	if (row.kind === "fold")
		return `     (${row.name})`;
	const tail = [row.means ?? row.place, row.where && `(${row.where})`, row.kind === "inline" && "(inlined)"].filter(Boolean);
	return [`${row.number.padEnd(4)} ${[row.name, row.args].filter(Boolean).join(" ")}`, ...tail].join("  ");
}
