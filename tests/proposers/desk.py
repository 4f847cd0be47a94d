"""A run in memory with a model that answers from a script, over the real line, purse and archive."""

import json
import random

from loopty.domain.objective import SCORE
from loopty.domain.outcome import Ending, Outcome, Verdict
from loopty.domain.pool import Pool
from loopty.domain.proposal import Proposal, Refusal
from loopty.domain.task import Pools
from loopty.engine import decisions
from loopty.engine.protocols import Ask
from loopty.models.archive import Archive
from loopty.models.purse import RunPurse
from loopty.models.scripted_model import ScriptedModel
from loopty.record.nodes import NodeAdded
from loopty.record.rungs import RungChanged
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged

from ..engine.conftest import Bench
from ..models.spending import metered_model
from ..models.timing import Time


class Plain:
    """A briefing that says next to nothing."""

    def text(self, ask, parent, inspirations=()):  # noqa: ARG002
        return f"# Task\n\nMake it better. You change node {parent.id}."


def replied(*points, reason="it may be better"):
    """A reply as it should be."""
    return json.dumps({"proposals": [{"parameters": point, "reason": reason} for point in points]})


def line_of(recorder, folder, model, pools=None):
    """A line to this model that gives up at once."""
    purse = RunPurse(recorder, 1, pools or Pools(), "me")
    limits = {"retries": 0, "outage_seconds": 0.0, "max_output_tokens": 256}
    return metered_model(model, purse, Archive(folder), Time(), **limits)


class Desk:
    """A run whose baseline is measured; a test asks a proposer by hand and records its answers."""

    def __init__(self, folder, replies=(), pools=None, objective=None):
        self.bench = Bench(lambda _: 1.0, pools=pools, objective=objective)
        self.recorder = self.bench.recorder
        self.model = ScriptedModel(replies)
        self._known = 0
        self.line = line_of(self.recorder, folder, self.model, pools)
        self.measured(self.root.id, 0.0, Verdict.KEPT)

    @property
    def history(self):
        return self.recorder.history

    @property
    def run(self):
        return self.history.runs[1]

    @property
    def root(self):
        return self.history[self.run.root]

    def ask(self, ahead=0):
        self._known = self.history.number
        return Ask(self.history, 1, Pool.ATTEMPT, random.Random, (), None, ahead)

    def tell(self, *events):
        self.recorder.record(lambda _: events)

    def adds(self, proposal, tree=None):
        """Record a proposal as a node."""
        parent = self.history[proposal.parent]
        node = parent.id.child(parent.children + 1)
        self.tell(
            NodeAdded(
                node,
                Pool.ATTEMPT,
                proposal.operator,
                proposal.summary,
                "commit",
                tree or parent.tree,
                proposal.params,
                known_event=self._known,
                calls=proposal.calls,
                remaining_in_reply=proposal.remaining_in_reply,
                index_in_reply=proposal.index_in_reply,
            ),
        )
        return node

    def starts(self, proposal):
        node = self.adds(proposal)
        self.tell(TrialStarted(node, 1, Pool.ATTEMPT, "me"))
        return node

    def ends(self, node, score, verdict=Verdict.DISCARDED, reason=""):
        failed = Outcome(Ending.FAILED, reason=reason)
        outcome = failed if score is None else Outcome(Ending.FINISHED, {SCORE: score})
        self.tell(TrialEnded(node, 1, outcome), NodeJudged(node, verdict, reason))

    def measured(self, node, score, verdict=Verdict.DISCARDED, reason=""):
        self.tell(TrialStarted(node, 1, Pool.ATTEMPT, "me"))
        self.ends(node, score, verdict, reason)

    def stepped(self):
        """Why the ladder stepped, oldest first."""
        return [item.event.reason for item in self.bench.ledger.read() if isinstance(item.event, RungChanged)]

    def tried(self, params, score, verdict=Verdict.DISCARDED, operator="hand", tree=None, reason=""):
        """A node of the baseline from its proposal to its verdict."""
        node = self.adds(Proposal(operator, self.root.id, "", params), tree)
        self.measured(node, score, verdict, reason)
        return node

    def records(self, suggestion, score=-1.0, verdict=Verdict.DISCARDED):
        """Do what the loop does with an answer."""
        if isinstance(suggestion, Proposal):
            self.measured(self.adds(suggestion), score, verdict)
        elif isinstance(suggestion, Refusal):
            self.tell(decisions.refuse_proposal(1, Pool.ATTEMPT, suggestion))
        else:
            self.tell(RungChanged(1, Pool.ATTEMPT, suggestion.rung, suggestion.name, suggestion.reason))
