"""A draft is proven by checks, within a time."""

from loopty import Campaign
from loopty.features.setup.causes.this_host import ThisHost
from loopty.features.setup.draft_checks import DraftChecks
from loopty.features.setup.proven_task import with_shorter_gate
from loopty.features.setup.prover import CheckTime, TaskProver
from loopty.features.setup.task_draft import GateDraft, TaskDraft
from loopty.kit.records import replace
from loopty.taskfile.read import load


def prover(place, said, within=None):
    checks = DraftChecks(lambda: Campaign(place.top), place.top, unsafe=False)
    return TaskProver(checks, said.append, lambda _: False, within)


def test_cpu_time_is_known_as_such_unless_the_time_on_the_clock_counts():
    timed = TaskDraft("make && python3 -m loopty_sdk.cpu_time make test")
    assert timed.is_cpu_time
    assert not replace(timed, score_key="wall_seconds").is_cpu_time
    assert not TaskDraft("make test").is_cpu_time


def test_a_benchmark_that_lacks_something_is_named_beside_the_one_that_is_used(code_place):
    drafts = [
        TaskDraft("python3 -c 'import not_there'", ("src/**",)),
        TaskDraft("sh bench.sh", ("src/**",)),
    ]
    proven = prover(code_place, []).prove_first(drafts, frozenset())
    assert load(code_place.top).benchmark.command == "sh bench.sh"
    assert "not_there" in proven.instead_of.check.explanation.cause.sentence


def test_a_benchmark_that_fails_for_no_known_cause_is_named_with_the_one_that_works(code_place):
    drafts = [TaskDraft("exit 3", ("src/**",)), TaskDraft("sh bench.sh", ("src/**",))]
    proven = prover(code_place, []).prove_first(drafts, frozenset())
    assert (proven.draft.command, proven.instead_of.draft.command) == ("sh bench.sh", "exit 3")


def test_a_command_that_only_prints_how_it_is_used_proves_nothing(code_place):
    draft = TaskDraft("python3 -m loopty_sdk.cpu_time sh -c 'echo Usage: bench FILE'", ("src/**",))
    proven = prover(code_place, []).prove_first([draft], frozenset())
    assert proven.check.problem.endswith("only printed how it is used: give it its arguments, with --command")


def test_a_gate_waits_until_the_benchmark_works(code_place):
    gates = (GateDraft("tests", "echo gate >> log; exit 3", is_proposed=True),)
    draft = TaskDraft("exit 4", ("src/**",), gates=gates)
    said = []
    proven = prover(code_place, said).prove_first([draft], frozenset())
    assert "exit code 4" in proven.check.problem
    assert proven.draft.gates == gates
    assert not any("gate" in line for line in said), "the gate was not asked"
    works = prover(code_place, said).prove_first([replace(draft, command="sh bench.sh")], frozenset())
    assert works.check.problem is None
    assert works.draft.gates == (), "a gate that does not pass on the files as they are is left out"


def test_a_gate_gives_way_to_fewer_tests_where_it_does_not_pass(code_place):
    gate = GateDraft("tests", "exit 3", is_proposed=True, smaller=("true",))
    proven = prover(code_place, []).prove_first(
        [TaskDraft("sh bench.sh", ("src/**",), gates=(gate,))], frozenset()
    )
    assert [one.command for one in proven.draft.gates] == ["true"]
    assert "these are some of the tests" in proven.draft.notes["gates.tests"]
    assert proven.noise is not None
    assert [one.command for one in load(code_place.top).gates] == ["true"], "noise is measured without the gates"


def test_a_gate_that_takes_far_longer_than_the_benchmark_gives_way_to_fewer_tests():
    gate = GateDraft("tests", "pytest tests", is_proposed=True, smaller=("pytest tests/test_a.py",))
    draft = TaskDraft("bench", gates=(gate,))
    changed, change = with_shorter_gate(draft, 90.0, 2.0)
    assert changed.gates[0].command == "pytest tests/test_a.py"
    assert "takes about 90 s and the benchmark 2 s" in change.why
    assert with_shorter_gate(draft, 90.0, 60.0) is None
    assert with_shorter_gate(draft, 20.0, 0.1) is None
    assert with_shorter_gate(changed, 90.0, 2.0) is None


