"""Finds roles whose settings have no effect: not a fault, but hardly what the author intended."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.model import Role
from loopty.domain.role_spec import RoleBudget
from loopty.domain.task import Task
from loopty.taskfile.model_tables import AGENT_PROPOSER, MODEL_PROPOSERS, proposer_kinds, verifier_use


def idle_roles(task: Task) -> Mapping[Role, str]:
    """The roles whose settings have no effect, each with the reason and the remedy."""
    has_agent = any(kind == AGENT_PROPOSER for _, kind in proposer_kinds(task.proposer))
    reasons = {Role.EVOLVER: _evolver_idle_reason(task), Role.VERIFIER: _verifier_idle_reason(task)}
    messages: dict[Role, str] = {}
    for role in Role:
        budget = task.roles.of(role)
        if budget.model and (reason := reasons.get(role)):
            messages[role] = f"the {role} has model {budget.model}, but {reason}"
        elif not budget.model and budget != RoleBudget() and not (has_agent and role is Role.EVOLVER):
            messages[role] = f'[roles.{role}] names no model, so its settings have no effect: add model = "…"'
    return messages


def _evolver_idle_reason(task: Task) -> str | None:
    """Why nothing calls the evolver's model, or None. Proposers of other packages get no model to call."""
    if any(kind in (*MODEL_PROPOSERS, AGENT_PROPOSER) for _, kind in proposer_kinds(task.proposer)):
        return None
    kind = task.proposer.kind
    unused = "no rung of the ladder calls it" if kind == "ladder" else f"the proposer {kind} calls no model"
    return f"{unused}: set the kind of the proposer, or of a rung, to {' or '.join(MODEL_PROPOSERS)}"


def _verifier_idle_reason(task: Task) -> str | None:
    """Why nothing calls the verifier's model, or None."""
    used = verifier_use(task.verifier)
    return None if used else "nothing calls it: set review or judged under [verifier]"
