"""What coding agents did, as text: results and stalls of each configuration."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from loopty.kit.fence import one_line
from loopty.record.agent_accounts import AgentPartEnded
from loopty.report.figures import duration, plural, signed_percent
from loopty.report.node_name import node_name
from loopty.views.agent_rows import AgentRow

_LONGEST_REASON = 200


def agents_lines(rows: Sequence[AgentRow]) -> Iterator[tuple[str, str]]:
    """The words about each configuration, each with its style: results, then stalls, then the bench."""
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
