// SPDX-License-Identifier: Apache-2.0
// The field of modules: lines of NAME = ID, as people write ids.

// As the server takes it: hex digits, nine or more in the code id of a Windows program; perhaps behind DEBUGNAME and a slash. Null: it is
// no id.
export function idOf(text) {
	const named = /^\s*([^/\s]+\.pdb)\/([0-9A-Fa-f]{33,40})\s*$/i.exec(text);
	if (named)
		return `${named[1]}/${named[2]}`;
	const id = text.trim().replace(/^\{(.*)\}$/, "$1");
	if (/^[0-9A-Fa-f]{9,128}$/.test(id))
		return id;
	// A UUID, perhaps with an age behind: a debug id has the age as its last digits.
	const uuid = /^([0-9A-Fa-f]{8})-([0-9A-Fa-f]{4})-([0-9A-Fa-f]{4})-([0-9A-Fa-f]{4})-([0-9A-Fa-f]{12})(?:-([0-9A-Fa-f]{1,8}))?$/.exec(id);
	if (uuid)
		return `${uuid.slice(1, 6).join("")}${uuid[6] ?? "0"}`.toUpperCase();
	return fileId(id);
}

// A FileID: 16 bytes in base64, of the plain or the URL-safe alphabet.
function fileId(text) {
	if (!/^[A-Za-z0-9+/_-]{22}(?:==)?$/.test(text))
		return null;
	const bytes = atob(text.slice(0, 22).replaceAll("-", "+").replaceAll("_", "/"));
	return [...bytes].map(c => c.charCodeAt(0).toString(16).padStart(2, "0")).join("");
}

// {modules: [{name, id}]}, or {error, from, to} with the place of a line that is wrong. A name without an id is yet to be given one.
export function readModules(text) {
	const modules = [];
	let at = 0;
	for (const line of text.split("\n")) {
		const parts = /^\s*(.*?)\s*=\s*(\S.*?)?\s*$/.exec(line);
		const id = parts?.[2] ? idOf(parts[2]) : null;
		if (line.trim() && (!parts?.[1] || (parts[2] && !id)))
			return { error: `This is not NAME = ID: ${line.trim()}`, from: at, to: at + line.length };
		if (id)
			modules.push({ name: parts[1], id });
		at += line.length + 1;
	}
	return { modules };
}

// The field with this id for the module, in place of another one. debugName: of its PDB file, which counts if it is not called like the
// program.
export function withId(text, name, id, debugName) {
	const others = text.split("\n").filter(line => line.trim() && /^\s*(.*?)\s*=/.exec(line)?.[1] !== name);
	const stem = file => file.replace(/\.[^.]*$/, "").toLowerCase();
	const other = debugName && /^[\w.+-]+\.pdb$/i.test(debugName) && stem(debugName) !== stem(name);
	return [...others, `${name} = ${other ? `${debugName}/` : ""}${id}`].join("\n");
}

// The field with a line for each of these names that has none.
export function withNames(text, names) {
	const known = new Set(text.split("\n").map(line => /^\s*(.*?)\s*=/.exec(line)?.[1]));
	const lines = names.filter(name => !known.has(name)).map(name => `${name} = `);
	return [text.trimEnd(), ...lines].filter(Boolean).join("\n");
}
