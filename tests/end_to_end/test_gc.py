"""The files of discarded nodes go; what anything else needs stays, and so does the record."""

import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopty.domain.trial import Verdict
from loopty.git import packs as object_packs
from loopty.git.repository import Repository
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.node_folders import FoldedFolders
from loopty.workspaces.node_refs import NodeRefs

from .conftest import CODE_TASK, NUMBER_BENCH, Place
from .state import events, kept_of

LOST = {"1.2", "1.1.1", "1.2.1"}
"""Discarded nodes on which nothing is built."""
NEEDED = {"1", "1.1", "1.3", "1.3.1"}


def make_node(place: Place, parent: str, score: int, **files: str) -> None:
    made = place.json("new", "--parent", parent)
    folder = Path(made["workspace"])
    for name, text in files.items():
        (folder / "src" / name).write_text(text)
    (folder / "src/x.txt").write_text(f"{score}\n")
    place.loopty("run", made["node"])


@pytest.fixture(scope="module")
def searched(tmp_path_factory):
    place = Place(tmp_path_factory.mktemp("searched"))
    place.git("init", "-q", "-b", "main")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.write("loopty.toml", CODE_TASK.format(attempts=20))
    place.commit()
    place.loopty("run", "1")
    make_node(place, "1", 6)  # 1.1 is kept
    make_node(place, "1", 3, shared="in a kept node, too\n", own="nowhere else\n")  # 1.2
    make_node(place, "1.1", 2)  # 1.1.1
    make_node(place, "1.2", 1)  # 1.2.1
    make_node(place, "1", 4, tool="of its descendant\n")  # 1.3 is discarded, and a kept node descends from it
    make_node(place, "1.3", 7, shared="in a kept node, too\n")  # 1.3.1 is kept
    for path in (place.top / ".git/objects").rglob("??/*"):
        os.utime(path, (1, 1))  # long ago
    return place


@pytest.fixture
def old_place(searched, tmp_path):
    return Place(Path(shutil.copytree(searched.top, tmp_path / "repo", symlinks=True)))


def objects(place: Place) -> set[str]:
    return set(place.git("cat-file", "--batch-all-objects", "--batch-check=%(objectname)").split())


def assert_sound(place: Place) -> None:
    """Everything that a needed node has is there."""
    place.git("fsck", "--strict")
    history = place.history()
    for node in NEEDED:
        assert history[node].commit in place.held_commits()
        assert place.git("ls-tree", "-r", history[node].commit)
        place.loopty("diff", node)
        assert kept_of(place, node).read("description.md")
    assert place.git("show", f"{history['1.3.1'].commit}:src/shared") == "in a kept node, too\n"


def test_the_story_is_as_the_tests_need_it(old_place):
    history = old_place.history()
    kept = {node for node in history.ids if history[node].verdict is Verdict.KEPT}
    assert kept == {"1", "1.1", "1.3.1"}
    assert set(history.ids) == LOST | NEEDED


def test_young_nodes_stay(old_place):
    done = old_place.loopty("gc")
    assert done.stdout == "nothing to remove\n"
    assert "older than 14 days" in done.stderr


def test_first_it_is_only_shown(old_place):
    before, recorded = objects(old_place), events(old_place)
    shown = old_place.loopty("gc", "--older-than", "0s")
    assert "files of 3 discarded nodes" in shown.stdout
    assert "nothing is removed yet: add --yes" in shown.stderr
    assert set(old_place.json("gc", "--older-than", "0s")["nodes"]) == LOST
    assert (objects(old_place), events(old_place)) == (before, recorded)
    assert_sound(old_place)


def test_files_of_discarded_nodes_go_and_nothing_else(old_place):
    before = objects(old_place)
    shown = old_place.json("gc", "--older-than", "0s")
    own = old_place.git("rev-parse", f"{old_place.commit_of('1.2')}:src/own").strip()
    removed = old_place.json("gc", "--older-than", "0s", "--yes")
    assert removed == {**shown, "removed": True}
    assert removed["objects"] == len(before - objects(old_place))
    assert own not in objects(old_place)
    for node in LOST:
        assert folder_size(old_place, node) == 0
        assert not (old_place.top / ".loopty/nodes" / node).exists()
        assert old_place.commit_of(node) not in old_place.held_commits()
        assert old_place.commit_of(node) not in objects(old_place)
    assert_sound(old_place)
    assert old_place.loopty("gc", "--older-than", "0s", "--yes").stdout == "nothing to remove\n"


