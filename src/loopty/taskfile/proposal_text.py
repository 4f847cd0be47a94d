"""What `loopty init` says where it finds nothing to measure or to change, and what else there is."""

from __future__ import annotations

import posixpath
import shlex
from collections.abc import Collection, Sequence

from loopty.causes.absent_results import CPU_TIMER
from loopty.kit.globs import literal
from loopty.taskfile.command_scripts import scripts_of_command
from loopty.taskfile.task_draft import TaskDraft
from loopty.workspaces.repository_facts import RepositoryFacts

_MOST_NAMES = 3
_FEW_SOURCES = 3
_STARTS = {"python": "python3 ", "javascript": "node ", "typescript": "node "}
"""How a script of a language is started."""


def nothing_to_measure(facts: RepositoryFacts) -> str:
    """Say that no command is known that scores a candidate, why, and what to do."""
    write = "".join(f" --write {shlex.quote(path)}" for path in facts.programs[:_MOST_NAMES])
    start = _STARTS.get(facts.languages[0] if facts.languages else "", "./")
    line = f"prints `score: 1.5` as its last line: loopty init --yes --command '{start}SCRIPT'{write}"
    if is_scored_elsewhere(facts):
        scoring = (
            f"{_list(facts.evaluators)} may score it" if facts.evaluators else "nothing was found that scores it"
        )
        program = _list(facts.programs) or "what should improve"
        return f"no command is known that measures {program}: {scoring}; write a script that calls it and {line}"
    return (
        f"neither a benchmark nor tests were found: write a script that calls what should be better and {line}; "
        f"or time a command: loopty init --yes --command '{CPU_TIMER} ./PROGRAM INPUT'"
    )


def is_scored_elsewhere(facts: RepositoryFacts) -> bool:
    """Say whether the repository is a task of another tool: an evaluator, and little beside it but the program."""
    return bool(facts.programs) or (bool(facts.evaluators) and len(facts.sources) <= _FEW_SOURCES)


def nothing_to_change(facts: RepositoryFacts, command: str) -> str:
    """Say why no file is proposed as editable, and that --write names some."""
    reasons = [f"{path} is what {command!r} starts" for path in scripts_of_command(facts, command)]
    reasons += [f"{path} looks like an evaluator" for path in facts.evaluators[:_MOST_NAMES]]
    why = f" ({', '.join(dict.fromkeys(reasons))}: no candidate may write what scores it)" if reasons else ""
    return f"--write is missing, and no file is proposed{why}: name the files to improve with --write FILE"


def scored_by_itself(facts: RepositoryFacts, command: str, write: Sequence[str]) -> tuple[str, ...]:
    """Name the files that the user lets candidates write although they score them.

    A wide glob does not: what the command names is protected unless `write` names it as closely.
    """
    words = frozenset(map(posixpath.normpath, _shell_words(command)))
    scripts = scripts_of_command(facts, command)
    scoring = [path for path in facts.evaluators if path in words]
    return tuple(path for path in dict.fromkeys((*scripts, *scoring)) if literal(path) in write)


def other_line(drafts: Sequence[TaskDraft], tried: Collection[str]) -> tuple[str, str]:
    """Give the line that starts over with the next that can be measured, and what that is; or empty texts."""
    other = next((draft for draft in drafts if draft.command not in tried), None)
    if other is None:
        return "", ""
    return f"loopty init --yes --force --command {shlex.quote(other.command)}", other.measures


def _list(paths: Sequence[str]) -> str:
    more = len(paths) - _MOST_NAMES
    return ", ".join(paths[:_MOST_NAMES]) + (f" and {more} more" if more > 0 else "")


def _shell_words(line: str) -> list[str]:
    try:
        return shlex.split(line)
    except ValueError:
        return line.split()
