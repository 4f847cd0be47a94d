"""The reference page of `loopty.toml`, made from the schema: `python -m loopty.taskfile.reference`."""

from __future__ import annotations

import dataclasses
import enum
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from loopty.core.gate import Gate
from loopty.core.objective import Metric
from loopty.core.space import Parameter
from loopty.taskfile.plugins import Plugins, options_of
from loopty.taskfile.read import CHOSEN, TABLES, TOP

_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def page() -> str:
    """The whole page, as Markdown."""
    lines = [
        "# The task file `loopty.toml`",
        "",
        "Every key. Unknown keys are errors. This page is made from the schema (`make docs`).",
        "",
        "## Top level",
        "",
        *(f"- `{name}`: {doc}" for name, doc in TOP.items()),
    ]
    for name, table in TABLES.items():
        lines += ["", f"## `[{name}]`", "", _first_line(table), "", *_rows(table)]
        if name == "objective":
            lines += ["", "### `[[objective.metrics]]`", "", _first_line(Metric), "", *_rows(Metric)]
    lines += ["", "## `[[gates]]`", "", _first_line(Gate), "", *_rows(Gate)]
    lines += ["", "## `[parameters.NAME]`", "", _first_line(Parameter), "", *_rows(Parameter)]
    for role, plugins in CHOSEN.items():
        lines += ["", f"## `[{role}]`", "", *_plugin_rows(plugins)]
    return "\n".join(lines) + "\n"


def _rows(table: type) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    hints = typing.get_type_hints(table)
    for field in dataclasses.fields(table):
        doc = field.metadata["doc"]
        yield f"| `{field.name}` | {_type(hints[field.name])} | {_default(field)} | {doc} |"


def _plugin_rows(plugins: Plugins) -> Iterator[str]:
    yield "`kind` is one of:"
    yield ""
    for kind in plugins.kinds:
        options = typing.cast(type, options_of(plugins, kind))
        fields = dataclasses.fields(options)
        own = "; ".join(f"`{field.name}` (default {_default(field)}): {field.metadata['doc']}" for field in fields)
        needs = " Needs parameters." if kind in plugins.needs_space else ""
        yield f"- `{kind}`.{needs} {own}".rstrip()
    yield ""
    with_space, without = plugins.default(True), plugins.default(False)
    either = with_space if with_space == without else f"`{with_space}` with parameters, `{without}` without"
    yield f"Default: {either if either.startswith('`') else f'`{either}`'}."


def _type(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        parts = dict.fromkeys(_type(argument) for argument in arguments if argument is not type(None))
        if "number" in parts:
            parts.pop("whole number", None)
        return " or ".join(parts)
    if origin is tuple:
        return f"list of {_type(arguments[0])}"
    if origin is not None and issubclass(origin, Mapping):
        return "table"
    if dataclasses.is_dataclass(hint):
        return "tables"
    if issubclass(hint, enum.Enum):
        return " or ".join(f"`{member.value}`" for member in hint)
    return _NAMES[hint]


def _default(field: Any) -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "–"
    if field.default is None or field.default == ():
        return "–"
    if isinstance(field.default, tuple):
        return f"`{[str(item) for item in field.default]}`".replace("'", '"')
    if isinstance(field.default, bool):
        return f"`{str(field.default).lower()}`"
    return f"`{field.default}`"


def _first_line(table: type) -> str:
    return (table.__doc__ or "").splitlines()[0]


if __name__ == "__main__":
    sys.stdout.write(page())
