// SPDX-License-Identifier: Apache-2.0
// Asks the server, and keeps the reply: the page gets the rows that it shows, never the whole, so that a large reply does not hold it up.
import { build, copy, textRows, unnamedModules, visible } from "./frames.js";

const MODULES_ASKED = 1000; // for the reason why they have no symbols

let rows = [], textLines = [], reply = null, controller = null;

addEventListener("message", async ({ data }) => {
	switch (data.what) {
	case "send":
		controller?.abort();
		controller = new AbortController();
		await send(data, controller.signal);
		break;
	case "cancel":
		controller?.abort();
		break;
	case "rows": {
		const from = data.view === "text" ? textLines : rows;
		postMessage({ what: "rows", number: data.number, view: data.view, first: data.first, rows: from.slice(data.first, data.last) });
		break;
	}
	case "copy":
		postMessage({ what: "copy", number: data.number, text: reply ? copy(data.as, reply, rows) : "" });
		break;
	}
});

async function send({ number, request }, signal) {
	try {
		const url = new URL(`../${request.url}`, import.meta.url);
		const answer = await fetch(url, { method: "POST", body: request.body, headers: request.headers, signal });
		const body = await answer.text();
		if (signal.aborted)
			return;
		if (!answer.ok) {
			postMessage({ what: "failed", number, status: answer.status, retry: retryAfter(answer), error: errorOf(answer, body) });
			return;
		}
		// The text with names is another reply of the same route.
		let text = null;
		if (request.kind === "text") {
			const second = await fetch(url, { method: "POST", body: request.body, signal });
			text = second.ok ? await second.text() : "";
		}
		const value = JSON.parse(body);
		const reasons = request.kind === "v5" ? await reasonsOf(url, request, value, signal) : {};
		if (signal.aborted)
			return;
		reply = value;
		const built = build(request, reply, reasons);
		rows = built.rows;
		textLines = textRows(request, text, rows);
		postMessage({ what: "done", number, rows: rows.length, lines: textLines.length, summary: built.summary, missing: built.missing });
	} catch (problem) {
		if (!signal.aborted)
			postMessage({ what: "failed", number, status: 0, retry: 0, error: String(problem.message ?? problem) });
	}
}

// Why modules have no symbols, or lack some: a reply of version 5 does not say it, but for who asks with Debug, which takes longer. So one
// frame of each such module is asked for again.
async function reasonsOf(url, request, value, signal) {
	const memoryMap = [...unnamedModules(request, value).values()].slice(0, MODULES_ASKED);
	if (!memoryMap.length)
		return {};
	const body = JSON.stringify({ memoryMap, stacks: [memoryMap.map((_, i) => [i, 0])] });
	const answer = await fetch(url, { method: "POST", body, headers: { ...request.headers, Debug: "true" }, signal });
	return answer.ok ? (await answer.json()).debug.unnamed.modules : {};
}

function retryAfter(answer) {
	const seconds = Number(answer.headers.get("Retry-After"));
	return seconds >= 1 && seconds <= 600 ? Math.ceil(seconds) : 1;
}

function errorOf(answer, body) {
	try {
		return visible(String(JSON.parse(body).error));
	} catch {
		return `The server answered ${answer.status}`;
	}
}
