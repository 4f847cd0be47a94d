"""What stands beside the search itself: tuning, the combination of nodes, and past versions."""

from __future__ import annotations

from typing import Any

from loopty.dashboard.answers import finite, node_name, short_name
from loopty.domain.pool import Pool
from loopty.record.frozen_pools import FrozenPool
from loopty.record.history import History
from loopty.record.node_record import Node
from loopty.record.run_record import Run
from loopty.record.verdicts import Incumbents
from loopty.views.slice_value import SliceValue

_LONGEST_LEAD = 400


def tuning_answer(value: SliceValue | None) -> dict[str, Any] | None:
    """What tune mode's slice costs, and how well it predicts."""
    if value is None:
        return None
    found = value.prediction
    return {
        "slice": value.slice,
        "tuned": value.tuned,
        "moved": value.moved,
        "trials": value.trials,
        "seconds": value.seconds,
        "share": finite(value.share),
        "prediction": {
            "value": finite(found.value),
            "low": finite(found.low),
            "high": finite(found.high),
            "nodes": found.count,
        }
        if found
        else None,
        "advice": value.advice,
    }


def combination_answer(history: History, pool: FrozenPool | None) -> dict[str, Any] | None:
    """The nodes of another run that this one combines, and why each was chosen."""
    if pool is None or not pool.base:
        return None
    members = []
    for member in pool.members:
        name = node_name(history, member.node)
        assert name is not None
        members.append({"node": short_name(name), "score": finite(member.score), "reason": member.reason})
    return {"run": pool.base, "members": members}


def combining_runs(history: History, run: int) -> list[int]:
    """The later runs that combine nodes of this one."""
    return [number for number, each in sorted(history.runs.items()) if FrozenPool.of(each).base == run]


def tuned_answer(node: Node) -> dict[str, Any] | None:
    """How the node came to its parameters; None where it was not tuned."""
    tuned = node.tuned
    if tuned is None:
        return None
    changed = {
        name: {"before": before, "after": node.params.get(name)}
        for name, before in tuned.proposed.items()
        if node.params.get(name) != before
    }
    return {
        "slice": tuned.slice,
        "trials": tuned.trials,
        "reason": tuned.reason,
        "proposed_score": finite(tuned.proposed_score),
        "score": finite(tuned.score),
        "changed": changed,
    }


def version_lead_answer(history: History, run: Run, text: str) -> dict[str, Any] | None:
    """The past version that the best node is not better than, with the sentence that says so."""
    version = Incumbents.of(run, Pool.VERSION).best
    return {"node": node_name(history, version), "text": text[:_LONGEST_LEAD]} if text else None
