"""`loopty init` writes a working task file, or says what does not work."""

import json
import shlex
import signal
import time

import pytest

from loopty.taskfile.read import load

from .state import events
from .terminal import answered

PASSING = "".join(f"def test_{name}(): pass\n" for name in "abc")
FLAGS = ("--command", "sh bench.sh", "--write", "src/**")


FAST = "Extension('fast', ['fast.c'])"
FAST_C = """#include <Python.h>
static PyObject *value(PyObject *self, PyObject *none) { return PyFloat_FromDouble(1.5); }
static PyMethodDef methods[] = {{"value", value, METH_NOARGS, ""}, {0}};
static struct PyModuleDef module = {PyModuleDef_HEAD_INIT, "fast", "", -1, methods};
PyMODINIT_FUNC PyInit_fast(void) { return PyModule_Create(&module); }
"""


@pytest.fixture
def bare(code_place):
    """A repository with a benchmark and no task file."""
    (code_place.top / "loopty.toml").unlink()
    code_place.commit()
    return code_place


def test_with_options_it_writes_a_commented_file_and_runs_the_benchmark(bare):
    done = bare.loopty("init", "--unproven", *FLAGS, "--direction", "min", "--timeout", "7", "--attempts", "3")
    assert done.stdout == ""
    assert "score 5" in done.stderr
    task = load(bare.top)
    assert (task.benchmark.command, task.access.write, task.benchmark.timeout_seconds) == (
        "sh bench.sh",
        ("src/**",),
        7,
    )
    assert (task.objective.direction, task.pools.attempts) == ("min", 3)
    assert (bare.top / "loopty.toml").read_text().count("#") > 10


def test_a_build_that_writes_beside_its_sources_gets_a_copy_of_the_tree(bare):
    (bare.top / "bench.sh").write_text('echo 1 > built && echo "score: $(cat built)"\n')
    bare.commit()
    done = bare.loopty("init", "--unproven", *FLAGS)
    assert "writable_copy = true" in done.stderr
    assert load(bare.top).benchmark.writable_copy
    assert not (bare.top / "built").exists()


LOADING = """\
import importlib, json
program = importlib.import_module("".join(["pro", "gram"]))
try:
    import fragile
except Exception:
    program.X = 0
print(json.dumps({"score": program.X}))
"""


def test_a_writable_file_that_the_benchmark_never_loads_is_named(bare):
    for name, text in {"program.py": "X = 3", "fragile.py": "", "unused.py": "", "bench.py": LOADING}.items():
        (bare.top / name).write_text(f"{text}\n")
    bare.commit()
    writes = [word for name in ("program.py", "fragile.py", "unused.py") for word in ("--write", name)]
    done = bare.loopty("init", "--unproven", "--yes", "--command", "python3 bench.py", *writes)
    said = " ".join(done.stderr.split())
    assert "same score with nonsense in unused.py" in said
    assert said.count("with nonsense in") == 1
    assert (bare.top / "unused.py").read_text() == "\n"


def test_the_checked_run_changes_no_state(bare):
    bare.loopty("init", "--unproven", *FLAGS)
    assert events(bare) == []
    assert bare.git("branch", "--list", "loopty*") == ""
    assert "nothing has run here yet" in bare.loopty("status", code=2).stderr


def test_two_at_once_do_not_check_each_others_drafts(bare):
    bare.write("bench.sh", 'sleep 3; echo "{\\"score\\": 5}" > "$EVO_RESULT_PATH"\n')
    bare.commit()
    first = bare.start("init", "--unproven", *FLAGS, "--attempts", "3")
    while not (bare.top / "loopty.toml").exists():
        assert first.poll() is None, first.communicate()
        time.sleep(0.02)
    second = bare.loopty("init", "--unproven", *FLAGS, "--attempts", "4", "--force", code=2)
    assert f"another `loopty init` works in this repository (process {first.pid}): wait until" in second.stderr
    first.communicate()
    assert first.returncode == 0
    assert load(bare.top).pools.attempts == 3
    assert bare.loopty("init", "--unproven", *FLAGS, "--attempts", "4", "--force").returncode == 0, (
        "the lock ends with its process"
    )


def test_on_a_terminal_it_asks_and_repeats_a_question_after_an_invalid_answer(bare):
    bare.write("extra.txt", "")
    code, screen = answered(bare, "sh bench.sh", "src/** extra.txt", "faster", "many", "4")
    assert code == 0, screen
    assert "score 5" in screen
    task = load(bare.top)
    assert task.access.write == ("src/**", "extra.txt")
    assert (task.statement, task.pools.attempts) == ("faster", 4)


