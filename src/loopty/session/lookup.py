"""What a person types: the run and the node that are meant, and text before it becomes part of the record."""

from __future__ import annotations

import re

from loopty.domain.errors import Misuse
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.record.history import History
from loopty.record.nodes import NodeCount
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents, has_failed

BEST, BASELINE = "best", "baseline"
_HANDLE = re.compile(r"([#@]?)([1-9][0-9]{0,17})")
"""`#` is never printed: a shell takes it for a comment."""
_FOLDER_NAME = re.compile(r"\d+\.x\d+\.[0-9a-f]+")


def newest_run(history: History, run: int | None = None) -> int:
    """Return the number of the named run, else of the newest, preferring one that has something to show."""
    if not history.runs:
        raise Misuse("nothing has run here yet: start with `loopty run`")
    if run is not None and run not in history.runs:
        known = ", ".join(map(str, history.runs))
        raise Misuse(
            f"there is no run {run}: there {'are runs' if len(history.runs) > 1 else 'is only run'} {known}"
        )
    if run is not None:
        return run
    numbers = sorted(history.runs, reverse=True)
    return next((number for number in numbers if not _has_nothing(history, history.runs[number])), numbers[0])


def _has_nothing(history: History, run: Run) -> bool:
    """Say whether there is nothing to see of the run: its baseline failed, or it was refused at the start."""
    return has_failed(history, run) or (NodeCount.of(run).nodes == 1 and not history[run.root].trials)


def find_node(history: History, text: str) -> NodeId:
    """Find the node `@95`, `best`, `baseline`, or the one with this path, branch or folder."""
    if text == BEST:
        return best_node(history)
    if text == BASELINE:
        return history.runs[newest_run(history, None)].root if history.runs else NodeId("1")
    if handle := _HANDLE.fullmatch(text):
        # A number alone is a path if a run has that number, its baseline; else it is the name without its sign.
        number = int(handle[2])
        return NodeId(number) if not handle[1] and number in history.runs else history.node_of_handle(number)
    name = text.removeprefix("loopty-")
    if found := next((node for node in history.ids if node.name == name), None):
        return found
    raise Misuse(f"'{text}' names no node: `loopty tree` lists them")


def node_of_text(text: str) -> NodeId | None:
    """Return the node that this names, or None if only the history tells it."""
    name = text.removeprefix("loopty-")
    if name == "1":  # the first baseline, which is @1 as well, also before there is a history
        return NodeId("1")
    needs_history = text in (BEST, BASELINE) or _HANDLE.fullmatch(text) or _FOLDER_NAME.fullmatch(name)
    return None if needs_history else NodeId.parse(name)


def best_node(history: History) -> NodeId:
    """Return the best node of the newest run."""
    run = history.runs[newest_run(history)] if history.runs else None
    best = Incumbents.of(run, Pool.ATTEMPT).best if run else None
    if best is None:
        root = history[run.root] if run else None
        if root and root.verdict:
            raise Misuse(
                f"there is no best node: the baseline gave no result: {root.reason}; `loopty status` says the "
                "cause and the remedy"
            )
        raise Misuse("there is no best node yet: run `loopty run` first")
    return best


_LONGEST = 4_000
"""Characters: a directive is part of every prompt and must leave room for the rest; a reason is one line."""


def parse_text(text: str, name: str) -> str:
    """Strip the text of blanks around it. Raises Misuse when it is too long, or no text in this encoding."""
    stripped = text.strip()
    if len(stripped) > _LONGEST:
        raise Misuse(f"the {name} has {len(stripped):,} characters, more than {_LONGEST:,}: shorten it")
    try:
        stripped.encode()
    except UnicodeEncodeError:
        raise Misuse(f"the {name} is not valid text in this terminal's encoding: type it again") from None
    return stripped


def parse_reason(text: str) -> str:
    """Return the reason for a change of a verdict, in one line. Raises Misuse when there is none."""
    reason = " ".join(parse_text(text, "reason").split())
    if not reason:
        raise Misuse("say why the verdict changes: --why TEXT; it stays in the record")
    return reason
