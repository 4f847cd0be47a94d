"""Damaged state and task files give one line, no traceback, and no further damage."""

import os
import shutil

import pytest


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    from .conftest import CODE_TASK, NUMBER_BENCH, Place

    place = Place(tmp_path_factory.mktemp("whole"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=3))
    place.commit()
    place.loopty("optimize", "--quiet", code=None)
    return place


@pytest.fixture
def damaged(whole, tmp_path):
    return type(whole)(shutil.copytree(whole.top, tmp_path / "repo"))


def assert_one_line(place, word: str, *verbs: str) -> None:
    for verb in verbs:
        output = place.loopty(verb, code=2).stderr
        assert word in output
        assert output.count("\n") == 1


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe\x00binary", bytes(range(256)), b"a = ", b"[benchmark]\ncommand = 1", b"x = " + b"[" * 3000],
    ids=["not UTF-8", "binary", "torn", "wrong", "deep"],
)
def test_a_file_that_is_not_a_task_file_is_reported_with_its_name(damaged, content):
    (damaged.top / "loopty.toml").write_bytes(content)
    output = damaged.loopty("optimize", code=2).stderr
    assert all(line.startswith("loopty: loopty.toml") for line in output.splitlines())


def test_the_message_about_an_empty_task_file_names_everything_that_is_missing(damaged):
    (damaged.top / "loopty.toml").write_bytes(b"")
    output = damaged.loopty("optimize", code=2).stderr
    assert "[benchmark]" in output
    assert "[access]" in output
    assert damaged.loopty("status").stdout


@pytest.mark.parametrize("left", [100, 10000])
def test_a_truncated_ledger_is_reported_in_one_line(damaged, left):
    ledger = damaged.state / "ledger.sqlite"
    os.truncate(ledger, left)
    before = ledger.read_bytes()
    assert_one_line(damaged, "ledger.sqlite", "status", "optimize")
    assert ledger.read_bytes() == before


def test_garbage_in_place_of_a_ledger_is_reported_in_one_line(damaged):
    (damaged.state / "ledger.sqlite").write_bytes(os.urandom(30_000))
    assert_one_line(damaged, "ledger.sqlite", "status", "optimize")


def test_a_ledger_with_a_damaged_middle_is_reported_in_one_line(damaged):
    ledger = damaged.state / "ledger.sqlite"
    raw = ledger.read_bytes()
    ledger.write_bytes(raw[:4096] + b"\xff" * (len(raw) - 4096))
    assert_one_line(damaged, "ledger.sqlite", "status", "optimize")


def test_a_file_in_place_of_the_state_folder_is_reported_in_one_line(damaged):
    shutil.rmtree(damaged.top / ".loopty")
    (damaged.top / ".loopty").write_text("")
    assert_one_line(damaged, ".loopty", "optimize")


def test_a_nested_repository_without_a_commit_is_reported_in_one_line(damaged):
    (damaged.top / "inner").mkdir()
    type(damaged)(damaged.top / "inner").git("init", "-q")
    assert_one_line(damaged, "inner", "optimize")


def test_deleted_caches_and_folders_are_rebuilt(damaged):
    for path in (*(damaged.top / ".loopty").iterdir(), *damaged.state.iterdir()):
        if path.is_dir():
            shutil.rmtree(path)
        elif path.name == ".gitignore":
            path.unlink()
    toml = (damaged.top / "loopty.toml").read_text()
    damaged.write("loopty.toml", toml.replace("attempts = 3", "attempts = 4"))
    made = damaged.json("new", "--parent", "1")
    (damaged.top / made["workspace"] / "src/x.txt").write_text("60\n")
    damaged.loopty("run", made["node"])
    assert damaged.loopty("show", made["node"]).stdout
    assert ".loopty" not in damaged.git("status", "--porcelain")


def test_without_any_state_a_new_run_starts(damaged):
    shutil.rmtree(damaged.state)
    assert_one_line(damaged, "nothing has run here yet", "status", "tree", "best")
    damaged.loopty("optimize", "--quiet", code=None)
    assert damaged.history().run.number >= 1
