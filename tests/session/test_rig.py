"""A rig can be stored as text, and the same evaluator can be built from it anywhere."""

import asyncio
import json

from loopty.domain.access import Access
from loopty.domain.benchmark import Benchmark, Limits
from loopty.domain.ids import NodeId
from loopty.domain.launch import Protection
from loopty.domain.task import Audit, Rig, SandboxSpec
from loopty.kit import codec
from loopty.session.by_hand import check_trial
from loopty.session.context import CampaignContext
from loopty.session.stoppable import never_prune
from loopty.session.trial_setup import TrialSetup


def store_and_load(rig: Rig) -> Rig:
    return codec.build(Rig, json.loads(codec.text(rig)))


def test_a_rig_is_loaded_as_it_was_stored():
    rig = Rig(
        Benchmark(("python3", "b.py"), 9.5, files=("b.py",), env={"A": "1"}, resources=("gpu",), isolated=True),
        Limits(memory_mb=512),
        Access(write=("src/**",), hidden=("gold",)),
        Audit(data=("/data/held-out",)),
        SandboxSpec(kind="landlock", require=(Protection.WRITE,)),
        unsafe=True,
        benchmark_digest="abc",
        data_digest="def",
    )
    assert store_and_load(rig) == rig
    assert (
        store_and_load(Rig(Benchmark("true", 1.0), Limits(), Access(), Audit(), SandboxSpec())).benchmark.command
        == "true"
    )


def test_an_evaluator_from_a_loaded_rig_gives_the_same_result(code_place):
    code_place.loopty("run", "1")
    context = CampaignContext.open(code_place.top, print)
    rig = context.rig(unsafe=False, run=1)
    node = context.history[NodeId("1")]
    setup = TrialSetup(
        store_and_load(rig), context.repository, context.state, context.files, context.recorder.refresh
    )
    executor = setup.executor(1, None, print)
    outcome = asyncio.run(executor.execute(check_trial(context, node), never_prune, asyncio.Event()))
    assert (outcome.metrics, outcome.fingerprint) == (node.outcome.metrics, node.outcome.fingerprint)
