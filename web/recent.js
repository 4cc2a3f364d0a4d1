// SPDX-License-Identifier: Apache-2.0
// The last pastes, by name, in the storage of this browser and nowhere else.
import { element, part } from "./part.js";
import { visible } from "./visible.js";

const KEY = "symbolicated-recent", MOST = 10;
const LONGEST = 100_000; // characters of one that is kept
const TELLING = /error|exception|panic|fatal|signal|crash|abort|assert/i;

function all() {
	try {
		const list = JSON.parse(localStorage.getItem(KEY));
		return Array.isArray(list) ? list.filter(one => typeof one?.input === "string" && typeof one.modules === "string" && typeof one.name === "string") : [];
	} catch {
		return [];
	}
}

// What of it could be stored.
function store(list) {
	while (list.length)
		try {
			localStorage.setItem(KEY, JSON.stringify(list));
			return list;
		} catch {
			list = list.slice(0, -1); // full: without the oldest
		}
	try {
		localStorage.removeItem(KEY);
	} catch {
		// not allowed: nothing is there
	}
	return list;
}

// By the line that says most about a report.
function nameOf(input) {
	const lines = input.slice(0, 20_000).split("\n").map(line => line.trim()).filter(line => /[A-Za-z]/.test(line));
	const name = lines.find(line => TELLING.test(line)) ?? lines[0] ?? "";
	return visible(name.replace(/\s+/g, " ").slice(0, 80));
}

function show(list, choose) {
	part("recent").hidden = !list.length;
	part("recent-list").replaceChildren(...list.map(one => {
		const item = element("li");
		const button = element("button", "plain", visible(one.name, 100), { type: "button" });
		button.addEventListener("click", () => {
			part("recent").open = false;
			choose(one);
		});
		const when = new Date(one.when);
		item.append(button, element("span", "dim", isNaN(when) ? "" : when.toLocaleString([], { dateStyle: "medium", timeStyle: "short" })));
		return item;
	}));
}

// choose({input, modules}) is called when one is chosen.
export class Recent {
	constructor(choose) {
		this.choose = choose;
		part("forget").addEventListener("click", () => {
			part("recent").open = false;
			show(store([]), choose);
		});
		show(all(), choose);
	}

	add(input, modules) {
		if (input.length > LONGEST)
			return;
		const list = all().filter(one => one.input !== input);
		list.unshift({ name: nameOf(input), when: Date.now(), input, modules });
		show(store(list.slice(0, MOST)), this.choose);
	}
}
