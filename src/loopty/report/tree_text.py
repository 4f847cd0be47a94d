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
# The verdict covers these.
_UNREMARKABLE_ENDINGS = (Ending.FINISHED, Ending.REFUSED)
_REMARKABLE_VERDICTS = (Verdict.INCONCLUSIVE, Verdict.REJECTED, Verdict.QUARANTINED, Verdict.HELD)


def tree_text(rows: Iterable[TreeLine], columns: int = 80, terminal: Terminal | None = None) -> str:
    terminal = terminal or Terminal()
    drawn = list(_with_branches(rows, max((columns // 2 - _NARROWEST_ID) // 3, 2)))
    nodes = [(branch, row) for branch, row in drawn if isinstance(row, TreeRow)]
    names = min(max(len(branch) + len(_name(row)) for branch, row in nodes), columns // 2)
    scores = max(len(_score(row)) for _, row in nodes)
    lines = []
    for branch, row in drawn:
        if isinstance(row, HiddenNodes):
            more = f"… {row.count:,} more under {short_id(row.under, 24)}"
            lines.append(terminal.paint(branch + cut(more, columns - len(branch)), "dim"))
        else:
            lines.append(_line(branch, row, names, scores, columns, terminal))
    return terminal.render("\n".join(lines))


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
    if node.verdict in (Verdict.INCONCLUSIVE, Verdict.HELD):
        return "?", "warn"
    if node.pool is Pool.CONTROL:
        return "◦", "other"
    return ("●", "good") if node.verdict is Verdict.KEPT else ("·", "")


def node_note(node: Node, more: str = "") -> str:
    """What a line says about a node besides its score."""
    remarks = [
        more,
        "control" if node.pool is Pool.CONTROL else "",
        "dropped" if node.dropped else "draft" if node.draft else "",
        ("measured again" if node.outcome else "running") if node.running else "",
        node.verdict if node.verdict in _REMARKABLE_VERDICTS else "",
        f"was {node.withdrawn.verdict}: {node.withdrawn.why}" if node.withdrawn and node.withdrawn.verdict else "",
        "unjudged again" if node.reopened_for and node.is_pending else "",
        node.outcome.ending if node.outcome and node.outcome.ending not in _UNREMARKABLE_ENDINGS else "",
    ]
    remark = ", ".join(filter(None, remarks))
    change = f"{node.operator}: {node.summary}" if node.summary else node.operator
    return f"({remark}) {change}" if remark else change


def _with_branches(rows: Iterable[TreeLine], levels: int) -> Iterator[tuple[str, TreeLine]]:
    """Each row with the branches that lead to it, from at most this many levels: the id shows its depth."""
    continues: list[bool] = []
    for row in rows:
        if row.level == 0:
            yield "", row
            continue
        last = isinstance(row, HiddenNodes) or row.is_last
        del continues[row.level - 1 :]
        first = max(len(continues) - levels + 1, 0)
        stem = "".join("│  " if passes else "   " for passes in continues[first:])
        stem = "…" + stem[1:] if first else stem
        dash = "┄" if isinstance(row, HiddenNodes) or row.skips_nodes else "─"
        yield f"{stem}{'└' if last else '├'}{dash} ", row
        continues.append(not last)


def _line(branch: str, row: TreeRow, names: int, scores: int, columns: int, terminal: Terminal) -> str:
    glyph, style = node_glyph(row.node)
    if row.is_best:
        glyph, style = "★", "best"
    elif row.other_score is not None:
        glyph, style = "≠", "warn"
    name = _name(row, max(names - len(branch), _NARROWEST_ID))
    used = max(names, len(branch) + len(name))
    lead = terminal.paint(branch, "dim") + terminal.paint(name, "best" if row.on_path else "")
    lead += " " * (used - len(branch) - len(name))
    score = terminal.paint(pad(_score(row), scores, right=True), "best" if row.on_path else "")
    room = columns - used - scores - 5
    is_notable = row.on_path or row.node.running or row.node.verdict is Verdict.KEPT
    other = "" if row.other_score is None else f"{figure(row.other_score)} on another machine"
    text = terminal.paint(cut(node_note(row.node, other), room) if room > 3 else "", "" if is_notable else "dim")
    return f"{lead}  {score} {terminal.paint(glyph, style)} {text}".rstrip()


def _name(row: TreeRow, columns: int = 40) -> str:
    """The id, and the number of nodes hidden below it."""
    hidden = f" +{row.hidden_below:,}" if row.hidden_below else ""
    return short_id(row.node.id, min(columns - len(hidden), _WIDEST_ID)) + hidden


def _score(row: TreeRow) -> str:
    return "" if row.score is None else figure(row.score)
