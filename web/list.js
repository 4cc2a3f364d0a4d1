// SPDX-License-Identifier: Apache-2.0
// A list of many rows, of which only those in sight are in the page. All rows are equally high.

const EXTRA = 20; // rows above and below what is in sight

export class List {
	// ask(first, last) has the rows come to show().
	constructor(element, ask) {
		this.element = element;
		this.ask = ask;
		this.total = 0;
		this.space = document.createElement("div");
		this.rows = document.createElement("div");
		this.rows.className = "rows";
		this.rows.setAttribute("role", "presentation");
		this.space.setAttribute("role", "presentation");
		element.append(this.space, this.rows);
		element.addEventListener("scroll", () => this.look(), { passive: true });
		new ResizeObserver(() => this.look()).observe(element);
	}

	reset(total) {
		this.total = total;
		this.first = this.last = -1;
		this.height = parseFloat(getComputedStyle(document.documentElement).fontSize) * 1.5;
		this.space.style.height = `${total * this.height}px`;
		this.rows.replaceChildren();
		this.element.scrollTop = 0;
		this.look();
	}

	look() {
		if (!this.total || !this.element.clientHeight)
			return;
		const first = Math.max(0, Math.floor(this.element.scrollTop / this.height) - EXTRA);
		const last = Math.min(this.total, Math.ceil((this.element.scrollTop + this.element.clientHeight) / this.height) + EXTRA);
		if (first === this.first && last === this.last)
			return;
		this.first = first;
		this.last = last;
		this.ask(first, last);
	}

	show(first, rows) {
		if (first !== this.first)
			return;
		this.rows.style.transform = `translateY(${first * this.height}px)`;
		this.rows.replaceChildren(...rows.map((row, i) => this.element_of(row, first + i)));
	}

	element_of(row, index) {
		const element = document.createElement("div");
		element.className = `row ${row.kind}`;
		element.setAttribute("role", "listitem");
		element.setAttribute("aria-setsize", this.total);
		element.setAttribute("aria-posinset", index + 1);
		element.append(row.text);
		if (row.place) {
			const place = document.createElement("span");
			place.className = "place";
			place.textContent = `  ${row.place}`;
			element.append(place);
		}
		return element;
	}
}
