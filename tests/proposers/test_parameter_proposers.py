"""Parameter proposers depend on the history and the seed alone, so that a resumed run continues exactly."""

from __future__ import annotations

import importlib.util
import math
import random
import statistics
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterable, Mapping

import optuna
import pytest

from loopty.domain.errors import Exhausted
from loopty.domain.ids import NodeId
from loopty.domain.objective import Direction, Metric, Objective
from loopty.domain.proposal import Proposal
from loopty.domain.space import Parameter, ParameterKind, Space, Value
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask, Proposer
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.parameters.optuna_samplers import (
    STATEFUL_SAMPLERS,
    STATELESS_SAMPLERS,
    StatefulProposer,
    StatelessProposer,
)
from loopty.proposers.parameters.points import GridOptions, GridProposer, RandomProposer
from loopty.record.fold import Event
from loopty.record.history import History
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.recorder import Recorder
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.testing.fakes import object_name

SPACE = Space(
    {
        "x": Parameter(ParameterKind.FLOAT, -5.0, 5.0),
        "n": Parameter(ParameterKind.INT, 1, 64, log=True),
        "even": Parameter(ParameterKind.INT, 0, 9, step=2.0),
        "tenths": Parameter(ParameterKind.FLOAT, 0.0, 1.05, step=0.1),
        "method": Parameter(ParameterKind.CATEGORICAL, choices=("a", "b", 3, True)),
        "momentum": Parameter(ParameterKind.FLOAT, 1e-4, 0.99, log=True, when={"method": "a"}),
        "nested": Parameter(ParameterKind.INT, 1, 3, when={"method": "b"}),
    }
)
PLAIN = Space({"x": Parameter(ParameterKind.FLOAT, -5.0, 5.0), "y": Parameter(ParameterKind.FLOAT, -5.0, 5.0)})
Params = Mapping[str, Value]
KINDS = [
    pytest.param(
        kind,
        marks=pytest.mark.skipif(
            kind == "gp" and importlib.util.find_spec("torch") is None,
            reason="gp needs torch, which is not installed",
        ),
    )
    for kind in (*STATELESS_SAMPLERS, *STATEFUL_SAMPLERS, "random")
]


def make_proposer(kind: str, space: Space) -> Proposer:
    if kind == "random":
        return RandomProposer(space)
    return StatelessProposer(kind, space) if kind in STATELESS_SAMPLERS else StatefulProposer(kind, space)


def value_of(params: Params) -> float:
    return sum(float(value) ** 2 for value in params.values() if not isinstance(value, str))


