"""Loopty's own objects are packed as a run goes; the user's are not touched, and nothing is ever lost."""

from __future__ import annotations

import contextlib
import hashlib
import os
import random
import signal
import stat
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.git import packs as object_packs
from loopty.git.repository import Repository
from loopty.workspaces.node_refs import NodeRefs

from .conftest import User, start_repository

WORKER = """
import sys
from pathlib import Path
from loopty.git import packs as object_packs
from loopty.workspaces.node_refs import NodeRefs
from loopty.git.repository import Repository

object_packs._COMMITS_PER_PACK = 5
object_packs._FEWEST = 10
object_packs._MOST_PACKS = 3
repository = Repository.open(Path(sys.argv[1]))
refs, base, worker = NodeRefs(repository), repository.head().commit, int(sys.argv[2])
for number in range(1, int(sys.argv[3]) + 1):
    commit = repository.commit(base, {"src/a.txt": f"{worker} {number}\\n"}, {}, f"{worker} {number}").commit
    refs.hold(worker, [commit])
    print(commit, flush=True)
refs.finish_packs(worker)
"""


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_packs, "_COMMITS_PER_PACK", 10)
    monkeypatch.setattr(object_packs, "_FEWEST", 10)


def add_nodes(repository: Repository, count: int, run: int = 1) -> list[str]:
    """Nodes as a run adds them."""
    refs, base, commits = NodeRefs(repository), repository.head().commit, []
    for number in range(1, count + 1):
        commit = repository.commit(base, {"src/a.txt": f"{number}\n"}, {}, f"node {number}").commit
        refs.hold(run, [commit])
        commits.append(commit)
    refs.finish_packs(run)
    return commits


def loose_objects(user: User) -> set[str]:
    folder = user.top / ".git/objects"
    return {path.parent.name + path.name for path in folder.glob("??/*")}


def packs(user: User, prefix: str = "loopty") -> list[Path]:
    return sorted((user.top / ".git/objects/pack").glob(f"{prefix}-*.pack"))


def assert_whole(user: User, commits: list[str], at: Path | None = None) -> None:
    user.git("fsck", "--strict", "--no-dangling", at=at)
    for commit in commits:
        user.git("ls-tree", "-r", commit, at=at)


