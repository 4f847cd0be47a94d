"""A node: one state of the code, what was measured and decided about it, and how a measurement changes it."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping

from loopty.domain.access import ObjectName, TreePath
from loopty.domain.counting import CLOCK
from loopty.domain.errors import Misuse
from loopty.domain.evidence import median, noise_floor
from loopty.domain.ids import NodeId, handle_name
from loopty.domain.objective import WEIGHTED_SUM, Metric, Metrics
from loopty.domain.proposal import Declared, identity
from loopty.domain.space import Value
from loopty.domain.trial import Effect, Ending, Outcome, Pool, Verdict
from loopty.kit.records import Record, field, replace

MAX_SAMPLES = 32
"""Per node and fingerprint; older samples are dropped."""
RECENT_SAMPLES = 5
"""How many of the newest samples make a result: the older ones are of a machine that may have changed since."""
NOISE_SAMPLES = 12
"""How many of the newest samples tell the noise: a noisy hour must not blind the judge for the whole night."""


class Pairing(Record):
    """Repeated measurements of a node and of the incumbent, in the order in which they were made."""

    incumbent: NodeId
    noise: Mapping[str, float] = field(default_factory=dict)
    """How much results varied before the pairing began, by metric."""
    ratio_noise: Mapping[str, float] = field(default_factory=dict)
    """The same of their logarithms, for metrics that are judged by ratios."""
    mine: tuple[Metrics, ...] = ()
    theirs: tuple[Metrics, ...] = ()
    faults: int = 0
    """Measurements of the incumbent without a result, or with one under another fingerprint."""
    failures: int = 0
    """Those of them that the incumbent failed."""

    @property
    def pairs(self) -> list[tuple[Metrics, Metrics]]:
        return list(zip(self.mine, self.theirs, strict=True))

    @property
    def pairs_so_far(self) -> list[tuple[Metrics, Metrics]]:
        """Return the whole pairs, while half of another may be there."""
        return list(zip(self.mine, self.theirs, strict=False))

    def whole_pairs(self) -> Pairing:
        """Drop a half pair: after a break its two halves would lie too far apart in time."""
        count = min(len(self.mine), len(self.theirs))
        return replace(self, mine=self.mine[:count], theirs=self.theirs[:count])


class Result(Record):
    """A node's result under one fingerprint: its metrics are the medians of the newest samples."""

    outcome: Outcome
    samples: tuple[Metrics, ...] = ()

    def with_sample(self, metrics: Metrics) -> Result:
        samples = (*self.samples, metrics)[-MAX_SAMPLES:]
        recent = samples[-RECENT_SAMPLES:]
        medians = {name: median([sample[name] for sample in recent]) for name in metrics}
        return Result(replace(self.outcome, metrics={**self.outcome.metrics, **medians}), samples)


class Review(Record):
    """The verifier's answer about a node that the metric would keep."""

    passed: bool | None
    """None when the verifier was unavailable or its answer could not be read."""
    reason: str


class TunedParams(Record):
    """How a node came to its parameters: they were tuned on a slice before its attempt."""

    slice: str
    trials: int
    reason: str
    """Why the tuning ended."""
    proposed_score: float | None = None
    """The first metric on the slice, with the parameters as they were proposed."""
    score: float | None = None
    """The same with the promoted ones. It is no result: nothing ranks it."""
    proposed: Mapping[str, Value] = field(default_factory=dict)


class Withdrawal(Record):
    """A verdict that was taken back. The node is never kept again."""

    verdict: Verdict | None
    """The verdict before; None where there was none yet."""
    reason: str
    """The reason of the verdict before."""
    why: str
    """Why it was taken back."""
    by_hand: bool = False
    """Whether a person took it back: then `loopty node undo` can undo it."""


