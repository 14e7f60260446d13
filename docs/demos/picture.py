"""What was seen in terminals as an animated SVG without scripts, light and dark.

It is a still picture for those who prefer that, and where nothing is animated.
"""

from xml.sax.saxutils import escape

CELL_PX, LINE_PX, FONT_PX = 8.4, 18, 14
MARGIN_PX, GAP_PX, HEAD_PX = 12, 10, 30
# Between the last picture and the first one.
REST_S = 3.0

STYLE = """\
:root{--ground:#fcfcfb;--ink:#1d1d1b;--soft:#5c5b57;--rule:#c9c8c2;--mark:#1f5fae}
@media (prefers-color-scheme:dark){:root{--ground:#1a1a19;--ink:#f0efec;--soft:#b3b1aa;--rule:#4a4a46;--mark:#7db4f5}}
text{font:%dpx ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;fill:var(--ink);white-space:pre}
.title{fill:var(--soft)}.typed{fill:var(--mark);font-weight:600}
.ground{fill:var(--ground);stroke:var(--rule)}.between{stroke:var(--rule)}
.m{opacity:0;animation:%.2fs step-end infinite}.still{opacity:1}
@media (prefers-reduced-motion:reduce){.m{animation:none}}
@media print{.m{animation:none}}
"""


def spans(frames, end):
    """For each time that something is seen, from when to when: rows with their texts. Frames are (time, panes of lines)."""
    found = {}
    began = {}
    for at, panes in [*frames, (end, [])]:
        shown = {(pane, row): text for pane, lines in enumerate(panes) for row, text in enumerate(lines) if text}
        for place, (text, since) in list(began.items()):
            if shown.get(place) != text:
                found.setdefault((since, at), []).append((place, text))
                del began[place]
        for place, text in shown.items():
            began.setdefault(place, (text, at))
    return sorted(found.items())


def line(text, left, top):
    """A line whose characters stand in columns whatever the font is."""
    indent = len(text) - len(text.lstrip())
    text = text.strip()
    look = ' class="typed"' if text.startswith("$ ") else ""
    width = len(text) * CELL_PX
    return (
        f'<text x="{left + indent * CELL_PX:.1f}" y="{top:.0f}" textLength="{width:.1f}"'
        f' lengthAdjust="spacingAndGlyphs"{look}>{escape(text)}</text>'
    )


def svg(title, description, sizes, frames, still):
    """The picture; `still` is the time of the frame for who wants no motion."""
    end = frames[-1][0] + REST_S
    width = max(columns for columns, _ in sizes) * CELL_PX + 2 * MARGIN_PX
    tops, top = [], HEAD_PX
    for _, rows in sizes:
        tops.append(top + MARGIN_PX)
        top += rows * LINE_PX + 2 * GAP_PX
    parts, names = [], []
    for number, ((begin, until), places) in enumerate(spans(frames, end)):
        from_share, to_share = (100 * at / end for at in (begin, until))
        names.append(f"@keyframes k{number}{{0%{{opacity:{int(begin == 0)}}}{from_share:.2f}%{{opacity:1}}{to_share:.2f}%{{opacity:0}}}}")
        is_still = " still" if begin <= still < until else ""
        parts.append(f'<g class="m{is_still}" style="animation-name:k{number}">')
        for (pane, row), text in places:
            parts.append(line(text, MARGIN_PX, tops[pane] + row * LINE_PX + FONT_PX))
        parts.append("</g>")
    between = "".join(
        f'<line class="between" x1="0" x2="{width:.0f}" y1="{at - GAP_PX:.0f}" y2="{at - GAP_PX:.0f}"/>' for at in tops
    )
    style = STYLE % (FONT_PX, end) + "\n".join(names)
    return (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width:.0f} {top:.0f}" width="{width:.0f}" height="{top:.0f}"'
        f' role="img" aria-labelledby="t d"><title id="t">{escape(title)}</title><desc id="d">{escape(description)}</desc>'
        f'<style>{style}</style><rect class="ground" x="0.5" y="0.5" width="{width - 1:.0f}" height="{top - 1:.0f}" rx="6"/>'
        f'<text class="title" x="{MARGIN_PX}" y="20">{escape(title)}</text>{between}\n' + "\n".join(parts) + "\n</svg>\n"
    )
