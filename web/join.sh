#!/bin/sh
# SPDX-License-Identifier: Apache-2.0
# join.sh > FILE
#
# Writes the page as one file: index.html with its policy, icon, style and script. The script is that of the worker, too. In it each
# module is a function, run when it is first imported; lines that begin with `import` or `export` are all that changes.
set -eu
cd "$(dirname "$0")"

# What the policy calls a text that may stand in the page.
hash() { printf "'sha256-%s'" "$(env printf "$(printf '%s' "$1" | sha256sum | sed 's/ .*//; s/../\\x&/g')" | base64)"; }

style=$(cat style.css)
script=$(
	cat <<-'END'
		"use strict";
		const modules = {}, made = {};
		const use = name => made[name] ??= modules[name]();
	END
	awk '
		function end() { if (names) print "return {" substr(names, 2) " };"; print "};" }
		FNR == 1 { if (NR > 1) end(); names = ""; print "modules[\"" FILENAME "\"] = () => {" }
		/^\/\/ SPDX/ { next }
		/^import / {
			sub(/^import (\* as )?/, "const ")
			sub(/ from "\.\//, " = use(\"")
			sub(/";$/, "\");")
		}
		sub(/^export /, "") {
			name = $0
			sub(/^(async )?(function|class|const) /, "", name)
			sub(/[^A-Za-z0-9_].*/, "", name)
			names = names ", " name
		}
		{ print }
		END { end() }' *.js
	echo 'use(typeof document === "undefined" ? "worker.js" : "page.js");'
)
policy="default-src 'none'; script-src $(hash "$script"); style-src $(hash "$style"); worker-src blob:; img-src data:; connect-src 'self'; base-uri 'none'; form-action 'none'"

sed '/<title>/q' index.html
printf '<meta http-equiv="Content-Security-Policy" content="%s">\n' "$policy"
printf '<link rel="icon" href="data:image/svg+xml;base64,%s">\n' "$(base64 <icon.svg | tr -d '\n')"
printf '<style>%s</style>\n' "$style"
sed '1,/<title>/d' index.html
printf '<script>%s</script>\n' "$script"
