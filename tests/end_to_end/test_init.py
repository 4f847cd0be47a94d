"""`loopty init` writes a working task file, or says what does not work."""

import os
import pty
import sys

import pytest

from loopty.taskfile.read import load

from .state import events

FLAGS = ("--command", "sh bench.sh", "--write", "src/**")


@pytest.fixture
def bare(code_place):
    """A repository with a benchmark and no task file."""
    (code_place.top / "loopty.toml").unlink()
    code_place.commit()
    return code_place


def answered(place, *answers: str) -> tuple[int, str]:
    """Exit code and output of `loopty init` on a terminal where these answers are typed."""
    process, terminal = pty.fork()
    if process == 0:
        os.chdir(place.top)
        os.execv(sys.executable, [sys.executable, "-m", "loopty.cli.main", "init"])
    screen, left = b"", list(answers)
    while True:
        try:
            seen = os.read(terminal, 4096)
        except OSError:
            break
        screen += seen
        if left and screen.endswith(b": "):
            os.write(terminal, left.pop(0).encode() + b"\n")
    os.close(terminal)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]), screen.decode()


def test_with_options_it_writes_a_commented_file_and_runs_the_benchmark(bare):
    done = bare.loopty("init", *FLAGS, "--direction", "min", "--timeout", "7", "--attempts", "3")
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


def test_the_checked_run_changes_no_state(bare):
    bare.loopty("init", *FLAGS)
    assert events(bare) == []
    assert bare.git("branch", "--list", "loopty*") == ""
    assert "nothing has run here yet" in bare.loopty("status", code=2).stderr


def test_on_a_terminal_it_asks_and_repeats_a_question_after_an_invalid_answer(bare):
    code, screen = answered(
        bare, "sh bench.sh", "src/** extra.txt", "faster", "up", "max", "soon", "20", "many", "4"
    )
    assert code == 0, screen
    assert "score 5" in screen
    task = load(bare.top)
    assert task.access.write == ("src/**", "extra.txt")
    assert (task.statement, task.benchmark.timeout_seconds, task.pools.attempts) == ("faster", 20, 4)


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
    done = bare.loopty("init", "--command", command, "--write", "src/**", "--timeout", "1", code=1)
    assert reason in done.stderr
    assert "loopty run 1 --check" in done.stderr
    assert events(bare) == []


def test_the_check_passes_after_the_benchmark_is_fixed_and_changes_no_state(bare):
    bare.loopty("init", "--command", "sh fixed.sh", "--write", "src/**", code=1)
    bare.write("fixed.sh", 'echo "{\\"score\\": 3}" > "$EVO_RESULT_PATH"\n')
    assert bare.json("run", "1", "--check")["metrics"] == {"score": 3.0}
    assert events(bare) == []
    assert bare.git("branch", "--list", "loopty*") == ""


def test_an_existing_file_is_kept_unless_forced(code_place):
    before = (code_place.top / "loopty.toml").read_text()
    assert "--force" in code_place.loopty("init", *FLAGS, code=2).stderr
    assert (code_place.top / "loopty.toml").read_text() == before
    code_place.loopty("init", *FLAGS, "--force", "--no-check")
    assert (code_place.top / "loopty.toml").read_text() != before


def test_answers_with_quotes_and_control_characters_are_stored_unchanged(bare):
    statement, command = 'say """no"""\n\\ \x1b\x7f ü', "printf '%s' \"a\\tb\" # [x]"
    bare.loopty("init", "--command", command, "--write", 'a "b"', "--statement", statement, "--no-check")
    task = load(bare.top)
    assert (task.statement, task.benchmark.command, task.access.write) == (statement, command, ('a "b"',))


@pytest.mark.parametrize(
    ("flag", "value", "word"),
    [
        ("--timeout", "0", "timeout_seconds must be above 0"),
        ("--timeout", "nan", "finite"),
        ("--attempts", "-1", "attempts must be at least 0"),
        ("--write", "../other", "relative to the repository"),
        ("--direction", "up", "max"),
    ],
)
def test_an_invalid_value_is_refused_before_anything_is_written(bare, flag, value, word):
    assert word in bare.loopty("init", *FLAGS, flag, value, code=2).stderr
    assert not (bare.top / "loopty.toml").exists()


def test_without_a_terminal_it_names_the_missing_option(bare):
    assert bare.loopty("init", "--command", "true", code=2).stderr.startswith("loopty: --write is missing")


def test_outside_a_repository_it_says_so_in_one_line(place, tmp_path):
    elsewhere = type(place)(tmp_path / "elsewhere")
    elsewhere.top.mkdir()
    output = elsewhere.loopty("init", *FLAGS, code=2).stderr
    assert "git init" in output
    assert output.count("\n") == 1


def test_without_a_commit_it_says_so_in_one_line_and_writes_nothing(place):
    output = place.loopty("init", *FLAGS, code=2).stderr
    assert "commit once" in output
    assert output.count("\n") == 1
    assert [path.name for path in place.top.iterdir()] == [".git"]
