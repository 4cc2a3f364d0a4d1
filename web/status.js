// SPDX-License-Identifier: Apache-2.0
// What the responder tells of itself on /__metrics__, drawn over the last minutes. For the allow list of nginx only.
import { quantile, rates, read } from "./metrics.js";

const EVERY = 2000, KEPT = 150; // milliseconds; samples: five minutes
const samples = [];

const CHARTS = [
	["Requests a second, by status", "/s", (a, b, s) => rates(a, b, s, "symbolicated_requests_total", "status")],
	["Time of v5 and v4 requests", "s", (a, b) => ({ p50: quantile(a, b, 0.5), p99: quantile(a, b, 0.99) })],
	["Cache lookups a second, by level", "/s", (a, b, s) => rates(a, b, s, "symbolicated_cache_lookups_total", "level")],
	["Loads a second", "/s", (a, b, s) => rates(a, b, s, "symbolicated_downloads_total", "outcome")],
	["Requests in flight", "", (a, b) => ({ "in flight": b.sum("symbolicated_requests_in_flight"), cold: b.sum("symbolicated_cold_requests") })],
	["Memory", "MiB", (a, b) => ({
		resident: b.sum("process_resident_memory_bytes") / 2 ** 20, cache: b.sum("symbolicated_cache_bytes") / 2 ** 20,
		loading: b.sum("symbolicated_loading_bytes") / 2 ** 20,
	})],
];

const state = document.getElementById("state");
const charts = CHARTS.map(([title, unit, values]) => new Chart(title, unit, values));

async function look() {
	try {
		const answer = await fetch("../../__metrics__");
		if (answer.status === 403)
			throw new Error("This address is not on the server's allow list (symbolicated-allow.conf)");
		if (!answer.ok)
			throw new Error(`The server answered ${answer.status}`);
		samples.push({ at: performance.now(), ...read(await answer.text()) });
		if (samples.length > KEPT)
			samples.shift();
		const last = samples.at(-1);
		state.textContent = `Version ${last.label("symbolicated_build_info", "version")}, up for ${duration(last.sum("symbolicated_uptime_seconds"))}`;
		for (const chart of charts)
			chart.draw();
	} catch (problem) {
		state.textContent = String(problem.message ?? problem);
	}
	setTimeout(look, EVERY);
}

function duration(seconds) {
	const units = [["d", 86400], ["h", 3600], ["min", 60], ["s", 1]];
	const [name, size] = units.find(([, size]) => seconds >= size) ?? units.at(-1);
	return `${Math.floor(seconds / size)} ${name}`;
}

function figure(value, unit) {
	const text = value >= 100 ? value.toFixed(0) : value >= 1 ? value.toFixed(1) : value.toPrecision(2);
	return `${Number(text)} ${unit}`.trim();
}

// hoisted: the list of charts above is made of it
function Chart(title, unit, values) {
	const box = document.createElement("section");
	box.className = "chart";
	const heading = document.createElement("h2");
	heading.textContent = title;
	const svg = document.createElementNS("http://www.w3.org/2000/svg", "svg");
	svg.setAttribute("viewBox", "0 0 100 100");
	svg.setAttribute("preserveAspectRatio", "none");
	svg.setAttribute("role", "img");
	svg.setAttribute("aria-label", title);
	const legend = document.createElement("ul");
	box.append(heading, svg, legend);
	document.getElementById("charts").append(box);

	this.draw = () => {
		const points = [];
		for (let i = 1; i < samples.length; i++) {
			const [a, b] = [samples[i - 1], samples[i]];
			points.push([b.at, values(a, b, (b.at - a.at) / 1000)]);
		}
		const names = [...new Set(points.flatMap(([, one]) => Object.keys(one)))].filter(name => points.some(([, one]) => one[name] > 0)).slice(0, 6);
		const top = Math.max(...points.flatMap(([, one]) => names.map(name => one[name] ?? 0)), 1e-9);
		const until = performance.now(), from = until - EVERY * KEPT;
		svg.replaceChildren(...names.map((name, i) => {
			const path = document.createElementNS("http://www.w3.org/2000/svg", "path");
			path.setAttribute("class", `c${i}`);
			path.setAttribute("d", points.map(([at, one], n) =>
				`${n ? "L" : "M"}${((at - from) / (until - from) * 100).toFixed(2)} ${(98 - (one[name] ?? 0) / top * 94).toFixed(2)}`).join(""));
			return path;
		}));
		legend.replaceChildren(...(names.length ? names : ["nothing yet"]).map((name, i) => {
			const item = document.createElement("li");
			item.className = `c${i}`;
			const text = document.createElement("span");
			text.textContent = names.length ? `${name} ${figure(points.at(-1)[1][name] ?? 0, unit)}` : name;
			item.append(text);
			return item;
		}));
	};
}

look();
