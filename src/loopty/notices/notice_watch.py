"""Listens to a run and finds what is worth a notice. An event costs O(1)."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Verdict
from loopty.domain.pool import Pool
from loopty.domain.task import Pools
from loopty.engine.budget import session_seconds
from loopty.kit.fence import one_line
from loopty.notices.notice import Notice, NoticeKind
from loopty.record.budgets import pools_in_force
from loopty.record.calls import CallSettled, Spend
from loopty.record.event import Event, Recorded
from loopty.record.history import History
from loopty.record.sessions import SessionEnded, SessionStalled
from loopty.record.trials import TrialCounts, TrialEnded
from loopty.record.verdicts import Incumbents, NodeJudged

_LINE = 160
_SHARES = ((NoticeKind.BUDGET_100, 1.0), (NoticeKind.BUDGET_80, 0.8))


class NoticeWatch:
    """Turns events of one run into notices, each budget and each stall once a session."""

    def __init__(
        self,
        history: Callable[[], History],
        run: int,
        pools: Pools,
        repository: str,
        send: Callable[[Notice], None],
    ) -> None:
        self._history = history
        self._run = run
        self._pools = pools
        self._repository = repository
        self._send = send
        self._sent = {kind for kind, share in _SHARES if self._spent(0.0)[0] >= share}
        """Budgets that were spent before this session are no news."""

    def on_event(self, recorded: Recorded) -> None:
        for kind, title, text, node in self._notices(recorded.event, recorded.at):
            self._send(Notice(kind, self._run, title, text, node, self._repository))

    def _notices(self, event: Event, at: float) -> Iterator[tuple[NoticeKind, str, str, str]]:
        match event:
            case NodeJudged() if event.node.run == self._run:
                yield from self._verdict(event)
            case SessionStalled(run, reason) if run == self._run and NoticeKind.STALLED not in self._sent:
                self._sent.add(NoticeKind.STALLED)
                yield NoticeKind.STALLED, f"run {self._run} is stalled", one_line(reason, _LINE), ""
            case SessionEnded(run, reason, lost) if run == self._run and not lost:
                yield (
                    NoticeKind.FINISHED,
                    f"run {self._run} has ended",
                    f"{one_line(reason, _LINE)}; {self._result()}",
                    "",
                )
        if isinstance(event, TrialEnded | CallSettled):
            yield from self._budget(at)

    def _verdict(self, event: NodeJudged) -> Iterator[tuple[NoticeKind, str, str, str]]:
        history = self._history()
        node = history[event.node]
        if event.verdict is Verdict.HELD:
            text = f"{one_line(event.reason, _LINE)}; look at it: loopty show {node.name}"
            yield NoticeKind.HELD, f"{node.name} is too good to be true", text, event.node
        best = Incumbents.of(history.runs[self._run], Pool.ATTEMPT).best
        if event.verdict is Verdict.KEPT and event.node == best and event.node.parent is not None:
            text = f"{one_line(event.reason, _LINE)} ({one_line(node.summary, _LINE)})"
            yield NoticeKind.NEW_BEST, f"new best: {node.name}", text, event.node

    def _budget(self, at: float) -> Iterator[tuple[NoticeKind, str, str, str]]:
        share, words = self._spent(at)
        for kind, least in _SHARES:
            if share >= least and kind not in self._sent:
                self._sent |= {other for other, lower in _SHARES if lower <= least}
                yield kind, f"run {self._run} has spent {least:.0%} of its budget", words, ""
                return

    def _spent(self, at: float) -> tuple[float, str]:
        """The largest share of the budget that is spent, and of what."""
        run = self._history().runs[self._run]
        pools = pools_in_force(run, self._pools)
        spend = Spend.of(run)
        rows = [
            (TrialCounts.of(run, Pool.ATTEMPT).started, pools.attempts, "attempts"),
            (spend.total_tokens, pools.tokens, "tokens"),
            (spend.total_money_usd, pools.money_usd, "dollars"),
            (session_seconds(run, at) if at else 0.0, pools.wall_seconds, "seconds"),
        ]
        shares = [(used / limit, f"{used:,.6g} of {limit:,.6g} {unit}") for used, limit, unit in rows if limit]
        return max(shares, default=(0.0, ""))

    def _result(self) -> str:
        history = self._history()
        best: NodeId | None = Incumbents.of(history.runs[self._run], Pool.ATTEMPT).best
        if best is None or best.parent is None:
            return "nothing better than the baseline was found"
        score = history.score(history[best])
        return f"the best is {history.name(best)}" + ("" if score is None else f" with {score:g}")
