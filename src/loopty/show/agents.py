"""What each configuration of a coding agent did in a run: its results, its stalls, its tokens."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from loopty.domain.trial import Verdict
from loopty.kit.foreign_text import one_line
from loopty.kit.records import Record
from loopty.record.agent_accounts import AgentAccount, AgentAccounts, AgentPartEnded
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.record.trials import Cohorts
from loopty.show.comparisons import AgainstBaseline, against_baseline, run_metric
from loopty.show.figures import duration, node_name, plural, signed_percent


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
    """Return a row for each configuration, in the order of their first sessions."""
    accounts = AgentAccounts.of(run).accounts.values()
    return tuple(_row(history, run, account, now) for account in accounts)


def _row(history: History, run: Run, account: AgentAccount, now: float) -> AgentRow:
    metric = run_metric(history, run)
    configuration, benched = account.configuration, max(account.benched_until - now, 0.0)
    best = against_baseline(history, account.best, Cohorts.of(run).fingerprint, metric) if account.best else None
    return AgentRow(
        name=configuration.name,
        agent=configuration.agent,
        model=configuration.model,
        digest=configuration.digest,
        sessions=account.sessions,
        nodes=account.nodes,
        kept=account.verdicts.get(Verdict.KEPT, 0),
        refused=account.refused,
        best=best,
        stall_rate=account.stall_rate,
        stalls=account.stalls,
        lost_sessions=account.lost_sessions,
        tokens=account.tokens,
        salvaged_tokens=account.salvaged_tokens,
        lost_tokens=account.lost_tokens,
        longest_stall_seconds=account.longest_stall,
        benched_seconds=benched,
        bench_reason=account.bench_reason if benched else "",
    )


_LONGEST_REASON = 200


def agents_lines(rows: Sequence[AgentRow]) -> Iterator[tuple[str, str]]:
    """Yield the words about each configuration with their style: results, then stalls, then the bench."""
    names = [row.name for row in rows]
    for row in rows:
        name = row.name if names.count(row.name) == 1 else f"{row.name} ({row.digest})"
        yield f"{name}: {_results(row)}", ""
        if row.stalls:
            yield f"{name}: {stalls_words(row)}", "warn"
        if row.benched_seconds:
            reason = one_line(row.bench_reason, _LONGEST_REASON)
            yield f"{name}: benched for {duration(row.benched_seconds)}, because {reason}", "bad"


def agent_stall_text(event: AgentPartEnded) -> str:
    """`codex stalled (silent: nothing printed for 45 s); it goes on once, with a hint`."""
    then = "it goes on once, with a hint" if event.is_resumed else "the session is given up"
    if event.stall == "start":
        then = "it is started again, after a longer pause each time"
    reason = one_line(event.reason, _LONGEST_REASON)
    return f"{event.configuration.name} stalled ({reason}); {then}; no attempt is charged"


def stalls_words(row: AgentRow) -> str:
    """`stalled in 30 % of sessions (silent 2, loop 1); 1,200 tokens salvaged, 300 lost; …`."""
    kinds = ", ".join(f"{kind} {count}" for kind, count in row.stalls.items())
    saved = f"{row.salvaged_tokens:,} tokens salvaged, {row.lost_tokens:,} lost"
    return f"stalled in {100 * row.stall_rate:.0f} % of sessions ({kinds}); {saved}; no attempt was charged"


def _results(row: AgentRow) -> str:
    used = row.agent if row.agent != row.name else ""
    who = " ".join(filter(None, (used, row.model)))
    parts = [plural(row.sessions, "session"), plural(row.nodes, "node"), f"{row.kept:,} kept"]
    if row.best and row.best.over_baseline and row.best.over_baseline.percent is not None:
        name = node_name(row.best.node, row.best.handle)
        parts.append(f"best {name} {signed_percent(row.best.over_baseline.percent)} over the baseline")
    if row.refused:
        parts.append(f"{row.refused:,} refused")
    if row.tokens:
        parts.append(plural(row.tokens, "token"))
    return (f"({who}) " if who else "") + ", ".join(parts)