@pytest.mark.parametrize(
    ("command", "reason"),
    [
        ("echo it broke >&2; exit 3", "exit code 3: it broke"),
        ("no-such-program", "no-such-program"),
        ("true", "was not written"),
        ("sleep 30", "still running after 1 s"),
    ],
)
def test_a_broken_benchmark_is_reported_with_reason_and_remedy(bare, command, reason):
    done = bare.loopty("init", "--unproven", "--command", command, "--write", "src/**", "--timeout", "1", code=1)
    assert reason in done.stderr
    assert "loopty run 1 --check" in done.stderr
    assert events(bare) == []


def test_the_check_passes_after_the_benchmark_is_fixed_and_changes_no_state(bare):
    bare.loopty("init", "--unproven", "--command", "sh fixed.sh", "--write", "src/**", code=1)
    bare.write("fixed.sh", 'echo "{\\"score\\": 3}" > "$EVO_RESULT_PATH"\n')
    assert bare.json("run", "1", "--check")["metrics"] == {"score": 3.0}
    assert events(bare) == []
    assert bare.git("branch", "--list", "loopty*") == ""


def test_an_existing_file_is_kept_unless_forced(code_place):
    before = (code_place.top / "loopty.toml").read_text()
    assert "--force" in code_place.loopty("init", "--unproven", *FLAGS, code=2).stderr
    assert (code_place.top / "loopty.toml").read_text() == before
    code_place.loopty("init", "--unproven", *FLAGS, "--force", "--no-check")
    assert (code_place.top / "loopty.toml").read_text() != before


def test_answers_with_quotes_and_control_characters_are_stored_unchanged(bare):
    statement, command = 'say """no"""\n\\ \x1b\x7f ü', "printf '%s' \"a\\tb\" # [x]"
    bare.write('a "b"', "")
    bare.loopty(
        "init", "--unproven", "--command", command, "--write", 'a "b"', "--statement", statement, "--no-check"
    )
    task = load(bare.top)
    assert (task.statement, task.benchmark.command, task.access.write) == (statement, command, ('a "b"',))


@pytest.mark.parametrize(
    ("flag", "value", "word"),
    [
        ("--timeout", "0", "timeout_seconds must be above 0"),
        ("--timeout", "nan", "finite"),
        ("--attempts", "-1", "attempts must be at least 0"),
        ("--write", "../other", "matches no file"),
        ("--direction", "up", "max"),
    ],
)
def test_an_invalid_value_is_refused_before_anything_is_written(bare, flag, value, word):
    assert word in bare.loopty("init", "--unproven", *FLAGS, flag, value, code=2).stderr
    assert not (bare.top / "loopty.toml").exists()


def test_the_limit_is_about_ten_times_the_checked_run_and_at_least_ten_seconds(bare):
    bare.loopty("init", "--unproven", "--command", "sh bench.sh; sleep 1.5", "--write", "src/**")
    assert 15 <= load(bare.top).benchmark.timeout_seconds < 60
    bare.loopty("init", "--unproven", *FLAGS, "--force")
    assert load(bare.top).benchmark.timeout_seconds == 10
    assert "# Why: about ten times the checked run" in (bare.top / "loopty.toml").read_text()


def test_it_proposes_what_the_repository_has_and_says_what_the_proposer_can_do(bare):
    bare.write("src/solve.py", "x = 5\n")
    bare.write("test_solve.py", "")
    bare.write("bench.sh", 'echo "{\\"score\\": 7}" > "$EVO_RESULT_PATH"\n')
    refused = bare.loopty("init", "--unproven", code=2).stderr
    assert refused.startswith("loopty: --command is missing")
    assert "'sh bench.sh', which --yes accepts" in refused
    done = bare.loopty("init", "--unproven", "--yes", "--gate", "true")
    task = load(bare.top)
    assert (task.benchmark.command, task.access.write) == ("sh bench.sh", ("src/solve.py",))
    assert task.benchmark.files == ("bench.sh", "test_solve.py")
    assert [gate.command for gate in task.gates] == ["true"]
    text = " ".join(done.stderr.split())
    assert "5 checked runs gave the same score, 7" in text
    assert "score: score 7, higher is better (the name score says so)" in text
    assert "random edits, a control and a demonstration" in text


