// SPDX-License-Identifier: Apache-2.0
// A line of text without what a log or a mail puts before it, and out of the string in which docker logs it; as
// src/text/prefix.c has it.

const SEARCHED = 4000; // characters
const NAME = "[\\w.:@\\/()-]{1,128}";
const PREFIX = new RegExp("^(?:>(?: |$|(?=>))"
	+ "|(?:\\d{4}[-/]\\d\\d[-/]\\d\\d[T ]|[A-Z][a-z]{2} +\\d{1,2} )?\\d\\d:\\d\\d:\\d\\d(?:[.,]\\d+)?(?:Z|[+-]\\d\\d:?\\d\\d)?(?: |$)"
	+ `(?:std(?:out|err) F |${NAME} (?:kernel|${NAME}\\[\\d+\\]): )?`
	+ "|\\[(?=[^\\]]*[:.])[\\d :.,/TZ+-]{1,40}\\] "
	+ `|\\[[A-Za-z]${NAME}\\] |${NAME}\\s+\\| )`);
const LOGGED = /^\s*\{(?:.{0,200}?,)?\s*"(?:log|message|msg|MESSAGE)"\s*:\s*("(?:[^"\\]|\\.)*")/;
const DEEP = 8;

function unquoted(string) {
	try {
		return JSON.parse(string).replace(/[\r\n]+$/, "");
	} catch {
		return string;
	}
}

export function plainLine(line) {
	if (line.length > SEARCHED)
		return line;
	for (let i = 0, before = null; i < DEEP && line !== before; i++) {
		before = line;
		line = line.replace(/^\x1b\[[\d;]*m/, "").replace(PREFIX, "");
	}
	const logged = LOGGED.exec(line);
	return logged ? unquoted(logged[1]) : line;
}
