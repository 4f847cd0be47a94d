"""What a stranger's repository or artifact brings reaches no file of the user, and is not taken for the record."""

import hashlib
import json
import os
import shutil
import sqlite3

import pytest
from click.testing import CliRunner

from loopty.cli import report
from loopty.cli import report as status

from .conftest import CODE_TASK, Place
from .serving import table

TRACES = """\
echo '{"task_id": "a", "summary": "theirs"}' > "$EVO_TRACES_DIR/task_a.json"
echo '{"score": 1}' > "$EVO_RESULT_PATH"
"""


@pytest.fixture
def mine(tmp_path):
    """The user's home: a file that a shell would run, and a folder of letters."""
    home = tmp_path / "home"
    home.mkdir()
    (home / "profile").write_text("mine")
    (home / "letters").mkdir()
    (home / "letters/one").write_text("dear")
    return home


@pytest.fixture
def stranger(place):
    """A repository with a task whose benchmark writes a trace."""
    place.write("bench.sh", TRACES)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=2))
    place.commit()
    return place


def link(path, target):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.symlink_to(target)


def unchanged(home) -> bool:
    files = {str(path.relative_to(home)): path.read_text() for path in home.rglob("*") if path.is_file()}
    return files == {"profile": "mine", "letters/one": "dear"}


LINKS = {
    "a trace": (".loopty/nodes/1/traces/task_a.json", "profile"),
    "a node's folder": (".loopty/nodes/1", "letters"),
    "the folder of trials": (".loopty/trials", "letters"),
    "the folder of drafts": (".loopty/drafts", "letters"),
    "all of it": (".loopty", "letters"),
}


@pytest.mark.parametrize("kind", LINKS)
def test_a_clone_that_brings_links_into_loopty_s_folder_is_refused(stranger, mine, tmp_path, kind):
    name, target = LINKS[kind]
    link(stranger.top / name, mine / target)
    stranger.git("add", "--force", "--all")
    stranger.commit("a trap")
    stranger.git("clone", "-q", str(stranger.top), str(tmp_path / "clone"))
    clone = Place(tmp_path / "clone")
    for verb in (["run", "1"], ["optimize"], ["new", "--parent", "1"], ["run", "1", "--check"]):
        output = clone.loopty(*verb, code=2).stderr
        assert output.startswith(f"loopty: the repository tracks '{name}'")
        assert "git rm -r --cached .loopty" in output
        assert output.count("\n") == 1
    assert unchanged(mine)
    assert not clone.state.exists()


@pytest.mark.parametrize("name", [".LOOPTY/x", ".Loopty/nodes/1", ".lo\u200copty/x", "\ufeff.loopty/x", ".loopty"])
def test_a_name_that_another_file_system_takes_for_loopty_s_folder_is_refused(stranger, name):
    stranger.write(name, "x")
    stranger.git("add", "--force", "--all")
    assert "the repository tracks" in stranger.loopty("run", "1", code=2).stderr


def test_a_folder_with_a_similar_name_is_the_user_s_own(stranger):
    for name in (".loopty2/x", "loopty/x", "src/.loopty/x", ".lööpty/x"):
        stranger.write(name, "x")
    stranger.commit()
    stranger.loopty("run", "1")


@pytest.mark.parametrize("kind", LINKS)
def test_links_that_are_not_tracked_lead_nowhere_either(stranger, mine, kind):
    name, target = LINKS[kind]
    link(stranger.top / name, mine / target)
    stranger.loopty("run", "1", code=None)
    stranger.loopty("new", "--parent", "1", code=None)
    assert unchanged(mine)


@pytest.mark.parametrize("name", ["trials", "exports", "nodes", "nodes/1", "nodes/1/traces", "seals", "owners"])
def test_links_in_the_state_lead_nowhere_either(stranger, mine, name):
    link(stranger.state / name, mine / "letters")
    output = stranger.loopty("run", "1", code=2).stderr
    assert f"loopty: {stranger.state / name} is a link or " in output
    assert "move it away" in output
    assert unchanged(mine)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give files away")
def test_a_state_that_belongs_to_another_user_is_refused(stranger):
    stranger.loopty("run", "1")
    os.chown(stranger.state, 4711, 4711)
    for verb in ("status", "optimize"):
        assert "belongs to another user" in stranger.loopty(verb, code=2).stderr


def test_a_ledger_in_the_working_tree_is_not_used(stranger, tmp_path):
    stranger.loopty("run", "1")
    stranger.git("clone", "-q", str(stranger.top), str(tmp_path / "clone"))
    clone = Place(tmp_path / "clone")
    (clone.top / ".loopty").mkdir()
    shutil.copy(stranger.state / "ledger.sqlite", clone.top / ".loopty/ledger.sqlite")
    for verb in ("status", "report", "tree", "apply"):
        output = clone.loopty(verb, code=2).stderr
        assert "nothing has run here yet" in output
        assert ".loopty/ledger.sqlite is not used" in output
        assert output.count("\n") == 1
    output = clone.loopty("optimize", "--quiet", code=None).stderr
    assert output.count(".loopty/ledger.sqlite is not used") == 1


