"""`loopty evolve PROGRAM EVALUATOR`: two files, no repository, one line."""

import json

import pytest

from .conftest import Place
from .peer_layouts import OPENEVOLVE
from .serving import model, vendor

LINE = "python3 -m loopty_sdk.evaluate_program score.py p.py"
_EMPTY_SEARCH = """\
def evaluate(program_path):
    names = {}
    exec(open(program_path).read(), names)
    return {"combined_score": float(names["answer"]())}
"""


@pytest.fixture
def folder(tmp_path):
    """A folder that is in no repository."""
    made = Place(tmp_path / "task")
    made.top.mkdir()
    return made


def test_two_files_without_a_repository_evolve_and_the_same_line_resumes(folder):
    for path, text in OPENEVOLVE.items():
        (folder.top / path).write_text(text)
    first = folder.loopty("evolve", "initial_program.py", "evaluator.py", "--iterations", "1", "--json")
    said = " ".join(first.stderr.split())
    assert "there is no git repository: made one in" in said
    assert "recognised OpenEvolve: evaluator.py scores initial_program.py" in said
    assert "no --model: random edits" in said
    assert "integrity is strong: run of the program runs in a sandbox of its own" in said
    assert json.loads(first.stdout)["counts"][0]["started"] == 1
    again = folder.json("evolve", "initial_program.py", "evaluator.py", "--iterations", "2", "--quiet")
    assert (again["run"], again["counts"][0]["started"]) == (1, 2)
    assert folder.git("status", "--porcelain", "--", "initial_program.py").startswith("??"), "it is not committed"
    (folder.top / "other.py").write_text(OPENEVOLVE["evaluator.py"])
    refused = folder.loopty("evolve", "initial_program.py", "other.py", code=2).stderr
    assert "loopty.toml is of another task" in refused
    assert "--force writes it anew" in refused


def test_a_task_that_fails_its_check_is_not_kept_and_attempts_count_before_the_first_run(folder):
    (folder.top / "p.py").write_text("x = 1\n")
    (folder.top / "score.py").write_text("def evaluate(program_path):\n    raise OSError('no data')\n")
    line = ("evolve", "p.py", "score.py", "--iterations", "1", "--json")
    failed = folder.loopty(*line, code=1)
    said = " ".join(failed.stderr.split())
    assert "checking for at most 300 s (evaluator.timeout in --config; Ctrl-C stops)" in said
    assert "loopty.toml is as it was before: mend what failed, then repeat loopty evolve" in said
    assert f"loopty init --yes --command '{LINE}' --write=p.py --timeout SECONDS" in said
    assert json.loads(failed.stdout)["task_file"] is None
    file = folder.top / "loopty.toml"
    assert not file.exists()
    other = "# another task\n"
    file.write_text(other)
    folder.loopty(*line, "--force", code=1)
    assert file.read_text() == other
    (folder.top / "score.py").write_text("def evaluate(program_path):\n    return {'combined_score': 1.0}\n")
    folder.loopty("init", "--yes", "--no-check", "--force", "--command", LINE, "--write", "p.py")
    assert folder.json(*line, "--quiet")["counts"][0]["started"] == 1


def test_a_search_starts_from_nothing_but_a_goal_and_an_evaluator(folder, tmp_path, monkeypatch):
    (folder.top / "score.py").write_text(_EMPTY_SEARCH)
    reply = "=== PROPOSAL 1: the answer ===\nfresh.py\n```\ndef answer():\n    return 7\n```\n=== END ==="
    line = ("evolve", "fresh.py", "score.py", "--model", "near", "--iterations", "1")
    refused = folder.loopty(*line, code=2).stderr
    assert "an empty program needs a goal: say with --goal" in refused
    assert not (folder.top / "fresh.py").exists()
    with vendor(reply) as server:
        monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
        (tmp_path / "config/loopty").mkdir(parents=True)
        (tmp_path / "config/loopty/config.toml").write_text(model(server))
        done = folder.json(*line, "--goal", "Define answer()", "--quiet")
        (request,) = server.requests
    assert "Define answer()" in json.dumps(request.body)
    assert (done["best"]["score"], done["sound"]) == (7.0, True)


@pytest.mark.parametrize(
    ("program", "evaluator", "reason"),
    [
        ("a.py", "missing.py", "missing.py is no file: EVALUATOR has evaluate(program_path)"),
        ("a.py", "a.py", "PROGRAM and EVALUATOR are the same file"),
        ("a.py", "notes.md", "notes.md has neither evaluate(program_path), nor --program_path"),
        ("none/a.py", "notes.md", "there is no folder"),
        ("link.py", "notes.md", "link.py is no plain file"),
    ],
)
def test_what_cannot_evolve_is_refused_before_anything_is_written(folder, program, evaluator, reason):
    (folder.top / "a.py").write_text("x = 1\n")
    (folder.top / "notes.md").write_text("# Notes\n")
    (folder.top / "link.py").symlink_to("a.py")
    assert reason in " ".join(folder.loopty("evolve", program, evaluator, code=2).stderr.split())
    assert not (folder.top / ".git").exists()