class Node(Record):
    """What is known about one node."""

    id: NodeId
    pool: Pool
    operator: str
    summary: str
    commit: ObjectName
    tree: ObjectName
    added_at: float
    order: int
    """1 for the first node of its run, in the order in which nodes were added."""
    position: int
    """How many answers the pool's proposer had given before."""
    turn: int = 0
    """How many of those answers came from this operator."""
    params: Mapping[str, Value] = field(default_factory=dict)
    draft: bool = False
    dropped: bool = False
    """Whether the draft was given up before it ran."""
    files_removed: bool = False
    """Whether `loopty system gc` removed its commit, folder and logs."""
    stored: str = ""
    """The hash of its folder, where drivers share a store."""
    known_event: int = 0
    """The last event that the proposer knew."""
    edits: tuple[TreePath, ...] = ()
    """The paths that the node changes in its parent."""
    children: int = 0
    trials: int = 0
    losses: int = 0
    losses_in_row: int = 0
    running: bool = False
    outcome: Outcome | None = None
    """Outcome of the judging trial; its metrics are the medians of the newest samples."""
    samples: tuple[Metrics, ...] = ()
    """The counting metrics of each measurement under the outcome's fingerprint, newest last."""
    fault: Outcome | None = None
    """A repeated measurement of the node that gave no result."""
    # The node's own, and the commit that ends one measurement starts the next: a killed run keeps its pairs.
    pairing: Pairing | None = None
    faults_in_row: int = 0
    """Consecutive measurements as the incumbent that gave no result."""
    first_looks_lost: int = 0
    """Candidates discarded at the first look at them since this node, their incumbent, was last measured."""
    fresh_rival: tuple[Metrics, ...] = ()
    """Measurements of the incumbent that were made for the first look at this node."""
    other_fingerprints: Mapping[str, Result] = field(default_factory=dict)
    """Results under fingerprints other than the outcome's."""
    effect: Effect | None = None
    verdict: Verdict | None = None
    reason: str = ""
    against: NodeId | None = None
    review: Review | None = None
    inspirations: tuple[NodeId, ...] = ()
    calls: tuple[str, ...] = ()
    parent_reason: str = ""
    """Why the selector chose the parent."""
    judged: int = 0
    """The number of the event that holds the verdict."""
    withdrawn: Withdrawal | None = None
    """The verdict that the present one has replaced."""
    handle: int = 0
    """1 for the first node of the ledger, in the order in which nodes were added to any run: its short name."""
    reopened_for: tuple[NodeId, ...] = ()
    """One judgement more for each: a node that it had lost to and that lost its place; itself, if undecided."""
    author: str = ""
    """The client that opened it; empty for a person or a proposer."""
    surface: str = ""
    """The part of the code that it is about, in the author's words."""
    merged: tuple[NodeId, ...] = ()
    """Further parents, whose changes it holds as well."""
    arm_reason: str = ""
    """Why its operator and its model were chosen."""
    model: str = ""
    """The model that wrote it."""
    tokens: float = 0.0
    """What its calls used; proposals of one reply share its cost."""
    money_usd: float = 0.0
    place: int = 0
    """Its place among the best nodes of its pool when it was judged: 1 is the best, 0 is none."""
    tuned: TunedParams | None = None
    """None where its parameters are as they were proposed."""
    declared: Declared = field(default_factory=dict)
    """The parameters that its program declares itself."""

    @property
    def name(self) -> str:
        """Return `@95`, as it is printed and accepted everywhere."""
        return handle_name(self.handle)

    @property
    def is_pending(self) -> bool:
        """Say whether the node waits for a trial."""
        return not (self.draft or self.running or self.verdict)

    @property
    def ending(self) -> Ending | None:
        """Tell how the judging trial ended; None before that."""
        return self.outcome.ending if self.outcome else None

    def result(self, fingerprint: str) -> Result | None:
        """Return the node's result under this fingerprint."""
        if self.outcome and self.outcome.fingerprint == fingerprint:
            return Result(self.outcome, self.samples)
        return self.other_fingerprints.get(fingerprint)

    @property
    def is_invalidated(self) -> bool:
        """Say whether nothing may be built on it: its verdict was withdrawn, not only for a lower score."""
        return self.withdrawn is not None and self.verdict is Verdict.REJECTED

    @property
    def repeats(self) -> int:
        """Count how often the node and the incumbent beside it were measured again."""
        beside = len(self.fresh_rival) + (len(self.pairing.theirs) if self.pairing else 0)
        return len(self.samples) - 1 + beside if beside else 0

    @property
    def task_params(self) -> Mapping[str, Value]:
        """Return the values of the task's own parameters."""
        return {name: value for name, value in self.params.items() if name not in self.declared}

    @property
    def identity(self) -> str:
        return identity(self.tree, self.params)


def parent_refusal(parent: Node) -> str | None:
    """Tell why nothing can be built on a node any more, or None: it may have changed since a proposer chose it."""
    if parent.is_invalidated:
        return f"its parent {parent.name} is invalidated: {parent.reason}"
    if parent.files_removed:
        return f"the files of its parent {parent.name} were removed by `loopty system gc`"
    return f"its parent {parent.name} was dropped" if parent.dropped else None


def refuse_dropped(node: Node) -> None:
    if node.dropped:
        raise Misuse(f"{node.name} was dropped: make a new one with `loopty draft new`")


ENOUGH_TO_VARY = 3
"""From this many samples on, it is known how much a node varies."""


