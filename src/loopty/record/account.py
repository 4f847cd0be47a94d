"""The counters of one pool in one run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from loopty.domain.ids import NodeId
from loopty.domain.outcome import Outcome
from loopty.domain.proposal import Objection
from loopty.kit.fence import one_line
from loopty.kit.replace import replace

_LONGEST_REASON = 160


@dataclass(frozen=True, slots=True)
class Account:
    """What was proposed and tried on one pool, its incumbents, and where its ladder stands."""

    nodes: int = 0
    refused: int = 0
    refused_in_row: int = 0
    refused_because: str = ""
    """Why the last of them was, in short: the fold is written with every event."""
    vain_calls: int = 0
    """Of models, in a row, of which nothing came."""
    screened: int = 0
    """Of those refused, because the verifier advised against them."""
    vetoed: int = 0
    """Winners by the metric that the verifier rejected."""
    started: int = 0
    endings: Mapping[str, int] = field(default_factory=dict)
    best: NodeId | None = None
    """The incumbent under the run's present fingerprint."""
    champions: Mapping[str, NodeId] = field(default_factory=dict)
    """The incumbents by fingerprint."""
    since_best: int = 0
    busy_seconds: float = 0.0
    seconds: Mapping[str, float] = field(default_factory=dict)
    """The busy seconds by ending."""
    rung: int = 0
    """Of the ladder, where the proposer is one."""
    rung_name: str = ""
    rung_reason: str = ""
    """Why it came there; both are empty until the first step."""
    rung_started: int = 0
    """How many trials had started when it came to that rung."""
    rung_refused: int = 0
    """Proposals in a row on that rung that were refused."""
    rung_falls: Mapping[str, int] = field(default_factory=dict)
    """By rung: how often in a row it was left for a lower one because of that; all is forgotten at a new best."""
    answers: Mapping[str, int] = field(default_factory=dict)
    """Proposals by operator, the refused ones too."""

    @property
    def asked(self) -> int:
        """How often a proposer was asked and answered: the position of the seeded generator."""
        return self.nodes + self.refused

    def applied(self, operator: str) -> Account:
        """With one more node, made on this rung."""
        falls = {rung: count for rung, count in self.rung_falls.items() if rung != str(self.rung)}
        made = replace(self.afresh(), nodes=self.nodes + 1, rung_refused=0, rung_falls=falls)
        return made._answered(operator)

    def afresh(self) -> Account:
        """With what was refused in a row forgotten."""
        return replace(self, refused_in_row=0, vain_calls=0)

    def refusing(self, operator: str, objection: Objection, reason: str, calls: int = 0) -> Account:
        """With one more proposal that got no trial, which took so many calls of a model."""
        refused = replace(
            self,
            refused=self.refused + 1,
            refused_in_row=self.refused_in_row + 1,
            refused_because=one_line(reason, _LONGEST_REASON),
            vain_calls=self.vain_calls + calls,
            screened=self.screened + (objection is Objection.SCREENED),
            rung_refused=self.rung_refused + 1,
        )
        return refused._answered(operator)

    def ended(self, outcome: Outcome) -> Account:
        """With one more trial that came to its end."""
        seconds = round(self.seconds.get(outcome.ending, 0.0) + outcome.seconds, 6)
        return replace(
            self,
            endings={**self.endings, outcome.ending: self.endings.get(outcome.ending, 0) + 1},
            busy_seconds=round(self.busy_seconds + outcome.seconds, 6),
            seconds={**self.seconds, outcome.ending: seconds},
        )

    def stepped(self, rung: int, name: str, reason: str) -> Account:
        """On another rung."""
        falls = dict(self.rung_falls)
        if rung < self.rung and self.rung_refused:
            falls[str(self.rung)] = falls.get(str(self.rung), 0) + 1
        return replace(
            self,
            rung=rung,
            rung_name=name,
            rung_reason=reason,
            rung_started=self.started,
            rung_refused=0,
            rung_falls=falls,
        )

    def _answered(self, operator: str) -> Account:
        return replace(self, answers={**self.answers, operator: self.answers.get(operator, 0) + 1})
