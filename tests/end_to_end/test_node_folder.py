"""Every node, even a failed or discarded one, has a branch with the commit that ran, and a folder."""

import json

import pytest

BENCH = """\
import json, os, sys
from loopty_sdk import Run
x = open("src/x.txt").read()
print("measuring", x.strip())
with Run() as run:
    run.report(1, height=float(x))
    run.log_task("only", float(x))
"""
CONTENT = {"kept": "6\n", "discarded": "4\n", "failed": "oops\n"}


@pytest.fixture(scope="module")
def made(tmp_path_factory):
    """A node of every verdict: 1.1 is kept, 1.2 discarded, 1.3 failed."""
    from .conftest import CODE_TASK, Place

    place = Place(tmp_path_factory.mktemp("made"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.py", BENCH)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=8).replace("sh bench.sh", "python3 bench.py"))
    place.commit()
    place.loopty("run", "1")
    for name, content in CONTENT.items():
        new = place.json("new", "--parent", "1", "-m", name)
        (place.top / new["workspace"] / "src/x.txt").write_text(content)
        place.loopty("run", new["node"], code=None)
    return place


@pytest.mark.parametrize(("node", "name"), [("1.1", "kept"), ("1.2", "discarded"), ("1.3", "failed")])
def test_the_folder_is_complete(made, node, name):
    folder = made.top / ".loopty/nodes" / node
    made.loopty("show", node)
    assert name in (folder / "description.md").read_text()
    assert f"+{CONTENT[name]}" in (folder / "change.diff").read_text()
    assert not (folder / "params.json").exists(), "it has no parameters"
    assert (folder / "stdout.log").read_text() == f"measuring {CONTENT[name]}"
    analysis = (folder / "analysis.md").read_text()
    assert made.history()[node].reason in analysis
    if name == "failed":
        assert "ValueError" in (folder / "stderr.log").read_text()
        assert "ValueError" in made.loopty("show", node).stdout
        return
    assert json.loads((folder / "result.json").read_text())["score"] == float(CONTENT[name])
    assert json.loads((folder / "traces/task_only.json").read_text())["experiment_id"] == node
    assert (folder / "metrics.csv").read_text().splitlines()[0].startswith("iteration")


@pytest.mark.parametrize("node", ["1", "1.1", "1.2", "1.3"])
def test_git_keeps_the_exact_commit_that_ran(made, node):
    found = made.history()[node]
    assert found.commit in made.held_commits()
    assert made.git("rev-parse", f"{found.commit}^{{tree}}").strip() == found.tree
    if node != "1":
        assert made.git("show", f"{found.commit}:src/x.txt") == CONTENT[found.summary]
        assert made.git("rev-parse", f"{found.commit}^").strip() == made.commit_of("1")


def test_proposed_nodes_are_kept_and_have_a_folder_too(made):
    made.loopty("optimize", "--quiet", code=None)
    history, held = made.history(), made.held_commits()
    for node in history.ids:
        assert history[node].commit in held
        made.loopty("show", node)
        folder = made.top / ".loopty/nodes" / node
        assert {"description.md", "analysis.md"} <= {p.name for p in folder.iterdir()}
    assert made.git("for-each-ref", "--format=%(refname)").split() == ["refs/heads/main", "refs/loopty/runs/1"]


def test_a_node_says_how_many_rows_its_curve_leaves_out(code_place):
    rows = 'awk \'BEGIN { print "i,a"; for (i = 0; i < 5000; i++) print i "," i }\''
    code_place.write("bench.sh", f'{rows} > "$LOOPTY_METRICS_CSV"\n')
    code_place.commit()
    code_place.loopty("run", "1")
    outcome = code_place.json("show", "1")["outcome"]
    assert outcome["metrics"] == {"a": 4999}
    left_out = outcome["rows_left_out"]
    assert 1_000 < left_out < 5_000
    assert f"{left_out:,} rows left out" in code_place.loopty("show", "1").stdout
    assert len((code_place.top / ".loopty/nodes/1/metrics.csv").read_text().splitlines()) == 5001


def test_a_node_with_new_parameters_has_a_folder_whatever_its_verdict(parameter_place):
    parameter_place.loopty("optimize", "--quiet")
    history = parameter_place.history()
    nodes = [history[node] for node in history.ids if node.parent]
    assert {node.verdict for node in nodes} >= {"kept", "discarded"}
    for node in nodes:
        parameter_place.loopty("show", str(node.id))
        folder = parameter_place.top / ".loopty/nodes" / str(node.id)
        assert json.loads((folder / "params.json").read_text()) == dict(node.params)
        assert node.summary in (folder / "description.md").read_text()
        assert json.loads((folder / "result.json").read_text())
        assert node.reason in (folder / "analysis.md").read_text()
        assert not (folder / "stdout.log").exists(), "nothing was printed"
