"""`loopty init` says which number is the score and which values are better, and refuses what looks like a time."""

import json

import pytest

from loopty.taskfile.read import load

from .terminal import answered

SECONDS = """\
import time
import solve
before = time.perf_counter()
solve.work()
print("score:", time.perf_counter() - before)
"""
SOLVE = """\
import time

def work():
    time.sleep(0.05)
    return sum(range(10))
"""
TESTS = "import solve\n\n\ndef test_work():\n    assert solve.work() == 45\n"


@pytest.fixture
def timed(place):
    """A repository whose benchmark prints seconds and calls them a score."""
    place.write("bench.py", SECONDS)
    place.write("solve.py", SOLVE)
    place.write("test_solve.py", TESTS)
    place.commit()
    return place


def test_a_score_that_grows_with_a_planted_delay_is_a_time(timed):
    text = " ".join(timed.loopty("init", "--yes").stderr.split())
    assert "lower is better (it went from" in text
    assert "of what is measured" in text
    assert load(timed.top).objective.direction == "min"


def test_a_direction_that_the_delay_contradicts_is_refused_and_nothing_is_written(timed):
    text = " ".join(timed.loopty("init", "--yes", "--direction", "max", code=1).stderr.split())
    assert "so min is better, and not max" in text
    assert "nothing was written" in text
    assert not (timed.top / "loopty.toml").exists()


def test_a_score_that_is_about_something_else_leaves_the_former_file_as_it_was(timed):
    timed.write("bench.py", SECONDS.replace("solve.work()", "time.sleep(0.05)").replace("score", "seconds"))
    timed.write("loopty.toml", "# mine\n")
    (timed.top / "test_solve.py").unlink()
    timed.commit()
    answer = json.loads(timed.loopty("init", "--yes", "--force", "--json", code=1).stdout)
    assert answer["ok"] is False
    assert "11 times as slow, seconds stayed the same" in answer["reason"]
    assert (timed.top / "loopty.toml").read_text() == "# mine\n"


@pytest.mark.parametrize(
    ("lines", "key", "direction"),
    [
        ('{"sum_radii": 2.5, "eval_time": 0.1, "combined_score": 0.9}', "", "max"),
        ('{\n  "n": 3,\n  "accuracy": 0.5\n}', "accuracy", "max"),
        ("accuracy: 0.5\nloss: 0.1\nsteps: 50", "accuracy", "max"),
        ("ops_per_sec: 500\ndone", "ops_per_sec", "max"),
        ("parsed 22 KB: 0.5 ms", "parsed 22 KB", "min"),
        ("parsed 22 KB: 530.5 MB/s", "parsed 22 KB", "max"),
        ("0.25 s", "", "min"),
        ("latency_ms: 3.5", "latency_ms", "min"),
        ("combined_score: 3.5\nseconds: 2", "combined_score", "max"),
    ],
)
def test_the_number_and_its_direction_follow_from_the_names(place, lines, key, direction):
    place.write("bench.sh", f"cat <<'END'\n{lines}\nEND\n")
    place.write("solve.py", "x = 5\n")
    place.commit()
    text = " ".join(place.loopty("init", "--unproven", "--yes").stderr.split())
    task = load(place.top)
    assert (task.benchmark.score_key, task.objective.direction) == (key, direction)
    assert "lower is better" if direction == "min" else "higher is better" in text


def test_of_a_number_whose_name_says_nothing_the_direction_is_said_to_be_assumed(place):
    place.write("bench.sh", "echo sum_radii: 2.5\n")
    place.write("solve.py", "x = 5\n")
    place.commit()
    text = " ".join(place.loopty("init", "--unproven", "--yes").stderr.split())
    assert (
        "score: sum_radii 2.5, higher is better (assumed, because sum_radii does not say it; if lower is" in text
    )


def test_columns_whose_names_say_it_are_lower_is_better(place):
    row = "step,loss,accuracy\\n1,0.5,0.25\\n"
    place.write("bench.sh", f"printf '{row}' > \"$LOOPTY_METRICS_CSV\"\n")
    place.write("solve.py", "x = 5\n")
    place.commit()
    place.loopty("init", "--unproven", "--yes")
    assert [(one.name, one.direction) for one in load(place.top).objective.metrics] == [
        ("loss", "min"),
        ("accuracy", "max"),
    ]


def test_on_a_terminal_an_unproven_task_is_written_after_a_yes(timed):
    timed.write("bench.py", SECONDS.replace("solve.work()", "time.sleep(0.05)").replace("score", "seconds"))
    code, screen = answered(timed, "python3 bench.py", "solve.py", "faster", "-", "3", "y")
    assert code == 0, screen
    assert "Use this task all the same? [y/N]" in screen
    assert load(timed.top).objective.direction == "min"