class Search:
    """A run whose events a test records itself: ask, add or refuse, and later judge."""

    def __init__(
        self, metrics: tuple[Metric, ...] = (), seed: int = 0, baseline: Params | None = None, score: float = 50.0
    ) -> None:
        self.recorder = Recorder(MemoryLedger(), lambda: 0.0)
        self._seed = seed
        self._known = 0
        self._operator = "hand"
        self._tell(RunStarted(1, "criteria", Objective(Direction.MIN, metrics), seed, ""))
        self._tell(
            NodeAdded(
                NodeId("1"),
                Pool.ATTEMPT,
                "baseline",
                "",
                object_name("commit"),
                object_name("tree"),
                baseline or {},
            ),
            _start_event(NodeId("1")),
        )
        self.running: list[NodeId] = [NodeId("1")]
        self.ends(NodeId("1"), {"score": score, "other": 1.0})

    @property
    def history(self) -> History:
        return self.recorder.history

    @property
    def ask(self) -> Ask:
        return Ask(self.history, 1, Pool.ATTEMPT, lambda position: random.Random(f"{self._seed} {position}"))

    async def asks(self, proposer: Proposer) -> dict[str, Value]:
        self._known = self.history.number
        proposal = await proposer.propose(self.ask)
        assert isinstance(proposal, Proposal)
        self._operator = proposal.operator
        return dict(proposal.params)

    def adds(self, params: Params, operator: str = "", tree: str = "tree") -> NodeId:
        node = NodeId("1").child(self.history[NodeId("1")].children + 1)
        by = operator or self._operator
        added = NodeAdded(
            node, Pool.ATTEMPT, by, "", object_name("commit"), object_name(tree), params, known_event=self._known
        )
        self._tell(added, _start_event(node))
        self.running.append(node)
        return node

    def has_tried(self, operator: str, points: Iterable[Params]) -> None:
        """Record a long history at once."""
        events: list[Event] = []
        for number, params in enumerate(points, start=1):
            node = NodeId("1").child(number)
            events += [
                NodeAdded(node, Pool.ATTEMPT, operator, "", object_name("commit"), object_name("tree"), params),
                _start_event(node),
            ]
            events += [TrialEnded(node, 1, Outcome(Ending.FINISHED, {"score": value_of(params), "other": 0.0}))]
            events += [NodeJudged(node, Verdict.DISCARDED, "")]
        self._tell(*events)

    def refuses(self, operator: str = "") -> None:
        self._tell(ProposalRefused(1, Pool.ATTEMPT, operator or self._operator, "the same"))

    def ends(self, node: NodeId, metrics: Mapping[str, float] | None) -> None:
        self.running.remove(node)
        outcome = Outcome(Ending.FINISHED, metrics) if metrics else Outcome(Ending.FAILED, reason="crashed")
        self._tell(TrialEnded(node, 1, outcome), NodeJudged(node, Verdict.DISCARDED, ""))

    def prunes(self, node: NodeId, value: float, step: float = 1.0) -> None:
        self.running.remove(node)
        outcome = Outcome(Ending.PRUNED, {"score": value}, reason="worse than the median", step=step)
        self._tell(TrialEnded(node, 1, outcome), NodeJudged(node, Verdict.DISCARDED, ""))

    def finishes(self, node: NodeId) -> None:
        value = value_of(self.history[node].params)
        self.ends(node, None if int(value * 1000) % 7 == 0 else {"score": value, "other": -math.sqrt(value)})

    def _tell(self, *events: Event) -> None:
        self.recorder.record(lambda _: events)


def _start_event(node: NodeId) -> TrialStarted:
    return TrialStarted(node, 1, Pool.ATTEMPT, "owner")


async def serial(proposer: Callable[[], Proposer], search: Search, questions: int) -> list[Params]:
    """One trial at a time; the callable gives the proposer for each question."""
    proposed = []
    for _ in range(questions):
        params = await search.asks(proposer())
        proposed.append(params)
        search.finishes(search.adds(params))
    return proposed


async def refused(proposer: Proposer, search: Search, questions: int) -> list[Params]:
    """Proposals that are all refused, so that the sampler learns nothing from them."""
    proposed = []
    for _ in range(questions):
        proposed.append(await search.asks(proposer))
        search.refuses()
    return proposed


async def parallel(
    proposer: Callable[[], Proposer], search: Search, questions: int, width: int = 3
) -> list[Params]:
    """Several running trials that end out of order, with every fourth proposal refused."""
    order, proposed = random.Random(5), []
    for number in range(questions):
        params = await search.asks(proposer())
        proposed.append(params)
        if number % 4 == 3:
            search.refuses()
            continue
        if order.random() < 0.3 and search.running:  # a verdict that the proposer could not know of
            search.finishes(order.choice(search.running))
        search.adds(params)
        while len(search.running) >= width:
            search.finishes(order.choice(search.running))
            if order.random() < 0.3 and search.running:
                search.finishes(order.choice(search.running))
    return proposed


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("drive", [serial, parallel])
@pytest.mark.parametrize("space", [SPACE, PLAIN], ids=["conditional", "plain"])
async def test_a_new_proposer_continues_exactly_where_another_stopped(
    kind: str, drive: Callable[..., object], space: Space
) -> None:
    lasting = make_proposer(kind, space)
    uninterrupted: list[Params] = await drive(lambda: lasting, Search(), 40)  # type: ignore[misc]
    sessions = (proposer for _ in range(5) for proposer in [make_proposer(kind, space)] * 9)
    resumed: list[Params] = await drive(lambda: next(sessions), Search(), 40)  # type: ignore[misc]
    assert resumed == uninterrupted
    assert all(space.fault(params) is None for params in uninterrupted)
    # GP comes back to good points of a small space; the others hardly do.
    assert len({str(params) for params in uninterrupted}) > (10 if kind == "gp" else 30)


