"""Three questions about a run: does the budget last, is the gain real, and does something need a person?"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopty.domain.task import Pools
from loopty.domain.trial import KNOWN_INPUTS, Integrity, Pool
from loopty.record.calls import Spend
from loopty.record.history import History
from loopty.record.run_record import Run
from loopty.record.sessions import ChangedLimits, Session, pools_in_force
from loopty.record.trials import TrialCounts
from loopty.show.audits import AuditRow
from loopty.show.run_status import RunState, RunStatus
from loopty.show.tally import Uplift, UpliftWords
from loopty.web.record import RunFold

_LEAST_SECONDS = 1.0
_BURN_SAMPLES = 60
_LIMIT_NAMES = {
    "money": ("money_usd", "usd"),
    "attempts": ("attempts", "trials"),
    "control": ("control", "trials"),
    "repeats": ("repeats", "trials"),
    "tunes": ("tunes", "trials"),
    "time": ("wall_seconds", "seconds"),
    "tokens": ("tokens", "tokens"),
}


def pool_answers(
    run: Run, pools: Pools | None, elapsed: float, now: float, is_running: bool
) -> list[dict[str, Any]]:
    """Return a row for each pool with a limit or a use."""
    spend, limits = Spend.of(run), pools_in_force(run, pools) if pools else None
    used = {
        "money": spend.total_money_usd,
        "attempts": TrialCounts.of(run, Pool.ATTEMPT).started,
        "control": TrialCounts.of(run, Pool.CONTROL).started,
        "repeats": TrialCounts.of(run, Pool.REPEAT).started,
        "tunes": TrialCounts.of(run, Pool.TUNE).started,
        "time": elapsed,
        "tokens": spend.total_tokens,
    }
    rows = [_row(run, name, float(used[name]), limits, elapsed) for name in _LIMIT_NAMES]
    rows = [row for row in rows if row["used"] or row["limit"]]
    hours = [row["hours"] for row in rows if row["hours"] is not None]
    until = min(hours, default=None)
    for row in rows:
        own = row.pop("hours")
        row["ends_at"] = now + own * 3600 if own is not None and is_running else None
        rate = row["rate_per_hour"]
        row["forecast_used"] = row["used"] + rate * until if until is not None and rate is not None else None
    return rows


def _row(run: Run, name: str, used: float, limits: Pools | None, elapsed: float) -> dict[str, Any]:
    key, unit = _LIMIT_NAMES[name]
    limit = getattr(limits, key) if limits else None
    rate = used * 3600 / elapsed if elapsed >= _LEAST_SECONDS else None
    left = None if limit is None else max(limit - used, 0.0)
    return {
        "pool": name,
        "used": used,
        "limit": limit,
        "left": left,
        "unit": unit,
        "rate_per_hour": rate,
        "changed": key in ChangedLimits.of(run).limits,
        "hours": left / rate if left is not None and rate else None,
    }


def ends_first(rows: list[dict[str, Any]], now: float) -> dict[str, Any] | None:
    """Return the pool that is spent first at the present rates."""
    known = [row for row in rows if row["ends_at"] is not None]
    if not known:
        return None
    first = min(known, key=lambda row: float(row["ends_at"]))
    return {"pool": first["pool"], "at": first["ends_at"], "in_seconds": first["ends_at"] - now}


def burn_samples(fold: RunFold) -> list[dict[str, Any]]:
    """Sample what was spent, at up to sixty moments of the run."""
    columns = fold.columns
    count = len(columns)
    if not count:
        return []
    places = sorted({round(number * (count - 1) / (_BURN_SAMPLES - 1)) for number in range(_BURN_SAMPLES)})
    samples = []
    for place in places:
        money, tokens = fold.calls.spent_at(columns.times[place])
        samples.append({"at": columns.times[place], "money_usd": money, "tokens": tokens, "attempts": place})
    return samples


# Four checks: over chance, on held-out data, in pairs, out of the candidate's reach.


_SURVIVES = 0.5


def reality_checks(
    status: RunStatus, uplift: Uplift | None, audits: Sequence[AuditRow] | None, has_split: bool
) -> dict[str, Any]:
    """Make the four checks, and say what they mean together."""
    checks = [_over_control(uplift), _held_out(status, audits, has_split), _pairs(status), _integrity(status)]
    return {"verdict": checks_verdict({check["state"] for check in checks}, status.state), "checks": checks}


def checks_verdict(states: set[str], run: RunState) -> str:
    """Say what checks in these states mean together: none may fail; a missing one counts once the run ended."""
    if "fail" in states or "pass" not in states:
        return "too early" if states == {"missing"} and run is RunState.RUNNING else "not shown"
    if "missing" not in states:
        return "yes"
    return "too early" if run is RunState.RUNNING else "in part"


def _check(name: str, state: str, text: str, detail: str = "") -> dict[str, str]:
    return {"name": name, "state": state, "text": text, "detail": detail}


def _over_control(uplift: Uplift | None) -> dict[str, str]:
    if uplift is None:
        return _check("uplift", "missing", "no random control", "[budget] control")
    detail = f"{max(uplift.ahead, 0):,} of {uplift.attempts:,} ahead"
    if uplift.words is UpliftWords.BETTER:
        return _check("uplift", "pass", f"{uplift.amount:+.4g} over random", detail)
    is_open = uplift.words in (UpliftWords.FEW_CONTROLS, UpliftWords.FEW_ATTEMPTS)
    return _check("uplift", "missing" if is_open else "fail", str(uplift.words), detail)


def _held_out(status: RunStatus, audits: Sequence[AuditRow] | None, has_split: bool) -> dict[str, str]:
    if not has_split:
        return _check("held-out", "missing", "no held-out split", "see [audit]")
    best = status.best.node if status.best else None
    rows = [row for row in audits or () if row.node == best and row.survives is not None]
    if not rows:
        return _check("held-out", "missing", "best not audited yet", "loopty measure audit")
    newest = rows[-1]
    share = newest.survives or 0.0
    flags = "; ".join(flag.words for flag in newest.flags)
    state = "pass" if share >= _SURVIVES and not newest.flags else "fail"
    return _check("held-out", state, f"{100 * share:.0f} % survives held-out", flags or f"look {newest.look}")


def _pairs(status: RunStatus) -> dict[str, str]:
    best = status.best
    change = best.over_baseline if best else None
    if best is None or change is None:
        return _check("pairs", "missing", "no gain over the baseline yet")
    noise = f"noise ± {status.noise.percent:.2g} %" if status.noise and status.noise.percent is not None else ""
    if change.is_confirmed is None:
        return _check("pairs", "pass", "results do not vary", noise)
    if not change.is_confirmed:
        return _check("pairs", "missing", "not confirmed yet", noise)
    state = "pass" if change.is_certain else "fail"
    return _check("pairs", state, f"{change.pairs} fresh pairs", noise)


def _integrity(status: RunStatus) -> dict[str, str]:
    best = status.best
    if best is None or best.over_baseline is None:  # the baseline itself proves nothing
        return _check("integrity", "missing", "no best node yet")
    if best.weakness == KNOWN_INPUTS and best.edited:
        return _check("integrity", "fail", "timed on inputs that it knew", "draw other inputs each time")
    if best.weakness and best.edited:
        return _check("integrity", "fail", "not isolated", "set isolated = true")
    is_strong = best.integrity is Integrity.STRONG
    detail = f"integrity {best.integrity}" if best.integrity else ""
    if best.edited and not is_strong:
        return _check("integrity", "missing", "not known", detail)
    return _check("integrity", "pass", "isolated" if is_strong else "only parameters differ", detail)


_ALMOST_SPENT = 0.8


def _above(percent: float | None) -> str:
    if percent is None:
        return "far above all before"
    return (
        f"{percent:+.1f} % over its parent"
        if percent < 1_000
        else f"{1 + percent / 100:.3g} times as good as its parent"
    )


def run_alerts(
    history: History, status: RunStatus, held: list[dict[str, Any]], pools: list[dict[str, Any]]
) -> list[dict[str, Any]]:
    """List the alerts of a run, the most urgent first."""
    found: list[dict[str, Any]] = []

    def add(kind: str, level: str, text: str, remedy: str, node: Any = None, at: float | None = None) -> None:
        found.append({"kind": kind, "level": level, "text": text, "node": node, "at": at, "remedy": remedy})

    session = Session.of(history.runs[status.run])
    if status.state is RunState.LOST:
        add("lost", "bad", "The process that drove this run died. No finished trial is lost.", "loopty run")
    if status.without_baseline:
        text = f"The baseline gave no result: {status.without_baseline[:300]}"
        add("baseline", "bad", text, "fix the benchmark, then: loopty run")
    if status.state is RunState.STOPPED and session.stalls and "unavailable" in status.reason:
        add("stalled", "bad", f"A model is unavailable: {status.reason[:300]}", "loopty run")
    if awaited := status.awaited:
        text = f"The run waits for {awaited.name[:200]}, which has not answered for {awaited.seconds:.0f} s."
        add("awaited", "info", text, "")
    for row in reversed(held):
        gain = row["gain_percent"]
        above = _above(gain)
        add(
            "held",
            "warn",
            f"It is {above}, and counts for nothing until you accept it.",
            f"loopty node approve @{row['node']['handle']}",
            row["node"],
            row["at"],
        )
    if status.audit:
        add("audit", "warn", f"{status.audit[:300]}.", "")
    for agent in status.agents:
        if agent.benched_seconds:
            add("benched", "warn", f"{agent.name} is set aside for a while: {agent.bench_reason[:200]}", "")
    for pool in pools if status.state is RunState.RUNNING else ():
        if pool["limit"] and pool["used"] >= _ALMOST_SPENT * pool["limit"]:
            share = 100 * pool["used"] / pool["limit"]
            level = "warn" if share >= 100 else "info"
            add("budget", level, f"{share:.0f} % of the {pool['pool']} budget is spent.", "loopty config budget")
    if status.is_paused:
        why = f": {status.pause_reason[:200]}" if status.pause_reason else ""
        add("paused", "info", f"The run is paused{why}. Nothing new starts.", "loopty resume")
    return found
