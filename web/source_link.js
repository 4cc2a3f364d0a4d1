// SPDX-License-Identifier: Apache-2.0
// File names of symbols: how they are shown, and where on the web they are.

const RULES = [
	// hg:hg.mozilla.org/mozilla-central:dom/A.cpp:55c63a6c547f
	[/^hg:([^:\s]+):([^:]+):([0-9A-Za-z]+)$/, (host, path, revision) => ({ path, url: `https://${host}/file/${revision}/${encoded(path)}`, line: "#l" })],
	// git:github.com/owner/repository:src/a.c:revision, of GitLab and others with the same addresses too
	[/^git:([^:\s]+):([^:]+):([0-9A-Za-z._-]+)$/, (host, path, revision) =>
		({ path, url: `https://${host.replace(/\.git$/, "")}/${host.startsWith("gitlab") ? "-/" : ""}blob/${revision}/${encoded(path)}`, line: "#L" })],
	[/^https:\/\/raw\.githubusercontent\.com\/([^/]+\/[^/]+)\/([^/]+)\/(.+)$/, (repository, revision, path) =>
		({ path, url: `https://github.com/${repository}/blob/${revision}/${encoded(path)}`, line: "#L" })],
	[/^https:\/\/github\.com\/[^/]+\/[^/]+\/blob\/[^/]+\/(.+)$/, (path, whole) => ({ path, url: whole, line: "#L" })],
	// where rustc says that its own library was built
	[/^\/rustc\/([0-9a-f]{40})\/(.+)$/, (revision, path) =>
		({ path, url: `https://github.com/rust-lang/rust/blob/${revision}/${encoded(path)}`, line: "#L" })],
];

function encoded(path) {
	return path.replaceAll("\\", "/").split("/").map(encodeURIComponent).join("/");
}

// The site's own rules: [{"prefix": "/build/app/", "url": "https://git.example.org/app/{path}#n{line}"}]. What is not one is left out.
export function siteRules(value) {
	const rules = Array.isArray(value?.links) ? value.links : [];
	return rules.filter(one => typeof one?.prefix === "string" && typeof one?.url === "string" && /^https?:\/\//.test(one.url));
}

function bySite(file, line, rules) {
	for (const { prefix, url } of rules)
		if (file.startsWith(prefix)) {
			const path = file.slice(prefix.length);
			return { path, url: url.replace(/\{(path|line)\}/g, (_, what) => what === "path" ? encoded(path) : String(line ?? 1)) };
		}
	return null;
}

// {path, url}: what to show, and an address or null. The address is always of http or https.
export function sourceOf(file, line, rules) {
	const found = bySite(file, line, rules);
	if (found)
		return found;
	for (const [pattern, make] of RULES) {
		const parts = pattern.exec(file);
		if (!parts)
			continue;
		const { path, url, line: anchor } = make(...parts.slice(1), file);
		return { path, url: line ? `${url}${anchor}${line}` : url };
	}
	return { path: file, url: null };
}
