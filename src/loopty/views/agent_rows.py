"""What each configuration of a coding agent did in a run: its results, its stalls, its tokens."""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.outcome import Verdict
from loopty.kit.records import Record
from loopty.record.agent_accounts import AgentAccount, AgentAccounts
from loopty.record.cohorts import Cohorts
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.views.against_baseline import AgainstBaseline, against_baseline
from loopty.views.comparable import run_metric


class AgentRow(Record):
    """One configuration."""

    name: str
    agent: str
    model: str
    digest: str
    """Of its options: the same name with other options has a row of its own."""
    sessions: int
    nodes: int
    kept: int
    refused: int
    best: AgainstBaseline | None
    stall_rate: float
    """The share of its sessions that stalled."""
    stalls: Mapping[str, int]
    """By kind."""
    lost_sessions: int
    tokens: int
    salvaged_tokens: int
    lost_tokens: int
    longest_stall_seconds: float
    """How long a stall lasted at most before it was noticed."""
    benched_seconds: float
    """How long it will be benched; 0 where it is not."""
    bench_reason: str


def agent_rows(history: History, run: Run, now: float) -> tuple[AgentRow, ...]:
    """A row for each configuration, in the order of their first sessions."""
    accounts = AgentAccounts.of(run).accounts.values()
    return tuple(_row(history, run, account, now) for account in accounts)


def _row(history: History, run: Run, account: AgentAccount, now: float) -> AgentRow:
    metric = run_metric(history, run)
    configuration, benched = account.configuration, max(account.benched_until - now, 0.0)
    best = against_baseline(history, account.best, Cohorts.of(run).fingerprint, metric) if account.best else None
    return AgentRow(
        configuration.name,
        configuration.agent,
        configuration.model,
        configuration.digest,
        account.sessions,
        account.nodes,
        account.verdicts.get(Verdict.KEPT, 0),
        account.refused,
        best,
        account.stall_rate,
        account.stalls,
        account.lost_sessions,
        account.tokens,
        account.salvaged_tokens,
        account.lost_tokens,
        account.longest_stall,
        benched,
        account.bench_reason if benched else "",
    )
