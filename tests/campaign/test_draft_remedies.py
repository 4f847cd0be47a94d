"""A remedy becomes part of a draft, as far as the user lets it."""

from loopty.campaign.by_hand import CheckResult
from loopty.campaign.draft_remedies import draft_with_remedy
from loopty.causes.cause import Cause, Reach, Setting
from loopty.causes.explanation import Explanation
from loopty.domain.outcome import Ending, Outcome
from loopty.taskfile.read import parse
from loopty.taskfile.task_draft import TaskDraft
from loopty.taskfile.template import render_task_file

GPU = Cause(
    "gpu-outside-the-sandbox", "it wants a GPU", (Setting("benchmark", "devices", ("gpu",)),), reach=Reach.OUTSIDE
)
FAILED = CheckResult(Outcome(Ending.FAILED, reason="no GPU"), "no GPU", Explanation((), "", GPU))


def test_a_gpu_is_named_in_the_task_file_when_the_user_agrees():
    draft, change = draft_with_remedy(TaskDraft("bench", ("a",)), FAILED, frozenset(), lambda _: True)
    assert change.line == 'devices = ["gpu"]'
    assert parse(render_task_file(draft)).benchmark.devices == ("gpu",)


def test_a_gpu_is_not_named_without_the_users_yes():
    assert draft_with_remedy(TaskDraft("bench", ("a",)), FAILED, frozenset(), lambda _: False) is None
    assert parse(render_task_file(TaskDraft("bench", ("a",)))).benchmark.devices == ()
