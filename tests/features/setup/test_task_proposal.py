"""From facts about a repository to a task that may work."""

import pytest

from loopty.domain.errors import Misuse
from loopty.domain.space import Parameter, ParameterKind
from loopty.features.setup.causes.results import CPU_TIMER
from loopty.features.setup.proposal_text import nothing_to_change, scored_by_itself
from loopty.features.setup.repository_facts import repository_facts
from loopty.features.setup.task_draft import parse_parameter, require_matches
from loopty.features.setup.task_proposal import (
    benchmark_proposals,
    propose_task,
    propose_tasks,
    tasks_to_try,
    without_evaluators,
    writable_files,
)
from loopty.kit.paths import matches

PYTHON = {"pkg/__init__.py": "", "pkg/core.py": "", "tests/test_core.py": "def test_x(): pass\n"}


def facts_of(folder, files):
    for path, text in files.items():
        (folder / path).parent.mkdir(parents=True, exist_ok=True)
        (folder / path).write_text(text)
    return repository_facts(folder, sorted(files))


@pytest.mark.parametrize(
    ("files", "command", "result"),
    [
        ({"Makefile": "bench:\n\t./b\n", "b.c": ""}, "make bench", "file"),
        ({"package.json": '{"scripts": {"bench": "node i"}}', "i.js": ""}, "npm run --silent bench", "file"),
        (
            {**PYTHON, "benchmarks/test_speed.py": "def test_s(benchmark): pass\n"},
            "python3 -m pytest -q -p no:cacheprovider --benchmark-only benchmarks/test_speed.py",
            "pytest-benchmark",
        ),
        ({"Cargo.toml": "criterion", "src/lib.rs": "", "benches/b.rs": ""}, "cargo bench", "criterion"),
        (
            {"go.mod": "", "a.go": "", "a_test.go": "func BenchmarkA("},
            "go test -run '^$' -bench . ./...",
            "go-bench",
        ),
        ({**PYTHON, "bench_core.py": "main()\n"}, "python3 bench_core.py", "file"),
        ({"benchmark/index.js": "", "index.js": ""}, "node benchmark/index.js", "file"),
        ({"bench.sh": "", "a.c": ""}, "sh bench.sh", "file"),
    ],
)
def test_a_benchmark_of_the_repository_is_proposed_first(tmp_path, files, command, result):
    found = benchmark_proposals(facts_of(tmp_path, files))[0]
    assert (found.command, found.result) == (command, result)


def test_without_a_benchmark_the_time_of_the_tests_is_proposed(tmp_path):
    draft = propose_tasks(facts_of(tmp_path, PYTHON))[0]
    assert "pytest -q -x -p no:cacheprovider tests/test_core.py" in draft.command
    assert draft.command.startswith("python3 -m loopty_sdk.test_time python3 -m pytest ")
    assert (draft.result, draft.direction, draft.gates) == ("file", "min", ())
    assert "no benchmark is used" in draft.notes["command"]


def test_nothing_is_proposed_where_nothing_can_be_measured(tmp_path):
    assert propose_tasks(facts_of(tmp_path, {"pkg/core.py": ""})) == []


def test_tests_are_a_gate_and_nobody_may_change_them(tmp_path):
    facts = facts_of(tmp_path, {**PYTHON, "bench.py": "main()\n"})
    draft = propose_task(facts, "python3 bench.py")
    assert [gate.command for gate in draft.gates] == [
        "python3 -m pytest -q -x -p no:cacheprovider tests/test_core.py"
    ]
    assert draft.files == ("bench.py", "tests/**")
    assert draft.write == ("pkg/__init__.py", "pkg/core.py")


@pytest.mark.parametrize(
    ("files", "command"),
    [
        ({"Cargo.toml": "", "src/lib.rs": ""}, "cargo test --quiet"),
        ({"go.mod": "", "a.go": "", "a_test.go": ""}, "go test -count=1 ./..."),
        ({"package.json": '{"scripts": {"test": "tap"}}', "test/i.js": ""}, "npm test --silent"),
        ({"Makefile": "check:\n\t./t\n", "a.c": ""}, "make check"),
    ],
)
def test_the_test_runner_of_each_language_is_known(tmp_path, files, command):
    assert propose_task(facts_of(tmp_path, files), "x").gates[0].command == command