def counting_sample(outcome: Outcome, counting: Iterable[Metric]) -> tuple[Metrics, ...]:
    """Return the counting metrics of one measurement; empty if it gave no result."""
    if not outcome.is_finished:
        return ()
    if CLOCK in outcome.metrics:
        return ({CLOCK: outcome.metrics[CLOCK]},)
    names = (*(metric.name for metric in counting), WEIGHTED_SUM)
    return ({name: outcome.metrics[name] for name in names if name in outcome.metrics},)


def add_sample(node: Node, outcome: Outcome, sample: Metrics) -> Node:
    """Add one more sample to the node under the outcome's fingerprint."""
    node = replace(node, first_looks_lost=0, faults_in_row=0)
    known = node.result(outcome.fingerprint)
    result = known.with_sample(sample) if known else Result(outcome, (sample,))
    if node.outcome and node.outcome.fingerprint == outcome.fingerprint:
        return replace(node, outcome=result.outcome, samples=result.samples)
    return replace(node, other_fingerprints={**node.other_fingerprints, outcome.fingerprint: result})


def recent_noise(incumbent: Result, known: Metrics) -> dict[str, float]:
    """Compute the noise of one measurement from the incumbent's newest; `known` if they are few or equal."""
    newest = incumbent.samples[-NOISE_SAMPLES:]
    recent = noise_floor(newest) if len(newest) >= ENOUGH_TO_VARY else {}
    return {name: recent.get(name) or known.get(name, 0.0) for name in {**known, **recent}}


_MOST_RATIO_NOISE = 0.3


def ratio_noise(incumbent: Result) -> dict[str, float]:
    """Compute the noise of logarithms, of metrics that are judged by ratios.

    Times and rates are ratios: what slows a machine down multiplies them, their noise too. So are all positive
    metrics whose noise is far smaller than they are, as differences and ratios say the same of those.
    """
    newest = incumbent.samples[-NOISE_SAMPLES:]
    if len(newest) < ENOUGH_TO_VARY:
        return {}
    positive = [name for name in newest[0] if all(sample.get(name, 0.0) > 0 for sample in newest)]
    found = noise_floor([{name: math.log(sample[name]) for name in positive} for sample in newest])
    return {name: noise for name, noise in found.items() if 0 < noise < _MOST_RATIO_NOISE}


def pairing_with(node: Node, incumbent: Node, noise_by_fingerprint: Mapping[str, Mapping[str, float]]) -> Pairing:
    """Return the node's pairing with this incumbent: the one under way, or a new one.

    No measurement before it is part of it: those have selected the node.
    """
    if node.pairing and node.pairing.incumbent == incumbent.id:
        return node.pairing
    fingerprint = node.outcome.fingerprint if node.outcome else ""
    known, noise = incumbent.result(fingerprint), noise_by_fingerprint.get(fingerprint, {})
    if known is None:
        return Pairing(incumbent.id, noise)
    return Pairing(incumbent.id, recent_noise(known, noise), ratio_noise(known))


def add_repeat(node: Node, outcome: Outcome, samples: tuple[Metrics, ...], own: bool) -> Node:
    """Return the node under judgement after it (`own`) or its incumbent was measured again."""
    same = node.outcome is not None and node.outcome.fingerprint == outcome.fingerprint
    if own and not same:
        # The machine changed before the verdict: measurements from there do not help here.
        fault = None if outcome.is_finished else outcome
        return replace(node, outcome=outcome, samples=samples, pairing=None, fault=fault)
    if own and not samples:
        return replace(node, fault=outcome)
    if own:
        node = add_sample(node, outcome, samples[0])
    pairing = node.pairing
    if pairing is None and not own:
        # Without a fresh result of the incumbent there is no second look: pairs begin, which count such faults.
        fresh = node.fresh_rival + (samples if same else ())
        return replace(node, fresh_rival=fresh, pairing=None if fresh else Pairing(node.id))
    if pairing and samples and same:
        mine, theirs = (samples, ()) if own else ((), samples)
        pairing = replace(pairing, mine=pairing.mine + mine, theirs=pairing.theirs + theirs)
    elif pairing:
        failures = pairing.failures + (not outcome.is_finished)
        pairing = replace(pairing.whole_pairs(), faults=pairing.faults + 1, failures=failures)
    return replace(node, pairing=pairing)


def stop_running(node: Node, cancelled: bool, lost: bool) -> Node:
    """Return the node under judgement after a trial that serves its verdict has ended."""
    in_row = node.losses_in_row + lost if cancelled else 0
    pairing = node.pairing.whole_pairs() if node.pairing and cancelled else node.pairing
    return replace(node, running=False, losses=node.losses + lost, losses_in_row=in_row, pairing=pairing)
