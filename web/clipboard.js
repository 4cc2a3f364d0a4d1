// SPDX-License-Identifier: Apache-2.0

// Whether the browser lets the page copy this text.
export async function toClipboard(text) {
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
