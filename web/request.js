// SPDX-License-Identifier: Apache-2.0
// What was typed becomes a request: JSON as it is, everything else as text with stacks. JSON of version 4 is one job of version 5, whose
// reply has places, inlined calls and reasons too.
import { readModules } from "./module_ids.js";
import { visible } from "./visible.js";

const QUERY_MAX = 6000; // characters; nginx takes 8 KiB of request line

// {kind, url, body, headers}, or {error, field, from, to} with the place of an error in a field.
export function requestOf(input, modules) {
	if (!input.trim())
		return { error: "There is nothing to look up yet. Paste a report, or open a file.", field: "input", from: 0, to: 0 };
	if (/^\s*\{\s*"(jobs|memoryMap|stacks|version)"/.test(input))
		return { kind: "v5", url: "v5", body: input, headers: { "Content-Type": "application/json", Debug: "true" } };
	if (/^\s*\{\s*"meta"\s*:\s*\{/.test(input) && input.includes('"threads"'))
		return { error: "This is a profile of the Firefox Profiler. Load it at profiler.firefox.com, with this server as ?symbolServer=.", field: "input", from: 0, to: 0 };
	const given = readModules(modules);
	if (given.error)
		return { ...given, error: visible(given.error, 200), field: "modules" };
	const query = given.modules.map(({ name, id }) => `module=${encodeURIComponent(`${name}=${id}`)}`).join("&");
	if (query.length > QUERY_MAX)
		return { error: "One request cannot take so many modules.", field: "modules", from: 0, to: 0 };
	return { kind: "text", url: query ? `text?${query}` : "text", body: input, headers: { Accept: "application/json", Edits: "true" } };
}
