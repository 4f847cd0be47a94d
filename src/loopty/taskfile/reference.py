"""Renders the reference page of `loopty.toml` from the schema: `python -m loopty.taskfile.reference`."""

from __future__ import annotations

import dataclasses
import sys
import types
import typing
from collections.abc import Iterator, Mapping
from typing import Any

from loopty.domain.gate_spec import Gate
from loopty.domain.model import ModelSpec
from loopty.domain.space import Parameter
from loopty.kit.str_enum import ENUMS
from loopty.taskfile.plugins import SELECTORS, Plugins
from loopty.taskfile.read import PLUGIN_TABLES, TABLES, TOP_KEYS

_USER_MODELS_NOTE = (
    "You can define models for all tasks in the same way in `~/.config/loopty/config.toml` (or "
    "`$XDG_CONFIG_HOME/loopty/config.toml`). If both files have a model of the same name, the task's counts."
)
_PARENTS_NOTE = (
    "Which node the proposers `llm-code`, `agent` and `mutate` change next. `best` and `root` have no options."
)
_TYPE_NAMES = {str: "text", int: "whole number", float: "number", bool: "true or false"}


def page() -> str:
    """The whole page, as Markdown."""
    lines = [
        "# The task file `loopty.toml`",
        "",
        "This page lists all keys; an unknown key is an error. `make docs` generates it from the schema.",
        "",
        "## Top level",
        "",
        *(f"- `{name}`: {doc}" for name, doc in TOP_KEYS.items()),
    ]
    for name, table in TABLES.items():
        lines += ["", f"## `[{name}]`", "", _first_line(table), "", *_rows(table)]
        for heading, inner in _inner_tables(name, table):
            lines += ["", f"### {heading}", "", _first_line(inner), "", *_rows(inner)]
    lines += ["", "## `[[gates]]`", "", _first_line(Gate), "", *_rows(Gate)]
    lines += ["", "## `[parameters.NAME]`", "", _first_line(Parameter), "", *_rows(Parameter)]
    lines += ["", "## `[models.NAME]`", "", _first_line(ModelSpec), "", _USER_MODELS_NOTE, "", *_rows(ModelSpec)]
    for role, plugins in PLUGIN_TABLES.items():
        lines += ["", f"## `[{role}]`", "", *_plugin_rows(plugins)]
        tables = {
            inner: heading
            for kind in plugins.kinds
            for heading, inner in _inner_tables(role, _options_type(plugins, kind))
        }
        for inner, heading in tables.items():
            lines += ["", f"### {heading}", "", _first_line(inner), "", *_rows(inner)]
    lines += ["", "## `parents`", "", _PARENTS_NOTE]
    for kind, selector in SELECTORS.items():
        options = selector.load_options()
        if dataclasses.fields(options):
            lines += [
                "",
                f'### `parents = {{ kind = "{kind}", … }}`',
                "",
                _first_line(options),
                "",
                *_rows(options),
            ]
    return "\n".join(lines) + "\n"


def _inner_tables(name: str, table: type) -> Iterator[tuple[str, type]]:
    """The tables inside a table: heading and dataclass of each."""
    headings: dict[type, list[str]] = {}
    hints = typing.get_type_hints(table)
    for field in dataclasses.fields(table):
        kinds = (hints[field.name], *typing.get_args(hints[field.name]))
        for index, kind in enumerate(kinds):
            if isinstance(kind, type) and dataclasses.is_dataclass(kind):
                table_name = f"[{name}.{field.name}]"
                headings.setdefault(kind, []).append(f"`[{table_name}]`" if index else f"`{table_name}`")
    return ((", ".join(names), kind) for kind, names in headings.items())


def _rows(table: type) -> Iterator[str]:
    yield "| key | type | default | meaning |"
    yield "|---|---|---|---|"
    hints = typing.get_type_hints(table)
    for field in dataclasses.fields(table):
        doc = field.metadata["doc"]
        yield f"| `{field.name}` | {_type_name(hints[field.name])} | {_default_text(field)} | {doc} |"


def _plugin_rows(plugins: Plugins) -> Iterator[str]:
    yield "`kind` is one of:"
    yield ""
    for kind in plugins.kinds:
        needs = ": needs `[parameters]`." if plugins.kinds[kind].needs_space else ""
        yield f"- `{kind}`{needs}"
        for field in dataclasses.fields(_options_type(plugins, kind)):
            default = _default_text(field)
            note = " (required)" if default == "required" else "" if default == "–" else f" (default {default})"
            yield f"  - `{field.name}`{note}: {field.metadata['doc']}"
    yield ""
    with_space, without = (f"`{plugins.default(has_space)}`" for has_space in (True, False))
    either = with_space if with_space == without else f"{with_space} if there are parameters, otherwise {without}"
    yield f"Default: {either}."


def _options_type(plugins: Plugins, kind: str) -> type:
    return plugins.kinds[kind].load_options()


def _type_name(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        parts = dict.fromkeys(_type_name(argument) for argument in arguments if argument is not type(None))
        if "number" in parts:
            parts.pop("whole number", None)
        return " or ".join(parts)
    if origin is tuple:
        item = _type_name(arguments[0])
        return f"list of {item}{'s' if item == 'table' else ''}"
    if origin is not None and issubclass(origin, Mapping):
        return "table"
    if dataclasses.is_dataclass(hint):
        return "table"
    if issubclass(hint, ENUMS):
        return " or ".join(f"`{member.value}`" for member in hint)
    return _TYPE_NAMES[hint]


def _default_text(field: Any) -> str:
    if field.default is dataclasses.MISSING:
        return "required" if field.default_factory is dataclasses.MISSING else "–"
    if field.default in (None, (), "") or dataclasses.is_dataclass(field.default):
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
