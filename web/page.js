// SPDX-License-Identifier: Apache-2.0
// The page: what is typed goes to the worker, and the rows that are in sight come back.
import { List } from "./list.js";
import { errorPlace, requestOf } from "./request.js";
import { fragmentOf, inputOf } from "./link.js";
import { sample } from "./sample.js";
import { visible } from "./frames.js";

const FILE_MAX = 32 << 20; // bytes of a dropped file
const TRIES = 10;

const part = id => document.getElementById(id);
const input = part("input"), modules = part("modules");
const worker = new Worker(new URL("worker.js", import.meta.url), { type: "module" });
const lists = {
	frames: new List(part("frames"), (first, last) => worker.postMessage({ what: "rows", number, view: "frames", first, last })),
	text: new List(part("text"), (first, last) => worker.postMessage({ what: "rows", number, view: "text", first, last })),
};
let number = 0; // of the request that the page shows, or waits for; replies to older ones are dropped
let started = 0, tries = 0, timer = null, copied = null;

function showError(text, field = input, from = null, to = null) {
	part("error").textContent = text;
	part("error").hidden = !text;
	for (const one of [input, modules])
		one.setAttribute("aria-invalid", Boolean(text) && one === field);
	if (from === null || !text)
		return;
	if (field === modules)
		part("modules").closest("details").open = true;
	field.focus();
	field.setSelectionRange(from, to);
	// The marked place comes into sight.
	const lines = field.value.slice(0, from).split("\n").length;
	field.scrollTop = Math.max(0, (lines - 4) * parseFloat(getComputedStyle(field).lineHeight));
}

function waiting(yes) {
	part("cancel").hidden = !yes;
	part("result").setAttribute("aria-busy", yes);
}

function send() {
	clearInterval(timer);
	const request = requestOf(input.value, modules.value);
	number++;
	if (request.error) {
		waiting(false);
		part("progress").textContent = "";
		worker.postMessage({ what: "cancel" });
		showError(request.error, request.field === "modules" ? modules : input, request.from, request.to);
		return;
	}
	showError("");
	part("progress").textContent = "Waiting for the server…";
	waiting(true);
	started = performance.now();
	worker.postMessage({ what: "send", number, request });
}

function failed({ status, retry, error }) {
	if ((status === 429 || status === 503) && ++tries < TRIES) {
		let left = retry;
		const tell = () => {
			part("progress").textContent = `${status === 429 ? "Too many requests" : "The symbols are not there yet"}: trying again in ${left} s`;
		};
		tell();
		timer = setInterval(() => {
			if (--left > 0)
				tell();
			else
				send();
		}, 1000);
		return;
	}
	waiting(false);
	part("progress").textContent = "";
	const place = status === 400 ? errorPlace(error, input.value) : null;
	showError(status ? error : `No answer from the server: ${error}`, input, place?.[0] ?? null, place?.[1] ?? null);
}

function done(data) {
	waiting(false);
	part("progress").textContent = `${Math.round(performance.now() - started)} ms`;
	part("result").hidden = false;
	part("summary").textContent = data.summary;
	part("missing").replaceChildren(...data.missing.slice(0, 1000).map(({ name, reason }) => {
		const item = document.createElement("li");
		item.textContent = `${name}: ${reason}`;
		return item;
	}));
	part("missing").hidden = data.missing.length === 0;
	lists.frames.reset(data.rows);
	lists.text.reset(data.lines);
}

worker.addEventListener("message", async ({ data }) => {
	if (data.number !== number)
		return;
	switch (data.what) {
	case "done":
		done(data);
		break;
	case "failed":
		failed(data);
		break;
	case "rows":
		lists[data.view].show(data.first, data.rows);
		break;
	case "copy":
		copied?.(data.text);
		break;
	}
});

function view(which) {
	for (const name of ["frames", "text"]) {
		part(name).hidden = name !== which;
		part(`view-${name}`).setAttribute("aria-pressed", name === which);
		lists[name].look();
	}
}

async function toClipboard(text) {
	let good = true;
	try {
		await navigator.clipboard.writeText(text);
	} catch {
		// Without TLS there is no clipboard for scripts, but for what is selected.
		const field = document.createElement("textarea");
		field.value = text;
		document.body.append(field);
		field.select();
		good = document.execCommand("copy");
		field.remove();
	}
	part("copied").textContent = good ? "Copied" : "The browser does not let this page copy";
	setTimeout(() => { part("copied").textContent = ""; }, 3000);
}

async function takeFile(file) {
	if (file.size > FILE_MAX) {
		showError(`${visible(file.name)} is larger than ${FILE_MAX >> 20} MiB`);
		return;
	}
	input.value = await file.text();
	fresh();
}

function fresh() {
	tries = 0;
	send();
}

async function followLink() {
	try {
		const found = await inputOf(location.hash);
		if (!found)
			return;
		input.value = found.input;
		modules.value = found.modules;
		fresh();
	} catch (problem) {
		showError(`The link is damaged: ${visible(String(problem.message ?? problem))}`);
	}
}

part("form").addEventListener("submit", event => {
	event.preventDefault();
	fresh();
});
part("cancel").addEventListener("click", () => {
	clearInterval(timer);
	number++;
	worker.postMessage({ what: "cancel" });
	waiting(false);
	part("progress").textContent = "Cancelled";
});
part("sample").addEventListener("click", () => {
	input.value = sample;
	fresh();
});
part("link").addEventListener("click", async () => {
	const fragment = await fragmentOf(input.value, modules.value);
	history.replaceState(null, "", fragment);
	await toClipboard(location.href);
});
for (const name of ["frames", "text"])
	part(`view-${name}`).addEventListener("click", () => view(name));
for (const as of ["text", "markdown", "json"])
	part(`copy-${as}`).addEventListener("click", async () => {
		const text = await new Promise(resolve => {
			copied = resolve;
			worker.postMessage({ what: "copy", number, as });
		});
		await toClipboard(text);
	});
for (const field of [input, modules])
	field.addEventListener("keydown", event => {
		if (event.key === "Enter" && (event.ctrlKey || event.metaKey)) {
			event.preventDefault();
			fresh();
		}
	});
for (const [name, over] of [["dragenter", true], ["dragover", true], ["dragleave", false], ["drop", false]])
	input.addEventListener(name, event => {
		event.preventDefault();
		input.classList.toggle("over", over);
		if (name === "drop" && event.dataTransfer.files.length)
			takeFile(event.dataTransfer.files[0]);
		else if (name === "drop")
			input.value = event.dataTransfer.getData("text");
	});
addEventListener("hashchange", followLink);
followLink();
