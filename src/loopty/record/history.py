"""The fold of the ledger: what is true now, O(1) per event.

The fold is kept as pages (one per run, one per node) that the ledger saves in the same commit as the events,
so that a reader opens a long history without replaying it. The events stay the truth: `History` folded from
them all equals `History` opened from the pages.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from typing import Any

from loopty.domain.errors import Misuse
from loopty.domain.evidence import noise_floor
from loopty.domain.ids import NodeId
from loopty.domain.objective import Metric, Metrics
from loopty.domain.outcome import Ending, Outcome, Pool, Verdict
from loopty.kit import codec
from loopty.kit.replace import replace
from loopty.record import events, samples, spend
from loopty.record.events import Recorded
from loopty.record.node_index import Index
from loopty.record.records import RunningTrial, Node, Run, trial_name

LOOKING = (Pool.REPLAY, Pool.REBASE, Pool.AUDIT)
"""Trials in these pools decide of nothing. What audits find is in their events alone, where no search looks."""

FOLD = 7
"""Counts up when the fold changes, so that a ledger knows that the pages it saved are those of an older one."""


class History:
    """Every run and node; grows by `apply`."""

    def __init__(self) -> None:
        self.number = 0
        """Of the last event folded in."""
        self.runs: dict[int, Run] = {}
        self._nodes: dict[NodeId, Node | str] = {}
        self._index = Index(lambda: map(self.__getitem__, list(self._nodes)))
        self._touched: dict[str, None] = {}
        """In the order in which pages first were touched: a ledger keeps them so, and nodes in their order."""

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

    def nodes_of_pool(self, run: int, pool: Pool) -> list[NodeId]:
        """The nodes of one pool of one run, oldest first; the baseline is in the lane of attempts."""
        return self._index.lane(run, pool)

    def nodes(self, run: int, pool: Pool) -> Iterator[Node]:
        return map(self.__getitem__, self.nodes_of_pool(run, pool))

    def twin(self, run: int, pool: Pool, digest: str) -> NodeId | None:
        """The node of this run and pool that is the same experiment, or None; the baseline is in all pools."""
        return self._index.twin(run, pool, digest)

    def metrics(self, node: Node) -> tuple[Metric, ...]:
        """The metrics by which this node is compared, most important first."""
        if yardstick := self.counting_metrics(node.id.run):
            return yardstick
        if node.outcome is None:
            return ()
        return self.runs[node.id.run].objective.counting_metrics(node.outcome.metrics, node.outcome.directions)

    def counting_metrics(self, run: int) -> tuple[Metric, ...]:
        """The metrics that count in this run: what the task names, else what the baseline reported.

        No candidate has a say in it. Empty while nothing is named and there is no baseline.
        """
        objective, outcome = self.runs[run].objective, self[self.runs[run].root].outcome
        if outcome is None or not outcome.is_finished:
            return objective.metrics
        return objective.counting_metrics(outcome.metrics, outcome.directions)

    def score(self, node: Node) -> float | None:
        """The node's value of the most important metric; missing is missing."""
        metrics = self.metrics(node)
        if node.outcome is None or not metrics:
            return None
        return node.outcome.metrics.get(metrics[0].name)

    def changed_pages(self) -> dict[str, str]:
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
                    Run(run, criteria, objective, seed, why, at, benchmark=benchmark, data=data, criteria_parts=stated)
                )
            case events.NodeAdded() as event:
                self._add(event, at)
            case events.NodeSealed(node, commit, tree):
                self._put(replace(self[node], commit=commit, tree=tree, draft=False))
                self._index.sealed(self[node])
            case events.ProposalRefused(run, pool) as event:
                calls = 0 if event.index_in_reply else len(event.calls)  # the rest of a batch took none
                account = self.runs[run].account(pool)
                account = account.refusing(event.operator, event.objection, event.reason, calls)
                taken = spend.taken(self.runs[run], event.calls, event.index_in_reply, event.remaining_in_reply)
                self._put_run(_ticked(taken, at).with_account(pool, account))
            case events.GateAdded(node, gate):
                gates = self.runs[node.run].gates
                gates = {**gates, node: (*gates.get(node, ()), gate)}
                self._put_run(replace(self.runs[node.run], gates=gates))
            case events.MachineSeen(run, fingerprint, facts):
                machines = {**self.runs[run].machines, fingerprint: facts}
                self._put_run(replace(self.runs[run], machines=machines))
            case events.RunRebaselined() as event:
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
                accounts = {pool: account.afresh() for pool, account in self.runs[run].accounts.items()}
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
            case events.CallReserved() | events.CallSettled():
                self._put_run(spend.folded(_ticked(self.runs[recorded.event.run], at), recorded.event))
            case events.RungChanged(run, pool, rung, name, reason):
                account = self.runs[run].account(pool)
                self._put_run(self.runs[run].with_account(pool, account.stepped(rung, name, reason)))
            case events.DirectiveSet(run, text):
                self._put_run(replace(self.runs[run], directive=text))
            case events.SessionStalled(run, _, seconds):
                known = _ticked(self.runs[run], at)
                stalled = known.stalled_seconds + seconds
                self._put_run(replace(known, stalls=known.stalls + 1, stalled_seconds=stalled))

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
            turn=run.account(event.pool).answers.get(event.operator, 0),
            params=event.params,
            draft=event.draft,
            known_event=event.known_event,
            edits=event.edits,
            inspirations=event.inspirations,
            calls=event.calls,
        )
        run = spend.taken(run, event.calls, event.index_in_reply, event.remaining_in_reply)
        if parent := event.node.parent:
            account = run.account(event.pool).applied(event.operator)
            run = run.with_account(event.pool, account)
            self._put(replace(self[parent], children=self[parent].children + 1))
        self._put_run(replace(run, nodes=run.nodes + 1))
        self._put(node)
        self._index.added(node)

    def _start(self, event: events.TrialStarted, at: float) -> None:
        run, node = _ticked(self.runs[event.node.run], at), self[event.node]
        flight = RunningTrial(event.pool, event.owner, at, event.subject)
        account = run.account(event.pool)
        if event.node.parent or event.subject:
            account = replace(account, started=account.started + 1)
        flights = {**run.flights, trial_name(event.node, event.number): flight}
        self._put_run(replace(run.with_account(event.pool, account), flights=flights))
        self._put(replace(node, trials=event.number))
        if event.pool not in LOOKING:
            subject = self[event.subject or event.node]
            duel = samples.duelling(subject, self[event.incumbent], run.floors) if event.incumbent else subject.pairing
            self._put(replace(subject, running=True, duel=duel))

    def _end(self, event: events.TrialEnded, at: float) -> None:
        run = self.runs[event.node.run] if event.lost else _ticked(self.runs[event.node.run], at)
        node, outcome = self[event.node], event.outcome
        flights = dict(run.flights)
        flight = flights.pop(trial_name(event.node, event.number))
        account = run.account(flight.pool).ended(outcome)
        cancelled = outcome.ending is Ending.CANCELLED
        if cancelled and (event.node.parent or flight.subject):
            account = replace(account, started=account.started - 1)
        run = replace(run.with_account(flight.pool, account), flights=flights)
        if flight.pool is Pool.REBASE and (sampled := self._sampled(node.id, outcome)):
            self._put(samples.measured_again(node, outcome, sampled[0]))
        elif flight.pool is Pool.REVIEW:
            self._put(samples.reviewed(node, outcome))
        elif flight.pool not in LOOKING:
            self._put(samples.at_rest(self[flight.subject or node.id], cancelled, event.lost))
            if flight.subject and not cancelled:
                self._repeat(flight.subject, node.id, outcome)
            elif not cancelled:
                self._put(replace(self[node.id], outcome=outcome))
                self._put(replace(self[node.id], samples=self._sampled(node.id, outcome)))
                run = replace(run, undecided=(*run.undecided, node.id))
        self._put_run(run)

    def _sampled(self, node: NodeId, outcome: Outcome) -> tuple[Metrics, ...]:
        return samples.sampled(outcome, self.counting_metrics(node.run))

    def _repeat(self, subject: NodeId, node: NodeId, outcome: Outcome) -> None:
        """A measurement that helps to decide of the subject: of itself, or of its rival."""
        sample = self._sampled(node, outcome)
        if sample and node != subject:
            self._put(samples.measured_again(self[node], outcome, sample[0]))
        self._put(samples.repeated(self[subject], outcome, sample, own=node == subject))

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
                    account = replace(account, best=node.id, since_best=0, rung_falls={})
            elif event.verdict is not Verdict.QUARANTINED and fingerprint == run.fingerprint and not first:
                account = replace(account, since_best=account.since_best + 1)
            if event.verdict is Verdict.REJECTED and node.review and node.review.passed is False:
                account = replace(account, vetoed=account.vetoed + 1)
            run = run.with_account(pool, account)
        self._put_run(run)

    def _rebase(self, event: events.RunRebaselined) -> None:
        run = replace(self.runs[event.run], fingerprint=event.fingerprint)
        known = self[run.root].result(event.fingerprint)
        floor = noise_floor(known.samples if known else ())
        run = replace(run, floors={**run.floors, event.fingerprint: floor})
        control = run.account(Pool.CONTROL).champions.get(event.fingerprint, run.root)
        for pool, champion in ((Pool.ATTEMPT, event.incumbent), (Pool.CONTROL, control)):
            account = run.account(pool)
            champions = {**account.champions, event.fingerprint: champion}
            run = run.with_account(pool, replace(account, best=champion, champions=champions))
        self._put_run(run)

    def _put_run(self, run: Run) -> None:
        self.runs[run.number] = run
        self._touched[f"run {run.number}"] = None

    def _put(self, node: Node) -> None:
        self._nodes[node.id] = node
        self._touched[node.id] = None


def _ticked(run: Run, at: float) -> Run:
    """The run with its session's clock moved on to this event."""
    if not run.driver:
        return run
    return replace(run, seconds=max(run.seconds, run.seconds_before + at - run.session_from))
