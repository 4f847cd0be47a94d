"""A document as one HTML file that needs nothing else: no script, no request, and no text of others as markup."""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from loopty.kit.printable import escape_hidden
from loopty.report.summary_sections import Bullets, CodeBlock, Paragraph, Part, SummaryDocument, Table

_POLICY = "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'"
_CODE = re.compile(r"`([^`]+)`")
_STYLE = """
:root { color-scheme: light dark; --bg: #f6f7f8; --surface: #fff; --line: #e1e4e8; --ink: #13171c; --ink3: #626c77;
  --kept: #0a5ab8; --discarded: #80878e; --inconclusive: #b38200; --failed: #a3230f; --rejected: #741f63;
  --control: #5d6873; --version: #0f6e6e; --sunken: #eef0f2; }
@media (prefers-color-scheme: dark) { :root { --bg: #0c0e11; --surface: #14171b; --line: #262b32; --ink: #eceff2;
  --ink3: #8f99a5; --kept: #5a9ff5; --discarded: #7f8b97; --inconclusive: #f0b713; --failed: #f4764c;
  --rejected: #e5bdf4; --control: #96a1ad; --version: #4cc3c3; --sunken: #1b1f25; } }
body { margin: 0; background: var(--bg); color: var(--ink); font: 15px/1.5 system-ui, sans-serif; }
main { max-width: 60rem; margin: 0 auto; padding: 2rem 1rem 4rem; }
h1 { font-size: 1.6rem; line-height: 1.25; } h2 { font-size: 1.1rem; margin-top: 2rem; }
section, figure { background: var(--surface); border: 1px solid var(--line); border-radius: 8px;
  padding: 0 1.25rem 1rem; margin: 1rem 0; } figure { padding: .75rem; } section h2 { margin-top: 1rem; }
li { margin: .3rem 0; overflow-wrap: anywhere; } code, pre { font: 12.5px/1.5 ui-monospace, monospace; }
code { background: var(--sunken); padding: .1em .3em; border-radius: 4px; }
pre { overflow-x: auto; background: var(--sunken); padding: .75rem; border-radius: 6px; }
pre .add { color: var(--kept); } pre .del { color: var(--failed); } pre .at { color: var(--ink3); }
table { border-collapse: collapse; font-variant-numeric: tabular-nums; } td, th { padding: .3rem 1.5rem .3rem 0;
  border-bottom: 1px solid var(--line); text-align: right; } td:first-child, th:first-child { text-align: left; }
th, .tick, figcaption, summary { color: var(--ink3); font-weight: 400; } summary { cursor: pointer; }
svg { width: 100%; height: auto; display: block; } .tick { font-size: 12px; fill: var(--ink3); }
.grid { stroke: var(--line); } .best { fill: none; stroke: var(--kept); stroke-width: 1.5; }
circle.kept { fill: var(--kept); } circle.discarded { fill: var(--discarded); opacity: .62; }
circle.inconclusive { fill: none; stroke: var(--inconclusive); stroke-width: 1.5; }
circle.control { fill: none; stroke: var(--control); }
path.failed, path.pruned { stroke: var(--failed); fill: none; }
path.rejected { stroke: var(--rejected); fill: none; } path.control { stroke: var(--control); fill: none; }
path.version { stroke: var(--version); fill: none; stroke-width: 1.5; }
"""


def html_page(document: SummaryDocument, chart: str = "") -> str:
    """The whole page; `chart` is an SVG element of loopty's own."""
    caption = "Every experiment: blue was kept, grey was not, rings are the random control, crosses gave no score."
    caption += " Past versions are plus signs." * ('class="version"' in chart)
    figure = f"<figure>{chart}<figcaption>{caption}</figcaption></figure>" if chart else ""
    sections = "\n".join(
        f"<section><h2>{_text(section.title)}</h2>{''.join(map(_part_html, section.parts))}</section>"
        for section in document.sections
    )
    return f"""<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>{_text(document.title)}</title>
<meta http-equiv="Content-Security-Policy" content="{_POLICY}">
<meta name="viewport" content="width=device-width, initial-scale=1"><style>{_STYLE}</style></head>
<body><main><h1>{_text(document.title)}</h1>
{figure}
{sections}
</main></body></html>
"""


def _part_html(part: Part) -> str:
    match part:
        case Paragraph(text):
            return f"<p>{_inline(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{_inline(item)}</li>" for item in items) + "</ul>"
        case Table(head, rows):
            body = "".join(_row(row, "td") for row in rows)
            return f"<table><thead>{_row(head, 'th')}</thead><tbody>{body}</tbody></table>"
        case CodeBlock(title, _, text):
            lines = "\n".join(map(_code_line, text.split("\n")))
            return f"<details><summary>{_text(title)}</summary><pre>{lines}</pre></details>"


def _row(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _code_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "at"}.get(line[:1])
    return f'<span class="{kind}">{_text(line)}</span>' if kind else _text(line)


def _inline(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(f"<code>{_text(part)}</code>" if at % 2 else _text(part) for at, part in enumerate(parts))


def _text(text: str) -> str:
    return html.escape(escape_hidden(text))
