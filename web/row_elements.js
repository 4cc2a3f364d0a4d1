// SPDX-License-Identifier: Apache-2.0
// Rows of stacks and of the report as elements.
import { element } from "./part.js";

export const names = { full: false }; // whether rows show whole names

// A path of which the folders are cut before the file and the line are.
function path(one, text) {
	const file = Math.max(text.lastIndexOf("/"), text.lastIndexOf("\\")) + 1;
	if (file) {
		const folders = element("span", "folders");
		folders.append(element("bdi", "", text.slice(0, file), { dir: "ltr" }));
		one.append(folders);
	}
	one.append(element("span", "file", text.slice(file)));
	return one;
}

function placeOf(row) {
	if (row.url) {
		const place = element("span", "place path");
		place.append(path(element("a", "", "", { href: row.url, target: "_blank", rel: "noopener noreferrer", title: row.file }), row.place));
		return place;
	}
	const title = row.file ? { title: row.file } : {};
	return row.means ? element("span", "place", row.place, { title: row.place }) : path(element("span", "place path", "", title), row.place ?? "");
}

function titleRow(row) {
	const one = element("div", "row stack");
	if (row.lead)
		one.append(element("span", "lead", row.lead));
	one.append(element("h2", "", row.name), element("span", "dim", row.frames));
	return one;
}

function foldRow(row) {
	const one = element("div", "row fold");
	one.append(element("button", "plain", row.name, { type: "button", "data-fold": row.key, "aria-expanded": row.open }));
	return one;
}

// The columns: number, name, place, module. Between them stand blanks, for those who select and copy.
export function stackRow(row) {
	if (row.kind === "stack")
		return titleRow(row);
	if (row.kind === "fold")
		return foldRow(row);
	const alone = row.kind === "given" && !row.place && !row.where;
	const one = element("div", `row ${row.kind}${row.system ? " system" : ""}${alone ? " alone" : ""}`);
	const name = element("span", "name", names.full ? row.whole : row.name, { title: row.whole });
	if (row.whole !== row.name)
		Object.assign(name, { tabIndex: 0 }).dataset.short = row.name; // with the focus it is whole
	name.dataset.whole = row.whole;
	if (row.kind === "inline")
		name.append(" ", element("span", "tag", "inlined"));
	one.append(element("span", "number", row.number), " ", name, " ", placeOf(row), " ", element("span", "where", row.where));
	return one;
}

export function reportRow(row) {
	const one = element("div", "row line");
	for (const [text, isName] of row.pieces)
		one.append(isName ? element("b", "", text) : text);
	return one;
}

// A row of stacks as a line of text, with the whole name.
export function rowLine(row) {
	const name = row.querySelector(".name");
	const cells = [...row.children].map(cell => cell === name ? [name.dataset.whole, cell.querySelector(".tag")?.textContent].filter(Boolean).join(" ") : cell.textContent.trim());
	return cells.filter(Boolean).join("  ");
}
