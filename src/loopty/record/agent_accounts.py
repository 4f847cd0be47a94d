"""The family of coding agents' sessions: how they ended, which stalled, and what the stalls cost."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool, Verdict
from loopty.kit.records import Record, field, replace
from loopty.record.fold import Event, Family, FoldState
from loopty.record.nodes import NodeAdded, ProposalRefused
from loopty.record.run_record import RunPart
from loopty.record.verdicts import NodeJudged, VerdictWithdrawn

_RECENT = 6
_NO_FAULT = ("outage", "start")
"""Stalls that say nothing about the configuration: an outage, and a start that failed, which is tried again."""


class Configuration(Record):
    """One way of using a coding agent: its options in the task file."""

    name: str
    agent: str
    model: str = ""
    digest: str = ""
    """Of all its options: with other options, a name has another account."""

    @property
    def key(self) -> str:
        return f"{self.name} {self.digest}"


class AgentPartEnded(Event):
    """One start of an agent has ended. A session has a second one only after a stall or a killed process."""

    run: int
    pool: Pool
    configuration: Configuration
    call: str
    node: NodeId
    """The node whose files the agent changed."""
    end: str
    tokens: int
    seconds: float
    reason: str = ""
    stall: str = ""
    """The kind of the stall; empty where there was none."""
    stalled_seconds: float = 0.0
    """How long the stall had lasted when it was noticed."""
    is_resumed: bool = False
    """Whether another part of the session follows."""
    stalls_before: int = 0
    """How many parts of the session stalled before."""
    tokens_before: int = 0
    """The tokens of those parts."""


class AgentSearchStalled(Event):
    """The changes of a configuration do not get on: the agent is told so in its next prompt."""

    run: int
    pool: Pool
    configuration: Configuration
    kind: str
    reason: str
    answers: int
    """How many answers the configuration had given: each stall is recorded once."""


class AgentBenched(Event):
    """A configuration gets no work until this time, in seconds since the epoch."""

    run: int
    configuration: Configuration
    reason: str
    until: float


class AgentAccount(Record):
    """What one configuration did in a run."""

    configuration: Configuration
    sessions: int = 0
    """Sessions that have ended for good."""
    stalled_sessions: int = 0
    """Those that stalled at least once."""
    lost_sessions: int = 0
    """Those that were given up after a stall."""
    lost_in_row: int = 0
    stalls: Mapping[str, int] = field(default_factory=dict)
    """By kind; a session can stall twice."""
    last_stall: str = ""
    tokens: int = 0
    salvaged_tokens: int = 0
    """Used before a stall by sessions that were resumed and came to an end."""
    lost_tokens: int = 0
    """Used by sessions that were given up."""
    seconds: float = 0.0
    longest_stall: float = 0.0
    benches: int = 0
    benched_until: float = 0.0
    bench_reason: str = ""
    search_answers: int = -1
    """How many answers it had given when its search last stalled; -1 before."""
    nodes: int = 0
    verdicts: Mapping[str, int] = field(default_factory=dict)
    """Of its nodes that have one."""
    best: NodeId | None = None
    """Its newest kept node."""
    recent: tuple[NodeId, ...] = ()
    """Its newest nodes."""
    refused: int = 0
    refusals_in_row: int = 0
    """Of one objection."""
    last_objection: str = ""

    @property
    def stall_rate(self) -> float:
        """Compute the share of its sessions that stalled."""
        return self.stalled_sessions / self.sessions if self.sessions else 0.0

    @property
    def answers(self) -> int:
        """Count the proposals that it made, refused ones included."""
        return self.nodes + self.refused


class AgentAccounts(RunPart):
    """The accounts of a run's configurations."""

    accounts: Mapping[str, AgentAccount] = field(default_factory=dict)
    """By the key of the configuration."""
    keys: Mapping[str, str] = field(default_factory=dict)
    """The key that a name had last."""

    def account(self, configuration: Configuration) -> AgentAccount:
        return self.accounts.get(configuration.key) or AgentAccount(configuration)


def _end_part(state: FoldState, event: AgentPartEnded, _at: float) -> None:
    account = _account(state, event.run, event.configuration)
    stalls = dict(account.stalls)
    if event.stall:
        stalls[event.stall] = stalls.get(event.stall, 0) + 1
    account = replace(
        account,
        stalls=stalls,
        last_stall=event.reason if event.stall else account.last_stall,
        tokens=account.tokens + event.tokens,
        seconds=round(account.seconds + event.seconds, 3),
        longest_stall=round(max(account.longest_stall, event.stalled_seconds), 3),
    )
    if not event.is_resumed:
        account = _end_session(account, event)
    _put(state, event.run, account)


