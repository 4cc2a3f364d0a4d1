// SPDX-License-Identifier: Apache-2.0
// Elements of the page. Texts become elements by textContent alone, so that no text is ever markup.

export const part = id => document.getElementById(id);

// An element with a class, a text, and attributes.
export function element(tag, kind = "", text = "", attributes = {}) {
	const one = document.createElement(tag);
	if (kind)
		one.className = kind;
	if (text)
		one.textContent = text;
	for (const [name, value] of Object.entries(attributes))
		one.setAttribute(name, value);
	return one;
}
