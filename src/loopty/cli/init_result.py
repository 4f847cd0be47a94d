"""What `loopty init` prints at its end: what was proven, or why nothing was, and what to do next."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from loopty.cli.output import print_explanation, print_json, say, say_paragraph
from loopty.cli.own_path import say_own_path

if TYPE_CHECKING:
    from loopty.campaign.proven_task import ProvenTask


def print_proven(proven: ProvenTask, path: Path, scored_by_itself: tuple[str, ...], as_json: bool) -> None:
    """Print the task that works; first which number is the score, which values are better, and why.

    `scored_by_itself` are files that score candidates, and that the user lets them write.
    """
    from loopty.agents.agent_table import installed_agents
    from loopty.report.init_text import (
        TESTS_TEXT,
        agents_text,
        editable_text,
        last_resort_text,
        noise_text,
        proposer_text,
        score_text,
    )

    draft, noise = proven.draft, proven.noise
    if as_json:
        print_json({"task_file": str(path), **_plain(proven)})
    name, value = proven.score
    say_paragraph(score_text(name, value, proven.direction, proven.why_direction, proven.other_numbers))
    seconds = proven.check.outcome.seconds
    say_paragraph(f"wrote {path.name}; a run takes {seconds:.2g} s{editable_text(draft.write)}")
    if failed := proven.instead_of:
        say_paragraph(f"not used, because it failed: {failed.draft.command} ({failed.check.problem})")
        print_explanation(failed.check.explanation)
    for own in scored_by_itself:
        say_paragraph(f"candidates may write {own}, which reports their score: move what measures to another file")
    if draft.last_resort:
        say_paragraph(last_resort_text(draft.last_resort))
    if draft.times_the_tests:
        say_paragraph(TESTS_TEXT)
    if noise:
        say_paragraph(noise_text(noise.metric, noise.values, noise.percent, draft.is_cpu_time))
    say_paragraph(proposer_text(draft.proposer))
    if draft.write and (agents := installed_agents()):
        say_paragraph(agents_text(agents))
    say("next: loopty optimize")
    say_own_path()


def print_failed(proven: ProvenTask, path: Path, other: tuple[str, str], as_json: bool) -> None:
    """Print why the benchmark does not work; `other` is a line that measures something else, and what that is."""
    line, measures = other
    if as_json:
        print_json({"task_file": str(path), **_plain(proven), **({"line": line} if line else {})})
    say_paragraph(f"the checked run of {proven.draft.command} failed: {proven.check.problem}")
    print_explanation(proven.check.explanation)
    say(f"wrote {path.name}; fix the benchmark or this file, then retry: loopty run 1 --check")
    if line:
        say(f"or measure {measures} instead: {line}")


def print_doubt(proven: ProvenTask, retry: str, as_json: bool) -> None:
    """Print that the score may be a time, of which lower is better, and that nothing was written."""
    from loopty.report.init_text import doubt_text

    if as_json:
        print_json({**_plain(proven), "ok": False, "reason": proven.doubt, "line": retry})
    say_paragraph(doubt_text(proven.doubt))
    say("nothing was written: say --direction max, or")
    say(retry)


def print_nothing_found(why: str, other: tuple[str, str], as_json: bool) -> None:
    """Print why there is nothing to measure; `other` is what is left, for the user to choose."""
    line, measures = other
    if as_json:
        print_json({"ok": False, "reason": why, **({"line": line} if line else {})})
    say_paragraph(why)
    if line:
        say(f"or, as a last resort, measure {measures}: {line}")


def _plain(proven: ProvenTask) -> dict[str, object]:
    """The result for programs."""
    from loopty.agents.agent_table import installed_agents
    from loopty.kit import codec
    from loopty.report.init_text import proposer_text

    check, draft, noise, failed = proven.check, proven.draft, proven.noise, proven.instead_of
    score = {} if check.problem else {"score": proven.score[0], "why_direction": proven.why_direction}
    return {
        "ok": check.problem is None,
        "reason": check.problem or "",
        "command": draft.command,
        "result": draft.result,
        **score,
        "direction": proven.direction,
        "write": list(draft.write),
        "gates": [one.command for one in draft.gates],
        "scratch": list(draft.scratch),
        "mounts": list(draft.mounts),
        "timeout_seconds": draft.timeout_seconds,
        "last_resort": draft.last_resort,
        "instead_of": {"command": failed.draft.command, "reason": failed.check.problem} if failed else None,
        "changes": [codec.plain(change) for change in proven.changes],
        "check": codec.plain(check.outcome),
        "noise": {"metric": noise.metric, "values": list(noise.values), "percent": noise.percent}
        if noise
        else None,
        "profile": codec.plain(draft.profile) if draft.profile else None,
        "proposer": {"kind": draft.proposer, "about": proposer_text(draft.proposer)},
        "agents": installed_agents(),
        **({"explanation": check.explanation.plain()} if check.explanation else {}),
    }
