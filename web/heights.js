// SPDX-License-Identifier: Apache-2.0
// How high the rows of a long list are, in pixels: those that were shown as they were measured, the others by a guess.

export class Heights {
	constructor(count, guess) {
		this.count = count;
		this.guess = guess;
		this.more = new Float64Array(count + 1); // than the guess: a Fenwick tree, whose sums and changes take log(count) steps
	}

	// Of all rows before this one.
	above(row) {
		let sum = row * this.guess;
		for (let i = row; i > 0; i -= i & -i)
			sum += this.more[i];
		return sum;
	}

	of(row) {
		return this.above(row + 1) - this.above(row);
	}

	set(row, height) {
		const change = height - this.of(row);
		for (let i = row + 1; change && i <= this.count; i += i & -i)
			this.more[i] += change;
	}

	// The row at a place, which is at most the last.
	at(place) {
		let low = 0, high = this.count - 1;
		while (low < high) {
			const middle = (low + high + 1) >> 1;
			if (this.above(middle) <= place)
				low = middle;
			else
				high = middle - 1;
		}
		return low;
	}
}
