// SPDX-License-Identifier: Apache-2.0
// What is to be looked up. A long text is kept beside the field, which shows its beginning: fields of megabytes hold the page up.
import { part } from "./part.js";

const LONG = 200_000, SHOWN = 20_000; // characters
const TYPED = 10_000; // characters of a text that is put in as if it were typed: that takes long

const field = part("input");
let long = null; // the whole text, while the field has its beginning

// As if it were typed, so that Ctrl+Z brings back what was there.
function replace(text) {
	if (field.value === text)
		return;
	if (text.length > TYPED) {
		field.value = text;
		return;
	}
	const focused = document.activeElement;
	field.focus({ preventScroll: true });
	field.select();
	if (!document.execCommand(text ? "insertText" : "delete", false, text) || field.value !== text)
		field.value = text;
	if (focused !== field)
		focused?.focus({ preventScroll: true });
}

export const source = {
	get text() {
		return long ?? field.value;
	},

	get isLong() {
		return long !== null;
	},

	set(text, name = "The text") {
		long = text.length > LONG ? text : null;
		field.readOnly = false;
		replace(long ? text.slice(0, SHOWN) : text);
		field.readOnly = Boolean(long);
		part("attached").hidden = !long;
		part("attached").textContent = long ? `${name} is long (${text.length.toLocaleString("en")} characters): only its beginning is shown; all of it is looked up.` : "";
		field.scrollTop = 0;
	},

	// Marks a place of the text, if the field has it.
	mark(from, to) {
		field.focus();
		field.setSelectionRange(from, to);
		const lines = field.value.slice(0, from).split("\n").length;
		field.scrollTop = Math.max(0, (lines - 4) * parseFloat(getComputedStyle(field).lineHeight));
	},
};
