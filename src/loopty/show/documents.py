"""A run's summary as Markdown and as one HTML file: nothing in it is markup of others.

What others wrote cannot become markup, a link, a mention or an image.
"""

from __future__ import annotations

import html
import re
from collections.abc import Sequence

from loopty.kit.foreign_text import escape_hidden
from loopty.show.run_summary import Bullets, CodeBlock, Paragraph, Part, SummaryDocument, Table
from loopty.show.terminal import printable_line

_MARKUP = re.compile(r"[\\`*_\[\]<>|~$&]")
_AUTOMATIC = re.compile(r"@|#(?=\d)|:(?=//)|(?<=www)\.|^(?:[-+]|\d+(?=\.))(?= )", re.IGNORECASE)
"""What hosts turn into mentions, links to issues, links and lists without any markup."""
_APART = "&#8203;"
_OWN_CODE = re.compile(r"`(loopty [ -~]+?|@\d+)`")
"""Commands of loopty and names of nodes."""
_FENCE = re.compile(r"`{3,}")


def markdown_text(document: SummaryDocument) -> str:
    """Format the document, from its title to its last line."""
    blocks = [f"# {_plain(document.title)}"]
    for section in document.sections:
        blocks.append(f"## {_plain(section.title)}")
        blocks += [_part_text(part) for part in section.parts]
    return "\n\n".join(blocks) + "\n"


def _part_text(part: Part) -> str:
    match part:
        case Paragraph(text):
            return _inline_markdown(text)
        case Bullets(items):
            return "\n".join(f"- {_inline_markdown(item)}" for item in items)
        case Table(head, rows):
            right = "|".join([" --- ", *[" ---: "] * (len(head) - 1)])
            return "\n".join([_row_markdown(head), f"|{right}|", *map(_row_markdown, rows)])
        case CodeBlock(title, language, text):
            fence = "`" * max(3, *(len(found) + 1 for found in _FENCE.findall(text)), 0)
            body = "\n".join(map(escape_hidden, text.split("\n")))
            summary = f"<details><summary>{_plain(title)}</summary>"
            return f"{summary}\n\n{fence}{language}\n{body}\n{fence}\n\n</details>"


def _row_markdown(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _inline_markdown(text: str) -> str:
    """Escape the text's markup; only commands of loopty and names of nodes stay between backticks."""
    parts = _OWN_CODE.split(printable_line(text))
    return "".join(f"`{part}`" if place % 2 else _plain(part) for place, part in enumerate(parts))


def _plain(text: str) -> str:
    escaped = _MARKUP.sub(lambda found: f"\\{found[0]}", printable_line(text))
    return _AUTOMATIC.sub(lambda found: f"{found[0]}{_APART}", escaped)


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
    """Return the whole page; `chart` is an SVG element of loopty's own."""
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
            return f"<p>{_inline_html(text)}</p>"
        case Bullets(items):
            return "<ul>" + "".join(f"<li>{_inline_html(item)}</li>" for item in items) + "</ul>"
        case Table(head, rows):
            body = "".join(_row_html(row, "td") for row in rows)
            return f"<table><thead>{_row_html(head, 'th')}</thead><tbody>{body}</tbody></table>"
        case CodeBlock(title, _, text):
            lines = "\n".join(map(_code_line, text.split("\n")))
            return f"<details><summary>{_text(title)}</summary><pre>{lines}</pre></details>"


def _row_html(cells: Sequence[str], tag: str) -> str:
    return "<tr>" + "".join(f"<{tag}>{_text(cell)}</{tag}>" for cell in cells) + "</tr>"


def _code_line(line: str) -> str:
    kind = {"+": "add", "-": "del", "@": "at"}.get(line[:1])
    return f'<span class="{kind}">{_text(line)}</span>' if kind else _text(line)


def _inline_html(text: str) -> str:
    parts = _CODE.split(text)
    return "".join(f"<code>{_text(part)}</code>" if at % 2 else _text(part) for at, part in enumerate(parts))


def _text(text: str) -> str:
    return html.escape(escape_hidden(text))
