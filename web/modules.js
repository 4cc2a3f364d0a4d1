// SPDX-License-Identifier: Apache-2.0
// The modules that the frames of some stacks are in, each with what became of it.
import { sentenceOf } from "./reasons.js";
import { hasName } from "./stacks.js";
import { isSystem } from "./system_modules.js";
import { visible } from "./visible.js";

const SHOWN = 1000;

const keyOf = frame => `${frame.asked ?? frame.module}/${frame.id ?? ""}`;

function newModule(frame) {
	return {
		key: keyOf(frame),
		name: frame.asked ?? frame.module, id: frame.id ?? "", frames: 0, named: 0,
		system: isSystem(frame), reason: "", help: "", lacksId: false,
	};
}

// [{name, id, frames, named, found, system, reason, help, lacksId}]: found if a frame has a name, else with the reason of
// the first. One's own without names come first, then the system's, then what was found.
// reasons: what the reply says of them: {word: {means, help}}.
export function modulesOf(stacks, reasons) {
	const all = new Map();
	for (const { entries } of stacks)
		for (const { frame } of entries) {
			if (!frame.module || frame.reason === "no module" || (frame.named && !frame.reason))
				continue;
			const key = keyOf(frame);
			let one = all.get(key);
			if (!one)
				all.set(key, one = newModule(frame));
			one.frames++;
			one.named += hasName(frame) ? 1 : 0;
			if (!one.reason && !hasName(frame))
				Object.assign(one, { reason: sentenceOf(frame, reasons), help: reasons[frame.reason]?.help ?? "", lacksId: frame.reason === "no id" });
		}
	for (const one of all.values())
		one.found = one.named > 0;
	return [...all.values()].sort((a, b) => a.found - b.found || a.system - b.system || b.frames - a.frames).slice(0, SHOWN)
		.map(one => ({ ...one, shown: visible(one.name, 200), id: visible(one.id, 200), reason: visible(one.reason, 500) }));
}

// Frames whose reason stands elsewhere in full: beside their module, or, for all that have none, above the stacks.
export function toldOf(stacks, modules, reasons) {
	const told = new Map(modules.filter(one => !one.found).map(one => [one.key, one.reason]));
	const isTold = frame => frame.reason === "no module" || told.get(keyOf(frame)) === sentenceOf(frame, reasons);
	return new Set(stacks.flatMap(({ entries }) => entries.map(({ frame }) => frame).filter(frame => frame.reason && isTold(frame))));
}
