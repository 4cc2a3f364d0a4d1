// SPDX-License-Identifier: Apache-2.0
// A list of rows. A short one is in the page as a whole, and its rows wrap; of a long one only the rows in sight are, all equally high.

const WHOLE = 400; // rows
const EXTRA = 20; // rows above and below what is in sight

export class List {
	// ask(first, last) has the rows come to show(); make(row) makes the element of one.
	constructor(node, ask, make) {
		this.node = node;
		this.ask = ask;
		this.make = make;
		this.total = 0;
		this.space = document.createElement("div");
		this.rows = document.createElement("div");
		this.rows.className = "rows";
		for (const one of [this.space, this.rows])
			one.setAttribute("role", "presentation");
		node.append(this.space, this.rows);
		node.addEventListener("scroll", () => this.look(), { passive: true });
		new ResizeObserver(() => this.resized()).observe(node);
	}

	get whole() {
		return this.total <= WHOLE;
	}

	// stay: the rows changed in place; it stays where it is scrolled to.
	reset(total, stay = false) {
		this.total = total;
		this.first = this.last = -1;
		this.node.classList.toggle("long", !this.whole);
		if (this.whole)
			this.node.removeAttribute("tabindex");
		else
			this.node.tabIndex = 0;
		if (!stay) {
			this.rows.replaceChildren();
			this.node.scrollTop = 0;
		}
		this.resized();
	}

	resized() {
		const style = getComputedStyle(this.node);
		const height = parseFloat(style.getPropertyValue("--row")) * parseFloat(getComputedStyle(document.documentElement).fontSize);
		if (height !== this.height)
			this.first = this.last = -1;
		this.height = height;
		this.space.style.height = this.whole ? "" : `${this.total * height}px`;
		this.look();
	}

	look() {
		if (!this.node.clientWidth)
			return;
		const first = this.whole ? 0 : Math.max(0, Math.floor(this.node.scrollTop / this.height) - EXTRA);
		const last = this.whole ? this.total : Math.min(this.total, Math.ceil((this.node.scrollTop + this.node.clientHeight) / this.height) + EXTRA);
		if (first === this.first && last === this.last)
			return;
		this.first = first;
		this.last = last;
		this.ask(first, last);
	}

	show(first, rows) {
		if (first !== this.first)
			return;
		const focused = [...this.rows.children].findIndex(row => row.contains(document.activeElement));
		this.rows.style.transform = this.whole ? "" : `translateY(${first * this.height}px)`;
		this.rows.replaceChildren(...rows.map((row, i) => this.item(row, first + i)));
		if (focused >= 0)
			this.focusAt(focused);
	}

	// A row that had the focus was replaced: the one in its place has it, or the list.
	focusAt(index) {
		const one = this.rows.children[index]?.querySelector("a, button");
		if (one)
			one.focus({ preventScroll: true });
		else if (!this.whole)
			this.node.focus({ preventScroll: true });
	}

	item(row, index) {
		const one = this.make(row);
		one.setAttribute("role", "listitem");
		if (!this.whole) {
			one.setAttribute("aria-setsize", this.total);
			one.setAttribute("aria-posinset", index + 1);
		}
		return one;
	}
}
