// SPDX-License-Identifier: Apache-2.0
// What this tab shows, kept for when it is loaded again or comes back. The browser forgets it with the tab.

const KEY = "symbolicated";
const MAX = 2 << 20; // characters; browsers keep about five million, but writing them takes its time

// state: {input, modules, link, reply}; reply: the body of the reply, or null. What is too large is not kept.
export function keep(state) {
	for (const one of [state, { ...state, reply: null }])
		try {
			if (one.input.length + one.modules.length + one.link.length + (one.reply?.length ?? 0) <= MAX) {
				sessionStorage.setItem(KEY, JSON.stringify(one));
				return;
			}
		} catch {
			// full, or not allowed: less may fit
		}
	forget();
}

export function forget() {
	try {
		sessionStorage.removeItem(KEY);
	} catch {
		// not allowed: nothing was kept
	}
}

export function kept() {
	try {
		const state = JSON.parse(sessionStorage.getItem(KEY));
		return typeof state?.input === "string" && typeof state.modules === "string" ? state : null;
	} catch {
		return null;
	}
}
