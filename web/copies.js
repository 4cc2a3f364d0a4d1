// SPDX-License-Identifier: Apache-2.0
// What is shown, as text to be copied.
import { rowText } from "./rows.js";

// rows: as they are shown; report: the text with its names, or null.
export function copyOf(as, reply, rows, report) {
	if (as === "json")
		return JSON.stringify(reply, (key, value) => key === "edits" ? undefined : value, 2);
	if (as === "report" && report)
		return report.text();
	return rows.filter(row => row.kind !== "fold" || !row.open).map((row, i) => row.kind === "stack" && i ? `\n${rowText(row)}\n` : `${rowText(row)}\n`).join("");
}
