"""What a task says of roles in vain: no fault, but hardly what its author means."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.model import Role
from loopty.domain.task import RoleBudget, Task
from loopty.taskfile.model_tables import MODEL_PROPOSERS, proposer_kinds, verifier_use


def idle_roles(task: Task) -> Mapping[Role, str]:
    """The roles that nothing asks, each in words with the remedy."""
    unasked = {Role.EVOLVER: _evolver_idle_reason(task), Role.VERIFIER: _verifier_idle_reason(task)}
    told: dict[Role, str] = {}
    for role in Role:
        funds = task.roles.of(role)
        if funds.model and (reason := unasked.get(role)):
            told[role] = f"the {role} has model {funds.model}, but {reason}"
        elif not funds.model and funds != RoleBudget():
            told[role] = f'[roles.{role}] names no model, so nothing is asked: add model = "…"'
    return told


def _evolver_idle_reason(task: Task) -> str | None:
    """Why its model is not asked; a proposer of another package is given none to ask."""
    if any(kind in MODEL_PROPOSERS for _, kind in proposer_kinds(task.proposer)):
        return None
    who = "no rung of the ladder asks it" if task.proposer.kind == "ladder" else f"{task.proposer.kind} asks none"
    return f"{who}: name {' or '.join(MODEL_PROPOSERS)} as the kind of the proposer, or of a rung"


def _verifier_idle_reason(task: Task) -> str | None:
    asked = verifier_use(task.verifier)
    return None if asked else "nothing asks it: say what for under [verifier], with screen, review or judged"
