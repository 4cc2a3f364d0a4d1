// SPDX-License-Identifier: Apache-2.0
// Frames of a reply become stacks: [{lead, title, entries}], where an entry is {number, frame, line} with the line of the text, or
// {number, given} for a line that has its name already.

const TITLE_MAX = 300;

// What a line numbers itself as: "#3", "1|3|" of minidump_stackwalk, "3   MyApp  0x…" of macOS. Null: it does not.
function numberOf(line) {
	const found = /(?:^|\s)#(\d{1,6})[:\s]/.exec(line) ?? /^\d+\|(\d{1,6})\|/.exec(line) ?? /^\s*(\d{1,6})\s+\S.*\s0x[0-9A-Fa-f]+\s/.exec(line);
	return found ? Number(found[1]) : null;
}

// A frame that a tool has given a name to: of sanitizers and gdb, and of macOS.
const NAMED = /^\s*#(\d{1,6})\s+(0x[0-9A-Fa-f]+\s+in\s.+|\S.*\s(?:at|in)\s\S.*)$/;
const NAMED_BY_MACOS = /^(\d{1,6})\s+(\S.*?\s0x[0-9A-Fa-f]+\s+\S.*\s\+\s\d+)\s*$/;

const LEAD = /(?:ERROR|WARNING): \w+Sanitizer|is located /; // a line above a title that says what the title is about
const NEXT_STACK = /"frames"\s*:/; // in a report in JSON

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
			this.begin(this.titleOf(at));
		this.put(at, number, entry);
	}

	// In a report in JSON no line is a title, and no number is of a frame.
	addOfJson(at, entry) {
		if (!this.current || this.lines.slice(this.end + 1, at + 1).some(line => NEXT_STACK.test(line)))
			this.begin({ lead: "", title: "" });
		this.put(at, null, entry);
	}

	put(at, number, entry) {
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

	begin(titles) {
		this.current = { ...titles, entries: [], last: null };
		this.all.push(this.current);
	}

	titleOf(at) {
		const thread = /^(\d+)\|\d+\|/.exec(this.lines[at]); // of minidump_stackwalk
		if (thread)
			return { lead: "", title: `Thread ${thread[1]}` };
		let above = at - 1;
		while (above > this.end && !this.lines[above].trim())
			above--;
		const line = index => index > this.end ? this.lines[index].trim().slice(0, TITLE_MAX) : "";
		return { lead: LEAD.test(line(above - 1)) ? line(above - 1) : "", title: line(above) };
	}
}

// added: lines of the body above the text.
export function stacksOfText(frames, text, added) {
	const lines = text.split("\n");
	const json = /^\s*\{/.test(text);
	const stacks = new Stacks(lines);
	let next = 0;
	lines.forEach((line, at) => {
		const isFrame = frames[next]?.text_line - added - 1 === at;
		const given = isFrame || json ? null : NAMED.exec(line) ?? NAMED_BY_MACOS.exec(line);
		if (given)
			stacks.add(at, Number(given[1]), { number: Number(given[1]), given: given[2].trim(), line });
		for (; frames[next]?.text_line - added - 1 === at; next++) {
			const number = json ? null : numberOf(line);
			if (json)
				stacks.addOfJson(at, { number, frame: frames[next], line });
			else if (!NO_STACK.test(line))
				stacks.add(at, number, { number, frame: frames[next], line });
		}
	});
	return stacks.all.filter(one => one.entries.length > 1 || one.entries[0].frame);
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
