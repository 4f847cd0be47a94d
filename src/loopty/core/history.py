"""The fold of the ledger: what is true now, O(1) per event.

The fold is kept as pages (one per run, one per node) that the ledger saves in the same commit as the events,
so that a reader opens a long history without replaying it. The events stay the truth: `History` folded from
them all equals `History` opened from the pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import replace
from typing import Any

from loopty.core import events
from loopty.core.errors import Misuse
from loopty.core.events import Recorded
from loopty.core.evidence import noise_floor
from loopty.core.ids import NodeId
from loopty.core.objective import Metric, Metrics
from loopty.core.outcome import Ending, Outcome, Pool, Verdict
from loopty.core.records import Duel, Flight, Hold, Node, Result, Run, trial_name
from loopty.kit import codec

LOSSES_UNTIL_QUARANTINE = 5

LOOKING = (Pool.REPLAY, Pool.REBASE, Pool.AUDIT)
"""Trials in these pools decide of nothing. What audits find is in their events alone, where no search looks."""

ENOUGH_TO_VARY = 3
"""From so many measurements on it is known how much a node varies."""

FOLD = 4
"""Counts up when the fold changes, so that a ledger knows that the pages it saved are those of an older one."""


class History:
    """Every run and node; grows by `apply`."""

    def __init__(self) -> None:
        self.number = 0
        """Of the last event folded in."""
        self.runs: dict[int, Run] = {}
        self._nodes: dict[NodeId, Node | str] = {}
        self._identities: dict[tuple[int, Pool, str], NodeId] | None = None
        self._lanes: dict[tuple[int, Pool], list[NodeId]] | None = None
        self._touched: set[str] = set()

    @classmethod
    def open(cls, number: int, pages: Iterable[tuple[Any, ...]]) -> History:
        """The history that these pages (key, body) hold; nodes are decoded when they are asked for."""
        history = cls()
        history.number = number
        for key, body in pages:
            if key.startswith("run "):
                run = codec.build(Run, json.loads(body))
                history.runs[run.number] = run
            else:
                history._nodes[NodeId(key)] = body
        return history

    @property
    def run(self) -> Run | None:
        """The newest run."""
        return self.runs[max(self.runs)] if self.runs else None

    @property
    def ids(self) -> Iterable[NodeId]:
        """All node ids, in the order in which they were added."""
        return self._nodes.keys()

    def __getitem__(self, node: NodeId) -> Node:
        found = self._nodes.get(node)
        if found is None:
            raise Misuse(f"there is no node {node}: `loopty tree` lists them")
        if isinstance(found, str):
            found = self._nodes[node] = codec.build(Node, json.loads(found))
        return found

    def page(self, node: NodeId) -> str:
        """The node as one line of JSON."""
        found = self._nodes[node]
        return found if isinstance(found, str) else codec.text(found)

    def lane(self, run: int, pool: Pool) -> list[NodeId]:
        """The nodes of one pool of one run, oldest first; the baseline is in the lane of attempts."""
        if self._lanes is None:
            self._lanes = {}
            for node in map(self.__getitem__, list(self._nodes)):
                self._lanes.setdefault((node.id.run, node.pool), []).append(node.id)
        return self._lanes.setdefault((run, pool), [])

    def nodes(self, run: int, pool: Pool) -> Iterator[Node]:
        return map(self.__getitem__, self.lane(run, pool))

    def twin(self, run: int, pool: Pool, digest: str) -> NodeId | None:
        """The node of this run and pool that is the same experiment, or None; the baseline is in all pools."""
        if self._identities is None:
            self._identities = {}
            for node in map(self.__getitem__, list(self._nodes)):
                self._index(node)
        return self._identities.get((run, pool, digest))

    def metrics(self, node: Node) -> tuple[Metric, ...]:
        """The metrics by which this node is compared, most important first."""
        if yardstick := self.yardstick(node.id.run):
            return yardstick
        if node.outcome is None:
            return ()
        return self.runs[node.id.run].objective.resolved(node.outcome.metrics, node.outcome.directions)

    def yardstick(self, run: int) -> tuple[Metric, ...]:
        """The metrics that count in this run: what the task names, else what the baseline reported.

        No candidate has a say in it. Empty while nothing is named and there is no baseline.
        """
        objective, outcome = self.runs[run].objective, self[self.runs[run].root].outcome
        if outcome is None or not outcome.finished:
            return objective.metrics
        return objective.resolved(outcome.metrics, outcome.directions)

    def score(self, node: Node) -> float | None:
        """The node's value of the most important metric; missing is missing."""
        metrics = self.metrics(node)
        if node.outcome is None or not metrics:
            return None
        return node.outcome.metrics.get(metrics[0].name)

    def touched(self) -> dict[str, str]:
        """The pages that changed since this was last asked."""
        pages = {
            key: codec.text(self.runs[int(key[4:])]) if key.startswith("run ") else self.page(NodeId(key))
            for key in self._touched
        }
        self._touched.clear()
        return pages

    def apply(self, recorded: Recorded) -> None:
        """Fold one event in."""
        self.number = recorded.number
        at = recorded.at
        match recorded.event:
            case events.RunStarted(run, criteria, objective, seed, why, benchmark, data, stated):
                self._put_run(
                    Run(run, criteria, objective, seed, why, at, benchmark=benchmark, data=data, stated=stated)
                )
            case events.NodeAdded() as event:
                self._add(event, at)
            case events.NodeSealed(node, commit, tree):
                self._put(replace(self[node], commit=commit, tree=tree, draft=False))
                self._index(self[node])
            case events.ProposalRefused(run, pool):
                account = self.runs[run].account(pool)
                account = replace(account, refused=account.refused + 1, refused_in_row=account.refused_in_row + 1)
                self._put_run(_ticked(self.runs[run], at).with_account(pool, account))
            case events.GateAdded(node, gate):
                gates = self.runs[node.run].gates
                gates = {**gates, node: (*gates.get(node, ()), gate)}
                self._put_run(replace(self.runs[node.run], gates=gates))
            case events.MachineSeen(run, fingerprint, facts):
                machines = {**self.runs[run].machines, fingerprint: facts}
                self._put_run(replace(self.runs[run], machines=machines))
            case events.Rebaselined() as event:
                self._rebase(event)
            case events.SplitShown():
                pass  # for audits to count; nothing of the search may depend on it
            case events.TrialStarted() as event:
                self._start(event, at)
            case events.TrialEnded() as event:
                self._end(event, at)
            case events.NodeJudged() as event:
                self._judge(event)
            case events.SessionStarted(run, owner):
                accounts = {p: replace(a, refused_in_row=0) for p, a in self.runs[run].accounts.items()}
                self._put_run(
                    replace(
                        self.runs[run],
                        accounts=accounts,
                        driver=owner,
                        session_from=at,
                        seconds_before=self.runs[run].seconds,
                        ended="",
                    )
                )
            case events.SessionEnded(run, reason, lost):
                # A lost session is closed by a later process: the time in between was nobody's work.
                ticked = self.runs[run] if lost else _ticked(self.runs[run], at)
                self._put_run(replace(ticked, driver="", ended=reason))
            case events.Reserved(run, call, role, tokens, money, owner):
                holds = {**self.runs[run].holds, call: Hold(role, tokens, money, owner)}
                self._put_run(replace(_ticked(self.runs[run], at), holds=holds))
            case events.Settled(run, call, tokens, money):
                self._settle(run, call, tokens, money, at)

    def _add(self, event: events.NodeAdded, at: float) -> None:
        run = _ticked(self.runs[event.node.run], at)
        node = Node(
            event.node,
            event.pool,
            event.operator,
            event.summary,
            event.commit,
            event.tree,
            added_at=at,
            order=run.nodes + 1,
            position=run.account(event.pool).asked,
            params=event.params,
            draft=event.draft,
            asked_after=event.asked_after,
            edits=event.edits,
        )
        if parent := event.node.parent:
            account = run.account(event.pool)
            account = replace(account, nodes=account.nodes + 1, refused_in_row=0)
            run = run.with_account(event.pool, account)
            self._put(replace(self[parent], children=self[parent].children + 1))
        self._put_run(replace(run, nodes=run.nodes + 1))
        self._put(node)
        if self._lanes is not None:
            self._lanes.setdefault((node.id.run, node.pool), []).append(node.id)
        self._index(node)

    def _start(self, event: events.TrialStarted, at: float) -> None:
        run, node = _ticked(self.runs[event.node.run], at), self[event.node]
        flight = Flight(event.pool, event.owner, at, event.subject)
        account = run.account(event.pool)
        if event.node.parent or event.subject:
            account = replace(account, started=account.started + 1)
        flights = {**run.flights, trial_name(event.node, event.number): flight}
        self._put_run(replace(run.with_account(event.pool, account), flights=flights))
        self._put(replace(node, trials=event.number))
        if event.pool not in LOOKING:
            subject = self[event.subject or event.node]
            self._put(replace(subject, running=True, duel=self._duel(subject, event.rival)))

    def _end(self, event: events.TrialEnded, at: float) -> None:
        run = self.runs[event.node.run] if event.lost else _ticked(self.runs[event.node.run], at)
        node, outcome = self[event.node], event.outcome
        flights = dict(run.flights)
        flight = flights.pop(trial_name(event.node, event.number))
        account = run.account(flight.pool)
        endings = {**account.endings, outcome.ending: account.endings.get(outcome.ending, 0) + 1}
        seconds = round(account.seconds.get(outcome.ending, 0.0) + outcome.seconds, 6)
        account = replace(
            account,
            endings=endings,
            busy_seconds=round(account.busy_seconds + outcome.seconds, 6),
            seconds={**account.seconds, outcome.ending: seconds},
        )
        cancelled = outcome.ending is Ending.CANCELLED
        if cancelled and (event.node.parent or flight.subject):
            account = replace(account, started=account.started - 1)
        run = replace(run.with_account(flight.pool, account), flights=flights)
        if flight.pool is Pool.REBASE and (sampled := self._sampled(node.id, outcome)):
            self._put(_measured_again(node, outcome, sampled[0]))
        elif flight.pool not in LOOKING:
            self._settle_down(self[flight.subject or node.id], cancelled, event.lost)
            if flight.subject and not cancelled:
                self._repeat(flight.subject, node.id, outcome)
            elif not cancelled:
                self._put(replace(self[node.id], outcome=outcome))
                self._put(replace(self[node.id], samples=self._sampled(node.id, outcome)))
                run = replace(run, undecided=(*run.undecided, node.id))
        self._put_run(run)

    def _duel(self, node: Node, rival: NodeId | None) -> Duel | None:
        """The node's duel with this rival: the one under way, or a new one.

        The measurement that made it look better is its half of the first pair; against a later rival it is stale.
        """
        if rival is None or (node.duel and node.duel.rival == rival):
            return node.duel
        fingerprint = node.outcome.fingerprint if node.outcome else ""
        known = self[rival].result(fingerprint)
        noise = self.runs[node.id.run].floors.get(fingerprint, {})
        if known and len(known.samples) >= ENOUGH_TO_VARY:
            noise = noise_floor(known.samples)
        return Duel(rival, noise, () if node.duel else node.samples[-1:])

    def _settle_down(self, subject: Node, cancelled: bool, lost: bool) -> None:
        """A trial that helped to decide of this node is over."""
        in_row = subject.losses_in_row + lost if cancelled else 0
        duel = subject.duel.whole() if subject.duel and cancelled else subject.duel
        losses = subject.losses + lost
        self._put(replace(subject, running=False, losses=losses, losses_in_row=in_row, duel=duel))

    def _sampled(self, node: NodeId, outcome: Outcome) -> tuple[Metrics, ...]:
        """The metrics that count, of one measurement; none when it gave no result."""
        if not outcome.finished:
            return ()
        names = (metric.name for metric in self.yardstick(node.run))
        return ({name: outcome.metrics[name] for name in names if name in outcome.metrics},)

    def _repeat(self, subject: NodeId, measured: NodeId, outcome: Outcome) -> None:
        """A measurement that helps to decide of the subject: of itself, or of its rival."""
        sampled = self._sampled(measured, outcome)
        node, own = self[subject], measured == subject
        same = node.outcome is not None and node.outcome.fingerprint == outcome.fingerprint
        if own and not same:
            # Its machine changed before its verdict: what was measured there is of no use here.
            fault = None if outcome.finished else outcome
            self._put(replace(node, outcome=outcome, samples=sampled, duel=None, fault=fault))
            return
        if sampled:
            self._put(_measured_again(self[measured], outcome, sampled[0]))
        node = self[subject]
        duel = node.duel
        if own and not sampled:
            node = replace(node, fault=outcome)
        elif duel and sampled and same:
            duel = replace(duel, mine=duel.mine + sampled) if own else replace(duel, theirs=duel.theirs + sampled)
        elif duel:
            duel = replace(duel.whole(), faults=duel.faults + 1)
        self._put(replace(node, duel=duel))

    def _judge(self, event: events.NodeJudged) -> None:
        node = replace(
            self[event.node],
            verdict=event.verdict,
            reason=event.reason,
            against=event.against,
            judged=self.number,
            effect=event.effect,
        )
        self._put(node)
        run = self.runs[event.node.run]
        run = replace(run, undecided=tuple(other for other in run.undecided if other != node.id))
        first = node.id == run.root
        fingerprint = node.outcome.fingerprint if node.outcome else ""
        if first and event.verdict is Verdict.KEPT:
            floors = {**run.floors, fingerprint: noise_floor(node.samples)}
            run = replace(run, fingerprint=fingerprint, floors=floors)
        for pool in (Pool.ATTEMPT, Pool.CONTROL) if first else (node.pool,):
            account = run.account(pool)
            if event.verdict is Verdict.KEPT:
                account = replace(account, champions={**account.champions, fingerprint: node.id})
                if fingerprint == run.fingerprint:
                    account = replace(account, best=node.id, since_best=0)
            elif event.verdict is not Verdict.QUARANTINED and fingerprint == run.fingerprint and not first:
                account = replace(account, since_best=account.since_best + 1)
            run = run.with_account(pool, account)
        self._put_run(run)

    def _rebase(self, event: events.Rebaselined) -> None:
        run = replace(self.runs[event.run], fingerprint=event.fingerprint)
        measured = self[run.root].result(event.fingerprint)
        floor = noise_floor(measured.samples if measured else ())
        run = replace(run, floors={**run.floors, event.fingerprint: floor})
        control = run.account(Pool.CONTROL).champions.get(event.fingerprint, run.root)
        for pool, champion in ((Pool.ATTEMPT, event.incumbent), (Pool.CONTROL, control)):
            account = run.account(pool)
            champions = {**account.champions, event.fingerprint: champion}
            run = run.with_account(pool, replace(account, best=champion, champions=champions))
        self._put_run(run)

    def _settle(self, number: int, call: str, tokens: int, money: float, at: float) -> None:
        run = _ticked(self.runs[number], at)
        if call not in run.holds:
            return  # its process was taken for dead, and the call was charged as reserved
        holds = dict(run.holds)
        role = holds.pop(call).role
        self._put_run(
            replace(
                run,
                holds=holds,
                tokens={**run.tokens, role: run.tokens.get(role, 0) + tokens},
                money_usd={**run.money_usd, role: run.money_usd.get(role, 0.0) + money},
            )
        )

    def _put_run(self, run: Run) -> None:
        self.runs[run.number] = run
        self._touched.add(f"run {run.number}")

    def _put(self, node: Node) -> None:
        self._nodes[node.id] = node
        self._touched.add(node.id)

    def _index(self, node: Node) -> None:
        if self._identities is None or node.draft:
            return
        for pool in (node.pool,) if node.id.parent else tuple(Pool):
            self._identities.setdefault((node.id.run, pool, node.identity), node.id)


def _measured_again(node: Node, outcome: Outcome, sample: Metrics) -> Node:
    known = node.result(outcome.fingerprint)
    result = known.with_sample(sample) if known else Result(outcome, (sample,))
    if node.outcome and node.outcome.fingerprint == outcome.fingerprint:
        return replace(node, outcome=result.outcome, samples=result.samples)
    return replace(node, elsewhere={**node.elsewhere, outcome.fingerprint: result})


def _ticked(run: Run, at: float) -> Run:
    """The run with its session's clock moved on to this event."""
    if not run.driver:
        return run
    return replace(run, seconds=max(run.seconds, run.seconds_before + at - run.session_from))