@pytest.mark.parametrize("kind", KINDS)
async def test_the_seed_decides(kind: str) -> None:
    lists = []
    for seed in (1, 1, 2):
        proposer = make_proposer(kind, SPACE)
        lists.append(await serial(lambda proposer=proposer: proposer, Search(seed=seed), 12))  # type: ignore[misc]
    assert lists[0] == lists[1]
    assert (lists[0] == lists[2]) == (kind == "qmc"), "Sobol' points are one sequence for all seeds"


@pytest.mark.parametrize("kind", ["tpe", "cmaes"])
async def test_a_sampler_that_learns_beats_one_that_does_not(kind: str) -> None:
    async def best(kind: str) -> float:
        proposer = make_proposer(kind, PLAIN)
        return min(value_of(params) for params in await serial(lambda: proposer, Search(seed=3), 80))

    assert await best(kind) < await best("random")


@pytest.mark.parametrize("kind", ["tpe", "nsga2"])
async def test_samplers_accept_several_metrics(kind: str) -> None:
    metrics = (Metric("score", Direction.MIN), Metric("other", Direction.MAX))
    proposer = make_proposer(kind, PLAIN)
    assert len(await serial(lambda: proposer, Search(metrics), 45)) == 45


@pytest.mark.parametrize("kind", KINDS)
async def test_nodes_that_no_sampler_made_cause_no_error(kind: str) -> None:
    """Nodes by hand, from an older space, between the steps or without the metric cause no error."""
    search = Search()
    odd: list[Params] = [
        {"x": 1.0},
        {"x": 99.0, "y": 0.0},
        {**SPACE.baseline(), "even": 3},
        {**SPACE.baseline(), "tenths": 0.55},
        {**SPACE.baseline(), "method": 1},
        SPACE.baseline(),
    ]
    proposer = make_proposer(kind, SPACE)
    for params in odd:
        search.finishes(search.adds(params, "hand"))
        search.ends(search.adds(await search.asks(proposer)), {"another": 1.0})
        search.adds(params, "hand")
    assert SPACE.fault(await search.asks(proposer)) is None


@pytest.mark.parametrize("kind", ["tpe", "cmaes", "nsga2"])
async def test_a_question_stays_cheap_after_a_thousand_nodes(kind: str) -> None:
    search = Search()
    rng = random.Random(0)
    search.has_tried(kind, (PLAIN.sample(rng) for _ in range(1000)))
    proposer = make_proposer(kind, PLAIN)
    await search.asks(proposer)  # this one reads the whole history
    began = time.process_time()
    await serial(lambda: proposer, search, 5)
    assert time.process_time() - began < 5


async def test_tpe_learns_from_pruned_trials_alone() -> None:
    search, proposer, rng = Search(), make_proposer("tpe", PLAIN), random.Random(1)
    for _ in range(40):
        point = PLAIN.sample(rng)
        search.prunes(search.adds(point, "hand"), 100 + value_of(point))
    later = await serial(lambda: proposer, search, 20)
    assert statistics.fmean(map(value_of, later)) < 10, "random points have a mean of 17"


async def test_tpe_takes_a_trial_that_was_pruned_later_for_the_better_one() -> None:
    search, proposer, rng = Search(), make_proposer("tpe", PLAIN), random.Random(1)
    for _ in range(40):
        point = PLAIN.sample(rng)
        search.prunes(search.adds(point, "hand"), 100.0, step=10.0 if float(point["x"]) > 2 else 1.0)
    later = await refused(proposer, search, 20)
    assert statistics.fmean(float(params["x"]) for params in later) > 1


