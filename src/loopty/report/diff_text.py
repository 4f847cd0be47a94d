"""A patch as text. The colours are loopty's own: candidates wrote the lines, and could forge git's."""

from __future__ import annotations

from loopty.report.terminal import Terminal

_HEADS = ("diff --git ", "index ", "--- ", "+++ ", "new file ", "deleted file ", "old mode ", "new mode ")
_STYLES = {"@": "other", "+": "good", "-": "bad"}


def diff_text(patch: str, terminal: Terminal) -> str:
    """The patch, line by line. A line feed is the only end of a line."""
    if not terminal.colour:
        return terminal.render(patch)
    in_head, lines = True, []
    for line in patch.split("\n"):
        in_head = line.startswith("diff --git ") or (in_head and not line.startswith("@@"))
        style = "strong" if in_head and line.startswith(_HEADS) else _STYLES.get(line[:1], "")
        lines.append(terminal.paint(line, style))
    return terminal.render("\n".join(lines))
