"""Data goes to stdout, messages to stderr; misuse is one line and exit code 2."""

import json
import os
import shutil
import subprocess
import sys

import pytest

from loopty.domain.ids import NodeId
from loopty.domain.trial import Pool
from loopty.ledgers.sqlite import SqliteLedger
from loopty.record.nodes import NodeAdded
from loopty.record.recorder import Recorder

from .conftest import CODE_TASK, NUMBER_BENCH, Place
from .state import events

READING = (["status"], ["tree"], ["report"], ["best"], ["show", "1"], ["diff", "1"])


@pytest.fixture(scope="module")
def finished(tmp_path_factory):
    """A run that is over, for verbs that only read."""
    place = Place(tmp_path_factory.mktemp("finished"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=6) + "control = 2\n")
    place.commit()
    place.loopty("optimize", "--quiet")
    return place


@pytest.mark.parametrize("verb", READING, ids=" ".join)
def test_a_reading_verb_prints_for_people_or_json_on_stdout_alone(finished, verb):
    plain, data = finished.loopty(*verb), finished.loopty(*verb, "--json")
    assert plain.stderr == data.stderr == ""
    assert plain.stdout or verb == ["diff", "1"]
    assert "\x1b" not in plain.stdout
    lines = data.stdout.splitlines()
    assert all(isinstance(json.loads(line), dict) for line in lines)
    assert len(lines) == (9 if verb == ["tree"] else 1)


def test_the_report_says_which_parameters_matter(parameter_place):
    place = parameter_place
    task = (place.top / "loopty.toml").read_text().replace("attempts = 8", "attempts = 24")
    other = '[parameters.y]\ntype = "categorical"\nchoices = ["a", "b"]\n'
    place.write("loopty.toml", task + '[proposer]\nkind = "random"\n' + other)
    place.commit()
    place.loopty("optimize", "--quiet")
    first, second = place.json("report")["importance"]
    assert (first["name"], first["trials"], second["name"]) == ("x", 25, "y")
    assert first["share"] > 0.8
    assert "what the score depends on" in place.loopty("report").stdout


def test_reading_changes_nothing(finished):
    recorded = events(finished)
    for verb in READING:
        finished.loopty(*verb)
    assert events(finished) == recorded


def test_reading_works_from_a_directory_below(finished):
    assert Place(finished.top / "src").json("best") == finished.json("best")


def test_best_names_the_best_node(finished):
    best = finished.json("best")["id"]
    assert finished.json("show", "best")["id"] == best
    assert finished.json("diff", "best", "--baseline")["against"] == "1"
    name, score = finished.loopty("best").stdout.split()
    assert finished.json("show", name)["id"] == finished.json("show", name.removeprefix("@"))["id"] == best
    assert f" {score}" in finished.loopty("status").stdout, "with the digits of the other verbs"


def test_best_with_top_lists_that_many_nodes(finished):
    ranked = [json.loads(line) for line in finished.loopty("best", "--top", "2", "--json").stdout.splitlines()]
    assert [row["rank"] for row in ranked] == [1, 2]
    for wrong in ("0", "-1", "many"):
        finished.loopty("best", "--top", wrong, code=2)


@pytest.mark.parametrize(
    ("typed", "hint"),
    [
        (["statu"], "did you mean `loopty status`?"),
        (["frobnicate"], "`loopty --help` lists the verbs"),
        (["status", "--jsn"], "--json"),
        (
            ["status", "--frobnicate"],
            "loopty status has no option --frobnicate: `loopty status --help` lists them",
        ),
        (["optimize", "--attempts", "3"], "write attempts = N under [pools] in loopty.toml"),
        (["show"], "NODE"),
        (["show", "9.9"], "there is no node 9.9: `loopty tree` lists them"),
        (["diff", "1.99"], "there is no node 1.99"),
        (["tree", "9.9", "--json"], "there is no node 9.9"),
        (["show", "1.x"], "a node is @431, its path as in 1.3.2"),
        (["show", "../1"], "is not a node id"),
        (["show", "1.0"], "is not a node id"),
        (["run", "9.9"], "there is no node 9.9"),
        (["replay", "9.9"], "there is no node 9.9"),
        (["new", "--parent", "9.9"], "there is no node 9.9"),
        (["report", "--run", "7"], "there is no run 7: there is only run 1"),
    ],
    ids=lambda value: " ".join(value) if isinstance(value, list) else "",
)
def test_misuse_is_one_line_with_a_hint(finished, typed, hint):
    done = finished.loopty(*typed, code=2)
    assert done.stdout == ""
    assert hint in done.stderr
    assert done.stderr.startswith("loopty: ")
    assert done.stderr.count("\n") == 1


def test_python_dash_m_is_the_same_command(finished):
    command = [sys.executable, "-m", "loopty", "best"]
    done = subprocess.run(command, cwd=finished.top, capture_output=True, text=True, timeout=60)
    assert (done.returncode, done.stdout) == (0, finished.loopty("best").stdout)


def test_without_a_verb_the_verbs_are_listed(finished):
    assert "optimize" in finished.loopty().stdout


