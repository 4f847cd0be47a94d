"""What `loopty init` says: where it finds nothing to measure, what else there is, and its result."""

from __future__ import annotations

import math
import posixpath
import shlex
from collections.abc import Collection, Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from loopty.features.setup.builds import scripts_of_command
from loopty.features.setup.causes.results import CPU_TIMER
from loopty.features.setup.repository_facts import RepositoryFacts, repository_facts
from loopty.features.setup.sensitivity import FaultEnd, Sensitivity
from loopty.features.setup.task_draft import TaskDraft
from loopty.features.setup.task_proposal import propose_tasks
from loopty.kit.installation import extra_command
from loopty.kit.paths import literal
from loopty.kit.records import replace
from loopty.show.figures import duration, figure

if TYPE_CHECKING:
    from loopty.features.setup.sensitivity import Sensitivity

_PROJECT_FILES = (
    "pyproject.toml",
    "setup.py",
    "setup.cfg",
    "package.json",
    "Cargo.toml",
    "go.mod",
    "Makefile",
    "CMakeLists.txt",
    "meson.build",
    "configure.ac",
)
"""What the folder of a project has; `tests/` or `src/` of a project have none of them."""


def folder_tasks(top: Path, files: Sequence[str], start: Path) -> list[TaskDraft]:
    """Return what `init` proposes in this folder; nothing if the folder is no project of its own.

    A program beside its evaluator is one, too: so are the examples of OpenEvolve.
    """
    top, start = top.resolve(), start.resolve()
    if start == top or not start.is_relative_to(top):
        return []
    folder = start.relative_to(top).as_posix()
    inside = [path.removeprefix(f"{folder}/") for path in files if path.startswith(f"{folder}/")]
    facts = repository_facts(top / folder, inside)
    if not (facts.evaluated_programs or any(name in inside for name in _PROJECT_FILES)):
        return []
    return [in_folder(draft, folder) for draft in propose_tasks(facts)]


def in_folder(draft: TaskDraft, folder: str) -> TaskDraft:
    """Return the draft as it is from the top of the repository, where trials start."""
    start = f"cd {shlex.quote(folder)} && "

    def below(names: Sequence[str]) -> tuple[str, ...]:
        return tuple(f"{literal(folder)}/{name}" for name in names)

    gates = (
        replace(gate, command=start + gate.command, smaller=tuple(start + line for line in gate.smaller))
        for gate in draft.gates
    )
    return replace(
        draft,
        command=start + draft.command,
        stages=tuple(replace(stage, command=start + stage.command) for stage in draft.stages),
        audit_command=start + draft.audit_command if draft.audit_command else "",
        write=below(draft.write),
        files=below(draft.files),
        scratch=tuple(f"{folder}/{name}" for name in draft.scratch),
        gates=tuple(gates),
    )


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


_MUCH_NOISE = 5.0
"""Percent from which advice is given: a gain of 5 % would then need some twenty pairs."""
_MOST_RESULT_NAMES = 4
_PROPOSERS = {
    "mutate": "random edits, a control and a demonstration; on real code a model or an agent is wanted: "
    'kind = "llm-code" under [proposer] with a model under [roles.evolver], or kind = "agent"; or let '
    "your coding agent drive loopty: `loopty agent install HOST`",
    "random": "random values of the parameters; {samplers} adds samplers that learn, as tpe",
    "tpe": "a sampler that learns which values of the parameters are good; it edits no code",
}

TESTS_TEXT = (
    "no benchmark was found. Better: write a script that calls what should be faster, name it with --command, and "
    "keep the tests as a --gate"
)


def proposer_text(kind: str) -> str:
    """Say which proposer will run, and what it can and cannot do."""
    words = _PROPOSERS[kind]
    return f"proposer {kind}: {words.format(samplers=extra_command('samplers')) if '{' in words else words}"


def agents_text(agents: Sequence[str]) -> str:
    """Name the coding agents that were found, as the recommended proposers."""
    first, *others = agents
    more = f" (also found: {', '.join(others)})" if others else ""
    return (
        f"recommended: {first}, which is on your PATH, can propose changes with your login{more}: under "
        f'[proposer], kind = "agent" and agent = "{first}"'
    )


