"""What `loopty init` prints: the task that was proven, or why there is none."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.cli.output import print_explanation, print_json, say, say_own_path, say_paragraph
from loopty.domain.access import TASK_FILE
from loopty.domain.errors import Misuse
from loopty.kit import codec
from loopty.kit.contents import write_atomically
from loopty.proposers.agent.driver import installed_agents
from loopty.show.terminal import printable_line

if TYPE_CHECKING:
    from loopty.features.setup.proven_task import ProvenTask
    from loopty.features.setup.repository_facts import RepositoryFacts
    from loopty.features.setup.skeleton import Skeleton

_MOST_SOURCES = 5
_LONG_SECONDS = 60.0
"""A night of longer runs shows little: a part of the benchmark is better to begin with."""


def print_proven(
    proven: ProvenTask, path: Path, scored_by_itself: tuple[str, ...], other: str, as_json: bool
) -> None:
    """Print the task that works; first which number is the score, which values are better, and why.

    `scored_by_itself` are files that score candidates, and that the user lets them write. `other` is a line that
    measures something else, if there is one.
    """
    from loopty.features.setup.count_proof import count_text
    from loopty.features.setup.proposal_text import (
        TESTS_TEXT,
        agents_text,
        editable_text,
        isolation_text,
        night_text,
        noise_text,
        proposer_text,
        score_text,
        sensitivity_text,
    )

    draft, noise = proven.draft, proven.noise
    if as_json:
        print_json({"task_file": str(path), **_plain(proven)})
    name, value = proven.score
    say_paragraph(score_text(name, value, proven.direction, proven.why_direction, proven.other_numbers))
    seconds = draft.profile.seconds if draft.profile else proven.check.outcome.seconds
    say_paragraph(f"wrote {path.name}; a run takes {seconds:.2g} s{editable_text(draft.write)}")
    if failed := proven.instead_of:
        say_paragraph(f"not used: {failed.draft.command} ({failed.problem})")
        print_explanation(failed.check.explanation)
    for own in scored_by_itself:
        say_paragraph(f"candidates may write {own}, which reports their score: move what measures to another file")
    if draft.times_the_tests:
        say_paragraph(TESTS_TEXT)
    if noise:
        waited = noise.usage.waited_share
        say_paragraph(noise_text(noise.metric, noise.values, noise.percent, draft.is_cpu_time, waited))
    if proven.sensitivity:
        say_paragraph(sensitivity_text(proven.sensitivity))
    if draft.write:
        say_paragraph(isolation_text(draft))
    if noise and proven.count:
        say_paragraph(count_text(proven.count, noise))
    if draft.profile and draft.width:
        say_paragraph(f"trials at once: {draft.width.width}, because {draft.width.reason}")
        percent = 0.0 if draft.is_counted else noise.percent if noise else None
        say_paragraph(night_text(draft.profile.seconds, proven.gate_seconds, percent, draft.width.width))
    if seconds >= _LONG_SECONDS:
        say_paragraph(f"that is long: begin with a part, by --command{f', or with {other}' if other else ''}")
    say_paragraph(proposer_text(draft.proposer))
    if draft.write and (agents := installed_agents()):
        say_paragraph(agents_text(agents))
    say("next: loopty run")
    say_own_path()


def print_failed(proven: ProvenTask, path: Path | None, other: tuple[str, str], as_json: bool) -> None:
    """Print why the benchmark does not work.

    `other` is a line that measures something else, and what that is. Where no file was kept: the line to repeat,
    and one that takes options for limits and devices.
    """
    line, measures = other
    if as_json:
        print_json(
            {"task_file": str(path) if path else None, **_plain(proven), **({"line": line} if line else {})}
        )
    say_paragraph(f"the checked run of {proven.draft.command} failed: {proven.check.problem}")
    print_explanation(proven.check.explanation)
    if path is None:
        say_paragraph(f"{TASK_FILE} is as it was before: mend what failed, then repeat {line}")
        say(f"or give it another limit, and devices: {measures} --timeout SECONDS --device NAME")
        return
    say(f"wrote {path.name}; fix the benchmark or this file, then retry: loopty run 1 --check")
    say("or begin another benchmark: loopty init --skeleton")
    if line:
        say(f"or measure {measures} instead: {line}")


def print_insensitive(proven: ProvenTask, other: tuple[str, str], as_json: bool) -> None:
    """Print why a night on this task would be of no use, and that nothing was written."""
    from loopty.features.setup.proposal_text import sensitivity_text

    line, measures = other
    if as_json:
        print_json({**_plain(proven), **({"line": line} if line else {})})
    say_paragraph(f"{proven.draft.command} runs, but {proven.problem}")
    if lines := proven.check.output.strip().splitlines():
        say_paragraph(f"it printed: {printable_line(lines[-1])}")
    if proven.sensitivity:
        say_paragraph(sensitivity_text(proven.sensitivity))
    say_paragraph(
        "nothing was written: name another benchmark with --command, other files with --write or a --gate that "
        "compares results; --unproven writes this task as it is"
    )
    say("or begin a benchmark: loopty init --skeleton")
    if line:
        say(f"or measure {measures} instead: {line}")


def begun_benchmark(top: Path, facts: RepositoryFacts, force: bool) -> Skeleton:
    """Begin a benchmark in the language of the repository. Raises Misuse where its file cannot be written."""
    from loopty.features.setup.build_facts import PythonBuild
    from loopty.features.setup.skeleton import begin_benchmark

    python = PythonBuild(top).import_name
    node = f"./{facts.node_entry}" if facts.node_entry else facts.package
    is_python = facts.languages[:1] == ("python",)
    module = (python if is_python else node) or top.name.replace("-", "_")
    begun = begin_benchmark(facts, top.name, module, facts.sources[:_MOST_SOURCES])
    path = top / begun.path
    if path.exists() and not force:
        raise Misuse(f"there is already a {begun.path}: fill it in, or start over with --force")
    if path.parent.is_symlink():
        raise Misuse(f"{path.parent} is a link, which loopty does not follow: make it a folder")
    return begun


def write_skeleton(top: Path, started: Skeleton, as_json: bool) -> None:
    """Write the beginning of a benchmark, and say how it goes on."""
    path = top / started.path
    write_atomically(path.parent, path.name, started.text.encode())  # replaces a link of that name
    proof = f"loopty init --yes --force --direction min --command {shlex.quote(started.command)}"
    if as_json:
        print_json({"skeleton": str(path), "line": proof})
    say_paragraph(f"wrote {started.path}: its first lines say what is missing")
    if agents := installed_agents():
        say_paragraph(f"or let your coding agent do that: loopty init --agent {agents[0]} --force")
    say("then let loopty prove it:")
    say(proof)


def print_nothing_found(why: str, as_json: bool) -> None:
    """Print why there is nothing to measure."""
    if as_json:
        print_json({"ok": False, "reason": why})
    say_paragraph(why)
    say("or begin a benchmark: loopty init --skeleton")


def _plain(proven: ProvenTask) -> dict[str, object]:
    """Return the result for programs."""
    from loopty.features.setup.proposal_text import proposer_text

    check, draft, noise, failed = proven.check, proven.draft, proven.noise, proven.instead_of
    score = {} if check.problem else {"score": proven.score[0], "why_direction": proven.why_direction}
    return {
        "ok": not proven.problem,
        "reason": proven.problem,
        "command": draft.command,
        "result": draft.result,
        **score,
        "direction": proven.direction,
        "write": list(draft.write),
        "gates": [one.command for one in draft.gates],
        "scratch": list(draft.scratch),
        "mounts": list(draft.mounts),
        "timeout_seconds": draft.timeout_seconds,
        "instead_of": {"command": failed.draft.command, "reason": failed.problem} if failed else None,
        "changes": [codec.plain(change) for change in proven.changes],
        "check": codec.plain(check.outcome),
        "noise": {"metric": noise.metric, "values": list(noise.values), "percent": noise.percent}
        if noise
        else None,
        "sensitivity": codec.plain(proven.sensitivity) if proven.sensitivity else None,
        "profile": codec.plain(draft.profile) if draft.profile else None,
        "width": codec.plain(draft.width) if draft.width else None,
        "warm": draft.warm,
        "isolated": draft.isolated,
        "why": dict(draft.notes),
        "proposer": {"kind": draft.proposer, "about": proposer_text(draft.proposer)},
        "agents": installed_agents(),
        **({"explanation": check.explanation.plain()} if check.explanation else {}),
    }
