// SPDX-License-Identifier: Apache-2.0
// What this tab shows, kept for when it is loaded again or comes back. The browser forgets it with the tab.

const STATE = "symbolicated", ANSWER = "symbolicated-answer";

function store(key, text) {
	try {
		if (text === null)
			sessionStorage.removeItem(key);
		else
			sessionStorage.setItem(key, text);
	} catch {
		// full, or not allowed: it is not kept
	}
}

// state: {input, modules, link, waiting}. A long input is null here, and packed with the answer.
export function keepState(state) {
	store(STATE, JSON.stringify(state));
}

// packed: by the worker, of {input, modules, body}; null: there is no answer.
export function keepAnswer(packed) {
	store(ANSWER, packed ?? null);
}

export function forget() {
	store(STATE, null);
	store(ANSWER, null);
}

// {input, modules, link, waiting, packed}, or null.
export function kept() {
	try {
		const state = JSON.parse(sessionStorage.getItem(STATE));
		const good = state && typeof state.modules === "string" && (state.input === null || typeof state.input === "string");
		return good ? { ...state, packed: sessionStorage.getItem(ANSWER) } : null;
	} catch {
		return null;
	}
}
