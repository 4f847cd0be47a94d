"""Pools: which budget pays for a trial, and the rules of each in one table."""

from __future__ import annotations

from enum import StrEnum

from loopty.kit.records import Record


class GateScope(StrEnum):
    """Which gates a trial must pass."""

    ALL = "all"
    METRICS = "metrics"
    """Bounds on metrics hold for every measurement; a gate's command runs once per node."""
    NONE = "none"


class PoolRules(Record):
    """What holds for the trials of one pool."""

    searches: bool = False
    """A proposer fills the pool; its nodes compete to be its best, and its trials may be pruned."""
    judging: bool = True
    """The trial serves a verdict. Other trials only observe: they change no verdict."""
    gates: GateScope = GateScope.NONE
    scored: bool = True
    """The result must hold the metrics of the objective."""
    verifier_metrics: bool = True
    """The verifier adds the metrics under [[verifier.judged]]."""
    limit: str = ""
    """The key under [pools] that limits the pool; empty where nothing does."""


class Pool(StrEnum):
    """A budget that pays for trials. A new pool is one line here."""

    rules: PoolRules

    def __new__(cls, value: str, rules: PoolRules) -> Pool:
        member = str.__new__(cls, value)
        member._value_ = value
        member.rules = rules
        return member

    ATTEMPT = "attempt", PoolRules(searches=True, gates=GateScope.ALL, limit="attempts")
    CONTROL = "control", PoolRules(searches=True, gates=GateScope.ALL, limit="control")
    VERSION = "version", PoolRules(searches=True, gates=GateScope.ALL)
    """Past versions of the code, which `[anchors]` names. They compete with the baseline and one another."""
    REPLAY = "replay", PoolRules(judging=False, gates=GateScope.ALL)
    CHECK = "check", PoolRules(judging=False, gates=GateScope.ALL, verifier_metrics=False)
    TUNE = "tune", PoolRules(judging=False, scored=False, verifier_metrics=False, limit="tunes")
    """Measurements of a draft or a proposal, on the slice of `[tune]`. None is judged or ranked."""
    REPEAT = "repeat", PoolRules(gates=GateScope.METRICS, limit="repeats")
    """Measurements that tell a difference from noise."""
    REBASE = "rebase", PoolRules(judging=False)
    """Measurements of a known node on another machine."""
    CONFIRM = "confirm", PoolRules(judging=False, gates=GateScope.METRICS)
    """Fresh pairs of the best node and the baseline, for the headline."""
    AUDIT = "audit", PoolRules(judging=False, scored=False, verifier_metrics=False)
    """Measurements on the held-out split, which may report any metric."""
    REVIEW = "review", PoolRules(scored=False)
    """The verifier looks at a node that is about to be kept; nothing is measured."""


SEARCH_POOLS = tuple(pool for pool in Pool if pool.rules.searches)
BUDGETED_POOLS = tuple(pool for pool in Pool if pool.rules.limit)
