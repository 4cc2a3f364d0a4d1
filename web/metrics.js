// SPDX-License-Identifier: Apache-2.0
// Prometheus text, and what is drawn of it.

export function read(text) {
	const series = [];
	for (const line of text.split("\n")) {
		const parts = /^([a-z_]+)(?:\{(.*)\})? ([-+0-9.eE]+|\+Inf|NaN)$/.exec(line);
		if (parts)
			series.push({ name: parts[1], labels: Object.fromEntries([...(parts[2] ?? "").matchAll(/(\w+)="([^"]*)"/g)].map(m => [m[1], m[2]])), value: Number(parts[3]) });
	}
	const of = name => series.filter(one => one.name === name);
	return {
		of,
		sum: name => of(name).reduce((sum, one) => sum + one.value, 0),
		label: (name, label) => of(name)[0]?.labels[label] ?? "?",
	};
}

function by(sample, name, label) {
	const out = {};
	for (const one of sample.of(name))
		out[one.labels[label]] = (out[one.labels[label]] ?? 0) + one.value;
	return out;
}

// Increase a second of a counter's series, by a label. A counter that fell began anew.
export function rates(a, b, seconds, name, label) {
	const before = by(a, name, label), after = by(b, name, label);
	return Object.fromEntries(Object.entries(after).map(([key, value]) => {
		const old = before[key] ?? 0;
		return [key, (value >= old ? value - old : value) / seconds];
	}));
}

// Of the requests between two samples, in seconds, from the histogram; 0 without requests.
export function quantile(a, b, q) {
	const name = "symbolicated_request_seconds_bucket";
	const only = sample => sample.of(name).filter(one => ["v5", "v4"].includes(one.labels.route));
	const counts = new Map();
	for (const [sample, sign] of [[a, -1], [b, 1]])
		for (const one of only(sample))
			counts.set(Number(one.labels.le.replace("+Inf", "Infinity")), (counts.get(Number(one.labels.le.replace("+Inf", "Infinity"))) ?? 0) + sign * one.value);
	const bounds = [...counts].sort((x, y) => x[0] - y[0]);
	const total = bounds.at(-1)?.[1] ?? 0;
	if (total <= 0)
		return 0;
	let low = 0, below = 0;
	for (const [bound, count] of bounds) {
		if (count >= q * total)
			return bound === Infinity ? low : low + (bound - low) * (q * total - below) / (count - below);
		low = bound;
		below = count;
	}
	return low;
}
