"""The folders of discarded nodes are folded into one file; readers and people get the same files as before."""

from __future__ import annotations

import os
import random
import signal
import sqlite3
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopty.domain.ids import NodeId
from loopty.kit.safe_folder import SafeFolder, UnsafePath
from loopty.workspaces.node_folders import FoldedFolders, NodeFolders, decode_files, encode_files
from loopty.workspaces.state_folder import StateFolder

NODE = NodeId("1.2")
FILES = {
    "description.md": b"# 1.2\n",
    "stdout.log": b"a line\n" * 50_000,
    "traces/task_a.json": b"{}",
    "repeat-1/result.json": b'{"score": 1}',
    "odd \n name \xc3\xa9.log": bytes(range(256)),
}


@pytest.fixture
def state(tmp_path: Path) -> StateFolder:
    top, git = tmp_path / "top", tmp_path / "git"
    top.mkdir()
    git.mkdir()
    return StateFolder(top.resolve(), SafeFolder(git.resolve(), ("loopty",)))


def write(state: StateFolder, node: NodeId, files: dict[str, bytes]) -> None:
    for name, content in files.items():
        *above, last = name.split("/")
        state.node_folder(node).below(*above).file(last).write(content)


def people_see(state: StateFolder, node: NodeId) -> dict[str, bytes]:
    top = state.node_copy(node).shown_path
    return {str(path.relative_to(top)): path.read_bytes() for path in top.rglob("*") if path.is_file()}


def test_a_folded_folder_is_read_like_a_plain_one(state: StateFolder) -> None:
    write(state, NODE, FILES)
    folders = NodeFolders(state)
    for _ in range(2):
        folder = folders.open(NODE)
        assert {name: folder.read(name) for name in FILES} == FILES
        assert folder.read("stdout.log", 7) == b"a line\n"
        assert folder.read("stdout.log", 5, tail=True) == b"line\n"
        assert folder.names_below("traces") == ["task_a.json"]
        assert folder.names_below("none") == []
        with pytest.raises(FileNotFoundError):
            folder.read("none")
        folders.fold(NODE, {})
    assert not state.node_folder(NODE).exists()


@pytest.mark.parametrize("before", [{}, FILES])
def test_the_last_files_are_folded_with_the_others(state: StateFolder, before: dict[str, bytes]) -> None:
    folders, last = NodeFolders(state), {"analysis.md": b"kept"}
    state.home.make()
    write(state, NODE, before)
    folders.fold(NODE, last)
    folder = folders.open(NODE)
    assert {name: folder.read(name) for name in (*before, *last)} == {**before, **last}
    assert not state.node_folder(NODE).exists()


def test_the_last_files_are_plain_where_nothing_can_be_folded(state: StateFolder) -> None:
    state.node_archive.folder.below(state.node_archive.name).make()
    NodeFolders(state).fold(NODE, {"analysis.md": b"kept"})
    assert state.node_folder(NODE).file("analysis.md").read() == b"kept"


def test_logs_are_compressed(state: StateFolder) -> None:
    write(state, NODE, FILES)
    folders = NodeFolders(state)
    before = folders.size(NODE)
    folders.fold(NODE, {})
    assert folders.size(NODE) < before / 50


def test_people_get_plain_files_when_they_look(state: StateFolder) -> None:
    write(state, NODE, FILES)
    folders = NodeFolders(state)
    folders.lay_out(NODE, {})
    assert people_see(state, NODE) == FILES
    folders.fold(NODE, {})
    assert not state.node_copy(NODE).exists()
    folders.lay_out(NODE, {})
    assert people_see(state, NODE) == FILES


def test_a_later_trial_of_a_folded_node_wins(state: StateFolder) -> None:
    write(state, NODE, FILES)
    folders = NodeFolders(state)
    folders.fold(NODE, {})
    write(state, NODE, {"description.md": b"new", "replay-1/result.json": b"{}"})
    assert folders.open(NODE).read("description.md") == b"new"
    folders.lay_out(NODE, {})
    later = {**FILES, "description.md": b"new", "replay-1/result.json": b"{}"}
    assert people_see(state, NODE) == later
    folders.fold(NODE, {})
    folder = folders.open(NODE)
    assert {name: folder.read(name) for name in later} == later


def test_a_closed_file_is_one_file_and_opens_again(state: StateFolder) -> None:
    write(state, NODE, FILES)
    folders = NodeFolders(state)
    folders.fold(NODE, {})
    folders.close()
    folders.close()
    assert [name for name in state.home.names() if name.startswith("folded")] == ["folded.sqlite"]
    assert folders.open(NODE).read("description.md") == FILES["description.md"]


