// SPDX-License-Identifier: Apache-2.0
// Frames of a reply become stacks: [{lead, title, entries}], where an entry is {number, frame, line} with the line of the text, or
// {number, given, line} for one that has its name already. A frame without a name has also what the text says, as given.

import { plainLines } from "./plain_lines.js";

const TITLE_MAX = 300;

// What a line numbers itself as: "#3", "1|3|" of minidump_stackwalk, "3   MyApp  0x…" of macOS. Null: it does not.
// Where a format does not number, a frame follows the last one; last: its number, -1 if this line begins anew.
function numberOf(line, last) {
	if (HEAP.test(line))
		return null;
	const called = /^==\d+==\s+(at|by) 0x/.exec(line); // valgrind
	if (called)
		return called[1] === "at" ? 0 : last + 1;
	if (/^\s*@\s+0x/.test(line)) // glog, absl
		return last + 1;
	const windbg = /^\s*([0-9a-f]{2,3}) (?:\(Inline Function\)|[0-9a-f`]{8,17}) [0-9a-f`-]{8,17} /.exec(line);
	if (windbg)
		return parseInt(windbg[1], 16);
	const found = /(?:^|\s)#(\d{1,6})[:\s]/.exec(line) ?? /^\d+\|(\d{1,6})\|/.exec(line) ?? /^\s*(\d{1,6})[:#]\s/.exec(line)
		?? /^\s*(\d{1,6})\s+\S.*\s0x[0-9A-Fa-f]+\s/.exec(line);
	return found ? Number(found[1]) : null;
}

// Lines of frames that a tool has given a name to: with a number;
const NAMED = [
	/^\s*#\d{1,6}\s+(0x[0-9A-Fa-f]+\s+in\s.+|\S.*\s(?:at|in)\s\S.*|<signal handler called>)$/, // sanitizers, gdb
	/^#\d{1,6}\s+(0x[0-9a-f]+ (?:- 1 |    )?[A-Za-z_].*)$/, // eu-stack
	/^[\s*]*frame #\d{1,6}: (0x[0-9a-f]+ \S+`\S.*)$/, // lldb
	/^\s*\d{1,6}:\s+(0x[0-9a-f]+ - \S.*)$/, // Rust
	/^\s*\d{1,6}:\s+(0x[0-9a-f]+ \S.* \[.*\])$/, // Node.js
	/^\s*\d{1,6}# (\S.*)$/, // boost
	/^\d{1,6}\s+(\S.*?\s0x[0-9A-Fa-f]+\s+\S.*\s\+\s\d+)\s*$/, // macOS
	/^==\d+==\s+(?:at|by) (0x[0-9A-F]+: .+)$/, // valgrind
	/^\s*@\s+(0x[0-9A-Fa-f]+\s+(?!0x)\S.*)$/, // glog, absl
	/^\s*[0-9a-f]{2,3} (?:\(Inline Function\)|[0-9a-f`]{8,17}) [0-9a-f`-]{8,17} +(?:[0-9a-f]{8} )*([\w.]+!.*?)\s*$/, // WinDbg
];
// without one;
const NAMED_ALONE = [
	/^(?:.*\s)?(\S+\([^()\s+]+\+0x[0-9a-f]+\) ?\[0x[0-9a-f]+\])\s*$/, // glibc
	/^(\S+:\d+\([^()\s]+\) ?\[0x[0-9a-f]+\])\s*$/, // MariaDB, after addr2line
	/^\s+[0-9a-f]{3,16} (\S.* \((?:inlined|\[\S+\])\))$/, // perf
	/^(?:\(Inline Function\)|[0-9a-f`]{8,17}) [0-9a-f`-]{8,17} +[0-9a-f`: -]*?([\w.]+!.*?)\s*$/, // WinDbg
];
const UNKNOWN = /\?\?|[<(]unknown|unnamed_symbol|<null>/; // in place of a name
const NAMED_BELOW = /^([jJvAV]  ?\S.*)$/; // and only below another: Java's hs_err

// perf writes source lines between frames, which it does not number.
const PERF = /^\s+[0-9a-f]{3,16} /;
const BETWEEN = /^\s\s/;

const REPORT = /^\s+[\d.]+%.*\s\[[.k]\] /; // of perf report: a list, in which other lines stand between

const HEAP = /^(.*)@(?: 0x[0-9a-f]+)+\s*$/; // of tcmalloc and jemalloc: a stack in a line

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

	// What the text itself says of the frame in a line; undefined: it has no name.
	givenIn(at, number) {
		const patterns = number !== null ? NAMED : this.current && this.end === at - 1 ? [...NAMED_ALONE, NAMED_BELOW] : NAMED_ALONE;
		return patterns.map(pattern => pattern.exec(this.lines[at])).find(Boolean)?.[1].trim();
	}

	addNamed(at, number) {
		const given = this.givenIn(at, number);
		if (given)
			this.add(at, number, { number, given, line: this.lines[at] });
	}

	// A frame that the server has no name for keeps the one of the text.
	addFrame(at, number, frame) {
		const known = frame.function || frame.reason === "no module";
		const given = known ? undefined : this.givenIn(at, number);
		this.add(at, number, { number, frame, given: UNKNOWN.test(given) ? undefined : given, line: this.lines[at] });
	}

	// The number of a frame right above this line; -1: there is none.
	lastBefore(at) {
		return this.current && this.end === at - 1 ? this.current.last ?? -1 : -1;
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
		if (HEAP.test(this.lines[at]) || this.lines[at].includes("\n"))
			return true;
		if (REPORT.test(this.lines[at]) && REPORT.test(this.lines[this.end]))
			return false;
		if (number !== null && this.current.last !== null)
			return number <= this.current.last;
		if (number !== null || this.current.last !== null)
			return true;
		const perf = PERF.test(this.lines[at]) && PERF.test(this.lines[this.end]);
		return this.lines.slice(this.end + 1, at).some(line => line.trim() && !(perf && BETWEEN.test(line)));
	}

	begin(titles) {
		this.current = { ...titles, entries: [], last: null };
		this.all.push(this.current);
	}

	titleOf(at) {
		const thread = /^(\d+)\|\d+\|/.exec(this.lines[at]); // of minidump_stackwalk
		if (thread)
			return { lead: "", title: `Thread ${thread[1]}` };
		const heap = HEAP.exec(this.lines[at]); // jemalloc tells the size below
		if (heap)
			return { lead: "", title: heap[1].trim() || (this.lines[at + 1] ?? "").trim().slice(0, TITLE_MAX) };
		if (REPORT.test(this.lines[at]))
			return { lead: "", title: "perf report" };
		const [first, ...rest] = this.lines[at].split("\n");
		if (rest.length)
			return { lead: "", title: numberOf(first, -1) === null ? first.trim().slice(0, TITLE_MAX) : "" };
		let above = at - 1;
		while (above > this.end && !this.lines[above].trim())
			above--;
		const line = index => index > this.end ? this.lines[index].trim().slice(0, TITLE_MAX) : "";
		return { lead: LEAD.test(line(above - 1)) ? line(above - 1) : "", title: line(above) };
	}
}

export function stacksOfText({ frames, around }, text) {
	const lines = plainLines(text, around);
	const json = /^\s*\{/.test(lines.find(line => line.trim()) ?? "");
	const stacks = new Stacks(lines);
	let next = 0;
	lines.forEach((line, at) => {
		const several = line.includes("\n"); // a string of a log in JSON, which numbers frames itself, but which is which?
		const number = json || several ? null : numberOf(line, stacks.lastBefore(at));
		if (!json && frames[next]?.text_line !== at + 1)
			stacks.addNamed(at, number);
		for (; frames[next]?.text_line === at + 1; next++)
			if (json)
				stacks.addOfJson(at, { number, frame: frames[next], line });
			else if (!NO_STACK.test(line))
				stacks.addFrame(at, number, frames[next]);
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
