// SPDX-License-Identifier: Apache-2.0
// Asks the server, and keeps the reply: the page gets the rows that it shows, never the whole, so that a large reply does not hold it up.
import { Annotated } from "./annotated.js";
import { copyOf } from "./copies.js";
import { errorPlace } from "./error_place.js";
import { modulesOf, toldOf } from "./modules.js";
import { shortName } from "./names.js";
import { pack, unpack } from "./pack.js";
import { requestOf } from "./request.js";
import { Rows } from "./rows.js";
import { siteRules } from "./source_link.js";
import { hasName, stacksOfJobs, stacksOfText } from "./stacks.js";
import { count, visible } from "./visible.js";

const NAME_MAX = 8000; // characters of a name that are looked at to make it shorter
const KEPT_MAX = 64 << 20; // characters of an input and its reply that are packed, for when the page is loaded again

const PACKED_MAX = 3 << 20; // characters that are kept; browsers keep about five million

let shown = null; // {number, revision, reply, rows, report}; what is asked about an older revision has been asked again, or will be
let former = null; // what was shown before, until the page asks for rows of what is: a cancel may have come too late
let controller = null;
let keeping = Promise.resolve();
let rules = null;
let base = null; // URLs are relative to the page's

const handlers = { begin, send, restore, cancel, rows, set, unfold, copy };

addEventListener("message", ({ data }) => handlers[data.what](data));

function begin({ page }) {
	base = page;
}

function cancel() {
	controller?.abort();
}

async function send({ number, input, modules, long }) {
	controller?.abort();
	controller = new AbortController();
	const { signal } = controller;
	const request = requestOf(input, modules);
	if (request.error) {
		postMessage({ what: "failed", number, ...request, status: 400 });
		return;
	}
	if (long)
		keep(number, input, modules, null); // the page has no other place for it while it waits
	const started = performance.now();
	try {
		const answer = await fetch(new URL(request.url, base), { method: "POST", body: request.body, headers: request.headers, signal });
		const body = await answer.text();
		await readRules();
		if (signal.aborted)
			return;
		if (!answer.ok) {
			const error = errorOf(answer, body);
			const place = answer.status === 400 ? errorPlace(placeOf(body), input) : null;
			postMessage({ what: "failed", number, status: answer.status, retry: retryAfter(answer), error, field: "input", from: place?.[0], to: place?.[1] });
			await keep(number, input, modules, null);
			return;
		}
		show(number, request, body, { took: performance.now() - started, at: performance.timeOrigin + performance.now() });
		await keep(number, input, modules, body);
	} catch (problem) {
		if (signal.aborted)
			return;
		postMessage({ what: "failed", number, status: 0, error: unanswered(problem), field: "input" });
		await keep(number, input, modules, null);
	}
}

// One after the other, so that the last one stays.
function keep(number, input, modules, body) {
	const size = input.length + (body?.length ?? 0);
	const one = async () => {
		let packed = size <= KEPT_MAX ? await pack({ input, modules, body }) : null;
		const whole = packed !== null && packed.length <= PACKED_MAX;
		if (!whole && body !== null && input.length <= KEPT_MAX)
			packed = await pack({ input, modules, body: null }); // the answer can be had again
		postMessage({ what: "kept", number, answered: whole && body !== null, packed: packed?.length <= PACKED_MAX ? packed : null });
	};
	return keeping = keeping.then(one, one);
}

// What was shown before the page was loaded again.
async function restore({ number, packed }) {
	try {
		const { input, modules, body } = await unpack(packed, 4 * KEPT_MAX);
		await readRules();
		postMessage({ what: "restored", number, input, answered: body !== null });
		if (body !== null)
			show(number, requestOf(input, modules), body, {});
	} catch (problem) {
		postMessage({ what: "failed", number, status: 0, error: `What was shown cannot be restored: ${visible(String(problem.message ?? problem), 300)}`, field: "input" });
	}
}

// took: milliseconds; at: when the reply was there. Both are left out for one that was kept.
function show(number, request, body, { took = null, at = null }) {
	const reply = JSON.parse(body);
	const text = request.kind === "text";
	const stacks = text ? stacksOfText(reply, request.body) : stacksOfJobs(request, reply);
	const reasons = reply.reasons ?? reply.debug?.reasons ?? {};
	const modules = modulesOf(stacks, reasons), told = toldOf(stacks, modules, reasons);
	former = shown;
	shown = { number, revision: 0, reply, rows: new Rows(stacks, { rules, reasons, told }), report: text ? new Annotated(request.body, reply.frames) : null };
	postMessage({
		what: "done", number, took, at, stacks: stacks.length, modules, folds: shown.rows.folds,
		frames: stacks.reduce((sum, stack) => sum + stack.entries.length, 0),
		named: stacks.reduce((sum, stack) => sum + stack.entries.filter(({ frame }) => hasName(frame)).length, 0),
		unplaced: unplacedOf(stacks, reasons, reply), guess: guessOf(reply, stacks), rows: shown.rows.shown.length, lines: shown.report?.length ?? 0,
	});
}

