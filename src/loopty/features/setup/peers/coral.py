"""CORAL: `task.yaml`, a folder `seed/`, and a grader that looks at it."""

from __future__ import annotations

import json
import shlex

from loopty.features.setup.peers.peer_task import EVALUATE, MAX, PeerTask, TaskFolder, goal, number, setting
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.paths import literal

_TASK = "task.yaml"
_TIMEOUT = 300.0
"""CORAL's own, where the task names none."""


def coral_task(folder: TaskFolder) -> PeerTask | None:
    """Recognise the task with its grader; what lies in `seed/` may change."""
    settings = folder.settings(folder.first(_TASK))
    if not setting(settings, "grader"):
        return None
    entry = setting(settings, "grader", "entrypoint")
    module = str(entry).partition(":")[0].replace(".", "/") if isinstance(entry, str) else ""
    grader = folder.first(f"{module}.py", f"grader/{module}.py", f"grader/src/{module}.py", "eval/grader.py")
    seed = next(
        (name for name in ("seed", "repo") if any(path.startswith(f"{name}/") for path in folder.files)), ""
    )
    timeout = number(setting(settings, "grader", "timeout")) or _TIMEOUT
    given = {"args": setting(settings, "grader", "args") or {}, "timeout": timeout}
    draft = TaskDraft(
        f"{EVALUATE} {shlex.quote(grader)} {seed} --as coral --args {shlex.quote(json.dumps(given))}",
        (f"{seed}/**",),
        statement=goal(setting(settings, "task", "description") or setting(settings, "task", "name")),
        direction="min" if setting(settings, "grader", "direction") == "minimize" else MAX,
        files=(_TASK, f"{literal(grader.rpartition('/')[0])}/**") if "/" in grader else (_TASK, literal(grader)),
        timeout_seconds=timeout,
    ).with_note("direction", f"{_TASK} says so")
    return PeerTask(
        "CORAL", f"{grader or 'a grader'} looks at {seed or 'a folder'}/", draft, refusal=_refusal(grader, seed)
    )


def _refusal(grader: str, seed: str) -> str:
    if not grader:
        return f"{_TASK} names a grader that is no file here: install its package, and use --command"
    return "" if seed else "there is no seed/: make it, with the files that may change (they may be empty)"
