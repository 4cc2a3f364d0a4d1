// SPDX-License-Identifier: Apache-2.0
// The page: what is given goes to the worker, and what comes back is shown.
import { copy } from "./clipboard.js";
import { List } from "./list.js";
import { fragmentOf, inputOf } from "./link.js";
import { withId, withNames } from "./module_ids.js";
import { showModules } from "./module_table.js";
import { element, part } from "./part.js";
import { Recent } from "./recent.js";
import { names, reportRow, rowLine, stackRow } from "./row_elements.js";
import { samples } from "./samples.js";
import { say, showError, showGuess, summaryOf, waiting } from "./saying.js";
import * as session from "./session.js";
import { source } from "./source.js";
import { takeTexts } from "./taking.js";
import { count, visible } from "./visible.js";

const TRIES = 10;
const LINK_MAX = 1_000_000; // characters; browsers keep no longer addresses

const input = part("input"), modules = part("modules");
const worker = new Worker(URL.createObjectURL(new Blob([document.currentScript.textContent], { type: "text/javascript" })));
worker.postMessage({ what: "begin", page: document.baseURI });
const lists = {
	frames: new List(part("frames"), (first, last) => worker.postMessage({ what: "rows", number: answered, revision, view: "frames", first, last }), stackRow),
	report: new List(part("report"), (first, last) => worker.postMessage({ what: "rows", number: answered, revision, view: "report", first, last }), reportRow),
};
const recent = new Recent(one => take(one.input, "The text", one.modules));
const FULL = "symbolicated-full-names";

let number = 0; // of the last request: replies to older ones are dropped
let answered = 0; // of the request whose answer is shown
let revision = 0; // of the rows: a search makes a new one
let tries = 0, timer = null, saving = null;
const copied = {}; // what takes the text that is to be copied, by kind
let keeping = false; // the answer is shown, but not kept yet
let longAwaited = false; // a long input is still to come from the worker
let hits = null; // of a search, by view
let idsUsed = ""; // those of the text that is shown: they are of its modules, and of no other text's
let replied = null; // when it came, until its first rows are shown

function hideResult() {
	part("result").hidden = part("unknown").hidden = true;
	document.body.classList.remove("answered");
	session.keepAnswer(null);
}

// ---- asking ----

function send() {
	clearTimeout(timer);
	longAwaited = keeping = false;
	number++;
	showError("");
	say("Waiting for the server…");
	waiting(true);
	save();
	idsUsed = modules.value;
	replied = null;
	worker.postMessage({ what: "send", number, input: source.text, modules: modules.value, long: source.isLong });
}

function fresh() {
	tries = 0;
	send();
}

// ids: what was typed for this text; those of the text before are gone with it.
function take(text, name, ids = modules.value === idsUsed ? "" : modules.value) {
	source.set(text, name);
	modules.value = ids;
	fresh();
}

function stop(words) {
	clearTimeout(timer);
	longAwaited = keeping = false;
	number++;
	worker.postMessage({ what: "cancel" });
	waiting(false);
	say(words);
}

function failed({ status, retry, error, field, from, to }) {
	longAwaited = false;
	hideResult();
	if ((status === 429 || status === 503) && ++tries < TRIES) {
		countDown(status === 429 ? "Too many requests" : error, retry);
		return;
	}
	waiting(false);
	say("");
	showError(error, field, from, to);
	save();
}

function countDown(why, left) {
	say(`${why}: trying again in ${left} s`);
	timer = setTimeout(() => left > 1 ? countDown(why, left - 1) : send(), 1000);
}

// ---- the answer ----

function done(data) {
	waiting(false);
	say("");
	replied = data.at;
	keeping = data.at !== null;
	answered = data.number;
	revision = 0;
	document.body.classList.add("answered");
	part("unknown").hidden = !data.guess;
	part("result").hidden = Boolean(data.guess);
	if (data.guess) {
		showGuess(data.guess);
	} else {
		part("summary").textContent = summaryOf(data);
		part("views").hidden = part("copy-report").hidden = !data.lines;
		part("fold").hidden = !data.folds;
		part("fold").setAttribute("aria-pressed", true);
		part("filter").value = part("hits").textContent = "";
		hits = null;
		part("modules-found").hidden = !data.modules.length;
		part("unplaced").textContent = data.unplaced;
		part("unplaced").hidden = !data.unplaced;
		part("to-modules").hidden = data.modules.every(one => one.found);
		showModules(part("modules-rows"), data.modules, name => askForIds([name]));
		if (!data.lines)
			view("frames");
		lists.frames.reset(data.rows);
		lists.report.reset(data.lines);
		openIds(data.modules);
	}
	recent.add(source.text, modules.value);
	save();
}