// What to do about addresses that no module is known for; empty: there are none.
function unplacedOf(stacks, reasons, { guess }) {
	if (guess?.line && !guess.is_named)
		return `Line ${guess.text_line} is not understood. ${guess.missing}`;
	const all = stacks.reduce((sum, stack) => sum + stack.entries.filter(({ frame }) => frame.reason === "no module").length, 0);
	return all ? `${count(all, "frame")} without a module. ${reasons["no module"]?.help ?? ""}` : "";
}

// What the server says of a text in which it found nothing to look up; null: there are frames to show, if only such as have names already.
function guessOf({ guess }, stacks) {
	return guess && !(guess.named && stacks.length) ? { ...guess, line: visible((guess.line ?? "").replaceAll("\t", " ").trim(), 300) } : null;
}

// What the page shows; undefined: it asked about something older.
function seen(number) {
	return [shown, former].find(one => one?.number === number);
}

function rows({ number, revision, view, first, last }) {
	const one = seen(number);
	if (revision !== one?.revision)
		return;
	if (one === shown)
		former = null;
	const out = [];
	if (view === "report")
		for (const line of one.report.lines(first, last))
			out.push({ kind: "line", pieces: line.map(([text, name]) => [shownLine(text), name]) });
	else
		for (const row of one.rows.shown.slice(first, last))
			out.push(shownRow(row));
	postMessage({ what: "rows", number, view, first, rows: out });
}

function shownLine(text) {
	return visible(text.replace(/\r$/, "").replaceAll("\t", "        "));
}

function shownRow(row) {
	const isName = !["stack", "fold", "none"].includes(row.kind);
	const out = { ...row, name: visible(isName ? shortName(row.name.slice(0, NAME_MAX)) : row.name, 1000), whole: visible(row.name, 1000) };
	for (const key of ["place", "where", "lead", "file"])
		if (row[key])
			out[key] = visible(row[key], 500);
	return out;
}

function set({ number, ...wanted }) {
	const one = seen(number);
	one?.rows.set(wanted);
	if (wanted.words !== undefined)
		one?.report?.search(wanted.words);
	changed(one);
}

function unfold({ number, key }) {
	const one = seen(number);
	one?.rows.toggle(key);
	changed(one, true);
}

function changed(one, stay = false) {
	if (!one)
		return;
	const { number, rows: { words, hits: frames, shown: all }, report } = one;
	const hits = words ? { frames, report: report?.length } : null;
	postMessage({ what: "changed", number, revision: ++one.revision, rows: all.length, lines: report?.length ?? 0, hits, stay });
}

function copy({ number, as }) {
	const one = seen(number);
	postMessage({ what: "copy", number, as, text: one ? copyOf(as, one.reply, one.rows.shown, one.report) : "" });
}

// How this site links file names; a site that has no such file links as the page does by itself.
async function readRules() {
	if (rules)
		return;
	rules = [];
	try {
		const answer = await fetch(new URL("page/site.json", base));
		rules = answer.ok ? siteRules(await answer.json()) : [];
	} catch {
		// the links are no reason to show nothing
	}
}

function unanswered(problem) {
	return navigator.onLine ? `No answer from the server (${visible(String(problem.message ?? problem), 500)}). Check that it runs, and look up again.`
		: "This browser is offline. Your input is kept: look it up when you are online again.";
}

function retryAfter(answer) {
	const seconds = Number(answer.headers.get("Retry-After"));
	return seconds >= 1 && seconds <= 600 ? Math.ceil(seconds) : 1;
}

function placeOf(body) {
	try {
		return JSON.parse(body).place ?? {};
	} catch {
		return {}; // it is not the server's own
	}
}

function errorOf(answer, body) {
	let error = `The server answered ${answer.status}`;
	try {
		error = visible(String(JSON.parse(body).error), 1000);
	} catch {
		// it is not the server's own
	}
	return answer.status === 413 ? `${error}. Give only the part with the stacks, or use symbtool symbolicate --filter.` : error;
}
