"""What a node changed, in as few words as possible: `0.5 → 0.496 line 14`, `lr 0.1 → 0.03`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Protocol

from loopty.domain.space import Value
from loopty.kit.records import Record, field
from loopty.record.node_record import Node
from loopty.report.columns import cut_middle, pad, printable_line, width
from loopty.report.figures import value_text
from loopty.views.tree_node import TreeNode

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
        """The line for these changes, each with this many columns."""
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
        """The names of the parameters above their columns; empty where the lines name them."""
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
        """The summary; that of an edit of one file begins with its path."""
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
    """A value in at most three digits."""
    return f"{value:.3g}" if isinstance(value, float) else value_text(value)


def _table(points: Sequence[Mapping[str, Value]], columns: int) -> dict[str, int] | None:
    """The columns of a table with a column for each parameter; None where it does not fit."""
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