@pytest.mark.parametrize("prepared", ["nothing", "a checked task"])
def test_before_anything_has_run_reading_verbs_say_so(place, prepared):
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.commit()
    if prepared == "a checked task":
        place.write("loopty.toml", CODE_TASK.format(attempts=1))
        place.loopty("run", "1", "--check")
    for verb in (*READING, ["diff", "best"], ["apply"]):
        done = place.loopty(*verb, code=2)
        assert "nothing has run here yet" in done.stderr
        assert "`loopty run`" in done.stderr
        assert (done.stdout, done.stderr.count("\n")) == ("", 1)


def test_progress_and_warnings_go_to_stderr_and_the_result_to_stdout(finished, tmp_path):
    place = Place(shutil.copytree(finished.top, tmp_path / "repo"))
    done = place.loopty("optimize", "--new-run", "--json")
    closing = json.loads(done.stdout)
    assert closing["sound"] is True
    assert "all 6 attempt trials are spent" in closing["reason"]
    assert "kept @10: the first result" in done.stderr
    quiet = place.loopty("optimize", "--new-run", "--quiet")
    assert quiet.stderr == ""
    assert "better than the baseline" in quiet.stdout.replace("\n", " ")


def test_a_closed_pipe_is_not_reported_as_an_error(finished):
    process = finished.start("tree", "--json")
    process.stdout.close()
    _, err = process.communicate(timeout=60)
    assert err == ""


def test_trials_need_no_bubblewrap_unless_the_task_requires_it(finished, tmp_path, monkeypatch):
    place = Place(shutil.copytree(finished.top, tmp_path / "repo"))
    (tmp_path / "git").symlink_to(shutil.which("git"))
    monkeypatch.setenv("PATH", str(tmp_path))
    assert place.loopty("run", "1", "--check").stdout == "score 5\n"
    place.write("loopty.toml", (place.top / "loopty.toml").read_text() + '\n[sandbox]\nkind = "bubblewrap"\n')
    output = place.loopty("run", "1", "--check", code=2).stderr
    assert "apt install bubblewrap" in output


def test_output_that_cannot_be_encoded_is_replaced(finished, tmp_path):
    place = Place(shutil.copytree(finished.top, tmp_path / "repo"))
    place.loopty("new", "--parent", "1", "-m", "ü → 😀")
    env = {**os.environ, "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0", "PYTHONIOENCODING": "ascii"}
    command = [sys.executable, "-m", "loopty.cli.main", "tree"]
    done = subprocess.run(command, cwd=place.top, env=env, capture_output=True, text=True, timeout=60)
    assert "Traceback" not in done.stderr
    assert done.returncode == 0


@pytest.fixture(scope="module")
def extreme(tmp_path_factory):
    """A run whose candidates report the largest numbers that can be compared."""
    place = Place(tmp_path_factory.mktemp("extreme"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "0.5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=6))
    place.commit()
    place.loopty("run", "1")
    for score in ("1e100", "-1e100", "5e-324"):
        made = place.json("new", "--parent", "1")
        (place.top / made["workspace"] / "src/x.txt").write_text(score)
        place.loopty("run", made["node"])
    return place


@pytest.mark.parametrize("verb", ["status", "tree", "best"])
def test_any_score_can_be_shown(extreme, verb):
    assert extreme.loopty(verb).stdout


def test_any_score_can_be_charted(extreme):
    assert extreme.loopty("report").stdout


@pytest.mark.parametrize("verb", ["report", "status"])
def test_any_score_can_be_printed_as_json(extreme, verb):
    json.loads(extreme.loopty(verb, "--json").stdout, parse_constant=pytest.fail)


def test_a_deep_node_is_found_by_its_branch_and_by_its_name(tmp_path):
    place = Place(tmp_path)
    place.git("init", "-q", "-b", "main")
    place.write("loopty.toml", CODE_TASK.format(attempts=6))
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "1\n")
    place.commit()
    place.loopty("run", "1")
    recorder = Recorder(SqliteLedger(place.state / "ledger.sqlite"), lambda: 0.0)
    root = recorder.history[NodeId("1")]
    deep = NodeId("1" + ".1" * 60 + ".7")
    lineage = deep.lineage[1:]
    recorder.record(
        lambda _: [NodeAdded(n, Pool.ATTEMPT, "hand", "a step", root.commit, root.tree) for n in lineage]
    )
    assert place.json("show", deep.branch)["id"] == deep
    for name in ("@62", "62"):
        assert place.json("show", name)["id"] == deep
    shown = place.loopty("show", "@62").stdout
    assert shown.startswith("@62  ")
    assert str(deep) in "".join(line.removeprefix("  path").strip() for line in shown.splitlines()), "whole"
    assert "…" not in place.loopty("tree").stdout.split("@62")[1]


def test_a_verb_in_a_folder_that_is_gone_says_so_in_one_line(tmp_path):
    line = f'cd "{tmp_path}"; mkdir gone; cd gone; rmdir ../gone; exec "{sys.executable}" -m loopty tool context'
    done = subprocess.run(["sh", "-c", line], capture_output=True, text=True)
    assert done.returncode == 2
    assert done.stderr == "loopty: this folder is no longer there: change to another one (`cd`), and try again\n"
