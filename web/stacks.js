// SPDX-License-Identifier: Apache-2.0
// The stacks of a reply: [{lead, title, entries}], where an entry is {number, frame, line} with the line of the text.

export function stacksOfText(reply, text) {
	const lines = text.split("\n");
	const stacks = reply.stacks.map(({ title, lead = "" }) => ({ lead, title, entries: [] }));
	for (const frame of reply.frames)
		stacks[frame.stack]?.entries.push({ number: frame.frame, frame, line: lines[frame.text_line - 1] ?? "" });
	return stacks;
}

// Of a request of version 5 and its reply.
export function stacksOfJobs(request, reply) {
	const value = JSON.parse(request.body);
	const jobs = value.jobs ?? [value];
	return reply.results.flatMap(({ stacks }, j) => stacks.map((frames, i) => ({
		lead: "",
		title: jobs.length > 1 ? `Job ${j}, stack ${i}` : stacks.length > 1 ? `Stack ${i}` : "",
		entries: frames.map((frame, k) => {
			const module = jobs[j].memoryMap[jobs[j].stacks[i][k][0]];
			return { number: frame.frame, frame: { ...frame, id: module?.[1], asked: module?.[0] }, line: "" };
		}),
	})));
}

// Whether nothing is left to be looked up.
export const hasName = frame => Boolean(frame.function) && !frame.reason;
