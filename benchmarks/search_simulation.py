"""One search on a landscape: the shipped plan, selectors and fold decide, a simulated model writes the change.

The history is a real one, folded from real events; only the model, the trial and the clock are functions.
Budgets are in calls of a cheap diff; a trial costs 1 unless it is said otherwise, one that breaks half. Where the
budget is a number of trials, calls cost nothing.
"""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from itertools import count

from search_coder import CHEAP, TOKENS, Coder, Skill
from search_landscape import Genome, Landscape

from loopty.campaign.optimize import make_selector
from loopty.domain.access import ObjectName
from loopty.domain.ids import NodeId
from loopty.domain.model import ModelOption
from loopty.domain.objective import Objective
from loopty.domain.proposal import Objection
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.ledgers.sqlite import MemoryLedger
from loopty.proposers.code.options import CodeOptions
from loopty.proposers.code.plan import Plan, make_plan
from loopty.record.calls import CallReserved, CallSettled
from loopty.record.fold import Event, Recorded
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.sessions import RunStarted
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import Incumbents, NodeJudged

FLOOR = 0.004
"""What a kept change must at least gain."""
_TOKENS = 1000
_ROOT = NodeId("1")
_PATH = "program.py"


@dataclass(frozen=True)
class SearchResult:
    """Shares of the way from the root to the optimum."""

    area: float
    """The mean of the best score so far over the budget."""
    final: float
    trials: int
    broken: float
    asked: dict[str, int] = field(default_factory=dict)