def test_what_takes_too_long_gives_way_to_a_part_of_it(code_place):
    drafts = [
        TaskDraft("sleep 600", ("src/**",), timeout_seconds=1.0, has_build=True),
        TaskDraft("exit 5", ("src/**",), has_build=True),
        TaskDraft("sh bench.sh", ("src/**",), has_build=True, is_part=True),
    ]
    said = []
    proven = prover(code_place, said).prove_first(drafts, frozenset())
    assert proven.draft.command == "sh bench.sh"
    assert proven.instead_of.is_out_of_time
    assert not any("exit" in line for line in said), "another way to build all of it would take as long"


def test_where_time_was_missing_the_line_to_paste_gives_more(code_place):
    draft = TaskDraft("sleep 600", ("src/**",), timeout_seconds=1.0)
    proven = prover(code_place, []).prove_first([draft], frozenset())
    assert proven.has_line
    assert proven.check.explanation.cause.shell == "loopty init --yes --force --within 30m"


def test_where_a_gpu_was_out_of_reach_the_line_to_paste_gives_it(code_place, monkeypatch):
    monkeypatch.setattr(ThisHost, "has_gpu", lambda _: True)
    draft = TaskDraft("echo 'RuntimeError: No CUDA GPUs are available' >&2; exit 1", ("src/**",))
    proven = prover(code_place, []).prove_first([draft], frozenset())
    assert proven.check.explanation.cause.shell == "loopty init --yes --force --device gpu"


def test_a_gate_for_which_no_time_is_left_is_left_out(code_place):
    now = [0.0]

    class Said(list):
        def append(self, line):
            super().append(line)
            now[0] += 500.0 * ("trying again" in line)

    gate = GateDraft("tests", "exit 3", is_proposed=True, smaller=("exit 4", "exit 5"))
    draft = TaskDraft("sh bench.sh", ("src/**",), gates=(gate,))
    proven = prover(code_place, Said(), CheckTime(500.0, lambda: now[0])).prove_first([draft], frozenset())
    assert proven.check.problem is None
    assert proven.draft.gates == ()
    assert proven.draft.notes["gates.tests"].startswith("exit 4 could not be checked in the time that init has")


def test_each_check_gets_half_of_the_time_that_is_left():
    now = [0.0]
    time = CheckTime(600.0, lambda: now[0])
    draft = TaskDraft("make check")
    assert (time.limit(draft), time.limit(draft, at_least=400)) == (300, 400)
    now[0] = 580.0
    assert (time.has_time_for(draft), time.limit(draft)) == (True, 15)
    now[0] = 700.0
    assert time.left == 0
    assert not time.has_time_for(draft)


def test_all_tests_leave_time_for_some_of_them():
    now = [0.0]
    time = CheckTime(600.0, lambda: now[0])
    time.expect(has_parts=True)
    whole, part = TaskDraft("pytest"), TaskDraft("pytest test_a.py", is_part=True)
    assert (time.limit(whole), time.limit(whole, at_least=500)) == (240, 480)
    now[0] = 480.0
    assert not time.has_time_for(whole)
    assert time.limit(part) == 60


def test_a_benchmark_that_works_and_cannot_be_proven_in_the_time_gives_way_to_a_shorter_one(code_place):
    slow = TaskDraft("sleep 1; sh bench.sh", ("src/**",))
    within = CheckTime(11)
    proven = prover(code_place, [], within=within).prove_first(
        [slow, TaskDraft("sh bench.sh", ("src/**",), is_shorter=True)], frozenset()
    )
    assert proven.draft.is_shorter
    assert "leaves no time to prove it" in proven.instead_of.problem
