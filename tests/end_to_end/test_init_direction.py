"""`loopty init` says which number is the score and which values are better, and refuses what looks like a time."""

import json

import pytest

from loopty.taskfile.read import load

from .terminal import answered

SECONDS = """\
import json, os, random, time
started = time.perf_counter()
sum(i * i for i in range(random.randrange(1_000_000, 8_000_000)))
result = {"score": time.perf_counter() - started}
print("score:", result["score"])
"""
STEADY = SECONDS.replace("random.randrange(1_000_000, 8_000_000)", "1_500_000")


@pytest.fixture
def timed(place):
    """A repository whose benchmark prints seconds and calls them a score."""
    place.write("bench.py", SECONDS)
    place.write("solve.py", "x = 5\n")
    place.commit()
    return place


def test_a_score_that_grows_with_the_duration_of_the_runs_is_refused_and_nothing_is_written(timed):
    done = timed.loopty("init", "--yes", code=1)
    text = " ".join(done.stderr.split())
    assert "as a time does: of a time lower is better, and of a score higher" in text
    assert "nothing was written: say --direction max, or loopty init --yes" in text
    assert text.endswith("--direction min")
    assert not (timed.top / "loopty.toml").exists()
    assert json.loads(timed.loopty("init", "--yes", "--json", code=1).stdout)["ok"] is False
    timed.loopty("init", "--yes", "--direction", "min")
    assert load(timed.top).objective.direction == "min"


def test_a_steady_time_is_known_by_a_run_that_is_slowed_down(timed):
    timed.write("bench.py", STEADY)
    text = " ".join(timed.loopty("init", "--yes", code=1).stderr.split())
    assert "as a time does" in text


def test_a_former_task_file_stays_as_it_was(timed):
    timed.write("loopty.toml", "# mine\n")
    timed.loopty("init", "--yes", "--force", code=1)
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
    text = " ".join(place.loopty("init", "--yes").stderr.split())
    task = load(place.top)
    assert (task.benchmark.score_key, task.objective.direction) == (key, direction)
    assert "lower is better" if direction == "min" else "higher is better" in text


def test_of_a_number_whose_name_says_nothing_the_direction_is_said_to_be_assumed(place):
    place.write("bench.sh", "echo sum_radii: 2.5\n")
    place.write("solve.py", "x = 5\n")
    place.commit()
    text = " ".join(place.loopty("init", "--yes").stderr.split())
    assert (
        "score: sum_radii 2.5, higher is better (assumed, because sum_radii does not say it; if lower is" in text
    )


def test_columns_whose_names_say_it_are_lower_is_better(place):
    row = "step,loss,accuracy\\n1,0.5,0.25\\n"
    place.write("bench.sh", f"printf '{row}' > \"$LOOPTY_METRICS_CSV\"\n")
    place.write("solve.py", "x = 5\n")
    place.commit()
    place.loopty("init", "--yes")
    assert [(one.name, one.direction) for one in load(place.top).objective.metrics] == [
        ("loss", "min"),
        ("accuracy", "max"),
    ]


def test_on_a_terminal_it_is_asked_and_lower_is_proposed(timed):
    code, screen = answered(timed, "python3 bench.py", "solve.py", "faster", "3", "")
    assert code == 0, screen
    assert "as a time does" in screen
    assert "Is a higher or a lower score better? (max, min) [min]" in screen
    assert load(timed.top).objective.direction == "min"
    assert "lower is better (you said so)" in " ".join(screen.split())