class Simulation:
    """One run with these options of `llm-code`."""

    def __init__(
        self,
        land: Landscape,
        options: CodeOptions,
        seed: int,
        skills: tuple[Skill, ...] = (CHEAP,),
        trial_cost: float = 1.0,
        call_cost: float = 1.0,
    ) -> None:
        self._trial_cost, self._call_cost = trial_cost, call_cost
        self._land = land
        self._options = options
        self._selector = make_selector(options.parents)
        self._coders = {skill.name: Coder(skill, land) for skill in skills}
        self._models = tuple(ModelOption(skill.name, price=skill.price) for skill in skills)
        self._rng = random.Random(seed * 7919 + 13)
        self._seed = seed
        self._history = MemoryLedger().history()
        self._numbers = count(1)
        self._genomes: dict[NodeId, Genome] = {_ROOT: land.root}
        self._broken: set[NodeId] = set()
        self._samples: dict[NodeId, list[float]] = {}
        self._known = {land.root}
        self._spent = 0.0
        self._trials = 0
        self._asked: dict[str, int] = {}
        self._curve = [(0.0, 0.0)]

    def run(self, budget: float) -> SearchResult:
        self._record(RunStarted(1, "c", Objective(), self._seed, "simulated"))
        self._add(_ROOT, "baseline", ())
        self._measure(_ROOT)
        while self._spent < budget:
            self._step()
            best = Incumbents.of(self._history.runs[1], Pool.ATTEMPT).best or _ROOT
            self._curve.append((min(self._spent, budget), self._land.score(self._genomes[best])[0]))
        area = sum(
            value * (until - since)
            for (since, value), (until, _) in zip(self._curve, [*self._curve[1:], (budget, 0.0)], strict=True)
        )
        broken = len(self._broken) / max(self._trials, 1)
        return SearchResult(area / budget, self._curve[-1][1], self._trials, broken, self._asked)

    def _record(self, *events: Event) -> None:
        for event in events:
            number = next(self._numbers)
            self._history.apply(Recorded(number, float(number), event))

    def _step(self) -> None:
        seed = self._seed
        ask = Ask(self._history, 1, Pool.ATTEMPT, lambda position: random.Random(f"{seed} {position}"), ())
        plan = make_plan(ask, self._options, self._selector, self._models)
        calls = self._call(plan)
        for index in range(plan.batch if plan.model else 1):
            self._propose(plan, calls, index)

    def _propose(self, plan: Plan, calls: tuple[str, ...], index: int) -> None:
        """One proposal of a reply: all of them change the same parent."""
        operator, place = str(plan.operator), (plan.batch - 1 - index, index)
        self._asked[operator] = self._asked.get(operator, 0) + 1
        coder = self._coders[plan.model or self._models[0].name]
        partner = self._genomes[plan.inspirations[0].id] if plan.inspirations else None
        genome = coder.change(operator, self._genomes[plan.parent.id], partner, self._rng)
        is_broken = coder.breaks(operator, self._rng)
        if genome is None or (operator != "fix" and genome in self._known):
            why = "no use" if genome is None else "the same"
            refused = Objection.REPLY if genome is None else Objection.DUPLICATE
            self._record(ProposalRefused(1, Pool.ATTEMPT, operator, why, refused, calls, *place))
            return
        self._known.add(genome)
        genome = self._prepare(genome, is_broken)
        node = plan.parent.id.child(self._history[plan.parent.id].children + 1)
        self._genomes[node] = genome
        self._add(node, operator, calls, *place)
        self._trials += 1
        if is_broken:
            self._broken.add(node)
            self._spent += self._trial_cost / 2 if self._call_cost else self._trial_cost
            self._end(node, Outcome(Ending.FAILED, reason="it does not run"), Verdict.DISCARDED)
        else:
            self._measure(node)

    def _prepare(self, genome: Genome, _is_broken: bool) -> Genome:
        """The genome as its attempt measures it."""
        return genome

    def _call(self, plan: Plan) -> tuple[str, ...]:
        if not plan.model:
            return ()
        coder, operator, call = self._coders[plan.model], str(plan.operator), f"c{self._history.number}"
        size = (1 + plan.batch) / 2  # a call for several proposals reads the program once
        self._spent += self._call_cost * coder.cost(operator) * size
        tokens = round(_TOKENS * TOKENS[operator] * size)
        money = coder.skill.price * tokens
        self._record(
            CallReserved(
                1, call, "evolver", tokens, money, "o", plan.model, operator, plan.parent.id, Pool.ATTEMPT
            ),
            CallSettled(1, call, tokens, money),
        )
        return (call,)

    def _add(
        self,
        node: NodeId,
        operator: str,
        calls: tuple[str, ...],
        remaining: int = 0,
        index: int = 0,
    ) -> None:
        name = ObjectName(f"{len(self._genomes):040x}")
        place = {"remaining_in_reply": remaining, "index_in_reply": index}
        edits = (_PATH,) if node.parent else ()
        named = (node, Pool.ATTEMPT, operator, operator, name, name)
        self._record(NodeAdded(*named, calls=calls, edits=edits, **place))

    def _measure(self, node: NodeId) -> None:
        """Run the trial, and under noise as many more as it takes to tell the node from the best one."""
        best = Incumbents.of(self._history.runs[1], Pool.ATTEMPT).best
        self._sample(node)
        is_better = best is None or self._is_better(node, best)
        value, tasks = (
            sum(self._samples[node]) / len(self._samples[node]),
            self._land.score(self._genomes[node])[1],
        )
        metrics = {"score": value}
        if len(tasks) > 1:
            metrics |= {f"tasks.{number}": task for number, task in enumerate(tasks)}
        genome = self._genomes[node]
        metrics |= {"paradigm": float(genome.paradigm), "first": float(genome.blocks[0])}
        self._end(node, Outcome(Ending.FINISHED, metrics), Verdict.KEPT if is_better else Verdict.DISCARDED)

    def _is_better(self, node: NodeId, best: NodeId) -> bool:
        noise, samples = self._land.shape.noise, self._samples

        def mean(one: NodeId) -> float:
            return sum(samples[one]) / len(samples[one])

        if not noise:
            return mean(node) > mean(best) + FLOOR
        error = 0.0
        for _ in range(4):
            error = noise * (1 / len(samples[node]) + 1 / len(samples[best])) ** 0.5
            if mean(node) <= mean(best) or mean(node) > mean(best) + 2 * error:
                break
            for one in (node, best):
                if len(samples[one]) < 12:
                    self._sample(one)
        return mean(node) > mean(best) + error

    def _sample(self, node: NodeId) -> None:
        noise = self._land.shape.noise
        value = self._land.score(self._genomes[node])[0] + (self._rng.gauss(0, noise) if noise else 0.0)
        self._samples.setdefault(node, []).append(value)
        is_first_of_root = node == _ROOT and len(self._samples[node]) == 1
        self._spent += 0.0 if is_first_of_root else self._trial_cost

    def _end(self, node: NodeId, outcome: Outcome, verdict: Verdict) -> None:
        against = Incumbents.of(self._history.runs[1], Pool.ATTEMPT).best
        self._record(
            TrialStarted(node, 1, Pool.ATTEMPT, "o"),
            TrialEnded(node, 1, outcome),
            NodeJudged(node, verdict, "", against),
        )