def test_an_artifact_with_links_in_loopty_s_folder_is_refused(stranger, mine, tmp_path):
    link(stranger.top / ".loopty/nodes/1/traces/task_a.json", mine / "profile")
    link(stranger.top / ".loopty/trials", mine / "letters")
    stranger.git("add", "--force", "--all")
    trap = stranger.git("write-tree").strip()
    stranger.git("rm", "-r", "-q", "--cached", ".loopty")
    shutil.rmtree(stranger.top / ".loopty")
    stranger.loopty("run", "1")
    artifact = repack(stranger, trap, tmp_path)
    assert "the repository tracks '.loopty/nodes/1/traces/task_a.json'" in (
        stranger.loopty("replay", str(artifact), code=2).stderr
    )
    assert unchanged(mine)


MODELS = {
    "an address": {"provider": "openai", "model": "m", "url": "http://127.0.0.1:9/v1"},
    "a provider": {"provider": "anthropic", "model": "m"},
}


@pytest.mark.parametrize("kind", MODELS)
def test_an_artifact_chooses_no_model_whatever_the_user_trusts(stranger, tmp_path, kind):
    stranger.loopty("run", "1")
    task, models = stranger.top / "loopty.toml", table("models.near", **MODELS[kind])
    task.write_text(task.read_text() + models + table("roles.user", model="near", tokens=1000))
    stranger.git("add", "loopty.toml")
    artifact = repack(stranger, stranger.git("write-tree").strip(), tmp_path)
    for trust in ((), ("--trust",)):
        output = stranger.loopty("replay", str(artifact), *trust, code=2).stderr
        assert "(models.near), and a replay uses only models that you have defined" in output


def repack(place, tree, tmp_path):
    """The artifact of node 1 with another tree in place of its own."""
    from loopty.git.repository import Repository
    from loopty.kit.records import replace
    from loopty.kit.safe_folder import SafeFolder
    from loopty.workspaces.artifact import open_artifact, pack_artifact
    from loopty.workspaces.node_folders import NodeFolder

    place.loopty("export", "node", "1", "--to", str(tmp_path / "honest"))
    commit = place.git("commit-tree", tree, "-m", "a trap").strip()
    with open_artifact(tmp_path / "honest") as artifact:
        manifest = replace(artifact.manifest, tree=tree, baseline_tree=tree, commit=commit, baseline_commit=commit)
        task = (artifact.folder / "loopty.toml").read_bytes()
    pack_artifact(
        Repository.open(place.top), manifest, task, NodeFolder(SafeFolder(tmp_path), {}), tmp_path / "trap"
    )
    return tmp_path / "trap"


def test_copies_in_the_working_tree_are_never_read_back(stranger):
    stranger.loopty("run", "1")
    shutil.rmtree(stranger.top / ".loopty/nodes")
    stranger.write(".loopty/nodes/1/result.json", '{"score": 99}')
    assert json.loads(stranger.loopty("show", "1", "--json").stdout)["outcome"]["metrics"]["score"] == 1
    stranger.loopty("export", "node", "1")
    (artifact,) = (stranger.state / "artifacts").iterdir()
    shutil.unpack_archive(artifact, stranger.top.parent / "unpacked")
    (result,) = (stranger.top.parent / "unpacked").rglob("result.json")
    assert json.loads(result.read_text()) == {"score": 1}


def test_all_working_trees_of_a_repository_share_one_state(stranger):
    stranger.loopty("run", "1")
    stranger.git("worktree", "add", "-q", str(stranger.top.with_name("other")))
    other = Place(stranger.top.with_name("other"))
    assert other.json("best") == stranger.json("best")
    made = other.json("new", "--parent", "1")
    assert (other.top / made["workspace"]).is_relative_to(other.top / ".loopty/drafts")
    assert list(stranger.history().ids) == ["1", made["node"]]