// Without a single id, the names of the modules are what can be helped with.
function openIds(found) {
	const without = found.filter(one => one.lacksId);
	if (without.length && without.length === found.length)
		fillIds(without.map(one => one.name));
}

function fillIds(names) {
	modules.value = withNames(modules.value, names);
	part("ids").open = true;
}

function askForIds(names) {
	fillIds(names);
	const at = modules.value.indexOf(`${names[0]} = `) + names[0].length + 3;
	modules.focus();
	modules.setSelectionRange(at, at);
}

worker.addEventListener("message", ({ data }) => {
	const awaited = ["rows", "changed", "copy"].includes(data.what) ? answered : number;
	if (data.number !== awaited)
		return;
	switch (data.what) {
	case "done":
		done(data);
		break;
	case "failed":
		failed(data);
		break;
	case "kept":
		session.keepAnswer(data.packed);
		if (data.answered)
			keeping = false; // else it is asked for again when the page is loaded again
		save();
		break;
	case "restored":
		restored(data);
		break;
	case "changed":
		revision = data.revision;
		lists.frames.reset(data.rows, data.stay);
		if (!data.stay)
			lists.report.reset(data.lines);
		hits = data.hits;
		showHits();
		break;
	case "rows":
		lists[data.view].show(data.first, data.rows);
		measure();
		break;
	case "copy":
		copied[data.as]?.(data.text);
		break;
	}
});

// For those who look at the page with the browser's tools, and for its tests.
function measure() {
	if (replied !== null)
		performance.measure("from the reply to the first rows", { start: replied - performance.timeOrigin, end: performance.now() });
	replied = null;
}

// ---- looking at it ----

function view(which) {
	for (const name of ["frames", "report"]) {
		part(name).hidden = name !== which;
		part(`view-${name}`).setAttribute("aria-pressed", name === which);
		lists[name].look();
	}
	showHits();
}

function fullNames(full) {
	names.full = full;
	part("full").setAttribute("aria-pressed", full);
	keepLocally(FULL, full ? "1" : null);
	lists.frames.reset(lists.frames.total, true);
}

function keepLocally(key, value) {
	try {
		if (value === null)
			localStorage.removeItem(key);
		else
			localStorage.setItem(key, value);
	} catch {
		// full, or not allowed: it is as before when the page is loaded again
	}
}

function keptLocally(key) {
	try {
		return localStorage.getItem(key);
	} catch {
		return null;
	}
}

// What is selected of rows, as lines of text with whole names.
function copyRows(event) {
	const selection = getSelection();
	const rows = [...part("frames").querySelectorAll(".row")].filter(row => selection.containsNode(row, true));
	if (selection.isCollapsed || rows.length < 2)
		return;
	event.preventDefault();
	event.clipboardData.setData("text/plain", rows.map(row => `${rowLine(row)}\n`).join(""));
}

function showHits() {
	part("hits").textContent = hits ? count(hits[part("report").hidden ? "frames" : "report"], "hit") : "";
}

function set(wanted) {
	worker.postMessage({ what: "set", number: answered, ...wanted });
}

// Of a long list the browser's own search would see only the rows in sight.
function findInLongList(event) {
	const list = part("report").hidden ? lists.frames : lists.report;
	const long = !part("result").hidden && (!list.whole || part("filter").value);
	if (long && event.key === "f" && (event.ctrlKey || event.metaKey) && document.activeElement !== part("filter")) {
		event.preventDefault();
		part("filter").focus();
		part("filter").select();
	}
}

// ---- across loads ----

function saveSoon() {
	clearTimeout(saving);
	saving = setTimeout(save, 300);
}

function save() {
	clearTimeout(saving);
	session.keepState({ input: source.isLong || longAwaited ? null : source.text, modules: modules.value, link: location.hash, waiting: keeping || !part("cancel").hidden });
}