def _end_session(account: AgentAccount, event: AgentPartEnded) -> AgentAccount:
    is_lost, has_stalled = bool(event.stall), bool(event.stall or event.stalls_before)
    lost = event.tokens_before + event.tokens if is_lost else 0
    return replace(
        account,
        sessions=account.sessions + 1,
        stalled_sessions=account.stalled_sessions + has_stalled,
        lost_sessions=account.lost_sessions + is_lost,
        lost_in_row=_lost_in_row(account, event),
        salvaged_tokens=account.salvaged_tokens + (0 if is_lost else event.tokens_before),
        lost_tokens=account.lost_tokens + lost,
    )


def _lost_in_row(account: AgentAccount, event: AgentPartEnded) -> int:
    """Count the sessions lost in a row."""
    if event.stall in _NO_FAULT:
        return account.lost_in_row
    return account.lost_in_row + 1 if event.stall else 0


def _add_node(state: FoldState, event: NodeAdded, _at: float) -> None:
    account = _account_of_name(state, event.node.run, event.operator) if event.calls else None
    if account:
        recent = (*account.recent, event.node)[-_RECENT:]
        account = replace(account, nodes=account.nodes + 1, recent=recent, refusals_in_row=0, last_objection="")
        _put(state, event.node.run, account)


def _refuse(state: FoldState, event: ProposalRefused, _at: float) -> None:
    account = _account_of_name(state, event.run, event.operator) if event.calls else None
    if account:
        in_row = account.refusals_in_row + 1 if account.last_objection == event.objection else 1
        account = replace(account, refused=account.refused + 1, refusals_in_row=in_row)
        _put(state, event.run, replace(account, last_objection=str(event.objection)))


def _judge(state: FoldState, event: NodeJudged | VerdictWithdrawn, _at: float) -> None:
    node = state[event.node]  # as it was before: this family is folded first
    account = _account_of_name(state, event.node.run, node.operator) if node.calls else None
    if not account:
        return
    verdicts = dict(account.verdicts)
    if node.verdict:
        verdicts[node.verdict] = verdicts.get(node.verdict, 0) - 1
    verdicts[event.verdict] = verdicts.get(event.verdict, 0) + 1
    best = event.node if event.verdict is Verdict.KEPT else account.best
    if best == event.node and event.verdict is not Verdict.KEPT:
        best = None
    left = {verdict: count for verdict, count in verdicts.items() if count > 0}
    _put(state, event.node.run, replace(account, verdicts=left, best=best))


def _account_of_name(state: FoldState, run: int, name: str) -> AgentAccount | None:
    accounts = AgentAccounts.of(state.runs[run])
    return accounts.accounts.get(accounts.keys.get(name, ""))


def _stall_search(state: FoldState, event: AgentSearchStalled, _at: float) -> None:
    account = _account(state, event.run, event.configuration)
    stalls = {**account.stalls, event.kind: account.stalls.get(event.kind, 0) + 1}
    _put(state, event.run, replace(account, stalls=stalls, search_answers=event.answers, last_stall=event.reason))


def _bench(state: FoldState, event: AgentBenched, _at: float) -> None:
    account = _account(state, event.run, event.configuration)
    benches = account.benches + 1
    account = replace(
        account, benches=benches, benched_until=event.until, bench_reason=event.reason, lost_in_row=0
    )
    _put(state, event.run, account)


def _account(state: FoldState, run: int, configuration: Configuration) -> AgentAccount:
    return AgentAccounts.of(state.runs[run]).account(configuration)


def _put(state: FoldState, number: int, account: AgentAccount) -> None:
    run = state.runs[number]
    before, configuration = AgentAccounts.of(run), account.configuration
    accounts = {**before.accounts, configuration.key: account}
    keys = {**before.keys, configuration.name: configuration.key}
    state.put_run(run.with_part(AgentAccounts(accounts, keys)))


AGENT_ACCOUNTS = Family(
    (AgentPartEnded, AgentSearchStalled, AgentBenched),
    {
        AgentPartEnded: _end_part,
        AgentSearchStalled: _stall_search,
        AgentBenched: _bench,
        NodeAdded: _add_node,
        ProposalRefused: _refuse,
        NodeJudged: _judge,
        VerdictWithdrawn: _judge,
    },
)
