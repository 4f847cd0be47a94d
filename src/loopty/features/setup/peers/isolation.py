"""Can the program run in a sandbox of its own, out of reach of what scores it?"""

from __future__ import annotations

import ast
import re
from collections.abc import Sequence

from loopty.features.setup.peers.peer_task import Isolation, TaskFolder, assigned, functions, parsed
from loopty.features.setup.task_draft import TaskDraft
from loopty.kit.records import replace

_READS = r"(?:open\(\s*{0}|{0}\s*\)\.read|Path\(\s*{0})"
_NAMES_OF_PATH = ("program_path", "program_file", "program")


def isolation_of(folder: TaskFolder, evaluator: str, program: str, draft: TaskDraft) -> Isolation:
    """Find the functions that an evaluator calls, if it takes nothing else from the program."""
    text = folder.text(evaluator)
    if not program.endswith(".py"):
        return Isolation(reason=f"{program} is no Python")
    if any(re.search(_READS.format(name), text) for name in _NAMES_OF_PATH):
        return Isolation(reason=f"{evaluator} reads the program's text")
    body = parsed(folder.text(program))
    known = functions(body)
    used = [name for name in known if _uses(text, name)]
    others = sorted(_names_at_top(body) - set(known))
    if taken := next((name for name in others if _uses(text, name)), ""):
        return Isolation(reason=f"{evaluator} uses {taken} of the program, which is no function")
    if not used:
        return Isolation(reason=f"{evaluator} names no function of the program")
    option = f" --isolated {','.join(used)}"
    stages = tuple(replace(stage, command=stage.command + option) for stage in draft.stages)
    return Isolation(replace(draft, command=draft.command + option, stages=stages, isolated=True), tuple(used))


def _uses(text: str, name: str) -> bool:
    return re.search(rf"""\.{name}\b|["']{name}["']""", text) is not None


def _names_at_top(body: Sequence[ast.stmt]) -> set[str]:
    """Return the names of classes and values at the top of a program; what it imports is not its own."""
    return {one.name for one in body if isinstance(one, ast.ClassDef)} | set(assigned(body))