def test_every_verb_says_that_the_files_were_removed(old_place):
    old_place.loopty("gc", "--older-than", "0s", "--yes")
    for words in (
        ("diff", "1.2"),
        ("diff", "1.2.1"),
        ("replay", "1.2"),
        ("new", "--parent", "1.2"),
        ("branch", "1.2"),
        ("apply", "1.2"),
        ("export", "1.2"),
        ("try", "1.2", "true"),
        ("run", "1.2", "--check"),
        ("gate", "check", "1.2"),
    ):
        refused = old_place.loopty(*words, code=2).stderr
        name = "@5" if "1.2.1" in words else "@3"
        assert refused.startswith(f"loopty: the files of {name} were removed by `loopty system gc`"), words
        assert f"`loopty show {name}`" in refused
        assert refused.count("\n") == 1
    assert "removed by loopty system gc" in old_place.loopty("show", "1.2").stdout
    assert old_place.json("show", "1.2")["files_removed"] is True


def test_every_verb_works_on_the_rest(old_place):
    old_place.loopty("gc", "--older-than", "0s", "--yes")
    for words in (("tree", "--all"), ("status",), ("report",), ("best",), ("spend",), ("gate", "list")):
        old_place.loopty(*words)
    assert "reproduced" in old_place.loopty("replay", "1.3.1").stdout
    old_place.loopty("export", "1.3.1")
    old_place.loopty("apply", "best")
    make_node(old_place, "1.1", 9)
    old_place.loopty("discard", "1.1.2", "--why", "a test")
    old_place.loopty("optimize", "--quiet", code=None)
    assert_sound(old_place)


def test_drafts_and_what_they_are_built_on_stay(old_place):
    made = old_place.json("new", "--parent", "1.2.1")
    assert old_place.json("gc", "--older-than", "0s", "--yes")["nodes"] == ["1.1.1"]
    (Path(made["workspace"]) / "src/x.txt").write_text("8\n")
    assert old_place.json("run", made["node"])["verdict"] == "kept"


def test_a_branch_of_the_user_keeps_its_commit(old_place):
    old_place.loopty("branch", "1.2", "--name", "mine")
    tree = old_place.git("ls-tree", "-r", "mine")
    old_place.loopty("gc", "--older-than", "0s", "--yes")
    assert old_place.git("ls-tree", "-r", "mine") == tree
    old_place.git("fsck", "--strict")


def test_objects_that_were_written_again_just_now_stay(old_place):
    content = old_place.top / "content"
    content.write_text("nowhere else\n")
    name = old_place.git("hash-object", "-w", str(content)).strip()
    old_place.loopty("gc", "--older-than", "0s", "--yes")
    assert name in objects(old_place)


def test_the_oldest_go_until_the_rest_fits(old_place):
    sizes = {node: folder_size(old_place, node) for node in LOST | NEEDED}
    fits = sum(sizes.values()) - 1
    assert old_place.json("gc", "--max-size", str(fits))["nodes"] == ["1.1.1"]
    assert set(old_place.json("gc", "--max-size", "0")["nodes"]) == LOST
    assert old_place.json("gc", "--max-size", "1G").get("nodes", []) == []


def folder_size(place: Place, node: str) -> int:
    folders = (place.state / "nodes" / node, place.top / ".loopty/nodes" / node)
    plain = sum(path.lstat().st_size for folder in folders for path in folder.rglob("*") if path.is_file())
    return plain + FoldedFolders(SafeFolder(place.state).file("folded.sqlite")).size(node)


def test_old_exports_go_and_are_made_again(old_place):
    exports = old_place.state / "exports"
    for path in exports.iterdir():
        os.utime(path, (1, 1))
    assert len(old_place.json("gc", "--yes")["exports"]) == 1
    assert list(exports.iterdir()) == []
    assert "reproduced" in old_place.loopty("replay", "1.3.1").stdout


def test_objects_of_discarded_nodes_leave_the_packs_too(old_place, monkeypatch):
    monkeypatch.setattr(object_packs, "_FEWEST", 1)
    NodeRefs(Repository.open(old_place.top)).finish_packs(1)
    own = old_place.git("rev-parse", f"{old_place.commit_of('1.2')}:src/own").strip()
    assert old_place.json("gc", "--older-than", "0s")["objects"] == 0  # git may need the pack for a new commit
    for path in (old_place.top / ".git/objects/pack").glob("loopty-*.pack"):
        os.utime(path, (1, 1))
    assert old_place.json("gc", "--older-than", "0s", "--yes")["objects"] > 3
    assert own not in objects(old_place)
    assert_sound(old_place)


