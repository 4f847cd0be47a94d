"""loopty's loop with a function of this process in place of the trial: everything else is real."""

from __future__ import annotations

import time

from loopty.campaign.optimize import ProposerFactory
from loopty.domain.trial import Pool
from loopty.engine.loop import Loop
from loopty.engine.prune_watch import PruneWatch
from loopty.engine.trial_runner import TrialRunner
from loopty.judge.tuning import Judging
from loopty.proposers.agent.work import AgentChoice, AgentSessions
from loopty.session.context import CampaignContext
from loopty.testing.fakes import FunctionExecutor
from loopty.workspaces.node_leftovers import NodeLeftovers


def function_loop(context: CampaignContext, run: int, executor: FunctionExecutor) -> Loop:
    """The loop that drives the run of this campaign, whose trials are calls of the executor's function."""
    task, models = context.task, context.role_models(run)
    factory = ProposerFactory(task, context.files, NodeLeftovers(context.folders), models, _no_agents)
    judging = Judging(task.pools, task.noise, tuning=context.tuning())
    return Loop(
        context.recorder,
        run,
        task.pools,
        {Pool.ATTEMPT: factory.proposer()},
        TrialRunner(context.recorder, judging, (), executor, context.files, context.owner),
        context.files,
        PruneWatch(lambda: context.history, None, lambda _: ((), {}), executor.machine.fingerprint),
        models.purse,
        context.owner,
        time.time,
    )


def _no_agents(choice: AgentChoice) -> AgentSessions:
    raise AssertionError(f"no agent proposes here: {choice}")
