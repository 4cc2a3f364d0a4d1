// SPDX-License-Identifier: Apache-2.0
// Frames of a reply become stacks: [{lead, title, entries}], where an entry is {number, frame, line} with the line of the text, or
// {number, given} for a line that has its name already.

const TITLE_MAX = 300;

// What a line numbers itself as: "#3", "1|3|" of minidump_stackwalk, "3   MyApp  0x…" of macOS. Null: it does not.
function numberOf(line) {
	const found = /(?:^|\s)#(\d{1,6})[:\s]/.exec(line) ?? /^\d+\|(\d{1,6})\|/.exec(line) ?? /^\s*(\d{1,6})\s+\S.*\s0x[0-9A-Fa-f]+\s/.exec(line);
	return found ? Number(found[1]) : null;
}

// A frame that a tool has given a name to.
const NAMED = /^\s*#(\d{1,6})\s+(0x[0-9A-Fa-f]+\s+in\s.+|\S.*\s(?:at|in)\s\S.*)$/;

const NO_STACK = /^SUMMARY: /; // a frame once more, below the stacks of a sanitizer

class Stacks {
	constructor(lines) {
		this.lines = lines;
		this.all = [];
		this.current = null;
		this.end = -1; // the line of the last entry
	}

	add(at, number, entry) {
		if (this.begins(at, number))
			this.begin(at);
		this.current.entries.push(entry);
		this.current.last = number;
		this.end = at;
	}

	begins(at, number) {
		if (!this.current)
			return true;
		if (at === this.end)
			return false; // several frames in one line
		if (number !== null && this.current.last !== null)
			return number <= this.current.last;
		if (number !== null || this.current.last !== null)
			return true;
		for (let i = this.end + 1; i < at; i++)
			if (this.lines[i].trim())
				return true;
		return false;
	}

	begin(at) {
		let above = at - 1;
		while (above > this.end && !this.lines[above].trim())
			above--;
		const titled = above > this.end;
		const lead = titled && above - 1 > this.end && /[A-Za-z]/.test(this.lines[above - 1]) ? this.lines[above - 1].trim() : "";
		const thread = /^(\d+)\|\d+\|/.exec(this.lines[at]);
		const title = thread ? `Thread ${thread[1]}` : titled ? this.lines[above].trim() : "";
		this.current = { lead: thread ? "" : lead.slice(0, TITLE_MAX), title: title.slice(0, TITLE_MAX), entries: [], last: null };
		this.all.push(this.current);
	}
}

// added: lines of the body above the text.
export function stacksOfText(frames, text, added) {
	const lines = text.split("\n");
	const json = /^\s*[{[]/.test(text); // a report in JSON: its lines are no titles
	const stacks = new Stacks(lines);
	let next = 0;
	for (let at = 0; at < lines.length; at++) {
		const line = lines[at];
		if (frames[next]?.text_line - added - 1 !== at) {
			const given = json ? null : NAMED.exec(line);
			if (given)
				stacks.add(at, Number(given[1]), { number: Number(given[1]), given: given[2].trim(), line });
			continue;
		}
		for (; frames[next]?.text_line - added - 1 === at; next++)
			if (!NO_STACK.test(line)) {
				const number = json ? null : numberOf(line);
				stacks.add(at, number, { number, frame: frames[next], line });
			}
	}
	return json ? [{ lead: "", title: "", entries: stacks.all.flatMap(one => one.entries) }].filter(one => one.entries.length)
		: stacks.all.filter(one => one.entries.length > 1 || one.entries[0].frame);
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
