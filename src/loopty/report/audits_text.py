"""Audits as text: a line for each time the split was seen, then what is suspicious."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.report.columns import cut, pad, width, wrap
from loopty.report.figures import figure, moment, plural
from loopty.report.terminal import Terminal
from loopty.views.audit_rows import MANY_LOOKS, AuditRow

_HEAD = ("look", "node", "when", "search", "gain", "held out", "gain", "survives")
_WHEN = 2
_LEFT_ALIGNED = (1, _WHEN)
_LONGEST_NAME = 16


def audits_text(audits: Sequence[AuditRow], columns: int = 80, terminal: Terminal | None = None) -> str:
    """The audits of one run, oldest first, one block for each split."""
    terminal = terminal or Terminal()
    if not audits:
        return "no audit yet"
    blocks = [_block(split, audits, columns, terminal) for split in dict.fromkeys(row.split for row in audits)]
    return terminal.render("\n\n".join(blocks))


def looks_text(looks: int) -> str:
    """The number of looks at a split, with a warning if they are many."""
    count = f"{plural(looks, 'look')} at this split"
    if looks < MANY_LOOKS:
        return count
    return f"{count}: each one makes it a little less independent, so a fresh split would say more"


def _block(split: str, audits: Sequence[AuditRow], columns: int, terminal: Terminal) -> str:
    rows = [row for row in audits if row.split == split]
    metric = rows[-1].metric or "weighted sum"
    lines = [f"{terminal.paint(f'split {split}', 'strong')}  {cut(metric, columns // 2)}", ""]
    head, *table = _table([_HEAD, *map(_cells, rows)], columns)
    lines.append(terminal.paint(head, "dim"))
    for row, line in zip(rows, table, strict=True):
        lines.append(terminal.paint(line, "warn" if row.flags else ""))
        if row.ended:
            lines += [" " * 6 + terminal.paint(text, "bad") for text in wrap(row.ended, columns - 6)]
    for text in _flags(rows):
        lines += ["", *(terminal.paint(line, "warn") for line in wrap(text, columns))]
    return "\n".join([*lines, "", *wrap(looks_text(rows[-1].look), columns)])


def _table(cells: Sequence[Sequence[str]], columns: int) -> list[str]:
    """The cells in columns; the time of each audit only if there is room for it."""
    widths = [max(map(width, column)) for column in zip(*cells, strict=True)]
    shown = [i for i in range(len(widths)) if i != _WHEN or sum(widths) + 2 * len(widths) <= columns]
    lines = ("  ".join(pad(row[i], widths[i], right=i not in _LEFT_ALIGNED) for i in shown) for row in cells)
    return [cut(line.rstrip(), columns) for line in lines]


def _cells(row: AuditRow) -> tuple[str, ...]:
    return (
        str(row.look),
        row.name,
        moment(row.at),
        _value(row.search),
        _gain(row.search_gain),
        _value(row.held_out),
        _gain(row.held_out_gain),
        "" if row.survives is None else f"{100 * row.survives:.0f} %" if row.survives else "none",
    )


def _value(value: float | None) -> str:
    return "" if value is None else figure(value)


def _gain(gain: float | None) -> str:
    return "" if gain is None else f"{gain:+.4g}"


def _flags(rows: Sequence[AuditRow]) -> Iterator[str]:
    """What is suspicious about each node, from its last audit."""
    for row in {row.node: row for row in rows}.values():
        yield from (f"{row.name} {flag.kind}: {flag.words}" for flag in row.flags)
