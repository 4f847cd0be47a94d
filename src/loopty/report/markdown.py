"""A document as Markdown. What others wrote cannot become markup, a link, a mention or an image."""

from __future__ import annotations

import re
from collections.abc import Sequence

from loopty.kit.printable import escape_hidden
from loopty.report.columns import printable_line
from loopty.report.summary_sections import Bullets, CodeBlock, Paragraph, Part, SummaryDocument, Table

_MARKUP = re.compile(r"[\\`*_\[\]<>|~$&]")
_AUTOMATIC = re.compile(r"@|#(?=\d)|:(?=//)|(?<=www)\.|^(?:[-+]|\d+(?=\.))(?= )", re.IGNORECASE)
"""What hosts turn into mentions, links to issues, links and lists without any markup."""
_APART = "&#8203;"
_OWN_CODE = re.compile(r"`(loopty [ -~]+?|@\d+)`")
"""Commands of loopty and names of nodes."""
_FENCE = re.compile(r"`{3,}")


def markdown_text(document: SummaryDocument) -> str:
    """The document, from its title to its last line."""
    blocks = [f"# {_plain(document.title)}"]
    for section in document.sections:
        blocks.append(f"## {_plain(section.title)}")
        blocks += [_part_text(part) for part in section.parts]
    return "\n\n".join(blocks) + "\n"


def _part_text(part: Part) -> str:
    match part:
        case Paragraph(text):
            return _inline(text)
        case Bullets(items):
            return "\n".join(f"- {_inline(item)}" for item in items)
        case Table(head, rows):
            right = "|".join([" --- ", *[" ---: "] * (len(head) - 1)])
            return "\n".join([_row(head), f"|{right}|", *map(_row, rows)])
        case CodeBlock(title, language, text):
            fence = "`" * max(3, *(len(found) + 1 for found in _FENCE.findall(text)), 0)
            body = "\n".join(map(escape_hidden, text.split("\n")))
            summary = f"<details><summary>{_plain(title)}</summary>"
            return f"{summary}\n\n{fence}{language}\n{body}\n{fence}\n\n</details>"


def _row(cells: Sequence[str]) -> str:
    return "| " + " | ".join(map(_plain, cells)) + " |"


def _inline(text: str) -> str:
    """The text with its markup escaped; only commands of loopty and names of nodes stay between backticks."""
    parts = _OWN_CODE.split(printable_line(text))
    return "".join(f"`{part}`" if place % 2 else _plain(part) for place, part in enumerate(parts))


def _plain(text: str) -> str:
    escaped = _MARKUP.sub(lambda found: f"\\{found[0]}", printable_line(text))
    return _AUTOMATIC.sub(lambda found: f"{found[0]}{_APART}", escaped)
