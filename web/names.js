// SPDX-License-Identifier: Apache-2.0
// Names of functions as rows show them: without what every reader skips. Copies and titles have the whole names.

const PLAIN = [
	[/\bstd::__(?:cxx11|1|ndk1|debug)::/g, "std::"],
	[/\bstd::basic_(string|string_view|ostream|istream|iostream|stringstream|ostringstream|istringstream|ofstream|ifstream|fstream)<char(?:, ?std::(?:char_traits|allocator)<char> ?){0,2}>/g, "std::$1"],
	[/\(anonymous namespace\)|`anonymous namespace'|\{anonymous\}|_GLOBAL__N_1\b/g, "{anon}"],
	[/\[[0-9a-f]{16}\]/g, ""], // Rust's numbers of crates,
	[/::h[0-9a-f]{16}$/, ""], // and of instances
];
const OPERATOR = /\boperator(?:\(\)|\[\]|<=>|<<=|>>=|->\*|->|<<|>>|<=|>=|[-+*/%^&|~!=<>,]=?|"" ?\w+| (?:new|delete)(?:\[\])?)/y;
const CLOSING = { "<": ">", "(": ")", "{": "}" };

const DEPTH_MAX = 50;

// From where a bracket begins to where it ends, of those that end.
function closings(text) {
	const ends = new Map(), open = [];
	for (let i = 0; i < text.length; i++) {
		const c = text[i];
		if (c === "-" && text[i + 1] === ">")
			i++;
		else if (CLOSING[c])
			open.push(i);
		else if (open.length && c === CLOSING[text[open.at(-1)]])
			ends.set(open.pop(), i);
	}
	return ends;
}

function withoutParameters(text) {
	const from = text.indexOf("("), to = text.lastIndexOf(")");
	return from >= 0 && to > from ? text.slice(0, from) + text.slice(to + 1) : text;
}

// What stands between brackets: arguments and template arguments are left out; a type of Rust or a lambda is the name itself.
function inside(open, text, before, depth) {
	if (open === "{")
		return withoutParameters(text);
	if (open === "<" && (!before || text.includes(" as ")) && depth < DEPTH_MAX)
		return folded(text, depth + 1);
	return text.trim() ? "…" : "";
}

function folded(name, depth) {
	const ends = closings(name);
	let out = "";
	for (let i = 0; i < name.length;) {
		OPERATOR.lastIndex = i;
		const operator = OPERATOR.exec(name);
		const end = operator ? undefined : ends.get(i);
		if (operator) {
			out += operator[0];
			i += operator[0].length;
		} else if (end > 0) {
			out += name[i] + inside(name[i], name.slice(i + 1, end), out, depth) + name[end];
			i = end + 1;
		} else {
			out += name[i++];
		}
	}
	return out;
}

export function shortName(name) {
	const plain = PLAIN.reduce((text, [pattern, by]) => text.replace(pattern, by), name);
	return folded(plain, 0);
}

const LIBRARY = /^(?:<?(?:std|core|alloc|__gnu_cxx|hashbrown|__cxxabiv1)(?:::|\[)|<.* as (?:core|std|alloc)(?:::|\[))/;
const LIBRARY_FILES = /(?:^|[/\\])(?:rustc[/\\][0-9a-f]{40}|include[/\\]c\+\+|c\+\+[/\\]v1|VC[/\\]Tools[/\\]MSVC)[/\\]/;

// Whether a call is one of the standard library of C++ or Rust.
export function isLibrary({ function: name = "", file = "" }) {
	return LIBRARY.test(name) || LIBRARY_FILES.test(file ?? "");
}
