"""A node that fails a gate is rejected, whatever its score."""

import json

from .conftest import CODE_TASK
from .state import events

GATES = """
[[gates]]
name = "small"
command = "test $(cat src/x.txt) -lt 100"

[[gates]]
name = "plausible"
metric = "score"
maximum = 50.0

[[gates]]
name = "signed"
when = "after"
command = "test ! -e src/unsigned || { echo 'it is unsigned' >&2; exit 3; }"
"""


def gated(place):
    place.write("loopty.toml", CODE_TASK.format(attempts=8) + GATES)
    place.commit()
    return place


def tried(place, code=1, **files):
    """A node with these files, run."""
    made = place.json("new", "--parent", "1")
    for name, text in files.items():
        (place.top / made["workspace"] / "src" / name.replace("_", ".")).write_text(text)
    return json.loads(place.loopty("run", made["node"], "--json", code=code).stdout)


def test_gates_reject_before_after_and_by_a_bound(code_place):
    place = gated(code_place)
    place.loopty("run", "1")
    before = tried(place, x_txt="200\n")
    assert before["verdict"] == "rejected"
    assert "gate small: exit code 1" in before["reason"]
    assert "metrics" not in before["outcome"]  # the benchmark did not run
    bound = tried(place, x_txt="60\n")
    assert bound["verdict"] == "rejected"
    assert "gate plausible: score 60 is above 50" in bound["reason"]
    after = tried(place, x_txt="40\n", unsigned="")
    assert after["verdict"] == "rejected"
    assert "gate signed: exit code 3: it is unsigned" in after["reason"]
    assert tried(place, code=0, x_txt="45\n")["verdict"] == "kept"
    assert place.json("best")["id"] == "1.4"


def test_a_baseline_that_fails_a_gate_ends_the_run_with_that_reason(code_place):
    code_place.write("src/x.txt", "200\n")
    place = gated(code_place)
    done = place.loopty("optimize", "--quiet", code=1)
    assert "gate small" in done.stdout


def test_a_gate_added_to_a_node_applies_to_its_descendants(code_place):
    place = code_place
    place.loopty("run", "1")
    place.loopty("gate", "add", "1", "--name", "even", "--command", "test $(($(cat src/x.txt) % 2)) -eq 0")
    odd = tried(place, x_txt="7\n")
    assert odd["verdict"] == "rejected"
    even = tried(place, code=0, x_txt="8\n")
    assert even["verdict"] == "kept"
    made = place.json("new", "--parent", even["id"])
    (place.top / made["workspace"] / "src/x.txt").write_text("9\n")
    assert json.loads(place.loopty("run", made["node"], "--json", code=1).stdout)["verdict"] == "rejected"


def test_gates_are_listed_with_the_place_where_they_were_added(code_place):
    place = gated(code_place)
    place.loopty("run", "1")
    place.loopty("gate", "add", "1", "--name", "fast", "--metric", "score", "--minimum", "1")
    listed = place.json("gate", "list", "1")
    assert [(row["at"], row["name"]) for row in listed] == [
        ("task", "small"),
        ("task", "plausible"),
        ("task", "signed"),
        ("1", "fast"),
    ]
    assert "1  fast: score at least 1" in place.loopty("gate", "list").stdout


def test_checking_the_gates_runs_them_and_changes_nothing(code_place):
    place = gated(code_place)
    place.loopty("run", "1")
    made = place.json("new", "--parent", "1")
    (place.top / made["workspace"] / "src/x.txt").write_text("300\n")
    before = events(place)
    output = place.loopty("gate", "check", made["node"], code=1).stdout
    assert "FAILED  gate small: exit code 1" in output
    assert "-       plausible: not measured yet" in output
    assert "ok      signed" in output
    rows = json.loads(place.loopty("gate", "check", made["node"], "--json", code=1).stdout)
    assert [row["ok"] for row in rows] == [False, None, True]
    assert events(place) == before
    assert place.loopty("gate", "check", "1").stdout.count("ok ") == 3


def test_a_gate_that_hangs_rejects_the_node(code_place):
    slow = '\n[[gates]]\nname = "slow"\ncommand = "sleep 60"\ntimeout_seconds = 0.3\n'
    code_place.write("loopty.toml", CODE_TASK.format(attempts=1) + slow)
    code_place.commit()
    assert "gate slow" in code_place.loopty("run", "1", code=1).stdout


def test_a_gate_needs_a_new_name_and_a_condition(code_place):
    place = gated(code_place)
    place.loopty("run", "1")
    add = ("gate", "add", "1", "--name")
    assert "already" in place.loopty(*add, "small", "--command", "true", code=2).stderr
    place.loopty(*add, "mine", "--command", "true")
    assert "has a gate mine" in place.loopty(*add, "mine", "--command", "true", code=2).stderr
    assert "--metric" in place.loopty(*add, "empty", code=2).stderr
    assert "bound" in place.loopty(*add, "half", "--metric", "score", code=2).stderr


def test_a_change_to_the_gates_starts_a_new_run(code_place):
    code_place.loopty("run", "1")
    gated(code_place)
    done = code_place.loopty("optimize", "--quiet")
    assert "(gates)" in done.stderr
    assert "run 2" in done.stderr
