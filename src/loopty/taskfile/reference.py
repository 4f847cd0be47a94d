"""Renders the reference page of `loopty.toml` from the schema: `python -m loopty.taskfile.reference`."""

from __future__ import annotations

import json
import sys
import types
import typing
from collections.abc import Iterable, Iterator, Mapping
from enum import Enum
from typing import Any

from loopty.domain.benchmark import Gate
from loopty.domain.model import ModelSpec
from loopty.domain.space import Parameter
from loopty.kit.records import NODEFAULT, fields_of, is_record
from loopty.taskfile.plugins import SELECTORS, Plugin, Plugins
from loopty.taskfile.read import PLUGIN_TABLES, TABLES, TOP_KEYS

_HEAD = """\
# The task file `loopty.toml`

`loopty init` writes this file; `make docs` generates this page from the schema. Unknown keys are errors.

## The ten keys that you write

```toml
goal = "Parse Markdown faster, with the same output"  # 1. the goal, for you and for models

[benchmark]
command = "python3 bench.py"          # 2. what scores a candidate, run in its files
timeout_seconds = 60                  # 3. a trial that takes longer fails
result = "stdout"                     # 4. where the score is: "file", "stdout", or the tool that measures

[objective]
direction = "min"                     # 5. "max" (default) or "min"

[access]
write = ["src/**"]                    # 6. the editable files; all others are read-only

[[gates]]                             # 7. what must hold, whatever the score
name = "tests"
command = "python3 -m pytest -q tests"

[budget]
attempts = 200                        # 8. the budget: attempts, wall_seconds, tokens, money_usd, …

[proposer]
kind = "llm-code"                     # 9. who proposes: mutate, tpe, llm-code, agent, …

[roles.evolver]
model = "openai:gpt-5-mini"           # 10. the model, if the proposer needs one
money_usd = 2.0
```

To tune parameters instead of code, replace `write` by `[parameters.NAME]` tables:

```toml
[parameters.rate]
type = "float"
low = 1e-4
high = 1.0
log = true
```

Paths are relative to the top of the repository, or to the folder of this file if that is a project of its own. `*`
matches within one folder, `**` any depth. Times are in seconds, sizes in MB.

The benchmark's files are protected: no proposal may change them. If you change the benchmark, the objective or the
limits, scores are no longer comparable, so a new run begins: `loopty run` says which file or key changed, and
measures the best of the run before first if it still fits. `--from NODE` names another, `--from baseline` none.
With `--new-run` nothing is carried over unless you name it. A changed budget continues the run.

A trial has no network and sees none of your other files. Keys that reach outside (`network`, `devices`, `mounts`,
`data`, …) need your permission once: see [trust](trust.md).

Results that vary are measured again before a node is kept ([the judge](judge.md)); you need no key for that. Set
`tolerance` of a metric to the smallest gain that you would merge. Set `control` under `[budget]` to see what chance
alone reaches. Set `isolated` if a candidate could reach the answers or the clock ([isolated](isolated.md)).

`width` trials run at once. By default `loopty init` measures what a trial needs.

## All other keys

`key = value` shows the default. [Writing a benchmark](benchmarks.md), [models](models.md),
[agents](agents.md), [the search](search.md) and [workers](workers.md) explain the tables.
"""
_USER_MODELS_NOTE = (
    "Models for all tasks go into `~/.config/loopty/config.toml` under the same tables. Of two models with the "
    "same name, the task's counts."
)
_TYPE_NAMES = {str: "string", int: "integer", float: "number", bool: "boolean"}


def page() -> str:
    """Render the whole page, as Markdown."""
    lines = [
        *_HEAD.splitlines(),
        "",
        "## Top level",
        "",
        *(f"- `{name}`: {doc}" for name, doc in TOP_KEYS.items()),
    ]
    tables = [
        *((f"[{name}]", name, table) for name, table in TABLES.items()),
        ("[[gates]]", "", Gate),
        ("[parameters.NAME]", "", Parameter),
        ("[models.NAME]", "", ModelSpec),
    ]
    seen: dict[type, str] = {Parameter: "[parameters.NAME]"}
    for title, name, table in tables:
        lines += ["", f"## `{title}`", "", _first_line(table), "", *_rows(table)]
        lines += ["", _USER_MODELS_NOTE] if table is ModelSpec else []
        lines += _inner_sections(_inner_tables(name, table) if name else (), seen)
    for role, plugins in PLUGIN_TABLES.items():
        lines += ["", f"## `[{role}]`", "", *_plugin_rows(plugins)]
        for kind in plugins.kinds:
            lines += _inner_sections(_inner_tables(role, _options_type(plugins, kind)), seen)
    lines += ["", "## `parents`", "", "Options of the [selectors](search.md#parents-the-selectors).", ""]
    options = ((kind, field) for kind in SELECTORS for field in fields_of(_loaded(SELECTORS[kind])))
    lines += ["| kind | key | meaning |", "|---|---|---|"]
    lines += [f"| `{kind}` | {_key(field)} | {field.facts['doc']} |" for kind, field in options]
    return "\n".join(lines) + "\n"