def make_cache(place: Place, name: str, age_days: float, size: int) -> None:
    folder = place.state / "caches" / name
    (folder / "0").mkdir(parents=True)
    (folder / "0/object.o").write_bytes(bytes(size))
    at = time.time() - age_days * 86_400
    os.utime(folder, (at, at))


def caches(place: Place) -> set[str]:
    return {path.name for path in (place.state / "caches").iterdir()}


def test_build_caches_that_nobody_has_used_for_long_go(old_place):
    make_cache(old_place, "old", 15, 2000)
    make_cache(old_place, "young", 13, 2000)
    assert "1 build cache  2.0 kB" in old_place.loopty("gc").stdout
    assert caches(old_place) == {"old", "young"}
    removed = old_place.json("gc", "--yes")
    assert (removed["caches"], removed["cache_bytes"]) == (["old"], 2000)
    assert caches(old_place) == {"young"}


def test_build_caches_go_before_nodes_until_the_rest_fits(old_place):
    make_cache(old_place, "old", 2, 2000)
    make_cache(old_place, "young", 1, 2000)
    nodes = sum(folder_size(old_place, node) for node in LOST | NEEDED)
    shown = old_place.json("gc", "--max-size", str(nodes + 2000))
    assert (shown["caches"], shown["nodes"]) == (["old"], [])
    shown = old_place.json("gc", "--max-size", str(nodes - 1))
    assert (shown["caches"], shown["nodes"]) == (["old", "young"], ["1.1.1"])
    assert old_place.json("gc", "--max-size", str(nodes + 4000))["caches"] == []


def test_the_tree_marks_nodes_without_files(old_place):
    old_place.loopty("gc", "--older-than", "0s", "--yes")
    lines = old_place.loopty("tree", "--all").stdout.splitlines()
    marked = {line.lstrip("│├└─┄ ").split()[0] for line in lines if "(files removed)" in line}
    assert marked == {old_place.history().name(node) for node in LOST}


def test_nothing_of_a_living_run_goes(old_place):
    make_cache(old_place, "old", 100, 2000)
    sleeper = [sys.executable, "-c", LIVING, str(old_place.top)]
    with subprocess.Popen(sleeper, stdout=subprocess.PIPE, text=True) as living:
        try:
            assert living.stdout.readline() == "drives\n"
            for path in (old_place.state / "exports").iterdir():
                os.utime(path, (1, 1))
            assert old_place.loopty("gc", "--older-than", "0s", "--yes").stdout == "nothing to remove\n"
        finally:
            living.kill()
    assert set(old_place.json("gc", "--older-than", "0s", "--yes")["nodes"]) == LOST


LIVING = """
import sys, time
from pathlib import Path
from loopty.session.context import CampaignContext
from loopty.engine import decisions
context = CampaignContext.open(Path(sys.argv[1]), print)
context.recorder.record(lambda history: decisions.start_session(history, 1, context.owner))
print("drives", flush=True)
time.sleep(600)
"""


def test_killed_at_any_instant_it_loses_nothing(old_place):
    rng = random.Random(3)
    for _ in range(12):
        process = old_place.start("gc", "--older-than", "0s", "--yes")
        time.sleep(rng.uniform(0.1, 0.8))
        os.kill(process.pid, signal.SIGKILL)
        process.communicate()
        assert_sound(old_place)
    old_place.loopty("gc", "--older-than", "0s", "--yes")
    assert not any(folder_size(old_place, node) for node in LOST)
    assert_sound(old_place)


def test_eight_at_once_remove_it_once(old_place):
    processes = [old_place.start("gc", "--older-than", "0s", "--yes", "--json") for _ in range(8)]
    outputs = [process.communicate(timeout=300) for process in processes]
    assert [process.returncode for process in processes] == [0] * 8, outputs
    removed = [item for item in events(old_place) if type(item).__name__ == "FilesRemoved"]
    assert [set(item.nodes) for item in removed] == [LOST]
    assert not any(folder_size(old_place, node) for node in LOST)
    assert_sound(old_place)


@pytest.mark.parametrize(("words", "message"), [(("--older-than", "x"), "12h"), (("--max-size", "much"), "500M")])
def test_a_wrong_age_or_size_is_explained(old_place, words, message):
    assert message in old_place.loopty("gc", *words, code=2).stderr