def test_a_failure_with_a_known_cause_is_repaired_and_the_file_says_why(bare):
    bare.write(".gitignore", "data\n")
    bare.write("data/x.csv", "1.25\n")
    bare.write(
        "measure.sh", "mkdir -p build/x && cp data/x.csv build/x && echo elapsed time: $(cat build/x/x.csv)\n"
    )
    bare.commit()
    done = bare.loopty("init", "--unproven", "--command", "sh measure.sh", "--write", "src/**")
    task = load(bare.top)
    assert (task.benchmark.scratch, task.benchmark.mounts) == (("build",), ("data",))
    assert (task.benchmark.result, task.objective.direction) == ("stdout", "min")
    text = (bare.top / "loopty.toml").read_text()
    assert "# Why: git ignores data, so trials do not see data/x.csv\nmounts" in text
    first = "score: elapsed time 1.25, lower is better (the name elapsed time says so)"
    assert first in " ".join(done.stderr.split())
    assert events(bare) == []


def test_what_was_found_out_is_there_for_programs(bare):
    bare.write("bench.sh", "echo speed: 3\n")
    found = bare.json("init", "--unproven", *FLAGS)
    assert (found["ok"], found["result"], found["timeout_seconds"]) == (True, "stdout", 10)
    assert found["changes"] == [
        {
            "line": 'result = "stdout"; score_key = "speed"',
            "why": "the benchmark prints speed, and writes no result file",
        }
    ]
    assert (found["score"], found["direction"], found["why_direction"]) == (
        "speed",
        "max",
        "the name speed says so",
    )
    assert found["noise"]["percent"] == 0
    assert found["proposer"]["kind"] == "mutate"


def test_trials_see_nothing_outside_the_repository_without_a_yes(bare, tmp_path):
    (tmp_path / "secret").write_text("1")
    command = f"cat {tmp_path}/secret"
    for flags in ((), ("--yes",)):
        done = bare.loopty(
            "init", "--unproven", "--command", command, "--write", "src/**", "--force", *flags, code=1
        )
        assert f'mounts = ["{tmp_path}/secret"]' in done.stderr
        assert load(bare.top).benchmark.mounts == ()
    bare.loopty(
        "init", "--command", "curl http://x: Could not resolve host", "--write", "src/**", "--force", code=1
    )
    assert load(bare.top).benchmark.network is False


def test_tests_that_fail_on_the_files_as_they_are_are_left_out_of_the_time_and_of_the_gate(bare):
    bare.write("src/solve.py", "x = 5\n")
    bare.write("tests/test_bad.py", "import not_there\n")
    bare.write("tests/test_solve.py", f"def test_x(): assert 1 == 2\n{PASSING}")
    left_out = "-x --ignore=tests/test_bad.py --deselect=tests/test_solve.py::test_x -p no:cacheprovider tests"
    bare.loopty("init", "--unproven", "--yes")
    (gate,) = load(bare.top).gates
    assert gate.command == f"python3 -m pytest -q {left_out}"
    (bare.top / "bench.sh").unlink()
    bare.commit()
    text = " ".join(bare.loopty("init", "--unproven", "--yes", "--force", "--gate", "true").stderr.split())
    assert "score: CPU seconds of the tests" in text
    assert "lower is better (it is what the command takes)" in text
    assert "no benchmark was found. Better: write a script" in text
    task = load(bare.top)
    assert task.benchmark.command == f"python3 -m loopty_sdk.cpu_time python3 -m pytest -q {left_out}"
    assert task.objective.direction == "min"
    assert "do not pass on the files as they are" in (bare.top / "loopty.toml").read_text()


def line_to_paste(text: str) -> list[str]:
    """The words of the last line of a message, without the name of the program."""
    words = shlex.split(text.strip().splitlines()[-1].rpartition("loopty init ")[2])
    return ["init", *words]


def test_where_nothing_is_found_it_writes_nothing(bare):
    (bare.top / "bench.sh").unlink()
    bare.write("src/solve/__init__.py", "x = 5\n")
    bare.commit()
    text = bare.loopty("init", "--unproven", "--yes", code=1).stderr
    assert "neither a benchmark nor tests were found" in text
    assert "or begin a benchmark: loopty init --skeleton" in text
    assert not (bare.top / "loopty.toml").exists()


