"""Measure the best node of a run beside its baseline in fresh pairs, so that the stated gain is of today."""

from __future__ import annotations

from loopty.campaign.combine_stage import context_of_run
from loopty.campaign.context import CampaignContext
from loopty.campaign.run_entry import require_same_criteria
from loopty.campaign.stoppable import run_until_stopped, watch_nothing
from loopty.domain.errors import Misuse
from loopty.domain.pool import Pool
from loopty.record.cohorts import Cohorts
from loopty.record.confirmations import Confirmation
from loopty.record.sessions import Session
from loopty.record.verdicts import Incumbents


def confirm_best(context: CampaignContext, run: int, unsafe: bool) -> None:
    """Add as many fresh pairs as the task asks for to those that there are."""
    context = context_of_run(context, run)
    found, noise = context.history.runs[run], context.task.noise
    best = Incumbents.of(found, Pool.ATTEMPT).best
    if driver := Session.of(found).driver:
        raise Misuse(f"run {run} is being driven by `loopty optimize` ({driver}): it confirms its best at its end")
    if best is None or best == found.root:
        raise Misuse(f"run {run} has nothing better than its baseline to confirm")
    if noise.repeat == "never" or not noise.confirm:
        raise Misuse('nothing is measured again: set repeat = "auto" and confirm = 10 under [noise]')
    require_same_criteria(context, context.history[found.root])
    runner = context.trial_runner(run, context.executor(unsafe, run))
    pairing = Confirmation.of(found).pairing_of(best, Cohorts.of(found).fingerprint)
    pairs = noise.confirm + (len(pairing.pairs_so_far) if pairing else 0)
    run_until_stopped(lambda cancel: runner.confirm_best(run, pairs, watch_nothing, cancel))
