"""The tree as text: one line per node with what it changed, the path to the best node as its trunk."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import add
from typing import NamedTuple, Protocol

from loopty.domain.space import Value
from loopty.domain.trial import Ending, Pool, Verdict
from loopty.kit.records import Record, field
from loopty.record.node_record import Node
from loopty.show.figures import figure, value_text
from loopty.show.score_text import ScoreText
from loopty.show.terminal import Terminal, cut, cut_middle, pad, printable_line, width, wrap
from loopty.show.tree_rows import HiddenControls, TreeLine, TreeNode, TreeRow

_SHORTEST_NAME = 4


class Change(Protocol):
    """A node with the parameters that differ from its parent's, and the parent's value of each."""

    @property
    def node(self) -> Node | TreeNode: ...

    @property
    def changed_params(self) -> Mapping[str, Value | None]: ...


class ChangeLine(Record):
    """How the changes of one output are written: all of them alike."""

    shows_paths: bool = False
    """Whether the file of an edit is named: only where the nodes edit several."""
    shows_values_before: bool = True
    """Whether a parameter's value before is shown: only where there is room for it."""
    table: Mapping[str, int] | None = None
    """The width of each parameter's column, where only parameters change and there is no room for words."""
    _known: dict[str, str] = field(default_factory=dict)
    """What is known already of the changed parameters, by node."""

    @classmethod
    def of(cls, changes: Sequence[Change], columns: int) -> ChangeLine:
        """Make the line for these changes, each with this many columns."""
        paths = {path for change in changes for path in change.node.edits}
        whole = cls(len(paths) > 1)
        for change in changes:
            params = whole._params(change)
            if 2 * len(params) > columns and width(params) > columns:  # no letter takes more than two columns
                break
            whole._known[change.node.id] = params
        else:
            return whole
        table = None if paths else _table([change.node.params for change in changes], columns)
        return cls(len(paths) > 1, shows_values_before=False, table=table)

    @property
    def head(self) -> str:
        """Return the names of the parameters above their columns; empty if the lines name them."""
        names = (pad(cut_middle(name, columns), columns) for name, columns in (self.table or {}).items())
        return "  ".join(names)

    def text(self, change: Change) -> str:
        node = change.node
        if self.table:
            return self._values(node.params, self.table)
        if "." not in node.id:
            return node.operator
        params = self._known.get(node.id)
        if params is None:
            params = self._params(change)
        if params and not node.edits:
            return params
        return "; ".join(filter(None, (params, self._edit(node))))

    def _edit(self, node: Node | TreeNode) -> str:
        """Return the summary; for an edit of one file it begins with the path."""
        summary = printable_line(node.summary)
        if self.shows_paths or len(node.edits) != 1:
            return summary or node.operator
        return summary.removeprefix(f"{node.edits[0]}: ") or node.operator

    def _params(self, change: Change) -> str:
        if not change.changed_params:
            return ""
        now = change.node.params
        return ", ".join(
            [
                f"{name} {_short(before)} → {_short(now[name])}"
                if self.shows_values_before and before is not None
                else f"{name} {_short(now[name])}"
                for name, before in change.changed_params.items()
            ]
        )

    def _values(self, params: Mapping[str, Value], table: Mapping[str, int]) -> str:
        values = (_short(params[name]) if name in params else "" for name in table)
        return "  ".join(pad(value, columns) for value, columns in zip(values, table.values(), strict=True))


def _short(value: Value) -> str:
    """Format a value in at most three digits."""
    return f"{value:.3g}" if isinstance(value, float) else value_text(value)


def _table(points: Sequence[Mapping[str, Value]], columns: int) -> dict[str, int] | None:
    """Lay out a table with a column for each parameter; None if it does not fit."""
    names = dict.fromkeys(name for point in points for name in point)
    fewest = {
        name: max(_SHORTEST_NAME, *(width(_short(point[name])) for point in points if name in point))
        for name in names
    }
    left = columns - sum(fewest.values()) - 2 * (len(fewest) - 1)
    if not fewest or left < 0:
        return None
    for name in sorted(fewest, key=width):
        more = min(max(width(name) - fewest[name], 0), left)
        fewest[name] += more
        left -= more
    return fewest


_NARROWEST_NAME = 12
_LONGEST_METRIC = 16
_EFFECT = "effect"
_BESIDE = {Pool.CONTROL: "control", Pool.VERSION: "past version"}
"""Nodes that are no attempts."""
_REMARKABLE_VERDICTS = (Verdict.INCONCLUSIVE, Verdict.QUARANTINED, Verdict.HELD)


def tree_text(
    rows: Iterable[TreeLine], columns: int = 80, terminal: Terminal | None = None, metric: str = "score"
) -> str:
    """Format one line per node: its score, its effect over its parent, and what it changed."""
    return "\n".join(tree_lines(rows, columns, terminal or Terminal(), metric))


