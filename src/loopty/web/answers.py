"""Parts that many answers share: names, changes of scores, states of runs, and what stands beside the search."""

from __future__ import annotations

from typing import Any

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.search_summary import FrozenPool
from loopty.record.verdicts import Incumbents
from loopty.show.figures import value_text
from loopty.show.run_status import RunState, RunStatus
from loopty.show.tree_rows import param_changes

LONGEST_SUMMARY = 300
_LONGEST_ID = 60


def node_name(history: History, node: NodeId | str | None) -> dict[str, Any] | None:
    """Return the id, the short name and the change of a node; None if there is none."""
    if not node:
        return None
    found = history[NodeId(node)]
    return {"id": found.id, "handle": found.handle, "summary": change_name(history, found)}


def change_name(history: History, node: Node) -> str:
    """Name a change: by its summary, else by the parameters or files that it changes, else by its operator."""
    if node.summary or node.id.parent is None:
        return node.summary[:LONGEST_SUMMARY]
    params = param_changes(node, history[node.id.parent])
    changed = [f"{name} = {value_text(node.params[name])}" for name in params] or [*node.edits, node.operator][:3]
    return ", ".join(changed)[:LONGEST_SUMMARY]


def short_id(node: str, handle: int) -> str:
    """Return the id, or its short name if it is long: the page takes either, and long lists stay small."""
    return node if len(node) <= _LONGEST_ID else f"@{handle}"


def short_name(name: dict[str, Any]) -> dict[str, Any]:
    """Return the name with a short id, for lists."""
    return {**name, "id": short_id(name["id"], name["handle"])}


def node_names(history: History, nodes: Any) -> list[dict[str, Any]]:
    return [name for node in nodes if (name := node_name(history, node))]


def brief_number(value: float | None) -> float | None:
    """Round the number to nine digits: charts show no more, and long lists stay small."""
    return None if value is None else float(f"{value:.9g}")


def slots_answer(status: RunStatus, width: int | None) -> dict[str, int]:
    """Say how many trials and questions may run at a time, and how many do: none of a dead process's run."""
    slots, is_lost = status.slots, status.state is RunState.LOST
    workers = status.worker_slots.trials if status.worker_slots else 0
    return {
        "trials": workers or (len(status.running) if width is None else width),
        "busy": 0 if is_lost else len(status.running),
        "questions": slots.questions if slots else 0,
        "asking": slots.asking if slots and not is_lost else 0,
    }


def direction_factor(percent: float | None, sign: int) -> float | None:
    """Say how many times better it is, from a change in percent of the older score: 2.0 is twice as good."""
    if percent is None:
        return None
    if sign > 0:
        return 1 + percent / 100
    return 1 / (1 - percent / 100) if percent < 100 else None


def percent_of(amount: float | None, older: float | None) -> float | None:
    if amount is None or older is None or abs(older) < 1e-300:
        return None
    return 100 * amount / abs(older)


_LONGEST_LEAD = 400


def combination_answer(history: History, pool: FrozenPool | None) -> dict[str, Any] | None:
    """List the nodes of another run that this one combines, and why each was chosen."""
    if pool is None or not pool.base:
        return None
    members = []
    for member in pool.members:
        name = node_name(history, member.node)
        assert name is not None
        members.append({"node": short_name(name), "score": member.score, "reason": member.reason})
    return {"run": pool.base, "members": members}


def combining_runs(history: History, run: int) -> list[int]:
    """List the later runs that combine nodes of this one."""
    return [number for number, each in sorted(history.runs.items()) if FrozenPool.of(each).base == run]


def version_lead_answer(history: History, run: Run, text: str) -> dict[str, Any] | None:
    """Return the past version that the best node is not better than, with the sentence that says so."""
    version = Incumbents.of(run, Pool.VERSION).best
    return {"node": node_name(history, version), "text": text[:_LONGEST_LEAD]} if text else None
