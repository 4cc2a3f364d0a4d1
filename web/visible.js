// SPDX-License-Identifier: Apache-2.0
// Strings of a text or a reply as they are shown.

// What would change how its neighbours are read is shown as its code point: control characters and marks of direction.
const HIDDEN = /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2069\ufeff]/g;

// longest: characters that are shown; of what was cut, the whole length is told.
export function visible(text, longest = 4000) {
	const cut = text.length > longest ? text.slice(0, longest) : text;
	const shown = cut.replace(HIDDEN, c => `\\u{${c.codePointAt(0).toString(16)}}`);
	return cut === text ? shown : `${shown}… (${text.length} characters)`;
}

export function count(number, singular) {
	return `${number.toLocaleString("en")} ${singular}${number === 1 ? "" : "s"}`;
}
