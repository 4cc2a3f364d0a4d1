// SPDX-License-Identifier: Apache-2.0
// The report with its names: the text that was sent, with the edits that the reply has for it, line by line.

export class Annotated {
	constructor(body, frames) {
		this.bytes = new TextEncoder().encode(body);
		this.starts = [0];
		for (let at = this.bytes.indexOf(10); at >= 0; at = this.bytes.indexOf(10, at + 1))
			this.starts.push(at + 1);
		this.edits = frames.flatMap(frame => frame.edits ?? []);
		this.found = null; // the lines that a search found; null: all are shown
		this.decoder = new TextDecoder("utf-8", { ignoreBOM: true });
	}

	// How many lines are shown.
	get length() {
		return this.found?.length ?? this.starts.length;
	}

	search(words) {
		const wanted = words.trimStart().toLowerCase();
		this.found = null;
		if (wanted)
			this.found = [...this.starts.keys()].filter(i => this.line(i).map(([text]) => text).join("").toLowerCase().includes(wanted));
	}

	// Those that are shown, from one to another.
	lines(first, last) {
		const out = [];
		for (let i = first; i < last; i++)
			out.push(this.line(this.found ? this.found[i] : i));
		return out;
	}

	// The first edit at or after a byte.
	editAt(byte) {
		let low = 0, high = this.edits.length;
		while (low < high) {
			const middle = (low + high) >> 1;
			if (this.edits[middle][0] < byte)
				low = middle + 1;
			else
				high = middle;
		}
		return low;
	}

	// [[text, isName]…] from one byte to another. A name that is added at the second one belongs to it.
	pieces(from, to) {
		const out = [];
		const take = until => {
			if (until > from)
				out.push([this.decoder.decode(this.bytes.subarray(from, until)), false]);
		};
		for (let i = this.editAt(from); i < this.edits.length && this.edits[i][0] <= to; i++) {
			const [at, cut, text] = this.edits[i];
			take(at);
			out.push([text, true]);
			from = at + cut;
		}
		take(to);
		return out;
	}

	line(index) {
		const next = this.starts[index + 1];
		return this.pieces(this.starts[index], next === undefined ? this.bytes.length : next - 1);
	}

	text() {
		return this.pieces(this.starts[0], this.bytes.length).map(([text]) => text).join("");
	}
}
