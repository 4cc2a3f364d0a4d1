// SPDX-License-Identifier: Apache-2.0
// What the page says: errors, what it waits for, and of a result in a line.
import { part } from "./part.js";
import { source } from "./source.js";
import { count } from "./visible.js";

const input = part("input"), modules = part("modules");

// field, from and to: the place of the error, which is marked.
export function showError(text, field = "input", from, to) {
	part("error").textContent = text;
	part("error").hidden = !text;
	part("error").classList.toggle("sentence", Boolean(field)); // else it begins with the name of a file
	for (const one of [input, modules])
		one.setAttribute("aria-invalid", Boolean(text) && one.id === field);
	if (!text || from === undefined)
		return;
	if (field === "input") {
		source.mark(from, to);
		return;
	}
	part("ids").open = true;
	modules.focus();
	modules.setSelectionRange(from, to);
}

export function say(text) {
	part("progress").textContent = text;
}

export function waiting(yes) {
	part("cancel").hidden = !yes;
	part("result").setAttribute("aria-busy", yes);
}

export function summaryOf({ frames, named, stacks, modules, took }) {
	const missing = modules.filter(one => !one.found).length;
	return [
		count(frames, "frame") + (stacks > 1 ? ` in ${count(stacks, "stack")}` : ""),
		`${named === frames ? "all" : named ? named.toLocaleString("en") : "none"} with a name`,
		missing ? `${count(missing, "module")} without names` : "",
		took === null ? "" : `${Math.round(took)} ms`,
	].filter(Boolean).join(" · ");
}

// text_line: 0 or undefined where no line looks like a frame.
export function showGuess({ text_line: number, line, missing, is_named: named }) {
	part("unknown-title").textContent = named ? "All frames have names already" : "No stack frames found";
	part("guess").hidden = !number;
	part("guess-line").textContent = number ? `${number}: ${line}` : "";
	part("guess-missing").textContent = missing ?? "";
}