def test_a_benchmark_that_fails_is_told_with_its_remedy_and_nothing_else_is_measured(bare):
    (bare.top / "bench.sh").unlink()
    bare.write("bench.py", "import torchlike\nprint('score:', 1)\n")
    bare.write("kernels.py", "x = 5\n")
    bare.write("tests/test_kernels.py", PASSING)
    done = bare.loopty("init", "--unproven", "--yes", code=1)
    text = " ".join(done.stderr.split())
    assert "the checked run of python3 bench.py failed: exit code 1: ModuleNotFoundError" in text
    assert "cause: torchlike is not installed" in text
    assert "next: loopty run" not in text
    assert load(bare.top).benchmark.command == "python3 bench.py"
    assert "or measure the CPU time of the tests instead: loopty init --yes --force --command" in text
    assert bare.loopty(*line_to_paste(done.stderr), "--unproven").returncode == 0
    assert "loopty_sdk.cpu_time python3 -m pytest" in load(bare.top).benchmark.command


def test_tests_of_which_none_runs_prove_nothing(bare):
    (bare.top / "bench.sh").unlink()
    bare.commit()
    bare.write("src/solve/__init__.py", "x = 5\n")
    bare.write("Makefile", "test:\n\t@echo '# TOTAL: 0'\n")
    found = json.loads(bare.loopty("init", "--unproven", "--yes", "--json", code=1).stdout)
    assert found["reason"] == "the command ended well, and no test ran"


def test_a_command_of_the_user_that_fails_is_not_replaced_but_the_line_that_works_is_named(bare):
    bare.write("src/solve/__init__.py", "x = 5\n")
    done = bare.loopty("init", "--unproven", "--yes", "--json", "--command", "exit 3", code=1)
    line = json.loads(done.stdout)["line"]
    assert line.startswith("loopty init --yes --force --command ")
    assert done.stderr.strip().endswith(line)


def test_an_extension_of_the_repository_is_built_before_it_is_measured(bare):
    pytest.importorskip("setuptools")
    bare.write(
        "setup.py", "from setuptools import Extension, setup\nsetup(name='fast', ext_modules=[" + FAST + "])\n"
    )
    bare.write("fast.c", FAST_C)
    bare.write("run.py", "import fast\nprint('score:', fast.value())\n")
    bare.loopty("init", "--unproven", "--command", "python3 run.py", "--write", "fast.c", "--yes")
    task = load(bare.top)
    assert "setup.py -q build_ext --inplace && python3 run.py" in task.benchmark.command
    assert task.benchmark.writable_copy


def test_a_benchmark_that_does_not_end_gives_way_after_the_limit_that_was_named(bare):
    bare.write("Makefile", "bench:\n\tsleep 60\n")
    done = bare.loopty("init", "--unproven", "--yes", "--write", "src/**", "--timeout", "1")
    text = " ".join(done.stderr.split())
    assert "checking for at most 1 s (--timeout; Ctrl-C stops): make bench" in text
    assert load(bare.top).benchmark.command == "sh bench.sh"


def test_of_a_command_that_waits_the_time_on_the_clock_counts(bare):
    bare.loopty("init", "--unproven", "--command", "sleep 1", "--write", "src/**", "--yes")
    assert load(bare.top).benchmark.score_key == "wall_seconds"
    assert "waits most of the time" in (bare.top / "loopty.toml").read_text()


def test_a_proposed_gate_that_does_not_pass_is_left_out_with_the_reason(bare):
    bare.write("src/solve.py", "x = 5\n")
    bare.write("tests/test_solve.py", "def test_x():\n    assert 1 == 2\n")
    done = bare.loopty("init", "--unproven", "--yes")
    assert load(bare.top).gates == ()
    assert "does not pass on the files as they are" in (bare.top / "loopty.toml").read_text()
    assert "no gate tests" in " ".join(done.stderr.split())


def test_a_benchmark_that_fails_gives_way_to_the_next_that_was_found(bare):
    bare.write("Makefile", "bench:\n\texit 3\n")
    done = bare.loopty("init", "--unproven", "--yes", "--write", "src/**")
    assert load(bare.top).benchmark.command == "sh bench.sh"
    assert "trying the next that was found" in " ".join(done.stderr.split())


def test_a_benchmark_without_a_score_is_timed_only_after_a_yes(bare):
    bare.write("work.sh", "sleep 0.2\n")
    bare.loopty("init", "--unproven", "--command", "sh work.sh", "--write", "src/**", code=1)
    done = bare.loopty("init", "--unproven", "--command", "sh work.sh", "--write", "src/**", "--force", "--yes")
    assert load(bare.top).objective.direction == "min"
    assert "lower is better" in " ".join(done.stderr.split())


