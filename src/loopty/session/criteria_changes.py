"""Which of a run's criteria changed since it began: the files of the benchmark, and the keys of the task file."""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from typing import Any

from loopty.domain.access import TASK_FILE
from loopty.record.run_record import Run
from loopty.session.context import CampaignContext

_TABLES = {
    "objective": "objective",
    "benchmark": "benchmark",
    "access rules": "access",
    "limits": "limits",
    "gates": "gates",
    "held-out files": "audit",
}
"""The table of the task file that each of the criteria is read from."""
_MOST_NAMED = 5


def change_text(
    before: Mapping[str, str], after: Mapping[str, str], names: Mapping[str, Sequence[str]] | None = None
) -> str:
    """Say which of the criteria changed; `names` has the files or keys behind each, as far as known."""
    if not before:
        return "the criteria were recorded by an older loopty"
    parts = [name for name in after if before.get(name) != after[name]]
    found = list(dict.fromkeys(name for part in parts for name in (names or {}).get(part) or [part]))
    more = f" and {len(found) - _MOST_NAMED} more" if len(found) > _MOST_NAMED else ""
    return f"the criteria have changed ({', '.join(found[:_MOST_NAMED])}{more})"


def changed_names(context: CampaignContext, run: Run, commit: str) -> dict[str, list[str]]:
    """Name, for each of the criteria, the files or keys that differ between the run's baseline and this commit."""
    repository, old, benchmark = context.repository, context.history[run.root].commit, context.files.benchmark
    paths = [change.path for change in repository.changes(old, commit)]
    files = [path for path in paths if any(benchmark.includes_or_loads(path, each) for each in (old, commit))]
    then, now = (_tables(repository.text(each, TASK_FILE)) for each in (old, commit))
    keys = {part: _changed_keys(table, then.get(table), now.get(table)) for part, table in _TABLES.items()}
    return {"benchmark files": files} | (keys if then and now else {})


def _tables(text: str | None) -> dict[str, Any]:
    try:
        return tomllib.loads(text or "")
    except tomllib.TOMLDecodeError:
        return {}


def _changed_keys(table: str, then: Any, now: Any) -> list[str]:
    if isinstance(then, dict) and isinstance(now, dict):
        return [f"{table}.{key}" for key in {**then, **now} if then.get(key) != now.get(key)]
    return [] if then == now else [table]