def test_a_name_with_a_space_or_a_sign_of_a_glob_is_named_as_it_is(tmp_path):
    files = {"pkg/grammar.py before.py": "", "pages/[id].py": "", "pages/i.py": "", "tests/[a]/test_b.py": ""}
    facts = facts_of(tmp_path, files)
    draft = propose_tasks(facts)[0]
    require_matches(draft.write, facts.files)
    assert len(draft.write) == 3
    assert [matches("pages/[id].py", (glob,)) for glob in draft.write].count(True) == 1
    assert [matches("pages/i.py", (glob,)) for glob in draft.write].count(True) == 1
    assert matches("tests/[a]/test_b.py", draft.files)


def test_many_sources_are_named_by_their_folders(tmp_path):
    files = {f"lib/part{number}.c": "" for number in range(20)} | {"main.c": "", "lib/a.h": ""}
    assert writable_files(facts_of(tmp_path, files)) == ("*.c", "lib/**/*.c", "lib/**/*.h")


def test_a_command_whose_cpu_time_counts_is_better_when_it_takes_less(tmp_path):
    facts = repository_facts(tmp_path, [])
    assert propose_task(facts, f"make && {CPU_TIMER} ./program").direction == "min"
    assert propose_task(facts, "./program").direction == "max"


BLOCK = "# EVOLVE-BLOCK-START\ndef solve(): pass\n# EVOLVE-BLOCK-END\n"
EVALUATE = "def evaluate(program_path):\n    return {}\n"


def test_what_scores_others_is_never_proposed_as_editable(tmp_path):
    files = {"evaluator.py": "", "measure.py": "def score(x): return x\n", "solver.py": "", "prepare.py": ""}
    facts = facts_of(tmp_path, {**files, "solver.py": "import prepare\n"})
    assert facts.evaluators == ("evaluator.py", "measure.py", "prepare.py")
    assert propose_task(facts, "x").write == ("solver.py",)


def test_what_a_benchmark_measures_with_is_not_editable(tmp_path):
    clock = "import time\nstarted = time.perf_counter()\n"
    files = {
        "bench.py": "import harness, solver\nmain()\n",
        "harness.py": clock,
        "solver.py": "",
        "other.py": clock,
    }
    assert propose_tasks(facts_of(tmp_path, files))[0].write == ("other.py", "solver.py")


def test_what_a_glob_would_let_candidates_write_is_sealed(tmp_path):
    files = {f"lib/part{number}.py": "" for number in range(20)} | {"lib/grader.py": ""}
    draft = propose_task(facts_of(tmp_path, files), "python3 lib/part3.py")
    assert draft.write == ("lib/**/*.py",)
    assert draft.files == ("lib/part3.py", "lib/grader.py")
    assert without_evaluators(draft, facts_of(tmp_path, files)).files == ("lib/part3.py",)


@pytest.mark.parametrize(
    ("command", "write"),
    [
        ("python3 run.py", ("solver.py",)),
        ("uv run run.py --fast", ("solver.py",)),
        ("cd . && ./run.py solver.py", ("solver.py",)),
        ("python3 -m run", ("solver.py",)),
        ("make quick", ("solver.py",)),
        ("npm run --silent measure", ("solver.py",)),
        (f"{CPU_TIMER} python3 run.py", ("run.py", "solver.py")),
        ("hyperfine 'python3 run.py'", ("run.py", "solver.py")),
    ],
)
def test_the_script_that_the_command_starts_is_not_proposed_unless_it_is_timed_from_outside(
    tmp_path, command, write
):
    recipe = "quick:\n\t@python3 run.py\n"
    scripts = '{"scripts": {"measure": "python3 run.py"}}'
    files = {"run.py": "", "solver.py": "", "Makefile": recipe, "package.json": scripts}
    assert propose_task(facts_of(tmp_path, files), command).write == write


