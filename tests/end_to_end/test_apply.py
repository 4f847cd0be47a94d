"""Apply a winner to a branch or to the working tree, or report why that is impossible."""

import json
import shutil

import pytest

from .conftest import CODE_TASK, ECHO_X, NUMBER_BENCH, PARAMETER_TASK, Place
from .state import user_state
from .terminal import on_terminal


@pytest.fixture(scope="module")
def measured(tmp_path_factory):
    """A repository with a better node, 1.1."""
    place = Place(tmp_path_factory.mktemp("measured"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=8))
    place.write("src/fine.txt", "\n".join("abcdefgh") + "\n")
    place.commit()
    place.loopty("run", "1")
    made = place.json("new", "--parent", "1", "-m", "six is more")
    (place.top / made["workspace"] / "src/x.txt").write_text("6\n")
    (place.top / made["workspace"] / "src/raw.bin").write_bytes(b"\0\xff\r\n")
    place.loopty("run", "1.1")
    return place


@pytest.fixture
def won(measured, tmp_path):
    return Place(shutil.copytree(measured.top, tmp_path / "repo"))


def test_on_a_terminal_a_change_that_could_reach_its_score_is_asked_about(won):
    code, output = on_terminal(won, "apply", keys=b"n\n")
    assert (code, won.git("branch", "--list", "loopty*")) == (1, "")
    assert "@2 has weak integrity: the candidate could reach the code" in " ".join(output.split())
    code, output = on_terminal(won, "apply", keys=b"y\n")
    assert "branch loopty-best-@2 holds @2" in output
    assert code == 0


def test_a_branch_has_the_whole_change_as_one_commit(won):
    done = won.loopty("apply")
    assert done.stdout == "branch loopty-best-@2 holds @2\nintegrity: weak\n"
    assert "git merge loopty-best-@2" in done.stderr
    assert won.git("rev-parse", "loopty-best-@2^{tree}").strip() == won.history()["1.1"].tree
    won.git("merge", "-q", "loopty-best-@2")
    assert (won.top / "src/x.txt").read_text() == "6\n"
    message = won.git("log", "-1", "--format=%B", "loopty-best-@2").strip()
    title, path = "score: 20.0 % better than the baseline", "From the baseline to loopty node @2:"
    assert message == f"{title}\n\n{path}\n- @2: six is more"


def test_an_existing_branch_is_moved_only_with_force(won):
    won.git("branch", "mine")
    mine = won.git("rev-parse", "mine")
    assert "--force" in won.loopty("apply", "best", "--branch", "mine", code=2).stderr
    assert won.git("rev-parse", "mine") == mine
    assert won.json("apply", "best", "--branch", "mine", "--force")["branch"] == "mine"
    assert won.git("rev-parse", "mine") != mine


@pytest.mark.parametrize("name", ["two words", "a..b", "/"])
def test_a_branch_name_that_git_refuses_is_reported_in_one_line(won, name):
    output = won.loopty("apply", "--branch", name, code=2).stderr
    assert "--branch" in output
    assert output.count("\n") == 1


def test_the_checked_out_branch_is_never_moved(won):
    before = user_state(won)
    assert "main" in won.loopty("apply", "--branch", "main", "--force", code=2).stderr
    assert user_state(won) == before


def test_a_branch_name_that_looks_like_an_option_is_refused(won):
    won.loopty("apply", "--branch=-x", code=2)


def test_a_patch_changes_only_the_working_tree(won):
    won.write("src/fine.txt", "my own change\n")
    before = user_state(won)
    assert won.loopty("apply", "1.1", "--patch").stdout == "@2 applied to the working tree\nintegrity: weak\n"
    after = user_state(won)
    assert (won.top / "src/x.txt").read_text() == "6\n"
    assert (won.top / "src/raw.bin").read_bytes() == b"\0\xff\r\n"
    assert (won.top / "src/fine.txt").read_text() == "my own change\n"
    assert after["git"] == before["git"]


def test_a_patch_that_conflicts_changes_nothing(won):
    won.write("src/x.txt", "something else\n")
    before = user_state(won)
    output = won.loopty("apply", "1.1", "--patch", code=2).stderr
    assert "does not apply" in output
    assert "src/x.txt" in output
    assert "`loopty apply @2` makes a branch" in output
    assert output.count("\n") == 1
    assert user_state(won) == before


def test_a_patch_can_be_applied_from_any_directory(won):
    inner = type(won)(won.top / "src")
    inner.loopty("apply", "--patch")
    assert (won.top / "src/x.txt").read_text() == "6\n"
    assert not (won.top / "src/src").exists()


def test_there_must_be_something_to_apply(won):
    assert "changes no file" in won.loopty("apply", "1", code=2).stderr
    made = won.json("new", "--parent", "1.1")
    assert "is a draft" in won.loopty("apply", made["node"], code=2).stderr
    assert "no node 9.9" in won.loopty("apply", "9.9", code=2).stderr