def score_text(name: str, value: float, direction: str, why: str, others: Sequence[str] = ()) -> str:
    """Say which number is the score, which values are better, and why; without a reason, that it is assumed."""
    better, other, opposite = ("lower", "higher", "max") if direction == "min" else ("higher", "lower", "min")
    reason = (
        why or f"assumed, because {name} does not say it; if {other} is, start over with --direction {opposite}"
    )
    more = f"; other numbers: {_list_results(others)}" if others else ""
    return f"score: {name} {figure(value)}, {better} is better ({reason}){more}"


def editable_text(globs: Sequence[str]) -> str:
    """Say which files candidates may change, as a sentence's end; empty if they set parameters."""
    return f"; candidates may change {_list_results(globs)}" if globs else ""


def sensitivity_text(found: Sensitivity) -> str:
    """Say what planted changes did to the score."""
    said = []
    if found.slowed == found.usual:
        said.append(f"a delay does not change {found.metric}")
    elif found.slowed is not None and found.times:
        share = f": {_share_text(found)} of what is measured is this code" if found.share is not None else ""
        said.append(
            f"with the editable code {found.times + 1} times as slow, {found.metric} went from "
            f"{figure(found.usual)} to {figure(found.slowed)}{share}"
        )
    elif found.times:
        said.append(f"with the editable code {found.times + 1} times as slow, the run takes too long")
    if found.still is not None:
        said.append("a comment changed nothing")
    if found.faults:
        ends = (f"{found.count(end)} {end}" for end in FaultEnd if found.count(end))
        said.append(f"of {len(found.faults)} planted faults {', '.join(ends)}")
    unseen = [fault.what for fault in found.faults if fault.end is FaultEnd.UNSEEN]
    if unseen and not found.count(FaultEnd.CAUGHT):
        said.append(f"not noticed: {'; '.join(unseen[:_MOST_NAMES])}")
    if found.unknown:
        said.append(found.unknown)
    return f"proof: {'; '.join(said)}"


def _share_text(found: Sensitivity) -> str:
    """Say the share, with what noise makes of it."""
    share, highest = 100 * (found.share or 0.0), 100 * (found.highest_share or 0.0)
    return f"about {share:.0f} %" if highest - share < _CLOSE else f"{share:.0f} to {highest:.0f} %"


_CLOSE = 5.0
_NIGHT_SECONDS = 8 * 3600.0
_GAINS = (10.0, 5.0, 1.0)
_SURE = 2.5
"""Standard errors: a change that is better is then kept four times out of five, at an error rate of 5 %."""


def night_text(seconds: float, noise_percent: float, width: int) -> str:
    """Say how many runs a night has, and how many of them it takes to tell gains from luck."""
    runs = int(_NIGHT_SECONDS / max(seconds, 0.001)) * width
    many = f"what a night buys: 8 hours are about {runs:,} runs"
    if not noise_percent:
        return f"{many}, and one shows any gain"
    costs = []
    for gain in _GAINS:
        pairs = max(math.ceil(2 * (_SURE * noise_percent / gain) ** 2), 2)
        costs.append(f"a gain of {gain:g} % takes about {pairs:,} pairs ({duration(2 * pairs * seconds)})")
    return f"{many}; to be told from luck, {', '.join(costs)}"


def installed_text(folders: Sequence[str]) -> str:
    """Say that folders with installed packages are ignored from now on, and where."""
    return (
        f"installed packages that git does not ignore: {_list(folders)}. Added to .git/info/exclude: trials use "
        "them in their place, and none of their files is a source"
    )


def _list_results(names: Sequence[str]) -> str:
    more = len(names) - _MOST_RESULT_NAMES
    return ", ".join(names[:_MOST_RESULT_NAMES]) + (f" and {more} more" if more > 0 else "")


def noise_text(metric: str, values: Sequence[float], percent: float, is_cpu_time: bool = False) -> str:
    """Say how much the score varied, with advice if it is much."""
    runs = f"{len(values)} checked runs"
    if min(values) == max(values):
        return f"noise: {runs} gave the same {metric}, {figure(values[0])}"
    spread = f"{figure(min(values))} to {figure(max(values))}"
    amount = round(percent) if percent >= 10 else f"{percent:.2g}"
    text = f"noise: {metric} varied by {amount} % over {runs} ({spread})"
    if percent < _MUCH_NOISE:
        return text
    advice = ["let one run do more work", "report the best of several rounds"]
    advice = advice if is_cpu_time else ["measure CPU time and not wall time", *advice]
    *first, last = advice
    words = f"{', '.join(first)}, or {last}"
    return f"{text}. That is much: small gains will need many repeats. {words[0].upper()}{words[1:]}"