def test_the_user_can_choose_another_place_for_the_state(stranger, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPTY_STATE_DIR", str(tmp_path / "states"))
    stranger.loopty("run", "1")
    (state,) = (tmp_path / "states").iterdir()
    assert state.name.startswith("repo-")
    assert (state / "ledger.sqlite").exists()
    assert not stranger.state.exists()
    assert stranger.json("best")
    monkeypatch.setenv("LOOPTY_STATE_DIR", "states")
    assert "absolute path" in stranger.loopty("status", code=2).stderr


FORGED = {
    "commit": "--output={}",
    "tree": "-p",
    "id": "../../../x",
    "edits": ["../../etc/passwd"],
}


@pytest.mark.parametrize("name", FORGED)
def test_a_record_with_a_name_that_git_or_loopty_never_made_is_refused(stranger, tmp_path, name):
    stranger.loopty("run", "1")
    made = stranger.json("new", "--parent", "1")["node"]
    value = FORGED[name].format(tmp_path / "written") if name == "commit" else FORGED[name]
    with sqlite3.connect(stranger.state / "ledger.sqlite") as db:
        body = json.loads(db.execute("SELECT body FROM nodes WHERE id = ?", (made,)).fetchone()[0])
        db.execute("UPDATE nodes SET body = ? WHERE id = ?", (json.dumps({**body, name: value}), made))
    for verb in ("diff", "show", "apply", "run"):
        output = stranger.loopty(verb, made, code=2).stderr
        assert "changed by hand" in output
        assert output.count("\n") == 1
    assert not (tmp_path / "written").exists()


def test_an_artifact_with_such_a_name_is_refused(stranger, tmp_path):
    stranger.loopty("run", "1")
    stranger.loopty("export", "node", "1", "--to", str(tmp_path / "winner"))
    manifest = tmp_path / "winner/manifest.json"
    data = json.loads(manifest.read_text())
    manifest.write_text(json.dumps({**data, "commit": "--output=x"}))
    sums = sorted(path for path in (tmp_path / "winner").iterdir() if path.name != "SHA256SUMS")
    lines = (f"{hashlib.sha256(path.read_bytes()).hexdigest()}  {path.name}\n" for path in sums)
    (tmp_path / "winner/SHA256SUMS").write_text("".join(lines))
    assert "changed by hand" in stranger.loopty("replay", str(tmp_path / "winner"), code=2).stderr


def test_a_verdict_that_was_edited_into_the_ledger_is_named(code_place):
    code_place.loopty("run", "1")
    made = code_place.json("new", "--parent", "1")
    (code_place.top / made["workspace"] / "src/x.txt").write_text("4\n")
    code_place.loopty("run", made["node"], code=None)
    for verb in ("status", "report"):
        assert "changed by hand" not in code_place.loopty(verb).stderr
    with sqlite3.connect(code_place.state / "ledger.sqlite") as db:
        db.execute("UPDATE nodes SET body = json_set(body, '$.verdict', 'kept') WHERE id = ?", (made["node"],))
    for verb in (["status"], ["report"], ["apply", made["node"]]):
        output = code_place.loopty(*verb).stderr
        assert f"warning: the ledger was changed by hand (the record of node {made['node']} was changed)" in output
    for verb in ("status", "report"):
        assert "changed by hand" in code_place.json(verb)["flaw"]


def test_status_on_a_long_record_notices_an_edit_and_says_how_much_it_checked(code_place, monkeypatch):
    code_place.loopty("run", "1")
    monkeypatch.setattr(status, "_CHECKED", 2)
    status_verb = status.status_verb
    monkeypatch.chdir(code_place.top)
    output = CliRunner().invoke(status_verb, []).stderr
    assert "what is shown here, every node and the newest 2 of " in output
    found = json.loads(CliRunner().invoke(status_verb, ["--json"]).stdout)
    assert (found["checked_events"], found["checked_nodes"]) == (2, 1)
    with sqlite3.connect(code_place.state / "ledger.sqlite") as db:
        db.execute("UPDATE nodes SET body = json_set(body, '$.reason', 'x') WHERE id = '1'")
    assert "the record of node 1 was changed" in CliRunner().invoke(status_verb, []).stderr


def test_report_on_a_long_record_checks_what_it_shows_and_on_request_everything(code_place, monkeypatch):
    code_place.loopty("run", "1")
    monkeypatch.setattr(report, "_CHECKED_EVENTS", 2)
    report_verb = report.report_verb
    monkeypatch.setattr(report, "_CHECKED_NODES", 0)
    monkeypatch.chdir(code_place.top)
    output = CliRunner().invoke(report_verb, []).stderr
    assert "what is shown here, the newest 0 of 1 nodes and the newest 2 of " in output
    assert "checked for edits" not in CliRunner().invoke(report_verb, ["--check"]).stderr
    with sqlite3.connect(code_place.state / "ledger.sqlite") as db:
        db.execute("UPDATE events SET body = json_set(body, '$.why', 'x') WHERE number = 1")
    assert "warning" not in CliRunner().invoke(report_verb, []).stderr
    assert "event 1 was changed" in code_place.loopty("report", "--check", code=1).stderr
    with sqlite3.connect(code_place.state / "ledger.sqlite") as db:
        db.execute("UPDATE nodes SET verdict = 'held'")
    assert "the record of node 1 was changed" in CliRunner().invoke(report_verb, []).stderr


@pytest.mark.parametrize("claim", ["the score", "the integrity"])
def test_replay_recomputes_what_a_forged_ledger_claims(code_place, claim):
    code_place.loopty("run", "1")
    assert "@1 reproduced" in code_place.loopty("replay", "1").stdout
    changes = {
        "the score": "'$.outcome.metrics.score', 99, '$.samples', json('[{\"score\": 99}]')",
        "the integrity": "'$.outcome.integrity', 'strong'",
    }
    with sqlite3.connect(code_place.state / "ledger.sqlite") as db:
        db.execute(f"UPDATE nodes SET body = json_set(body, {changes[claim]}) WHERE id = '1'")
    output = code_place.loopty("replay", "1", code=1).stdout
    assert "@1 differs" in output
    assert ("99 then, 5 now" if claim == "the score" else "integrity: strong then, weak now") in output
