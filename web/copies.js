// SPDX-License-Identifier: Apache-2.0
// What is shown, as text to be copied.
import { rowText } from "./rows.js";

// rows: as they are shown; report: the text with its names, or null.
export function copyOf(as, reply, rows, report) {
	if (as === "json")
		return JSON.stringify(reply, (key, value) => key === "edits" ? undefined : value, 2);
	if (as === "report" && report)
		return report.text();
	const text = rows.filter(row => row.kind !== "fold" || !row.open).map((row, i) => row.kind === "stack" && i ? `\n${rowText(row)}\n` : `${rowText(row)}\n`).join("");
	return as === "markdown" ? fenced(text) : text;
}

// A fence longer than any in the text.
function fenced(text) {
	let longest = 2;
	for (const run of text.matchAll(/`+/g))
		longest = Math.max(longest, run[0].length);
	const fence = "`".repeat(longest + 1);
	return `${fence}\n${text}${fence}\n`;
}