def tree_lines(rows: Iterable[TreeLine], columns: int, terminal: Terminal, metric: str) -> Iterator[str]:
    """Yield the lines of the text, each made when it is asked for: a tree may have a million."""
    hidden_controls: list[HiddenControls] = []
    shown: list[TreeRow] = []
    for line in rows:
        if isinstance(line, HiddenControls):
            hidden_controls.append(line)
        else:
            shown.append(line)
    sheet = _Sheet(shown, columns, metric)
    yield terminal.render(terminal.paint(sheet.head, "dim"))
    for drawn in sheet.drawn:
        yield terminal.render(sheet.line(drawn, terminal))
    notes = [sheet.controls(line) for line in hidden_controls]
    if hidden := sum(row.hidden_below for row in shown):
        notes.insert(0, f"+ counts {hidden:,} more nodes below: --all shows them")
    for note in notes:
        yield from (terminal.render(terminal.paint(line, "dim")) for line in wrap(note, columns))


def node_glyph(node: Node | TreeNode) -> tuple[str, str]:
    """Return the glyph of a node and its style."""
    if node.running:
        return "▸", "warn"
    if node.verdict is None:
        return " ", ""
    if node.verdict is Verdict.REJECTED:
        return "!", "bad"
    if node.ending is Ending.PRUNED:
        return "–", "dim"
    if node.ending is not Ending.FINISHED:
        return "×", "bad"
    if node.verdict in (Verdict.INCONCLUSIVE, Verdict.HELD):
        return "?", "warn"
    if node.pool is Pool.CONTROL:
        return "◦", "other"
    return ("●", "good") if node.verdict is Verdict.KEPT else ("·", "")


def node_remark(node: Node | TreeNode, merged: Sequence[str], more: str = "") -> str:
    """Say what a line tells about a node besides its score, its state and its change: `(control)`."""
    if not (
        more
        or merged
        or node.withdrawn
        or node.files_removed
        or node.reopened_for
        or node.running
        or node.pool in _BESIDE
        or node.verdict in _REMARKABLE_VERDICTS
    ):
        return ""
    remarks = [
        more,
        f"merges {', '.join(merged)}" if merged else "",
        _BESIDE.get(node.pool, ""),
        "measured again" if node.running and node.ending else "",
        node.verdict if node.verdict in _REMARKABLE_VERDICTS else "",
        f"was {node.withdrawn.verdict}: {node.withdrawn.why}" if node.withdrawn and node.withdrawn.verdict else "",
        "files removed" if node.files_removed else "",
        "unjudged again" if node.reopened_for and node.is_pending else "",
    ]
    remark = ", ".join(filter(None, remarks))
    return f"({remark})" if remark else ""


def _state(node: TreeNode) -> str:
    """Say in one word why the node has no effect to show."""
    if node.draft:
        return "dropped" if node.dropped else "draft"
    if node.running:
        return "running"
    if node.verdict is Verdict.REJECTED:
        return Verdict.REJECTED
    return node.ending if node.ending and node.ending is not Ending.FINISHED else ""


class _DrawnRow(NamedTuple):
    """A row with those of its texts that the widths of columns depend on."""

    branch: str
    row: TreeRow
    name: str
    score: str
    effect: str
    remark: str


