"""Tries a held node on inputs that it never saw, if the benchmark draws them from a seed."""

from __future__ import annotations

import asyncio
import secrets

from loopty.domain.errors import Misuse
from loopty.domain.objective import Metric, gain, with_weighted_sum
from loopty.domain.trial import Outcome, Pool, Verdict
from loopty.engine.protocols import Trial
from loopty.record.node_record import Node
from loopty.session.context import CampaignContext
from loopty.session.stoppable import never_prune, run_until_stopped

_GENERATOR = "LOOPTY_SEED"
"""What a benchmark reads to draw its inputs."""
_LEAST_SHARE = 0.5
"""Of the gain that was measured."""


def require_gain_on_fresh_inputs(context: CampaignContext, node: Node, unsafe: bool) -> None:
    """Measure the held node and what it beat with another seed. Raises Misuse if most of its gain is gone."""
    run = context.history.runs[node.id.run]
    root, rival = context.history[run.root], context.history[node.against] if node.against else None
    if node.verdict is not Verdict.HELD or rival is None or not _draws_inputs(context, root.commit):
        return
    seed, executor = secrets.randbelow(1 << 31), context.executor(unsafe, run.number)

    async def measure(cancel: asyncio.Event) -> list[Outcome]:
        trials = (Trial(each, root, 0, Pool.CHECK, seed, context.gates(each.id)) for each in (node, rival))
        return [await executor.execute(trial, never_prune, cancel) for trial in trials]

    mine, theirs = run_until_stopped(measure)
    for each, outcome in ((node, mine), (rival, theirs)):
        if not outcome.is_finished:
            raise Misuse(f"{each.name} has no result on fresh inputs (seed {seed}): {outcome.reason}")
    metrics = context.history.counting_metrics(run.number)
    here, known = _gain(metrics, mine, theirs), _gain(metrics, node.outcome, rival.outcome)
    seen = f"on fresh inputs (seed {seed}) {node.name} gains {here:.3g} of {rival.name}, and {known:.3g} before"
    if here < _LEAST_SHARE * known:
        raise Misuse(f"{seen}, so it stays held: `loopty node reject {node.name} --why TEXT` rejects it")
    context.say(seen)


def _gain(metrics: tuple[Metric, ...], mine: Outcome | None, theirs: Outcome | None) -> float:
    """Compute the gain as a share of the score that was beaten; in its unit if that is 0."""
    ours, others = (with_weighted_sum(one.metrics if one else {}, metrics) for one in (mine, theirs))
    scale = abs(others[metrics[0].name]) if len(metrics) == 1 else 0.0
    return gain(ours, others, metrics).amount / (scale or 1.0)


def _draws_inputs(context: CampaignContext, commit: str) -> bool:
    texts = (context.files.text(commit, path) for path in context.files.benchmark.files(commit))
    return any(_GENERATOR in text for text in texts if text)
