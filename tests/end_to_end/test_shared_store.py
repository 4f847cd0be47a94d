"""Clones on several machines share the files of nodes through a store: a directory, or one of S3's protocol."""

import json
import os
import shutil
from pathlib import Path

import pytest

from .conftest import Place
from .test_shared_ledger import change


@pytest.fixture(params=["directory", "s3"])
def store(request, tmp_path, monkeypatch):
    if request.param == "directory":
        return str(tmp_path / "store")
    server = request.getfixturevalue("s3")
    for name, value in server.keys.items():
        monkeypatch.setenv(name, value)
    return server.url.replace("campaign", tmp_path.name)


def clone_of(place, path, ledger_url, store):
    place.git("clone", "-q", str(place.top), str(path))
    other = Place(path)
    other.trust()
    other.loopty("ledger", ledger_url, "--store", store)
    return other


@pytest.fixture
def clones(code_place, tmp_path, ledger_url, store):
    """Two clones; the first has files that it never committed, which the second cannot know."""
    second = clone_of(code_place, tmp_path / "second", ledger_url, store)
    code_place.loopty("ledger", ledger_url, "--store", store)
    code_place.write("src/uncommitted.txt", "only here\n")
    return code_place, second


def test_a_clone_builds_on_the_nodes_of_another_one(clones):
    first, second = clones
    first.loopty("run", "1")
    made = change(first, "1", "7")
    assert first.json("status")["store"]["unsent"] == 0
    # The first machine is gone: nothing of it can be read any more.
    first.top.rename(first.top.with_name("gone"))
    assert second.loopty("diff", made).stdout.count("+7")
    shown = Path(second.json("show", made)["folder"])
    assert (shown / "analysis.md").read_text().startswith("# @2: kept")
    assert (shown / "change.diff").exists()
    better = change(second, made, "8")
    assert second.json("best")["id"] == better
    files = second.git("ls-tree", "-r", "--name-only", second.commit_of(better)).splitlines()
    assert "src/uncommitted.txt" in files
    second.git("fsck", "--strict", "--connectivity-only")
    second.git("gc", "-q", "--prune=now")
    second.loopty("branch", better)
    assert second.json("status")["store"] == {**second.json("status")["store"], "unsent": 0, "fault": ""}


def test_a_store_that_is_away_holds_nothing_up_and_gets_everything_later(code_place, tmp_path):
    store = tmp_path / "store"
    code_place.loopty("ledger", "--store", str(store))
    away = store.with_name("away")
    store.rename(away)
    code_place.loopty("run", "1")
    made = change(code_place, "1", "7")
    standing = code_place.json("status")["store"]
    assert standing["unsent"] > 2
    assert "not mounted" in standing["fault"] or "cannot be used" in standing["fault"]
    assert "wait for it" in code_place.loopty("status").stdout
    assert "mount" in code_place.loopty("ledger", "--send", code=2).stderr
    away.rename(store)
    code_place.loopty("ledger", "--send")
    assert code_place.json("ledger")["store"]["unsent"] == 0
    assert (store / "commits" / code_place.commit_of(made)).exists()


def test_a_store_that_somebody_changed_is_not_believed(code_place, tmp_path, ledger_url):
    store = tmp_path / "store"
    second = clone_of(code_place, tmp_path / "second", ledger_url, str(store))
    code_place.loopty("ledger", ledger_url, "--store", str(store))
    code_place.loopty("run", "1")
    other, made = change(code_place, "1", "6"), change(code_place, "1", "7")
    bundle = store / "commits" / code_place.commit_of(made)
    shutil.copy(store / "commits" / code_place.commit_of(other), bundle)
    for file in (store / "nodes").rglob("*"):
        if file.is_file():
            file.write_bytes(b"forged")
    refused = second.loopty("diff", made, code=2)
    assert "not what the ledger names" in refused.stderr
    bundle.write_bytes(bundle.read_bytes()[:-30])
    second.loopty("diff", made, code=2)
    shown = Path(second.json("show", made)["folder"])
    assert {file.name for file in shown.iterdir()} == {"description.md", "analysis.md"}, "from the ledger"
    bundle.unlink()
    assert "git fetch OTHER_CLONE" in second.loopty("diff", made, code=None).stderr


def test_gc_removes_from_the_store_what_nobody_needs(code_place, tmp_path):
    store = tmp_path / "store"
    code_place.loopty("ledger", "--store", str(store))
    code_place.loopty("run", "1")
    kept = change(code_place, "1", "7")
    made = code_place.json("new", "--parent", "1")
    Path(made["workspace"], "src/x.txt").write_text("0\n")
    assert code_place.json("run", made["node"])["verdict"] == "discarded"
    lost, best = code_place.commit_of(made["node"]), code_place.commit_of(kept)
    assert {lost, best} <= {path.name for path in (store / "commits").iterdir()}
    assert code_place.json("gc", "--older-than", "0h").get("stored", 0) == 0  # written just now: it may be in use
    for path in [*store.rglob("*")]:
        os.utime(path, (1, 1))
    assert code_place.json("gc", "--older-than", "0h")["stored"] >= 2
    code_place.loopty("gc", "--older-than", "0h", "--yes")
    names = {path.name for path in (store / "commits").iterdir()}
    assert best in names
    assert lost not in names
    folders = {path.parent.name for path in (store / "nodes").rglob("*") if path.is_file()}
    assert len(folders) == 2  # the baseline and the best node


def test_a_store_in_the_environment_wins_and_cannot_be_overridden(code_place, tmp_path, monkeypatch):
    monkeypatch.setenv("LOOPTY_STORE", str(tmp_path / "given"))
    assert "unset it" in code_place.loopty("ledger", "--store", str(tmp_path / "other"), code=2).stderr
    assert code_place.json("ledger")["store"]["place"] == str(tmp_path / "given")
    monkeypatch.delenv("LOOPTY_STORE")
    assert "store" not in json.loads(code_place.loopty("ledger", "--json").stdout)
