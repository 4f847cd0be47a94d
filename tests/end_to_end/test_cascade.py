"""The cascade: cheap stages stop candidates that are not worth the whole benchmark."""

import json

import pytest

TASK = """
[benchmark]
command = "sh bench.sh"
timeout_seconds = 60
{more}
[[benchmark.cascade]]
name = "quick"
command = "sh quick.sh"
timeout_seconds = 20
minimum = 0.5
[[benchmark.cascade]]
name = "half way"
command = "sh bench.sh half"
maximum = 10
[access]
write = ["src/**"]
[pools]
attempts = 5
[sandbox]
kind = "{kind}"
"""
# Both fail when an earlier stage has left anything. They start no process, so that they are fast.
EMPTY = """set -- $EVO_TRACES_DIR/*
[ -e "$1" ] && exit 9
[ -e $EVO_RESULT_PATH ] && exit 8
"""
QUICK = """read -r value < src/quick.txt
[ "$value" = crash ] && exit 3
echo "{\\"score\\": $value}" > $EVO_RESULT_PATH
: > $EVO_TRACES_DIR/task_left.json
echo $LOOPTY_CASCADE
"""
BENCH = """read -r value < src/x.txt
echo "{\\"score\\": $value}" > $EVO_RESULT_PATH
"""


@pytest.fixture
def cascade(place):
    place.write("bench.sh", EMPTY + BENCH)
    place.write("quick.sh", EMPTY + QUICK)
    place.write("src/quick.txt", "0.1\n")
    place.write("src/x.txt", "5\n")
    write_task(place)
    place.commit()
    return place


def write_task(place, kind="bubblewrap", more=""):
    place.write("loopty.toml", TASK.format(kind=kind, more=more))


def run_with(place, quick, x):
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/quick.txt").write_text(f"{quick}\n")
    (place.top / made["workspace"] / "src/x.txt").write_text(f"{x}\n")
    return json.loads(place.loopty("run", made["node"], "--json", code=None).stdout)


def names_and_values(node):
    return [(stage["name"], stage["value"]) for stage in node["outcome"]["cascade"]]


@pytest.mark.parametrize("kind", ["bubblewrap", "landlock"])
def test_a_weak_candidate_is_stopped_and_the_others_go_on(cascade, kind):
    write_task(cascade, kind)
    baseline = cascade.json("run", "1")
    assert baseline["verdict"] == "kept", "a baseline goes on whatever its value is"
    assert names_and_values(baseline) == [("quick", 0.1), ("half way", 5)]
    stopped = run_with(cascade, "0.3", "100")
    assert (stopped["outcome"]["ending"], stopped["verdict"]) == ("stopped", "rejected"), stopped
    assert stopped["outcome"]["reason"] == "stage quick: score 0.3 is below 0.5"
    assert "metrics" not in stopped["outcome"], "it is not ranked"
    assert names_and_values(stopped) == [("quick", 0.3)]
    late = run_with(cascade, "0.9", "11")
    assert late["outcome"]["reason"] == "stage half way: score 11 is above 10"
    kept = run_with(cascade, "0.9", "7")
    assert (kept["verdict"], kept["outcome"]["metrics"]) == ("kept", {"score": 7})
    assert kept["outcome"]["seconds"] > sum(stage["seconds"] for stage in kept["outcome"]["cascade"]) > 0
    assert cascade.json("best")["id"] == kept["id"]


def test_what_was_stopped_is_counted_by_stage(cascade):
    cascade.loopty("run", "1")
    stopped = run_with(cascade, "0.3", "100")
    run_with(cascade, "0.9", "7")
    status = cascade.json("status")
    (quick, half) = status["cascade"]
    assert (quick["name"], quick["trials"], quick["stopped"]) == ("quick", 3, 1)
    assert (half["name"], half["trials"], half["stopped"]) == ("half way", 2, 0)
    assert "1 stopped by a stage" in cascade.loopty("status").stdout
    assert "stage quick stopped 1 of 3 trials and took" in cascade.loopty("status").stdout
    assert "quick 0.3 in" in cascade.loopty("show", stopped["id"]).stdout
    assert "stage quick stopped 1 of 3 trials" in cascade.loopty("report").stdout.replace("\n", " ")
    folder = cascade.top / ".loopty/nodes" / stopped["id"] / "cascade-quick"
    assert (folder / "stdout.log").read_text() == "quick\n"
    assert json.loads((folder / "result.json").read_text()) == {"score": 0.3}
    assert not (folder.parent / "result.json").exists(), "the whole benchmark has not run"


def test_a_stage_that_fails_is_a_failed_trial_and_shows_its_log(cascade):
    cascade.loopty("run", "1")
    failed = run_with(cascade, "crash", "7")
    assert (failed["outcome"]["ending"], failed["verdict"]) == ("failed", "discarded")
    assert failed["outcome"]["reason"] == "stage quick: exit code 3"
    assert failed["outcome"]["log"].startswith("cascade-quick/")


def test_a_stage_that_fails_on_the_baseline_says_so(cascade):
    cascade.write("src/quick.txt", "crash\n")
    cascade.commit()
    done = cascade.loopty("run", "1", code=None)
    assert "stage quick: exit code 3" in done.stdout + done.stderr