async def test_cmaes_learns_from_pruned_trials() -> None:
    search, proposer = Search(baseline={"x": 0.0, "y": 0.0}), make_proposer("cmaes", PLAIN)
    for _ in range(60):
        params = await search.asks(proposer)
        search.prunes(search.adds(params), 1000 + (float(params["x"]) - 4) ** 2)
    assert float((await search.asks(proposer))["x"]) > 2


async def test_to_cmaes_a_trial_that_was_pruned_early_is_never_a_good_one() -> None:
    """A metric that grows with each step is small when a trial is stopped early."""
    search, proposer, last = Search(baseline={"x": 0.0, "y": 0.0}, score=9.0), make_proposer("cmaes", PLAIN), 0.0
    for _ in range(80):
        params = await search.asks(proposer)
        node, last = search.adds(params), float(params["x"])
        if last > 0:
            search.prunes(node, -100.0)
        else:
            search.ends(node, {"score": (last + 4) ** 2})
    assert last < -2


async def test_the_baseline_teaches_tpe() -> None:
    async def mean_x(baseline: Params | None) -> float:
        search, rng = Search(baseline=baseline, score=0.0), random.Random(1)
        for _ in range(10):
            search.ends(search.adds({"x": rng.uniform(-5, 0), "y": 0.0}, "hand"), {"score": 100.0})
        return statistics.fmean(float(p["x"]) for p in await refused(make_proposer("tpe", PLAIN), search, 40))

    assert await mean_x({"x": 4.0, "y": 0.0}) > await mean_x(None) + 1


async def test_the_baseline_is_the_first_point_of_cmaes_and_a_parent_of_nsga2() -> None:
    baseline = {"x": 1.25, "y": -1.25}
    first = await Search(baseline=baseline).asks(make_proposer("cmaes", PLAIN))
    assert value_of(first) < 12, "around the middle, instead of one random point to learn the space from"
    nsga2, search = make_proposer("nsga2", PLAIN), Search(baseline=baseline, score=0.0)
    points = await serial(lambda: nsga2, search, 100)
    assert any(params["x"] == pytest.approx(1.25) for params in points)


@pytest.mark.parametrize("kind", KINDS)
async def test_a_baseline_outside_the_space_is_not_told(kind: str) -> None:
    told = await Search(baseline={"x": 99.0, "y": 0.0}).asks(make_proposer(kind, PLAIN))
    assert told == await Search().asks(make_proposer(kind, PLAIN))


async def test_without_conditions_the_points_of_qmc_are_those_of_optuna() -> None:
    space = Space({name: Parameter(ParameterKind.FLOAT, 0.0, 1.0) for name in ("second", "first", "third")})
    with warnings.catch_warnings(action="ignore"):  # Optuna calls it experimental
        study = optuna.create_study(sampler=optuna.samplers.QMCSampler(seed=0))
    study.optimize(lambda trial: sum(trial.suggest_float(name, 0.0, 1.0) for name in space.parameters), 20)
    proposer = make_proposer("qmc", space)
    theirs = [trial.params for trial in study.trials[1:]]  # the first one is random, to learn the space from
    assert await serial(lambda: proposer, Search(), 19) == theirs


async def test_qmc_spreads_conditional_parameters_too() -> None:
    methods, parts = ("a", "b"), ("p", "q", "r", "s")
    space = Space(
        {
            "method": Parameter(ParameterKind.CATEGORICAL, choices=methods),
            "part": Parameter(ParameterKind.CATEGORICAL, choices=parts, when={"method": "b"}),
            "share": Parameter(ParameterKind.FLOAT, 0.0, 1.0, when={"part": "q"}),
        }
    )
    proposer = make_proposer("qmc", space)
    points = await serial(lambda: proposer, Search(), 64)
    counts = Counter(params["part"] for params in points if params["method"] == "b")
    assert min(counts[part] for part in parts) >= 6
    assert len({params["share"] for params in points if "share" in params}) >= 6


