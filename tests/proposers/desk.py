"""A run in memory with a scripted model behind the real role model, purse and archive."""

import json
import random

from loopty.domain.objective import SCORE
from loopty.domain.proposal import Proposal, Refusal
from loopty.domain.task import Pools
from loopty.domain.trial import Ending, Outcome, Pool, Verdict
from loopty.engine.protocols import Ask
from loopty.kit.safe_folder import SafeFolder
from loopty.models.archive import Archive
from loopty.models.purse import RunPurse
from loopty.models.scripted_model import ScriptedModel
from loopty.record.nodes import NodeAdded, refuse_proposal
from loopty.record.search_summary import RungChanged
from loopty.record.trials import TrialEnded, TrialStarted
from loopty.record.verdicts import NodeJudged
from loopty.testing.fakes import object_name

from ..engine.conftest import Bench
from ..models.spending import metered_model
from ..models.timing import Time


class Plain:
    """A context that says almost nothing."""

    def text(self, ask, parent, inspirations=()):  # noqa: ARG002
        return f"# Task\n\nMake it better. You change node {parent.id}."


def reply_with(*points, reason="it may be better"):
    """A correct reply with these points."""
    return json.dumps({"proposals": [{"parameters": point, "reason": reason} for point in points]})


def make_role_model(recorder, folder, model, pools=None):
    """A role model over this model that never retries."""
    purse = RunPurse(recorder, 1, pools or Pools(), "me")
    limits = {"retries": 0, "outage_seconds": 0.0, "max_output_tokens": 256}
    return metered_model(model, purse, Archive(SafeFolder(folder)), Time(), **limits)


class Desk:
    """A run with a measured baseline: a test asks a proposer itself and records its answers."""

    def __init__(self, folder, replies=(), pools=None, objective=None):
        self.bench = Bench(lambda _: 1.0, pools=pools, objective=objective)
        self.recorder = self.bench.recorder
        self.model = ScriptedModel(replies)
        self._known = 0
        self.role_model = make_role_model(self.recorder, folder, self.model, pools)
        self.measure(self.root.id, 0.0, Verdict.KEPT)

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
        return Ask(self.history, 1, Pool.ATTEMPT, random.Random, None, ahead)

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
                parent.commit,
                object_name(tree) if tree else parent.tree,
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

    def measure(self, node, score, verdict=Verdict.DISCARDED, reason=""):
        self.tell(TrialStarted(node, 1, Pool.ATTEMPT, "me"))
        self.ends(node, score, verdict, reason)

    def step_reasons(self):
        """Why the ladder changed its rung, the oldest first."""
        return [item.event.reason for item in self.bench.ledger.read() if isinstance(item.event, RungChanged)]

    def try_point(self, params, score, verdict=Verdict.DISCARDED, operator="hand", tree=None, reason=""):
        """Add a child of the baseline and judge it."""
        node = self.adds(Proposal(operator, self.root.id, "", params), tree)
        self.measure(node, score, verdict, reason)
        return node

    def records(self, suggestion, score=-1.0, verdict=Verdict.DISCARDED):
        """Record an answer as the loop does."""
        if isinstance(suggestion, Proposal):
            self.measure(self.adds(suggestion), score, verdict)
        elif isinstance(suggestion, Refusal):
            self.tell(refuse_proposal(1, Pool.ATTEMPT, suggestion))
        else:
            self.tell(RungChanged(1, Pool.ATTEMPT, suggestion.rung, suggestion.name, suggestion.reason))
