# SPDX-License-Identifier: Apache-2.0
"""The picture of the users' lines: one bar each, and one line for all targets."""

import html

WIDTH, TOP, STEP, BAR, FOOT = 860, 104, 30, 14, 56
LABEL_END, BAR_BEGIN, BAR_END, FIGURE_BEGIN = 286, 300, 650, 664
TARGET = 0.6  # of the bar's room: all targets
STYLE = """
text { font: 14px system-ui, -apple-system, "Segoe UI", "Noto Sans", "DejaVu Sans", sans-serif; fill: #1f2328; }
.title { font-size: 20px; font-weight: 600; }
.muted { fill: #59636e; font-size: 13px; }
.page { fill: #ffffff; }
.track { fill: #eff2f5; }
.met { fill: #2da44e; }
.missed { fill: #e16f24; }
.spread { stroke: #1f2328; stroke-width: 1.5; opacity: 0.55; }
.target { stroke: #1f2328; stroke-width: 2; }
.bold { font-weight: 600; }
@media (prefers-color-scheme: dark) {
	text { fill: #e6edf3; }
	.muted { fill: #9198a1; }
	.page { fill: #0d1117; }
	.track { fill: #1c232c; }
	.met { fill: #3fb950; }
	.missed { fill: #f0883e; }
	.spread { stroke: #e6edf3; }
	.target { stroke: #e6edf3; }
}
"""


def place(of_target):
    """Where a figure ends: even up to the target, and ever closer to the end beyond it."""
    share = TARGET * of_target if of_target <= 1 else TARGET + (1 - TARGET) * (1 - 1 / of_target)
    return BAR_BEGIN + (BAR_END - BAR_BEGIN) * min(1.0, max(0.006, share))


def of_target(row, figure):
    """1 is the target, less is better, whichever way the line is counted."""
    if row.target.startswith("<="):
        return max(0.0, figure / row.bound())
    return row.bound() / figure if figure > 0 else 1e9


def written(row, figure):
    unit = "×" if row.unit.startswith("x") else f" {row.unit.split()[0]}" if row.unit else ""
    text = f"{figure:,.0f}" if abs(figure) >= 100 else f"{figure:.3g}" if abs(figure) >= 0.01 else f"{figure:.1g}"
    return (text if abs(figure) >= 1e-9 else "0") + unit


def text(x, y, what, kind="", anchor="start"):
    return f'<text x="{x}" y="{y}" class="{kind}" text-anchor="{anchor}">{html.escape(what)}</text>'


def bar(row, y):
    middle = y + BAR / 2
    track = f'<rect x="{BAR_BEGIN}" y="{y}" width="{BAR_END - BAR_BEGIN}" height="{BAR}" rx="3" class="track"/>'
    out = [text(LABEL_END, y + 12, row.short or row.title, anchor="end"), track]
    if row.figure is None:
        return [*out, text(FIGURE_BEGIN, y + 12, "not measured", "muted")]
    end = place(of_target(row, row.figure))
    out.append(f'<rect x="{BAR_BEGIN}" y="{y}" width="{end - BAR_BEGIN:.1f}" height="{BAR}" rx="3" class="{"met" if row.met else "missed"}"/>')
    if row.n > 1 and row.least is not None:
        a, b = sorted(place(of_target(row, v)) for v in (row.least, row.most))
        out.append(f'<path d="M{a:.1f} {middle}H{b:.1f}M{a:.1f} {middle - 3}v6M{b:.1f} {middle - 3}v6" class="spread" fill="none"/>')
    sign = "≤" if row.target.startswith("<=") else "≥"
    figure = f'<tspan class="bold">{html.escape(written(row, row.figure))}</tspan>'
    out.append(f'<text x="{FIGURE_BEGIN}" y="{y + 12}">{figure}<tspan class="muted">  {sign} {html.escape(written(row, row.bound()))}</tspan></text>')
    return out


def picture(rows, about):
    shown = [r for r in rows if r.target]
    height = TOP + STEP * len(shown) + FOOT
    line = BAR_BEGIN + (BAR_END - BAR_BEGIN) * TARGET
    met, missed = sum(r.met is True for r in shown), sum(r.met is False for r in shown)
    out = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {WIDTH} {height}" width="{WIDTH}" height="{height}" role="img" aria-labelledby="title">',
        f'<title id="title">Speed of symbolicated: {met} of {len(shown)} targets are met</title>',
        f"<style>{STYLE}</style>",
        f'<rect width="{WIDTH}" height="{height}" class="page" rx="8"/>',
        text(24, 38, f"{met} of {len(shown)} targets are met" + (f", {missed} missed" if missed else ""), "title"),
        text(24, 62, "A bar that ends left of the line is within its target; shorter is better. Whiskers: least and most of all rounds.", "muted"),
        text(line, 90, "target", "muted", "middle"),
    ]
    for n, row in enumerate(shown):
        out += bar(row, TOP + STEP * n)
    out.append(f'<path d="M{line:.1f} {TOP - 6}V{TOP + STEP * len(shown) - STEP + BAR + 6}" class="target"/>')
    foot = f"{about['cpu']}, {about['day']}, {about['commit']}. All servers and the load share this machine" + (", which was busy." if about.get("busy") else ".")
    out.append(text(24, height - 20, foot, "muted"))
    return "\n".join([*out, "</svg>", ""])


def write_picture(path, rows, about):
    with open(path, "w", encoding="utf-8") as f:
        f.write(picture(rows, about))
