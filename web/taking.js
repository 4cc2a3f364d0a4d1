// SPDX-License-Identifier: Apache-2.0
// The ways in which a text comes to the page other than by typing: pasted, dropped anywhere, or from a file.
import { fileOfBundle } from "./bundle.js";
import { part } from "./part.js";
import { programId } from "./program_id.js";
import { textOfFile } from "./text_of_file.js";
import { visible } from "./visible.js";

// take(text, name) is called with a text; refuse(words) when a file is none. begin() is called before a file is read: what it returns says
// whether it is still wanted, and nothing else was asked meanwhile.
// giveId(name, {id, debugName}) is called for a program, or a file with its debug data.
export function takeTexts(take, refuse, begin, giveId) {
	let seen = null; // the text in the field as it was taken last: another paste replaces it
	const given = take;
	take = (text, name) => {
		given(text, name);
		seen = part("input").value;
	};
	// folder: where it is in, if that was dropped.
	const takeFile = async (file, folder) => {
		const name = visible((folder ?? file).name, 100), wanted = begin();
		try {
			if (folder)
				file = await fileOfBundle(folder);
			const found = await programId(file), text = found ? "" : await textOfFile(file);
			if (found && file.name.includes("="))
				throw new Error(`has the id ${found.id}, but = in its name, to which no id can be given`);
			if (wanted() && found)
				giveId(file.name, found);
			else if (wanted())
				take(text, name);
		} catch (problem) {
			if (wanted())
				refuse(`${name} ${visible(String(problem.message ?? problem), 300)}.`);
		}
	};
	part("open").addEventListener("click", () => part("file").click());
	part("file").addEventListener("change", () => {
		const [file] = part("file").files;
		part("file").value = "";
		if (file)
			takeFile(file);
	});
	takeDrops(take, takeFile);
	takePastes(take, takeFile, () => part("input").value === seen);
}

function takeDrops(take, takeFile) {
	let inside = 0, own = false; // own: a part of this page is dragged
	const over = change => {
		inside = change ? Math.max(0, inside + change) : 0;
		document.body.classList.toggle("over", inside > 0);
	};
	// Parts of this page, and text for another field, are the browser's.
	const isTaken = ({ dataTransfer, target }) =>
		dataTransfer.types.includes("Files") || !(own || target.closest?.("textarea:not(#input), input"));
	const claim = event => isTaken(event) && event.preventDefault();
	addEventListener("dragstart", () => { own = true; });
	addEventListener("dragend", () => { own = false; });
	addEventListener("dragenter", event => { claim(event); over(own ? 0 : 1); });
	addEventListener("dragleave", () => over(-1));
	addEventListener("dragover", claim);
	addEventListener("drop", event => {
		over(0);
		if (!isTaken(event))
			return;
		event.preventDefault();
		const [file] = event.dataTransfer.files;
		const text = event.dataTransfer.getData("text");
		const entry = event.dataTransfer.items[0]?.webkitGetAsEntry?.();
		if (file)
			takeFile(file, entry?.isDirectory ? entry : null);
		else if (text)
			take(text);
	});
}

// A paste is looked up at once. It replaces a text that was, and in the middle of one that is still typed it becomes a part of it.
function takePastes(take, takeFile, isSeen) {
	addEventListener("paste", event => {
		const at = event.target, field = part("input");
		if (at !== field && at.closest?.("textarea, input"))
			return;
		const [file] = event.clipboardData.files;
		const text = event.clipboardData.getData("text");
		if (!file && !text)
			return;
		event.preventDefault();
		if (file)
			takeFile(file);
		else if (at === field && !field.readOnly && !isSeen() && field.selectionEnd - field.selectionStart < field.value.length)
			take(field.value.slice(0, field.selectionStart) + text + field.value.slice(field.selectionEnd));
		else
			take(text);
	});
}