def test_the_branch_is_on_top_of_head_and_can_be_merged_without_a_committed_task_file(place):
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.commit()
    place.write("loopty.toml", CODE_TASK.format(attempts=8))
    made = place.json("new", "-m", "nine")
    (place.top / made["workspace"] / "src/x.txt").write_text("9\n")
    place.loopty("run", made["node"])
    place.loopty("apply", "best", "--branch", "winner")
    assert place.git("rev-parse", "winner^") == place.git("rev-parse", "HEAD")
    place.git("merge", "-q", "winner")
    assert (place.top / "src/x.txt").read_text() == "9\n"
    assert place.git("log", "-1", "--format=%s").strip() == "score: 80.0 % better than the baseline"


@pytest.fixture(scope="module")
def tuned(tmp_path_factory):
    """A finished run of a task with one parameter."""
    place = Place(tmp_path_factory.mktemp("tuned"))
    place.git("init", "-q", "-b", "main")
    place.write("loopty.toml", PARAMETER_TASK.format(attempts=3, command=json.dumps(ECHO_X)))
    place.commit()
    place.loopty("optimize", "--quiet")
    return place


@pytest.fixture
def parameters(tuned, tmp_path):
    return Place(shutil.copytree(tuned.top, tmp_path / "tuned"))


def test_parameters_are_written_to_the_file_that_the_task_names(parameters):
    place, best = parameters, parameters.json("best")
    place.write("loopty.toml", 'parameters_file = "conf/p.json"\n' + (place.top / "loopty.toml").read_text())
    place.write("conf/p.json", '{"other": [1], "x": 0.5}')
    name = f"@{best['handle']}"
    assert f"conf/p.json has the parameters of {name}: x " in place.loopty("apply", "best").stdout
    assert json.loads((place.top / "conf/p.json").read_text()) == {"other": [1], **best["params"]}
    written = {"node": best["id"], "handle": best["handle"], "params": best["params"]}
    assert place.json("apply") == {**written, "path": str(place.top / "conf/p.json")}


def test_parameters_without_a_file_are_printed(parameters):
    params = parameters.json("best")["params"]
    before = user_state(parameters)
    done = parameters.loopty("apply", "best")
    assert json.loads(done.stdout) == params
    assert "--to FILE" in done.stderr
    assert parameters.json("apply")["path"] is None
    assert parameters.loopty("apply", "--env").stdout == f"PARAM_X={params['x']!r}\n"
    assert user_state(parameters) == before
    parameters.loopty("apply", "--to", "mine.json")
    assert json.loads((parameters.top / "mine.json").read_text()) == params


def test_parameters_never_overwrite_what_is_no_json_object_nor_go_through_a_link(parameters, tmp_path):
    place = parameters
    place.write("list.json", "[1]")
    assert "no JSON object" in place.loopty("apply", "--to", "list.json", code=2).stderr
    assert (place.top / "list.json").read_text() == "[1]"
    (tmp_path / "mine.json").write_text("{}")
    (place.top / "link.json").symlink_to(tmp_path / "mine.json")
    assert "link" in place.loopty("apply", "--to", "link.json", code=2).stderr
    assert (tmp_path / "mine.json").read_text() == "{}"


def test_the_best_node_has_one_shape_for_code_and_parameters(parameters, won):
    code, tuned = won.json("best"), parameters.json("best")
    assert {"rank", "score", "metric", "edited", "params", "id", "commit", "outcome", "verdict"} <= set(code)
    assert list(code) == list(tuned)
    assert (code["edited"], code["params"], tuned["edited"]) == (True, {}, False)
    (row,) = map(json.loads, won.loopty("best", "--top", "1", "--json").stdout.splitlines())
    first = json.loads(won.loopty("best", "--top", "2", "--json").stdout.splitlines()[0])
    assert row == first == code


def test_where_the_control_did_better_best_and_apply_name_its_node(place):
    task = (
        PARAMETER_TASK.format(attempts=1, command=json.dumps(ECHO_X))
        + "control = 8\n[objective]\ndirection = 'min'\n"
    )
    place.write("loopty.toml", 'parameters_file = "p.json"\n' + task)
    place.commit()
    done = place.loopty("optimize")
    control = place.json("status")["control"]
    hint = f"loopty apply @{control['handle']}"
    assert "but the control found" in done.stdout
    assert f"use it: {hint}" in done.stdout
    assert hint in place.loopty("best").stderr
    assert hint in place.loopty("apply", code=None).stderr
    done = place.loopty("apply", control["node"])
    assert hint not in done.stderr
    assert json.loads((place.top / "p.json").read_text())["x"] == control["score"]
