"""CPU of one experiment by verbs, `new` and `run`: each in its own process, and through a resident process."""

from collections.abc import Iterator

from bench import Bench
from cost import Cost, measure_in_turns
from loopty_agent import LooptyAgent
from loopty_cli import Loopty
from samples import descendants_cpu_seconds
from table import NOTHING, Row, Target, cpu

_FILES = 10
_EXPERIMENTS = 10
"""Per measurement: the kernel counts the CPU of processes that live in steps of 10 ms."""


def rows(bench: Bench) -> Iterator[Row]:
    evo = bench.evo("verbs", _FILES)
    experiment = evo.new_and_run if evo else None
    alone = bench.loopty("verbs-alone", _FILES, attempts=1000)
    alone.run_baseline()
    ours, theirs = measure_in_turns(bench.repeats, alone.new_and_run, experiment)
    target = Target("ratio below 0.5", 0.5)
    yield Row("`new` + `run`, each by itself", cpu(ours), cpu(theirs, "evo new + run"), target, of_ratio=True)

    served = bench.loopty("verbs-resident", _FILES, attempts=1000)
    served.run_baseline()
    served.start_resident()
    try:
        ours, theirs = measure_in_turns(bench.repeats, lambda: _through_resident(served), experiment)
    finally:
        served.verb("serve", "--stop")
    target = Target("ratio below 0.15", 0.15)
    what = "`new` + `run`, through a resident process"
    yield Row(what, cpu(ours), cpu(theirs, "evo new + run"), target, of_ratio=True)

    by_agent = bench.loopty("verbs-agent", _FILES, attempts=1000)
    by_agent.run_baseline()
    try:
        by_agent.start_resident()
        with by_agent.start_agent() as agent:
            ours, theirs = measure_in_turns(bench.repeats, lambda: _by_agent(agent), experiment)
            start = agent.start_cost
    finally:
        by_agent.verb("serve", "--stop")
    what = "an experiment by an agent, through MCP and the resident process"
    yield Row(what, cpu(ours), cpu(theirs, "evo new + run"), Target("below 100 ms", 0.1))
    yield Row("start of `loopty mcp`", cpu(start), NOTHING, Target("below 100 ms", 0.1))


def _by_agent(agent: LooptyAgent) -> Cost:
    cost = Cost(0, 0)
    for _ in range(_EXPERIMENTS):
        cost += agent.experiment()
    return cost / _EXPERIMENTS


def _through_resident(loopty: Loopty) -> Cost:
    """One experiment: the clients, the resident process with all that it started, and the trial."""
    before = descendants_cpu_seconds()
    for _ in range(_EXPERIMENTS):
        loopty.new_and_run()
    return Cost(descendants_cpu_seconds() - before, 0) / _EXPERIMENTS