def _inner_sections(tables: Iterable[tuple[str, type]], seen: dict[type, str]) -> Iterator[str]:
    """Render each inner table where it comes first, and refer to it from then on."""
    for heading, inner in tables:
        if inner in seen:
            if heading.strip("`") != seen[inner]:
                yield from ("", f"{heading}: as `{seen[inner]}`.")
            continue
        seen[inner] = heading.strip("`")
        yield from ("", f"### {heading}", "", _first_line(inner), "", *_rows(inner))


def _inner_tables(name: str, table: type) -> Iterator[tuple[str, type]]:
    """Yield the heading and the dataclass of each table inside a table."""
    headings: dict[type, list[str]] = {}
    hints = typing.get_type_hints(table)
    for field in fields_of(table):
        kinds = (hints[field.name], *typing.get_args(hints[field.name]))
        for index, kind in enumerate(kinds):
            if isinstance(kind, type) and is_record(kind):
                table_name = f"[{name}.{field.name}]"
                headings.setdefault(kind, []).append(f"`[{table_name}]`" if index else f"`{table_name}`")
    return ((", ".join(names), kind) for kind, names in headings.items())


def _rows(table: type) -> Iterator[str]:
    yield "| key | meaning |"
    yield "|---|---|"
    hints = typing.get_type_hints(table)
    for field in fields_of(table):
        kind, default = _type_name(hints[field.name]), _default_text(field)
        # A default shows its type; an enumeration has more values to tell.
        notes = [kind] if default in ("", "required") or "`" in kind else []
        notes += ["*required*"] if default == "required" else []
        noted = f" ({', '.join(notes)})" if notes else ""
        yield f"| {_key(field)}{noted} | {field.facts['doc']} |"


def _plugin_rows(plugins: Plugins) -> Iterator[str]:
    names = (f"`{kind}`{'*' if one.needs_space else ''}" for kind, one in plugins.kinds.items())
    with_space, without = (f"`{plugins.default(has_space)}`" for has_space in (True, False))
    either = with_space if with_space == without else f"{with_space} if there are parameters, else {without}"
    stars = any(one.needs_space for one in plugins.kinds.values())
    yield f"`kind` is one of {', '.join(names)}{' (* needs `[parameters]`)' if stars else ''}. Default: {either}."
    yield ""
    yield "| kind | key | meaning |"
    yield "|---|---|---|"
    for kind in plugins.kinds:
        for field in fields_of(_options_type(plugins, kind)):
            required = " (*required*)" if _default_text(field) == "required" else ""
            yield f"| `{kind}` | {_key(field)}{required} | {field.facts['doc']} |"


def _key(field: Any) -> str:
    """Render a key with its default."""
    default = _default_text(field)
    return f"`{field.name}`" if default in ("", "required") else f"`{field.name} = {default}`"


def _options_type(plugins: Plugins, kind: str) -> type:
    return _loaded(plugins.kinds[kind])


def _loaded(plugin: Plugin) -> type:
    options: type = plugin.load_options()
    return options


def _type_name(hint: Any) -> str:
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        parts = dict.fromkeys(_type_name(argument) for argument in arguments if argument is not type(None))
        if "number" in parts:
            parts.pop("integer", None)
        return " or ".join(parts)
    if origin is tuple:
        return "list"
    if origin is not None and issubclass(origin, Mapping):
        return "table"
    if is_record(hint):
        return "table"
    if issubclass(hint, Enum):
        return " or ".join(f"`{member.value}`" for member in hint)
    return _TYPE_NAMES[hint]


def _default_text(field: Any) -> str:
    """Render the default as TOML; empty where there is none to state."""
    if field.default is NODEFAULT:
        return "required"
    if field.default in (None, (), "", {}) or is_record(type(field.default)):
        return ""
    if isinstance(field.default, bool):
        return str(field.default).lower()
    if isinstance(field.default, tuple):
        return json.dumps([str(item) for item in field.default])
    return json.dumps(str(field.default)) if isinstance(field.default, str) else f"{field.default}"


def _first_line(table: type) -> str:
    return (table.__doc__ or "").splitlines()[0]


if __name__ == "__main__":
    sys.stdout.write(page())
