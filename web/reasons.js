// SPDX-License-Identifier: Apache-2.0
// Why a frame has no name, in the words of the reply: {word: {means, help}}.

export function sentenceOf({ reason, detail }, reasons) {
	const means = (reasons[reason]?.means ?? reason ?? "").replace(/\.$/, "");
	return detail ? `${means}: ${detail}` : means;
}