@pytest.mark.parametrize("kind", ["tpe", "cmaes", "nsga2"])
async def test_a_question_does_not_read_the_space_of_every_trial(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Optuna's samplers do so once for each trial, because they remember it; ours know the space."""
    monkeypatch.setattr("optuna.search_space.IntersectionSearchSpace.calculate", None)
    proposer = make_proposer(kind, SPACE)
    assert len(await serial(lambda: proposer, Search(), 40)) == 40


async def test_cmaes_learns_the_common_numbers_of_a_conditional_space() -> None:
    space = Space(
        {
            "method": Parameter(ParameterKind.CATEGORICAL, choices=("a", "b")),
            "x": Parameter(ParameterKind.FLOAT, -5.0, 5.0),
            "y": Parameter(ParameterKind.FLOAT, -5.0, 5.0),
            "share": Parameter(ParameterKind.FLOAT, 0.0, 1.0, when={"method": "b"}),
        }
    )
    search = Search(baseline={"method": "b", "x": 0.0, "y": 0.0, "share": 0.5})
    proposer, last = make_proposer("cmaes", space), []
    for _ in range(120):
        params = await search.asks(proposer)
        distance = (float(params["x"]) - 3) ** 2 + (float(params["y"]) + 3) ** 2
        search.ends(search.adds(params), {"score": 1 + distance})
        last.append(distance)
    assert statistics.fmean(last[-20:]) < 1


async def test_a_long_run_of_tpe_resumes_exactly_after_it_dropped_nodes(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("loopty.proposers.parameters.learned_nodes._CAP", 10)
    lasting = make_proposer("tpe", PLAIN)
    uninterrupted = await parallel(lambda: lasting, Search(), 110)
    sessions = (proposer for _ in range(10) for proposer in [make_proposer("tpe", PLAIN)] * 11)
    assert await parallel(lambda: next(sessions), Search(), 110) == uninterrupted


async def test_the_grid_is_walked_once_and_then_exhausted() -> None:
    space = Space(
        {
            "n": Parameter(ParameterKind.INT, 1, 3),
            "method": Parameter(ParameterKind.CATEGORICAL, choices=("a", "b")),
            "momentum": Parameter(ParameterKind.FLOAT, 0.0, 1.0, when={"method": "a"}),
        }
    )
    search, lasting = Search(), GridProposer(space, GridOptions(points=3))
    proposed = await serial(lambda: lasting, search, 12)
    assert len({str(sorted(params.items())) for params in proposed}) == 12 == 3 * (3 + 1)
    for proposer in (lasting, GridProposer(space, GridOptions(points=3))):
        with pytest.raises(Exhausted, match="12 points"):
            await search.asks(proposer)


async def test_the_grid_continues_where_it_stopped_also_after_refusals() -> None:
    lasting = GridProposer(PLAIN, GridOptions(points=5))
    uninterrupted = await parallel(lambda: lasting, Search(), 20)
    assert uninterrupted == await parallel(lambda: GridProposer(PLAIN, GridOptions(points=5)), Search(), 20)
    assert len({str(params) for params in uninterrupted}) == 20


async def test_a_budget_smaller_than_the_grid_sees_every_value_of_every_parameter() -> None:
    space = Space({f"x{number}": Parameter(ParameterKind.FLOAT, 0.0, 1.0) for number in range(12)})
    proposer = GridProposer(space, GridOptions(points=4))
    points = await serial(lambda: proposer, Search(), 40)
    assert all(len({params[name] for params in points}) == 4 for name in space.parameters)


async def test_the_seed_decides_the_order_of_the_grid() -> None:
    lists = [await serial(lambda: GridProposer(PLAIN, GridOptions()), Search(seed=seed), 25) for seed in (1, 1, 2)]
    assert lists[0] == lists[1] != lists[2]
    assert sorted(map(str, lists[0])) == sorted(map(str, lists[2]))
