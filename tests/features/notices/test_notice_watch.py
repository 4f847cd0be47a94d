"""What is worth a notice, and what is not."""

from loopty.domain.ids import NodeId
from loopty.domain.task import Pools
from loopty.domain.trial import Pool, Verdict
from loopty.features.notices.notices import Notice, NoticeKind, NoticeWatch
from loopty.record.sessions import BudgetChanged, SessionStalled
from loopty.record.verdicts import NodeJudged

from ...show.story import Story


def watch(story: Story, attempts: int = 100) -> list[Notice]:
    """The notices of what the story tells from now on."""
    sent: list[Notice] = []
    watch = NoticeWatch(lambda: story.recorder.history, 1, Pools(attempts=attempts), "repo", sent.append)
    story.recorder.listeners.append(watch.on_event)
    return sent


def test_a_new_best_is_told_and_a_loss_is_not():
    story = Story()
    sent = watch(story)
    story.tries("1", 2.0)
    story.tries("1", 0.5)
    story.tries("1", 3.0, Pool.CONTROL)
    (notice,) = sent
    assert (notice.kind, notice.node, notice.repository) == (NoticeKind.NEW_BEST, "1.1", "repo")
    assert "score 2 against 1" in notice.text


def test_the_baseline_is_no_news():
    story = Story(baseline=None)
    sent = watch(story)
    story.ends(NodeId("1"), 1.0)
    assert sent == []


def test_a_held_node_is_told():
    story = Story()
    sent = watch(story)
    node = story.adds("1")
    story.tell(NodeJudged(node, Verdict.HELD, "a gain of 900 %"))
    assert [(notice.kind, notice.text) for notice in sent] == [
        (NoticeKind.HELD, "a gain of 900 %; look at it: loopty show @2")
    ]


def test_the_budget_is_told_at_80_and_100_percent_once():
    story = Story()
    sent = watch(story, attempts=10)
    for _ in range(10):
        story.tries("1", 0.5)
    assert [notice.kind for notice in sent] == [NoticeKind.BUDGET_80, NoticeKind.BUDGET_100]
    assert sent[0].text == "8 of 10 attempts"


def test_a_budget_that_was_spent_before_is_no_news():
    story = Story()
    for _ in range(9):
        story.tries("1", 0.5)
    sent = watch(story, attempts=10)
    story.tries("1", 0.5)
    assert [notice.kind for notice in sent] == [NoticeKind.BUDGET_100]


def test_one_stall_is_told_not_each_of_them_and_the_end_names_the_result():
    story = Story()
    story.tries("1", 2.0)
    sent = watch(story)
    story.tell(SessionStalled(1, "the model is\x1b[2J unavailable", 3.0), SessionStalled(1, "again", 3.0))
    story.stops("all 9 attempt trials are spent")
    assert [notice.kind for notice in sent] == [NoticeKind.STALLED, NoticeKind.FINISHED]
    assert "\x1b" not in sent[0].text
    assert sent[1].text == "all 9 attempt trials are spent; the best is @2 with 2"


def test_an_end_without_a_winner_says_so():
    story = Story()
    sent = watch(story)
    story.stops("stopped on request")
    assert sent[0].text == "stopped on request; nothing better than the baseline was found"


def test_a_changed_limit_counts_from_then_on():
    story = Story()
    sent = watch(story, attempts=10)
    story.tell(BudgetChanged(1, {"attempts": 100}))
    for _ in range(10):
        story.tries("1", 0.5)
    assert sent == []
    story.tell(BudgetChanged(1, {"attempts": 11}))
    story.tries("1", 0.5)
    assert [(notice.kind, notice.text) for notice in sent] == [(NoticeKind.BUDGET_100, "11 of 11 attempts")]


def test_a_deep_node_is_told_by_its_short_name():
    story = Story()
    sent = watch(story)
    parent = "1"
    for step in range(2, 12):
        parent = story.tries(parent, float(step))
    assert len(parent) > 16
    assert sent[-1].title == f"new best: @{story.recorder.history[NodeId(parent)].handle}"
    assert sent[-1].node == parent