def test_removed_is_removed(state: StateFolder) -> None:
    write(state, NODE, FILES)
    folders = NodeFolders(state)
    folders.fold(NODE, {})
    folders.lay_out(NODE, {})
    folders.remove(NODE)
    folders.remove(NODE)
    assert folders.size(NODE) == 0
    assert not state.node_copy(NODE).exists()


def test_nothing_is_made_by_looking(state: StateFolder) -> None:
    folders = NodeFolders(state)
    assert folders.open(NODE).folded == {}
    folders.lay_out(NODE, {})
    folders.remove(NODE)
    assert not state.home.exists()
    assert list(state.top.iterdir()) == []


@pytest.mark.parametrize("content", [b"", b"not a database" * 99, None])
def test_a_damaged_file_costs_no_node(state: StateFolder, content: bytes | None) -> None:
    write(state, NODE, FILES)
    other, folders = NodeId("1.3"), NodeFolders(state)
    if content is None:
        write(state, other, FILES)
        folders.fold(other, {})
        with sqlite3.connect(state.node_archive.shown_path) as db:
            db.execute("UPDATE folders SET files = x'00'")
    else:
        state.node_archive.write(content)
    assert NodeFolders(state).open(other).folded == {}
    NodeFolders(state).fold(NODE, {})
    folder = NodeFolders(state).open(NODE)
    assert {name: folder.read(name) for name in FILES} == FILES


def test_a_link_in_place_of_the_file_leads_nowhere(state: StateFolder, tmp_path: Path) -> None:
    write(state, NODE, FILES)
    mine = tmp_path / "mine"
    mine.write_bytes(b"mine")
    state.node_archive.shown_path.symlink_to(mine)
    NodeFolders(state).fold(NODE, {})
    assert mine.read_bytes() == b"mine"
    assert state.node_folder(NODE).exists()


def test_a_link_in_the_way_of_a_copy_is_refused(state: StateFolder, tmp_path: Path) -> None:
    write(state, NODE, FILES)
    folders = NodeFolders(state)
    folders.fold(NODE, {})
    mine = tmp_path / "mine"
    mine.mkdir()
    state.work_folder.below("nodes").make()
    state.node_copy(NODE).shown_path.symlink_to(mine)
    with pytest.raises(UnsafePath):
        folders.lay_out(NODE, {})
    assert list(mine.iterdir()) == []


def test_files_survive_their_encoding() -> None:
    assert decode_files(encode_files(FILES)) == FILES
    assert decode_files(encode_files({})) == {}


WORKER = """
import sys
from pathlib import Path
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.node_folders import FoldedFolders

top, worker, count = SafeFolder(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3])
folded = FoldedFolders(top.file("folded.sqlite"))
for number in range(count):
    folder = top.below("nodes", f"{worker}.{number}")
    folder.write_files({"a": b"a" * number, "b": str(number).encode()})
    print(folder.name, flush=True)
    assert folded.fold(folder, {})
"""


def start(top: Path, worker: int, count: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(top), str(worker), str(count)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def assert_all_there(top: Path, names: list[str]) -> None:
    folded = FoldedFolders(SafeFolder(top).file("folded.sqlite"))
    for name in names:
        number, plain = int(name.partition(".")[2]), top / "nodes" / name
        files = {path.name: path.read_bytes() for path in plain.iterdir()} if plain.exists() else {}
        assert {**folded.files(name), **files} == {"a": b"a" * number, "b": str(number).encode()}


def test_killed_at_any_instant_no_folder_is_lost(tmp_path: Path) -> None:
    rng, names = random.Random(7), []
    for worker in range(8):
        process = start(tmp_path, worker, 100_000)
        assert process.stdout
        process.stdout.readline()
        time.sleep(rng.uniform(0, 0.1))
        os.kill(process.pid, signal.SIGKILL)
        printed = process.communicate()[0].split("\n")[:-1]
        names += [f"{worker}.0", *printed]
    assert_all_there(tmp_path, names)


def test_eight_at_once_fold_everything(tmp_path: Path) -> None:
    workers = [start(tmp_path, worker, 20) for worker in range(8)]
    names = [name for worker in workers for name in worker.communicate(timeout=300)[0].split()]
    assert [worker.returncode for worker in workers] == [0] * 8
    assert len(names) == 160
    assert_all_there(tmp_path, names)
    assert list((tmp_path / "nodes").iterdir()) == []
