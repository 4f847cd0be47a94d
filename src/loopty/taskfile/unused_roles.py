"""What a task says of roles in vain: no fault, but hardly what its author means."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.model import Role
from loopty.domain.task import RoleBudget, Task
from loopty.taskfile.model_tables import ASKING, kinds, verifying


def idle(task: Task) -> Mapping[Role, str]:
    """The roles that nothing asks, each in words with the remedy."""
    unasked = {Role.EVOLVER: _evolver(task), Role.VERIFIER: _verifier(task)}
    told: dict[Role, str] = {}
    for role in Role:
        funds = task.roles.of(role)
        if funds.model and (reason := unasked.get(role)):
            told[role] = f"the {role} has model {funds.model}, but {reason}"
        elif not funds.model and funds != RoleBudget():
            told[role] = f'[roles.{role}] names no model, so nothing is asked: add model = "…"'
    return told


def _evolver(task: Task) -> str | None:
    """Why its model is not asked; a proposer of another package is given none to ask."""
    if any(kind in ASKING for _, kind in kinds(task.proposer)):
        return None
    who = "no rung of the ladder asks it" if task.proposer.kind == "ladder" else f"{task.proposer.kind} asks none"
    return f"{who}: name {' or '.join(ASKING)} as the kind of the proposer, or of a rung"


def _verifier(task: Task) -> str | None:
    asked = verifying(task.verifier)
    return None if asked else "nothing asks it: say what for under [verifier], with screen, review or judged"
