"""A remedy becomes part of a draft, as far as the user lets it."""

from loopty.domain.trial import Ending, Outcome
from loopty.features.setup.prover import draft_with_remedy
from loopty.features.setup.task_draft import TaskDraft
from loopty.features.setup.template import render_task_file
from loopty.session.by_hand import CheckResult
from loopty.show.explanation import Cause, Explanation, Reach, Setting
from loopty.taskfile.read import parse

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