// A long input comes from the worker. Without an answer it is asked for again, if one was awaited.
function restored({ input: text, answered: hasAnswer }) {
	if (longAwaited)
		source.set(text);
	longAwaited = false;
	if (!hasAnswer && session.kept()?.waiting)
		fresh();
}

async function begin() {
	const before = session.kept();
	if (before && before.link === location.hash) {
		source.set(before.input ?? "");
		modules.value = before.modules;
		if (before.waiting && before.input !== null)
			fresh();
		else if (before.packed) {
			longAwaited = before.input === null;
			worker.postMessage({ what: "restore", number: ++number, packed: before.packed });
		}
		return;
	}
	try {
		const found = await inputOf(location.hash);
		if (found)
			take(found.input, "The text", found.modules);
	} catch (problem) {
		showError(`The link is damaged: ${visible(String(problem.message ?? problem), 300)}`);
	}
}

// The version, and where its source and documents are; nothing if the server does not tell.
async function showVersion() {
	try {
		const { source: url, version } = await (await fetch("../__version__")).json();
		const link = /^https:/.test(url) ? element("a", "", "Source and documents", { href: url, rel: "noopener noreferrer" }) : "";
		part("version").replaceChildren(`symbolicated ${version} `, link);
	} catch {
		// it is not needed
	}
}

// ---- events ----

part("form").addEventListener("submit", event => {
	event.preventDefault();
	fresh();
});
part("cancel").addEventListener("click", () => stop("Cancelled"));
part("clear").addEventListener("click", () => {
	stop("");
	source.set("");
	modules.value = "";
	part("ids").open = false;
	showError("");
	hideResult();
	history.replaceState(null, "", location.pathname);
	session.forget();
	input.focus();
});
part("samples").addEventListener("click", event => {
	const name = event.target.dataset.sample;
	if (name)
		take(samples[name], "The sample", "");
});
part("link").addEventListener("click", async () => {
	const fragment = await fragmentOf(source.text, modules.value);
	if (fragment.length > LINK_MAX) {
		say("The text is too long for a link");
		return;
	}
	history.replaceState(null, "", fragment);
	save();
	await copy(location.href, "progress");
});
for (const name of ["frames", "report"])
	part(`view-${name}`).addEventListener("click", () => view(name));
part("to-modules").addEventListener("click", () => {
	part("modules-found").scrollIntoView();
	part("modules-found").focus({ preventScroll: true });
});
part("fold").addEventListener("click", () => {
	const fold = part("fold").getAttribute("aria-pressed") !== "true";
	part("fold").setAttribute("aria-pressed", fold);
	view("frames");
	set({ fold });
});
part("filter").addEventListener("input", () => set({ words: part("filter").value }));
part("frames").addEventListener("click", event => {
	const key = event.target.dataset.fold;
	if (key)
		worker.postMessage({ what: "unfold", number: answered, key });
});
part("about").addEventListener("toggle", showVersion, { once: true });
part("full").addEventListener("click", () => fullNames(!names.full));
for (const [event, key] of [["focusin", "whole"], ["focusout", "short"]])
	part("frames").addEventListener(event, ({ target }) => {
		if (target.dataset.whole && !names.full)
			target.textContent = target.dataset[key];
	});
addEventListener("copy", copyRows);
for (const as of ["report", "frames", "json"])
	part(`copy-${as}`).addEventListener("click", async event => {
		const text = await new Promise(resolve => {
			copied[as] = resolve;
			worker.postMessage({ what: "copy", number: answered, as });
		});
		await copy(text, "copied");
		event.target.focus();
	});
for (const field of [input, modules])
	field.addEventListener("keydown", event => {
		if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
			event.preventDefault();
			fresh();
		}
	});
for (const field of [input, modules])
	field.addEventListener("input", saveSoon);
addEventListener("pagehide", save);
addEventListener("keydown", findInLongList);
addEventListener("hashchange", begin);
takeTexts(take, words => {
	stop("");
	showError(words, "");
}, () => {
	stop("");
	const mine = number;
	return () => mine === number;
}, (name, { id, debugName }) => {
	modules.value = withId(modules.value, name, id, debugName);
	part("ids").open = true;
	showError("");
	if (source.text.trim())
		fresh();
	else
		say(`The id of ${visible(name, 100)} is among the ids`);
});
fullNames(keptLocally(FULL) === "1");
begin();
