"""Is the gain real? Four checks: over chance, on held-out data, in pairs, out of the candidate's reach."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from loopty.domain.outcome import KNOWN_INPUTS, Integrity
from loopty.views.audit_rows import AuditRow
from loopty.views.run_status import RunState, RunStatus
from loopty.views.uplift import Uplift, UpliftWords

_SURVIVES = 0.5


def reality_checks(
    status: RunStatus, uplift: Uplift | None, audits: Sequence[AuditRow] | None, has_split: bool
) -> dict[str, Any]:
    """The four checks, and what they say together."""
    checks = [_over_control(uplift), _held_out(status, audits, has_split), _pairs(status), _integrity(status)]
    return {"verdict": checks_verdict({check["state"] for check in checks}, status.state), "checks": checks}


def checks_verdict(states: set[str], run: RunState) -> str:
    """What checks in these states say together: none may fail; a missing one tells once the run has ended."""
    if "fail" in states or "pass" not in states:
        return "too early" if states == {"missing"} and run is RunState.RUNNING else "not shown"
    if "missing" not in states:
        return "yes"
    return "too early" if run is RunState.RUNNING else "in part"


def _check(name: str, state: str, text: str, detail: str = "") -> dict[str, str]:
    return {"name": name, "state": state, "text": text, "detail": detail}


def _over_control(uplift: Uplift | None) -> dict[str, str]:
    if uplift is None:
        return _check("uplift", "missing", "no random control", "[pools] control")
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
        return _check("held-out", "missing", "best not audited yet", "loopty audit")
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
    return _check("integrity", "pass", "isolated" if is_strong else "only parameters differ", detail)
