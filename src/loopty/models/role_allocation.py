"""Moves the shares of roles by what they brought: evolution, episodes of the user role, looks of the verifier.

A decision follows from the record alone, so a resumed run decides the same. It is made every few nodes, when a
call is reserved, and recorded with its evidence.
"""

from __future__ import annotations

from collections.abc import Mapping

from loopty.domain.model import Role
from loopty.domain.outcome import Ending
from loopty.domain.pool import Pool
from loopty.domain.role_spec import Roles
from loopty.record.calls import Spend
from loopty.record.proposals import Proposals
from loopty.record.reviews import Reviews
from loopty.record.role_shares import RoleFigures, RoleShares, RoleSharesChanged
from loopty.record.run_record import Run
from loopty.record.trials import TrialCounts
from loopty.record.verdicts import Incumbents

WINDOW = 8
"""Nodes between two decisions."""
_STEP = 1.25
_LEAST, _MOST = 0.5, 1.5
"""How far a share may move from the one that is stated."""
_STRUGGLE = 0.5
"""From this share of failed trials on, evolution is funded although nothing was gained."""
_FAILURES = (Ending.FAILED, Ending.TIMED_OUT, Ending.REFUSED)


def next_shares(run: Run, roles: Roles) -> RoleSharesChanged | None:
    """The decision that is due now, or None."""
    if roles.allocation != "adaptive":
        return None
    known, now = RoleShares.of(run), role_figures(run)
    window = now.nodes - known.figures.nodes
    if window < WINDOW:
        return None
    is_improved = Incumbents.of(run, Pool.ATTEMPT).since_best < window
    struggle = (now.failed - known.figures.failed) / window
    pairs, kept = now.pairs - known.figures.pairs, now.pairs_kept - known.figures.pairs_kept
    moves = {
        Role.EVOLVER: _STEP if is_improved or struggle >= _STRUGGLE else 1 / _STEP,
        Role.USER: _STEP if pairs else 1 / _STEP,
        Role.VERIFIER: _STEP if look_worth(now) >= 0.5 else 1 / _STEP,
    }
    shares = _moved(known.shares or roles.shares, roles.shares, moves)
    spent = Spend.of(run).tokens.get(Role.EVOLVER, 0)
    reason = (
        f"of {window} nodes {'one became' if is_improved else 'none became'} the best and {100 * struggle:.0f} % "
        f"failed, after {spent:,} tokens of the evolver; {pairs} were measured in pairs, {kept} of them kept; the "
        f"verifier objected in {now.objections} of {now.looks} looks"
    )
    return RoleSharesChanged(run.number, shares, now, reason)


def role_figures(run: Run) -> RoleFigures:
    """What the roles have done so far."""
    proposals, incumbents = Proposals.of(run, Pool.ATTEMPT), Incumbents.of(run, Pool.ATTEMPT)
    endings = TrialCounts.of(run, Pool.ATTEMPT).endings
    return RoleFigures(
        proposals.nodes,
        sum(endings.get(ending, 0) for ending in _FAILURES),
        incumbents.compared,
        incumbents.kept,
        TrialCounts.of(run, Pool.REVIEW).started,
        Reviews.of(run, Pool.ATTEMPT).rejected_by_verifier,
    )


def look_worth(figures: RoleFigures) -> float:
    """How often a look of the verifier finds something: a half before its first looks, less while it has none."""
    return (1 + 4 * figures.objections) / (2 + figures.looks)


def _moved(
    shares: Mapping[str, float], stated: Mapping[str, float], moves: Mapping[Role, float]
) -> Mapping[str, float]:
    """The shares after a step each, near the stated ones and with the same sum."""
    near = {
        role: min(max(shares.get(role, share) * moves[Role(role)], _LEAST * share), _MOST * share)
        for role, share in stated.items()
    }
    total = sum(near.values())
    return {role: round(share * sum(stated.values()) / total, 4) for role, share in near.items()} if total else {}
