"""What a tune trial is told besides what every trial is."""

from loopty.domain.benchmark import Benchmark
from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.engine.protocols import Trial
from loopty.evaluators.contract import SandboxPaths, benchmark_environment
from loopty.record.node_record import Node

NODE = Node(NodeId("1"), Pool.ATTEMPT, "baseline", "", "c0" * 20, "f0" * 20, 0.0, 1, 0)
PATHS = SandboxPaths("/t/tree", "/t/benchmark", "/t/in", "/t/out", "/t/candidate", "/t/sdk")


def test_only_a_tune_trial_has_a_slice():
    whole, part = (
        benchmark_environment(Trial(NODE, NODE, 1, Pool.ATTEMPT, 0, slice=name), Benchmark("true", 1.0), PATHS)
        for name in ("", "dev")
    )
    assert ("LOOPTY_SLICE" in whole, whole["LOOPTY_MODE"]) == (False, "attempt")
    assert (part["LOOPTY_SLICE"], part["LOOPTY_MODE"]) == ("dev", "tune")