def test_git_and_other_processes_see_a_commit_at_once(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository, other = user.repository, user.repository
    commit = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    assert other.content(commit, "src/a.txt") == b"1\n"
    assert user.git("show", f"{commit}:src/a.txt") == b"1\n"
    assert_whole(user, [commit])


def test_a_full_disk_refuses_the_commit_and_keeps_the_others(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    first = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    write = os.write

    def write_half(file: int, content: bytes) -> int:
        room[0] -= len(content)
        if room[0] < 0:
            raise OSError(28, "No space left on device")
        return write(file, content[: len(content) // 2 + 1])

    for size in range(0, 400, 40):
        room = [size]
        with monkeypatch.context() as patch:
            patch.setattr(os, "write", write_half)
            with pytest.raises(Misuse, match=r"No space left on device.*free some space"):
                repository.commit(base, {"src/a.txt": "2\n"}, {}, "m")
        assert not list((user.top / ".git/objects").glob("??/tmp_*"))
    last = repository.commit(base, {"src/a.txt": "2\n"}, {}, "m").commit
    assert user.repository.content(first, "src/a.txt") == b"1\n"
    assert user.repository.content(last, "src/a.txt") == b"2\n"
    assert_whole(user, [first, last])


def test_a_commit_that_a_full_disk_keeps_from_being_held_is_held_later(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commit, refs = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit, NodeRefs(repository)
    with monkeypatch.context() as full:
        full.setattr(os, "write", refuse)
        with pytest.raises(Misuse, match=r"No space left on device.*free some space"):
            refs.hold_soon(1, commit)
    refs.hold_waiting()
    assert refs.commits(1) == [commit]
    assert_whole(user, [commit])


def test_a_group_that_shares_the_repository_may_write_beside_our_objects(tmp_path: Path) -> None:
    user = start_repository(tmp_path / "repo", "--shared=group")
    repository, base = user.repository, user.commits({"src/a.txt": "0\n"})
    for number in range(20):
        repository.commit(base, {"src/a.txt": f"{number}\n"}, {}, "m")
    folders = (user.top / ".git/objects").glob("??")
    assert {stat.S_IMODE(folder.stat().st_mode) for folder in folders} == {0o2775}


def test_processes_that_add_one_node_each_pack_once_there_are_many_files(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    commits: list[str] = []

    def add_one() -> None:
        repository = user.repository
        text = f"{len(commits)} more\n"
        commits.append(repository.commit(repository.head().commit, {"src/a.txt": text}, {}, "m").commit)
        refs = NodeRefs(repository)
        refs.hold_soon(1, commits[-1])
        refs.finish_node()

    for _ in range(6):
        add_one()
    assert packs(user) == []
    names = {f"{number}": hashlib.sha1(f"blob {len(f'{number}')}\0{number}".encode()) for number in range(4_000)}
    many = [text for text, name in names.items() if name.hexdigest().startswith("17")][:4]
    user.writes({f"many/{text}": text for text in many})
    user.git("hash-object", "-w", *(f"many/{text}" for text in many))
    before = len(loose_objects(user))
    add_one()
    assert len(packs(user)) == 1
    assert len(loose_objects(user)) < before - 20
    assert_whole(user, commits)


def test_packs_that_git_cannot_write_stay_files(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    folder = user.top / ".git/objects/pack"
    folder.rmdir()
    folder.write_text("no folder")
    commits = add_nodes(user.repository, 20)
    folder.unlink()
    assert_whole(user, commits)
    more = add_nodes(user.repository, 1)
    assert not packs(user)
    folder.mkdir()
    NodeRefs(user.repository).finish_packs(1)
    assert len(packs(user)) == 1
    assert_whole(user, [*commits, *more])


def test_objects_of_many_nodes_are_a_few_files(user: User) -> None:
    user.commits({"src/a.txt": "0\n", "b": "b\n"})
    own = loose_objects(user)
    commits = add_nodes(user.repository, 40)
    assert own <= loose_objects(user)
    assert len(loose_objects(user)) - len(own) < 10
    assert 1 <= len(packs(user)) <= 3
    assert_whole(user, commits)


def test_a_commit_of_the_user_that_a_run_begins_with_stays_loose(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    own, repository = loose_objects(user), user.repository
    NodeRefs(repository).hold(1, [base])
    repository.packs.finish("refs/loopty/runs/1")
    assert own <= loose_objects(user)


def test_the_number_of_packs_grows_slowly(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_packs, "_COMMITS_PER_PACK", 2)
    monkeypatch.setattr(object_packs, "_FEWEST", 4)
    monkeypatch.setattr(object_packs, "_MOST_PACKS", 3)
    user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commits = []
    refs, base = NodeRefs(repository), repository.head().commit
    for number in range(1, 41):
        commit = repository.commit(base, {"src/a.txt": f"{number}\n"}, {}, "m").commit
        refs.hold(1, [commit])
        if repository.packs._packing:
            repository.packs._packing.join()
        commits.append(commit)
        assert len(packs(user)) <= 8
    assert_whole(user, commits)


def test_a_user_who_does_not_want_git_to_pack_is_heard(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    user.git("config", "gc.auto", "0")
    add_nodes(user.repository, 30)
    assert packs(user) == []


def test_packs_that_the_user_keeps_or_indexes_stay(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    add_nodes(user.repository, 20)
    first = packs(user)[0]
    first.with_suffix(".keep").touch()
    add_nodes(user.repository, 20, run=2)
    assert first in packs(user)
    first.with_suffix(".keep").unlink()
    before = packs(user)
    user.git("multi-pack-index", "write")
    commits = add_nodes(user.repository, 20, run=3)
    assert set(before) < set(packs(user))
    assert_whole(user, commits)


def test_settings_and_packs_of_the_user_stay(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    user.git("repack", "-a", "-d", "-q")
    user.commits({"more": "of the user\n"})
    config = (user.top / ".git/config").read_bytes()
    theirs, loose = packs(user, "pack"), loose_objects(user)
    add_nodes(user.repository, 30)
    assert (packs(user, "pack"), (user.top / ".git/config").read_bytes()) == (theirs, config)
    assert loose <= loose_objects(user)


def test_worktrees_alternates_and_sha256_repositories_work(tmp_path: Path) -> None:
    plain = start_repository(tmp_path / "plain", "--object-format=sha256")
    plain.commits({"src/a.txt": "0\n"})
    tree = User(tmp_path / "tree")
    plain.git("worktree", "add", "-q", str(tree.top))
    commits = add_nodes(tree.repository, 30)
    assert packs(plain)
    assert_whole(plain, commits)
    plain.git("clone", "-q", "--shared", str(plain.top), str(tmp_path / "borrower"))
    borrower = User(tmp_path / "borrower")
    more = add_nodes(borrower.repository, 30)
    assert packs(borrower)
    assert_whole(borrower, [*commits, *more])
    assert_whole(plain, commits)


def start_worker(user: User, worker: int, nodes: int) -> subprocess.Popen[str]:
    command = [sys.executable, "-c", WORKER, str(user.top), str(worker), str(nodes)]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def test_killed_at_any_instant_nothing_is_lost(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    rng, commits = random.Random(5), []
    for _ in range(8):
        process = start_worker(user, 1, 100_000)
        assert process.stdout
        commits += [process.stdout.readline().strip() for _ in range(rng.randrange(1, 30))]
        time.sleep(rng.uniform(0, 0.02))
        os.kill(process.pid, signal.SIGKILL)
        commits += [line.strip() for line in process.communicate()[0].splitlines() if len(line) == 41]
    assert_whole(user, commits)
    NodeRefs(user.repository).finish_packs(1)
    assert_whole(user, commits)
    assert len(loose_objects(user)) < 60


def test_eight_runs_and_a_collection_by_the_user_at_once_lose_nothing(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    workers = [start_worker(user, worker, 12) for worker in range(1, 9)]
    while any(worker.poll() is None for worker in workers):
        with contextlib.suppress(subprocess.CalledProcessError):  # git gives up where it meets a lock
            user.git("gc", "--quiet")
    commits = [line for worker in workers for line in worker.communicate()[0].split()]
    assert [worker.returncode for worker in workers] == [0] * 8
    assert len(commits) == 8 * 12
    assert_whole(user, commits)
    for run in range(1, 9):
        assert set(NodeRefs(user.repository).commits(run)) <= set(commits)


def test_lonely_objects_leave_the_packs(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commits = add_nodes(repository, 30)
    gone, kept = commits[10], [*commits[:10], *commits[11:]]
    assert repository.packs.removable([gone]) == {}  # git may have dated the pack anew for a commit of the user
    for path in packs(user):
        os.utime(path, (1, 1))
    assert set(repository.packs.removable([gone, "0" * 40])) == {gone}
    NodeRefs(repository).release(1, {gone})
    repository.packs.remove([gone])
    assert repository.graph.objects_that_exist([gone]) == []
    assert_whole(user, kept)
