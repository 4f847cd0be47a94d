"""Trials as a table: a CSV or a Parquet file with a column for each parameter and each metric."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from pathlib import Path

from loopty.domain.errors import Misuse
from loopty.kit.atomic_file import write_atomically
from loopty.kit.own_installation import extra_command
from loopty.kit.printable import escape_hidden
from loopty.kit.records import fields_of
from loopty.views.trial_rows import TrialRow

Cell = str | int | float | bool | None

_NESTED = ("params", "metrics")
_FORMULA = ("=", "+", "-", "@", "\t", "\n", "\uff1d", "\uff0b", "\uff0d", "\uff20")
"""How a cell begins that spreadsheets run."""
_INTEGER_BITS = 63
_PARQUET_TYPES = {str: "string", bool: "bool", int: "int64", float: "float64"}


def write_trial_table(rows: Sequence[TrialRow], path: Path) -> None:
    """Write the table in the format that the path's ending names. Raises Misuse for another one."""
    if path.suffix == ".csv":
        content = _csv(rows)
    elif path.suffix == ".parquet":
        content = _parquet(rows)
    else:
        raise Misuse(f"{path.name} says no format: end it with .csv or .parquet")
    try:
        write_atomically(path.parent, path.name, content)
    except OSError as error:
        raise Misuse(f"cannot write {path} ({error.strerror}): name another file") from None


def column_names(rows: Sequence[TrialRow]) -> list[str]:
    """Facts of the trial, then parameters as `param.NAME`, then metrics as `metric.NAME`."""
    facts = [field.name for field in fields_of(TrialRow) if field.name not in _NESTED]
    params = dict.fromkeys(f"param.{name}" for row in rows for name in row.params)
    metrics = dict.fromkeys(f"metric.{name}" for row in rows for name in row.metrics)
    return [escape_hidden(name) for name in (*facts, *params, *metrics)]


def cells(row: TrialRow) -> Mapping[str, Cell]:
    """The row's cells by column."""
    raw = {
        **{field.name: getattr(row, field.name) for field in fields_of(TrialRow) if field.name not in _NESTED},
        **{f"param.{name}": value for name, value in row.params.items()},
        **{f"metric.{name}": value for name, value in row.metrics.items()},
    }
    return {escape_hidden(name): _portable(value) for name, value in raw.items()}


def _portable(cell: Cell) -> Cell:
    """The cell as every format and terminal can hold it: hidden characters are visible, integers have 64 bits."""
    if isinstance(cell, str):
        return escape_hidden(cell)
    is_large = isinstance(cell, int) and cell.bit_length() > _INTEGER_BITS
    return str(cell) if is_large else cell


def _csv(rows: Sequence[TrialRow]) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.DictWriter(text, [_harmless(name) for name in column_names(rows)])
    writer.writeheader()
    writer.writerows({_harmless(name): _harmless(cell) for name, cell in cells(row).items()} for row in rows)
    return text.getvalue().encode()


def _harmless(cell: Cell) -> Cell:
    """The cell; text that a spreadsheet would run as a formula begins with an apostrophe."""
    return f"'{cell}" if isinstance(cell, str) and cell.startswith(_FORMULA) else cell


def _parquet(rows: Sequence[TrialRow]) -> bytes:
    try:
        from arro3.core import Array, DataType, Table
        from arro3.io import write_parquet
    except ImportError:
        raise Misuse(f"Parquet needs arro3, .csv does not: run {extra_command('parquet')}") from None
    plain = [cells(row) for row in rows]
    columns = {}
    for name in column_names(rows):
        values = [row.get(name) for row in plain]
        kind = _value_type(values)
        converted = [None if value is None else kind(value) for value in values]
        columns[name] = Array(converted, getattr(DataType, _PARQUET_TYPES[kind])())
    file = io.BytesIO()
    write_parquet(Table.from_pydict(columns), file)
    return file.getvalue()


def _value_type(values: Sequence[Cell]) -> type:
    """The narrowest type that holds every value of a column."""
    types = {str if isinstance(value, str) else type(value) for value in values if value is not None}
    if len(types) == 1:
        return types.pop()
    return float if types and types <= {int, float} else str