def test_the_remedy_for_a_stage_without_a_result_does_not_change_the_benchmark(cascade):
    cascade.write("quick.sh", ":\n")
    cascade.commit()
    done = cascade.loopty("run", "1", "--check", code=1)
    assert "stage quick: the result file was not written" in done.stderr
    assert "remedy" not in done.stderr


def test_a_candidate_cannot_change_what_a_stage_runs(cascade):
    cascade.loopty("run", "1")
    made = cascade.json("new", "--parent", "1")
    (cascade.top / made["workspace"] / "quick.sh").write_text("echo 1 > $EVO_RESULT_PATH")
    assert "quick.sh" in cascade.loopty("run", made["node"], code=2).stderr


def test_a_changed_stage_starts_a_new_run(cascade):
    cascade.loopty("run", "1")
    cascade.write("loopty.toml", TASK.format(kind="bubblewrap", more="").replace("0.5", "0.6"))
    done = cascade.loopty("optimize", code=None)
    assert "benchmark" in done.stdout + done.stderr
    assert cascade.json("status")["run"] == 2


def test_a_replay_checks_the_stages_too(cascade):
    cascade.loopty("run", "1")
    stopped = run_with(cascade, "0.3", "100")
    kept = run_with(cascade, "0.9", "7")
    for node in (stopped["id"], kept["id"]):
        assert cascade.json("replay", node)["same"]
    assert list(cascade.state.glob("nodes/*/replay-*/cascade-half_way-*/result.json"))


@pytest.mark.parametrize(
    ("old", "new", "fault"),
    [
        ("minimum = 0.5", "", "stops no candidate"),
        ("minimum = 0.5", "minimum = 2\nmaximum = 1", "lets no candidate go on"),
        ('name = "half way"', 'name = "quick"', "two stages"),
        ('command = "sh quick.sh"', 'command = ""', "must not be empty"),
        ("minimum = 0.5", "threshold = 0.5", "not a known key"),
    ],
)
def test_faults_are_named(cascade, old, new, fault):
    task = TASK.format(kind="bubblewrap", more="")
    (cascade.top / "loopty.toml").write_text(task.replace(old, new, 1))
    assert fault in cascade.loopty("run", "1", code=2).stderr


EVALUATOR = """
from openevolve.evaluation_result import EvaluationResult
import helper

def evaluate_stage1(path):
    print("noise")
    return {"combined_score": float(open(path).read()) / 10, "note": "text", "ok": True}

def evaluate(path):
    metrics = {"combined_score": float(open(path).read()), "size": helper.SIZE}
    return EvaluationResult(metrics=metrics, artifacts={})
"""


def test_an_evaluator_of_openevolve_runs_as_it_is(place):
    place.write("evaluator.py", EVALUATOR)
    place.write("helper.py", "SIZE = 3\n")
    place.write("src/program.txt", "6\n")
    run = "python3 -m loopty_sdk.evaluate_program evaluator.py src/program.txt"
    place.write(
        "loopty.toml",
        f"""
[benchmark]
command = "{run}"
timeout_seconds = 60
[[benchmark.cascade]]
name = "stage 1"
command = "{run} --stage 1"
minimum = 0.5
[access]
write = ["src/program.txt"]
""",
    )
    place.commit()
    baseline = place.json("run", "1")
    assert (baseline["outcome"]["metrics"]["score"], names_and_values(baseline)) == (6, [("stage 1", 0.6)])
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/program.txt").write_text("2\n")
    done = place.loopty("run", made["node"], "--json", code=1)
    assert json.loads(done.stdout)["outcome"]["reason"] == "stage stage 1: score 0.2 is below 0.5"


SEARCH = """
[benchmark]
command = "sh bench.sh 1"
timeout_seconds = 60
[[benchmark.cascade]]
name = "quick"
command = "sh bench.sh 100"
minimum = 50
[[gates]]
name = "bound"
metric = "score"
maximum = 0.9
[parameters.x]
type = "float"
low = 0.0
high = 1.0
[proposer]
kind = "grid"
points = 5
[pruner]
kind = "median"
[pools]
attempts = 5
"""
ROWS = """x=$(sed 's/.*"x": *\\([0-9.]*\\).*/\\1/' "$LOOPTY_PARAMS")
echo "$x" | awk -v k=$1 '{ print "step,score\\n1," k * $1 }' > "$LOOPTY_METRICS_CSV"
"""


def test_a_search_counts_what_its_stage_stopped_and_resumes_without_it(place):
    place.write("bench.sh", ROWS)
    place.write("loopty.toml", SEARCH)
    place.commit()
    place.loopty("optimize")
    (count,) = [count for count in place.json("status")["counts"] if count["pool"] == "attempt"]
    assert count["endings"]["stopped"] == 2, "at 0 and 0.25"
    (quick,) = place.json("status")["cascade"]
    assert (quick["trials"], quick["stopped"]) == (sum(count["endings"].values()) + 1, 2), "the baseline, too"
    place.loopty("optimize")
    assert place.json("status")["cascade"] == [quick]
