// SPDX-License-Identifier: Apache-2.0
// Copies texts, and says so.
import { part } from "./part.js";

// where: the element that says whether it went well, for some seconds.
export async function copy(text, where) {
	const words = await toClipboard(text) ? "Copied" : "The browser does not allow this page to copy";
	part(where).textContent = words;
	setTimeout(() => { if (part(where).textContent === words) part(where).textContent = ""; }, 4000);
}

// Whether the browser lets the page copy this text.
async function toClipboard(text) {
	try {
		await navigator.clipboard.writeText(text);
		return true;
	} catch {
		return throughSelection(text);
	}
}

// Without TLS there is no clipboard for scripts, but for what is selected.
function throughSelection(text) {
	const before = document.activeElement;
	const field = document.createElement("textarea");
	field.value = text;
	document.body.append(field);
	field.select();
	const good = document.execCommand("copy");
	field.remove();
	before?.focus();
	return good;
}
