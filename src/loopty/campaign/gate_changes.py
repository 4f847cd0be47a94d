"""What becomes of a gate that `init` proposed, and that does not pass or takes too long."""

from __future__ import annotations

from typing import TYPE_CHECKING

from loopty.kit.records import Record, replace
from loopty.taskfile.task_draft import GateDraft, TaskDraft

if TYPE_CHECKING:
    from loopty.campaign.by_hand import CheckResult

_LONG_SECONDS = 30.0
_TIMES_THE_BENCHMARK = 5.0


class TaskChange(Record):
    """Something that `init` changed in the draft, with the reason."""

    line: str
    why: str


def refusing_gate(draft: TaskDraft, check: CheckResult) -> GateDraft | None:
    """The gate of the draft that ended the check, or None."""
    problem = check.problem or ""
    return next((gate for gate in draft.gates if problem.startswith(f"gate {gate.name}: ")), None)


def with_less_gate(draft: TaskDraft, name: str, check: CheckResult) -> tuple[TaskDraft, TaskChange]:
    """The draft with a smaller gate in place of one that the files as they are do not pass, or with none."""
    gate = _gate(draft, name)
    cause = check.explanation.cause if check.explanation else None
    reason = cause.sentence if cause else str(check.problem)
    why = f"{gate.command} does not pass on the files as they are ({reason})"
    if gate.smaller:
        return _with_smaller(draft, gate, f"{why}, and these are some of the tests")
    why = f"{why}, so it is no gate yet"
    return draft.without_gate(gate.name, why), TaskChange(f"no gate {gate.name}", why)


def with_shorter_gate(
    draft: TaskDraft, gate_seconds: float, benchmark_seconds: float
) -> tuple[TaskDraft, TaskChange] | None:
    """The draft with fewer tests as the gate where all of them take far longer than the benchmark; None else."""
    gate = next((gate for gate in draft.gates if gate.is_proposed and gate.smaller), None)
    if gate is None or gate_seconds < max(_LONG_SECONDS, _TIMES_THE_BENCHMARK * benchmark_seconds):
        return None
    why = (
        f"{gate.command} takes about {gate_seconds:.0f} s and the benchmark {benchmark_seconds:.2g} s: only some "
        "of the tests are the gate, so run all of them on what you accept"
    )
    return _with_smaller(draft, gate, why)


def _with_smaller(draft: TaskDraft, gate: GateDraft, why: str) -> tuple[TaskDraft, TaskChange]:
    command, *rest = gate.smaller
    smaller = replace(gate, command=command, smaller=tuple(rest))
    gates = tuple(smaller if one.name == gate.name else one for one in draft.gates)
    changed = replace(draft, gates=gates).with_note(f"gates.{gate.name}", why)
    return changed, TaskChange(f"the gate {command}", why)


def _gate(draft: TaskDraft, name: str) -> GateDraft:
    (gate,) = (gate for gate in draft.gates if gate.name == name)
    return gate
