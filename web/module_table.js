// SPDX-License-Identifier: Apache-2.0
// The table of modules: what has symbols, what has none and why, and a way to give an id.
import { element } from "./part.js";

// give(name) is called to give this module an id.
export function showModules(body, modules, give) {
	body.replaceChildren(...modules.map(module => rowOf(module, give)));
}

const number = value => value.toLocaleString("en");

function rowOf(module, give) {
	const row = element("tr", module.found ? "" : module.system ? "missing system" : "missing");
	const name = element("th", "", module.shown, { scope: "row" });
	if (module.id)
		name.append(element("code", "id", module.id));
	const state = element("td", "", module.found ? "found" : module.reason);
	if (module.help && !module.lacksId) // the button helps more
		state.append(element("span", "dim help", module.help));
	if (module.lacksId) {
		const button = element("button", "plain", "Give its id", { type: "button" });
		button.addEventListener("click", () => give(module.name));
		state.append(button);
	}
	row.append(name, element("td", "figure", module.named === module.frames ? number(module.frames) : `${number(module.named)} of ${number(module.frames)}`), state);
	return row;
}
