// SPDX-License-Identifier: Apache-2.0
// A list of rows, each as high as its text. A short one is in the page as a whole; of a long one only the rows in and near sight are. A
// browser lays out some 17 million pixels: of more than 600,000 rows, the last are reached by a search alone.
import { element } from "./part.js";
import { Heights } from "./heights.js";

const WHOLE = 400; // rows
const EXTRA = 20; // rows above and below what is in sight

export class List {
	// ask(first, last) has the rows come to show(); make(row) makes the element of one.
	constructor(node, ask, make) {
		this.node = node;
		this.ask = ask;
		this.make = make;
		this.total = 0;
		this.space = element("div", "space");
		this.rows = element("div", "rows");
		for (const one of [this.space, this.rows])
			one.setAttribute("role", "presentation");
		this.space.append(this.rows);
		node.append(this.space);
		node.addEventListener("scroll", () => this.look(), { passive: true });
		new ResizeObserver(() => this.resized()).observe(node);
	}

	get whole() {
		return this.total <= WHOLE;
	}

	// stay: the rows changed in place; it stays where it is scrolled to.
	reset(total, stay = false) {
		const [row, into] = stay ? this.top() : [0, 0];
		this.total = total;
		this.node.classList.toggle("long", !this.whole);
		if (this.whole)
			this.node.removeAttribute("tabindex");
		else
			this.node.tabIndex = 0;
		if (!stay)
			this.rows.replaceChildren();
		this.measureAnew(row, into);
	}

	// The row at the upper edge, and how many pixels of it are above that.
	top() {
		if (this.whole)
			return [0, 0];
		const row = this.heights.at(this.node.scrollTop);
		return [row, this.node.scrollTop - this.heights.above(row)];
	}

	resized() {
		if (this.node.clientWidth && this.node.clientWidth !== this.width)
			this.measureAnew(...this.top());
		this.look();
	}

	// The heights of the rows before this one stay until they are shown again.
	measureAnew(row, into) {
		const before = this.heights;
		const rem = parseFloat(getComputedStyle(document.documentElement).fontSize);
		this.width = this.node.clientWidth;
		this.first = this.last = -1;
		this.heights = new Heights(this.total, parseFloat(getComputedStyle(this.node).getPropertyValue("--row")) * rem);
		for (let i = 0; i < row; i++)
			this.heights.set(i, before.of(i));
		this.lay(row, into);
		this.look();
	}

	// With this row at the upper edge, and so many pixels of it above that.
	lay(row, into) {
		this.space.style.height = this.whole ? "" : `${this.heights.above(this.total)}px`;
		const place = this.heights.above(row) + into;
		if (!this.whole && Math.abs(place - this.node.scrollTop) >= 1)
			this.node.scrollTop = place;
	}

	look() {
		if (!this.node.clientWidth)
			return;
		const { scrollTop, clientHeight } = this.node;
		const first = this.whole ? 0 : Math.max(0, this.heights.at(scrollTop) - EXTRA);
		const last = this.whole ? this.total : Math.min(this.total, this.heights.at(scrollTop + clientHeight) + 1 + EXTRA);
		if (first === this.first && last === this.last)
			return;
		this.first = first;
		this.last = last;
		this.ask(first, last);
	}

	show(first, rows) {
		if (first !== this.first)
			return;
		const { scrollTop, scrollHeight, clientHeight } = this.node, atEnd = scrollTop > 0 && scrollTop + clientHeight > scrollHeight - 1;
		const [row, into] = this.top();
		const focused = [...this.rows.children].findIndex(one => one.contains(document.activeElement));
		this.rows.replaceChildren(...rows.map((one, i) => this.item(one, first + i)));
		if (focused >= 0)
			this.focusAt(focused);
		this.rows.style.transform = "";
		if (this.whole)
			return;
		[...this.rows.children].forEach((one, i) => this.heights.set(first + i, one.getBoundingClientRect().height));
		this.rows.style.transform = `translateY(${this.heights.above(first)}px)`;
		this.lay(row, into);
		if (atEnd)
			this.node.scrollTop = this.node.scrollHeight;
		this.look();
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