def test_the_output_of_a_tool_is_read_and_the_tool_says_what_is_better(bare):
    bare.write("work.sh", "echo 'ours x 17,189 ops/sec ±1.43% (83 runs sampled)'; echo 'The fastest is ours'\n")
    done = bare.loopty("init", "--unproven", "--command", "sh work.sh", "--write", "src/**")
    task = load(bare.top)
    assert (task.benchmark.result, task.objective.direction) == ("benchmark-js", "min")
    assert "lower is better (the benchmark says so)" in " ".join(done.stderr.split())


def test_of_a_package_and_its_rivals_the_time_of_the_package_counts(bare):
    bare.write("package.json", '{"name": "@me/ours"}')
    bare.write(
        "work.sh", "echo 'ours x 1,000 ops/sec ±1.4% (83 runs sampled)'; echo 'theirs x 10 ops/sec ±1% (9 runs'\n"
    )
    bare.loopty("init", "--unproven", "--command", "sh work.sh", "--write", "src/**")
    assert load(bare.top).benchmark.rows == ("*ours*",)
    assert "rivals" in (bare.top / "loopty.toml").read_text()


def test_what_was_changed_for_a_gate_that_is_left_out_is_changed_back(bare):
    bare.write("src/solve.py", "x = 5\n")
    bare.write("tests/test_solve.py", "import os\n\n\ndef test_x():\n    os.mkdir('out')\n    assert 1 == 2\n")
    bare.loopty("init", "--unproven", "--yes")
    assert (load(bare.top).gates, load(bare.top).benchmark.scratch) == ((), ())


def test_parameters_need_no_files(bare):
    bare.write("bench.sh", 'grep -o "[0-9.]*}" "$LOOPTY_PARAMS" | tr -d "}"\n')
    bare.loopty(
        "init", "--unproven", "--command", "sh bench.sh", "--param", "lr=float:1e-4:1:log", "--metric", "score"
    )
    task = load(bare.top)
    assert task.access.write == ()
    assert task.space.parameters["lr"].log
    assert task.proposer.kind in ("tpe", "random")
    assert [metric.name for metric in task.objective.metrics] == ["score"]


def test_a_glob_that_matches_nothing_is_refused_with_near_ones(bare):
    output = bare.loopty("init", "--unproven", "--command", "true", "--write", "scr/x.txt", code=2).stderr
    assert "'scr/x.txt' matches no file of the repository: did you mean src/x.txt" in output
    assert not (bare.top / "loopty.toml").exists()


def test_without_a_terminal_it_names_the_missing_option(bare):
    assert bare.loopty("init", "--unproven", "--command", "true", code=2).stderr.startswith(
        "loopty: --write is missing"
    )


def test_outside_a_repository_it_says_so_in_one_line(place, tmp_path):
    elsewhere = type(place)(tmp_path / "elsewhere")
    elsewhere.top.mkdir()
    output = elsewhere.loopty("init", "--unproven", *FLAGS, code=2).stderr
    assert "git init" in output
    assert output.count("\n") == 1


def test_without_a_commit_it_says_so_in_one_line_and_writes_nothing(place):
    output = place.loopty("init", "--unproven", *FLAGS, code=2).stderr
    assert "commit once" in output
    assert output.count("\n") == 1
    assert [path.name for path in place.top.iterdir()] == [".git"]


def test_ctrl_c_while_it_plants_leaves_no_task(bare):
    bare.write("src/solve.py", "def f():\n    return 1\n")
    bare.write("bench.sh", "cat src/*.py >> /dev/null; grep -q planted src/solve.py && sleep 60; echo score: 1\n")
    bare.commit()
    process = bare.start("init", *FLAGS)
    said = ""
    while "planting" not in said:
        said = process.stderr.readline()
        assert said, "it ended before"
    time.sleep(1.5)
    process.send_signal(signal.SIGINT)
    _, rest = process.communicate(timeout=30)
    assert process.returncode == 130, rest
    assert not (bare.top / "loopty.toml").exists()


def test_a_skeleton_is_not_written_through_a_link(bare):
    bare.write("src/solve.py", "def f():\n    return 1\n")
    bare.commit()
    elsewhere = bare.top.parent / "elsewhere"
    (bare.top / "loopty_bench.py").symlink_to(elsewhere)
    bare.loopty("init", "--skeleton")
    assert not elsewhere.exists()
    assert not (bare.top / "loopty_bench.py").is_symlink()
