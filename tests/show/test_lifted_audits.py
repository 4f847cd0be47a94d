"""What an audit refuted, and refutes no longer, gets its place back."""

from __future__ import annotations

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.judge.revisions import conclude_audits
from loopty.record.directives import AuditConcluded
from loopty.record.verdicts import Incumbents

from .story import Story


def audited(*scores: float) -> Story:
    """A run of which each attempt was kept after the one before, with the last one refuted by an audit."""
    story = Story(baseline=1.0)
    for score in scores:
        story.tries("1", score)
    story.tell(AuditConcluded(1, (NodeId(f"1.{len(scores)}"),), "does not carry over", steers=True))
    return story


def best_of(story: Story) -> str | None:
    return Incumbents.of(story.history.runs[1], Pool.ATTEMPT).best


def test_what_an_audit_refutes_no_longer_gets_its_place_back() -> None:
    story = audited(2.0, 3.0)
    assert best_of(story) == "1.1"
    story.recorder.record(lambda history: conclude_audits(history, AuditConcluded(1, (), "", steers=True)))
    assert best_of(story) == "1.2"
    story.tries("1", 4.0)
    story.recorder.record(lambda history: conclude_audits(history, AuditConcluded(1, (), "", steers=True)))
    assert best_of(story) == "1.3"


def test_what_was_kept_meanwhile_has_to_be_beaten_by_what_returns() -> None:
    story = audited(2.0, 3.0)
    story.tries("1", 2.5)
    assert best_of(story) == "1.3"
    story.recorder.record(lambda history: conclude_audits(history, AuditConcluded(1, (), "", steers=True)))
    assert best_of(story) == "1.3"
    returned = story.history[NodeId("1.2")]
    assert (returned.verdict, "kept meanwhile" in returned.reason) == (None, True)
    story.recorder.record(lambda history: conclude_audits(history, AuditConcluded(1, (), "", steers=True)))
    assert story.history[NodeId("1.2")].reopened_for == ("1.2",)


def test_a_second_refutation_goes_further_back_and_lifting_both_returns_the_newest() -> None:
    story = audited(2.0, 3.0)
    both = (NodeId("1.1"), NodeId("1.2"))
    story.tell(AuditConcluded(1, both, "do not carry over", steers=True))
    assert best_of(story) == "1"
    story.tell(AuditConcluded(1, both[:1], "does not carry over", steers=True))
    assert best_of(story) == "1.2"
