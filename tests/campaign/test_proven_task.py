"""A draft is proven by checks; on a busy machine they may take longer."""

from loopty import Campaign
from loopty.campaign.proven_task import TaskProver
from loopty.taskfile.task_draft import GateDraft, TaskDraft


def prover(place, said, patience):
    return TaskProver(lambda: Campaign(place.top), place.top, said.append, lambda _: False, False, patience)


def test_on_a_busy_machine_a_check_may_take_longer_unless_the_user_gave_the_limit(code_place):
    said = []
    draft = TaskDraft("sh bench.sh", ("src/**",))
    proven = prover(code_place, said, 3.0).prove_first([draft], frozenset())
    assert said[0] == "checking for at most 360 s (the machine is busy; --timeout; Ctrl-C stops): sh bench.sh"
    assert proven.check.problem is None
    prover(code_place, said, 3.0).prove_first([draft], frozenset({"timeout_seconds"}))
    assert said[1].startswith("checking for at most 120 s (--timeout;")


def test_limits_of_proposed_gates_are_longer_too_and_those_of_the_user_stay():
    gates = (GateDraft("tests", "make test", 60.0, is_proposed=True), GateDraft("mine", "make lint", 60.0))
    draft = TaskDraft("bench", gates=gates).with_patience(2.5)
    assert [gate.timeout_seconds for gate in draft.gates] == [150, 60.0]
    assert TaskDraft("bench", timeout_seconds=900.0).with_patience(8.0).timeout_seconds == 1800.0