class _Sheet:
    """The columns of one tree: all lines have the same widths, digits and units."""

    def __init__(self, rows: list[TreeRow], columns: int, metric: str) -> None:
        self._columns = columns
        self._scores = _score_text(rows)
        levels = max((columns // 2 - _NARROWEST_NAME) // 3, 2)
        self.drawn = [
            _DrawnRow(
                branch,
                row,
                _name(row),
                self._score(row),
                self._effect(row),
                node_remark(row.node, row.merged, _elsewhere(row)),
            )
            for branch, row in _with_branches(rows, levels)
        ]
        # Names, scores and effects have only letters of one column.
        branches, _, names, scores, effects, remarks = zip(*self.drawn, strict=True)
        self._names = min(max(map(add, map(len, branches), map(len, names))), columns // 2)
        self._score_width = max(map(len, scores))
        title = cut(metric, max(self._score_width, min(_LONGEST_METRIC, columns // 5)))
        self._score_width = max(self._score_width, width(title))
        self._effect_width = self._room_for_effect(max(map(len, effects)))
        head = " " * self._names + "  " + pad(title, self._score_width, right=True)
        if self._effect_width:
            head += f"  {_EFFECT:>{self._effect_width}}"
        self._room = columns - self._names - self._score_width - self._effect_column - 5
        widest = max(map(width, set(remarks)))
        self._changes = ChangeLine.of(rows, self._room - widest - 1 if widest else self._room)
        self.head = cut(f"{head}   {self._changes.head}", columns).rstrip()

    def line(self, drawn: _DrawnRow, terminal: Terminal) -> str:
        branch, row, name, score, effect, remark = drawn
        glyph, style = node_glyph(row.node)
        if row.is_best:
            glyph, style = "★", "best"
        elif row.other_score is not None:
            glyph, style = "≠", "warn"
        taken = len(branch) + len(name)
        spaces = " " * (self._names - taken)
        score = score.rjust(self._score_width)
        effect = "  " + effect.rjust(self._effect_width) if self._effect_width else ""
        room = self._room + min(self._names - taken, 0)
        note = self._changes.text(row)
        if remark:
            note = " ".join(filter(None, (note, remark) if self._changes.table else (remark, note)))
        text = cut(note, room) if room > 3 else ""
        if terminal.colour:
            is_notable = row.on_path or row.node.running or row.node.verdict is Verdict.KEPT
            path_style = "best" if row.on_path else ""
            branch, name = terminal.paint(branch, "dim"), terminal.paint(name, path_style)
            score, effect = terminal.paint(score, path_style), self._paint_effect(effect, row, terminal)
            glyph, text = terminal.paint(glyph, style), terminal.paint(text, "" if is_notable else "dim")
        return f"{branch}{name}{spaces}  {score}{effect} {glyph} {text}".rstrip()

    def controls(self, hidden: HiddenControls) -> str:
        """`58 control nodes are not shown (the best, 1.23: 1.84543): loopty tree --controls`."""
        count = f"{hidden.count:,} control {'node is' if hidden.count == 1 else 'nodes are'} not shown"
        best = ""
        if hidden.best and hidden.score is not None:
            best = f" (the best is {hidden.best.name}: {self._scores.score(hidden.score)})"
        return f"{count}{best}: --controls shows {'it' if hidden.count == 1 else 'them'}"

    def _room_for_effect(self, columns: int) -> int:
        """Return the width of the column of effects; 0 if there is none to show, or no room."""
        wanted = max(columns, len(_EFFECT)) if columns else 0
        return wanted if self._names + self._score_width + wanted + 6 <= self._columns else 0

    @property
    def _effect_column(self) -> int:
        return self._effect_width + 2 if self._effect_width else 0

    def _score(self, row: TreeRow) -> str:
        is_whole = row.node.ending is not Ending.PRUNED
        return self._scores.score(row.score) if row.score is not None and is_whole else ""

    def _effect(self, row: TreeRow) -> str:
        state = _state(row.node)
        if state or row.over_parent is None:
            return state
        return self._scores.change(row.over_parent.change)

    def _paint_effect(self, effect: str, row: TreeRow, terminal: Terminal) -> str:
        """Paint a gain green if it is more than noise, or the state in the colour of its glyph."""
        if _state(row.node):
            return terminal.paint(effect, node_glyph(row.node)[1])
        found = row.over_parent
        is_gain = found is not None and found.change.amount > 0 and not found.is_within_noise
        return terminal.paint(effect, "good" if is_gain else "dim") if effect.strip() else effect


def _score_text(rows: list[TreeRow]) -> ScoreText:
    # Rows with equal scores share one change, which is looked at once.
    over_parents = {id(found): found for row in rows if (found := row.over_parent)}.values()
    noise = max((found.noise for found in over_parents), default=0.0)
    changes = [found.change for found in over_parents]
    # Nodes that were not kept are many, and some are equal in all digits but the last.
    kept = [row.score for row in rows if row.score is not None and row.node.verdict is Verdict.KEPT]
    return ScoreText.of(kept, changes, noise, {row.score for row in rows if row.score is not None})


def _with_branches(rows: Iterable[TreeRow], levels: int) -> Iterator[tuple[str, TreeRow]]:
    """Yield each row with the branches that lead to it, from at most this many levels."""
    stems: list[str] = []
    for row in rows:
        if row.level == 0:
            yield "", row
            continue
        del stems[row.level - 1 :]
        first = len(stems) - levels + 1
        stem = "…" + "".join(stems[first:])[1:] if first > 0 else "".join(stems)
        dash = "┄" if row.skips_nodes else "─"
        yield f"{stem}{'└' if row.is_last else '├'}{dash} ", row
        stems.append("   " if row.is_last else "│  ")


def _name(row: TreeRow) -> str:
    """Return the name, and the number of nodes hidden below it."""
    return row.node.name + (f" +{row.hidden_below:,}" if row.hidden_below else "")


def _elsewhere(row: TreeRow) -> str:
    return "" if row.other_score is None else f"{figure(row.other_score)} on another machine"
