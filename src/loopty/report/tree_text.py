"""The tree as text: one line per node."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from loopty.domain.outcome import Ending, Verdict
from loopty.domain.pool import Pool
from loopty.record.node_record import Node
from loopty.report.columns import cut, pad, short_id
from loopty.report.figures import figure
from loopty.report.terminal import Terminal
from loopty.views.node_tree import HiddenNodes, TreeLine, TreeRow

_NARROWEST_ID = 12
_WIDEST_ID = 32
# The verdict says what these come to.
_UNTOLD = (Ending.FINISHED, Ending.REFUSED)
_TOLD = (Verdict.INCONCLUSIVE, Verdict.REJECTED, Verdict.QUARANTINED)


def tree_text(rows: Iterable[TreeLine], columns: int = 80, look: Terminal | None = None) -> str:
    look = look or Terminal()
    drawn = list(_with_branches(rows, max((columns // 2 - _NARROWEST_ID) // 3, 2)))
    nodes = [(branch, row) for branch, row in drawn if isinstance(row, TreeRow)]
    names = min(max(len(branch) + len(_name(row)) for branch, row in nodes), columns // 2)
    scores = max(len(_score(row)) for _, row in nodes)
    lines = []
    for branch, row in drawn:
        if isinstance(row, HiddenNodes):
            more = f"… {row.count:,} more under {short_id(row.under, 24)}"
            lines.append(look.paint(branch + cut(more, columns - len(branch)), "dim"))
        else:
            lines.append(_line(branch, row, names, scores, columns, look))
    return look.render("\n".join(lines))


def node_glyph(node: Node) -> tuple[str, str]:
    """The glyph of a node and its style."""
    if node.running:
        return "▸", "warn"
    if node.verdict is None:
        return " ", ""
    if node.verdict is Verdict.REJECTED:
        return "!", "bad"
    if node.outcome is None or not node.outcome.is_finished:
        return "×", "bad"
    if node.verdict is Verdict.INCONCLUSIVE:
        return "?", "warn"
    if node.pool is Pool.CONTROL:
        return "◦", "other"
    return ("●", "good") if node.verdict is Verdict.KEPT else ("·", "")


def node_note(node: Node, more: str = "") -> str:
    """What a line says of a node besides its score."""
    remarks = [
        more,
        "control" if node.pool is Pool.CONTROL else "",
        "draft" if node.draft else "",
        ("measured again" if node.outcome else "running") if node.running else "",
        node.verdict if node.verdict in _TOLD else "",
        node.outcome.ending if node.outcome and node.outcome.ending not in _UNTOLD else "",
    ]
    remark = ", ".join(filter(None, remarks))
    made = f"{node.operator}: {node.summary}" if node.summary else node.operator
    return f"({remark}) {made}" if remark else made


def _with_branches(rows: Iterable[TreeLine], levels: int) -> Iterator[tuple[str, TreeLine]]:
    """Each row with the lines that lead to it, from so many levels at most: the id tells how deep it is."""
    passing: list[bool] = []
    for row in rows:
        if row.level == 0:
            yield "", row
            continue
        last = isinstance(row, HiddenNodes) or row.is_last
        del passing[row.level - 1 :]
        first = max(len(passing) - levels + 1, 0)
        stem = "".join("│  " if passes else "   " for passes in passing[first:])
        stem = "…" + stem[1:] if first else stem
        dash = "┄" if isinstance(row, HiddenNodes) or row.skips_nodes else "─"
        yield f"{stem}{'└' if last else '├'}{dash} ", row
        passing.append(not last)


def _line(branch: str, row: TreeRow, names: int, scores: int, columns: int, look: Terminal) -> str:
    glyph, style = node_glyph(row.node)
    if row.is_best:
        glyph, style = "★", "best"
    elif row.other_score is not None:
        glyph, style = "≠", "warn"
    name = _name(row, max(names - len(branch), _NARROWEST_ID))
    used = max(names, len(branch) + len(name))
    lead = look.paint(branch, "dim") + look.paint(name, "best" if row.on_path else "")
    lead += " " * (used - len(branch) - len(name))
    score = look.paint(pad(_score(row), scores, right=True), "best" if row.on_path else "")
    left = columns - used - scores - 5
    worthy = row.on_path or row.node.running or row.node.verdict is Verdict.KEPT
    abroad = "" if row.other_score is None else f"{figure(row.other_score)} elsewhere"
    text = look.paint(cut(node_note(row.node, abroad), left) if left > 3 else "", "" if worthy else "dim")
    return f"{lead}  {score} {look.paint(glyph, style)} {text}".rstrip()


def _name(row: TreeRow, columns: int = 40) -> str:
    """The id, and how many nodes are folded up under it."""
    folded = f" +{row.hidden_below:,}" if row.hidden_below else ""
    return short_id(row.node.id, min(columns - len(folded), _WIDEST_ID)) + folded


def _score(row: TreeRow) -> str:
    return "" if row.score is None else figure(row.score)