def test_of_programs_that_mark_what_may_change_these_alone_are_editable(tmp_path):
    facts = facts_of(tmp_path, {"a.py": BLOCK, "helper.py": "", "run.py": ""})
    assert propose_task(facts, "python3 run.py").write == ("a.py",)
    assert propose_task(facts, "python3 a.py").write == ("a.py",)


def test_an_evaluator_of_programs_is_called_with_the_program_beside_it(tmp_path):
    facts = facts_of(tmp_path, {"task/evaluator.py": EVALUATE, "task/initial_program.py": BLOCK, "other.py": ""})
    draft = propose_tasks(facts)[0]
    assert draft.command == "python3 -m loopty_sdk.evaluate_program task/evaluator.py task/initial_program.py"
    assert (draft.write, draft.files, draft.direction) == (
        ("task/initial_program.py",),
        ("task/evaluator.py",),
        "max",
    )


def test_where_two_programs_could_be_meant_none_is_chosen_and_the_tests_are_not_timed(tmp_path):
    facts = facts_of(tmp_path, {"evaluator.py": EVALUATE, "a.py": BLOCK, "b.py": BLOCK, "tests/test_a.py": ""})
    assert tasks_to_try(facts, propose_tasks(facts)) == []


def test_benchmarks_are_tried_before_the_tests(tmp_path):
    facts = facts_of(tmp_path, {**PYTHON, "bench_core.py": "main()\n"})
    first, *others = tasks_to_try(facts, propose_tasks(facts))
    assert first.command == "python3 bench_core.py"
    assert others
    assert all(draft.times_the_tests for draft in others)
    (tmp_path / "bench_core.py").unlink()
    facts = facts_of(tmp_path, PYTHON)
    assert all(draft.times_the_tests for draft in tasks_to_try(facts, propose_tasks(facts)))


def test_where_nothing_is_left_to_edit_it_says_why(tmp_path):
    facts = facts_of(tmp_path, {"train.py": "", "prepare_evaluator.py": ""})
    assert "train.py is what 'python3 train.py' starts" in nothing_to_change(facts, "python3 train.py")
    assert scored_by_itself(facts, "python3 train.py", ["train.py"]) == ("train.py",)
    assert scored_by_itself(facts, "python3 train.py", ["*.py"]) == ()
    assert scored_by_itself(facts, "sh prepare_evaluator.py", ["train.py"]) == ()


def test_parameters_are_read_from_the_command_line():
    assert parse_parameter("lr=float:1e-4:1:log") == ("lr", Parameter(ParameterKind.FLOAT, 1e-4, 1.0, True))
    assert parse_parameter("n=int:1:9") == ("n", Parameter(ParameterKind.INT, 1.0, 9.0))
    assert parse_parameter("k=categorical:a,b")[1].choices == ("a", "b")


@pytest.mark.parametrize(
    "text",
    ["lr", "lr=float", "lr=float:1", "=int:1:2", "n=int:1:x", "n=float:0:1:log", "x=y:1", "k=categorical:a"],
)
def test_a_faulty_parameter_says_how_to_write_it(text):
    with pytest.raises(Misuse, match="--param"):
        parse_parameter(text)


def test_a_glob_must_match_a_file():
    require_matches(["src/**", "a.py"], ["src/x.c", "a.py"])
    with pytest.raises(Misuse, match=r"did you mean src/core.py"):
        require_matches(["core.py"], ["src/core.py"])
    with pytest.raises(Misuse, match="name files that exist"):
        require_matches(["zzz"], ["src/core.py"])


def test_a_command_that_calls_the_code_by_the_sdk_is_isolated_and_others_say_why_not(tmp_path):
    facts = facts_of(tmp_path, {"kernel.mjs": "work()\n", "bench.py": "import kernel\n"})
    assert propose_task(facts, "python3 -m loopty_sdk.candidate -- node kernel.mjs").isolated
    plain = propose_task(facts, "python3 bench.py")
    assert not plain.isolated
    assert plain.notes["isolated"].startswith("bench.py imports or starts the code by itself")
    assert (
        "nothing outside of it compares" in propose_task(facts, f"{CPU_TIMER} node kernel.mjs").notes["isolated"]
    )
