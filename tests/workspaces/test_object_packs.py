"""Loopty's own objects are packed as a run goes; the user's are not touched, and nothing is ever lost."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.git import packs as object_packs
from loopty.git.command import GitError
from loopty.git.pack_files import BEING_WRITTEN, NewObject, names_in_index, object_name, write_pack
from loopty.git.repository import Repository
from loopty.workspaces.node_refs import NodeRefs

from .conftest import User, start_repository

WORKER = """
import sys
from pathlib import Path
from loopty.git import packs as object_packs
from loopty.workspaces.node_refs import NodeRefs
from loopty.git.repository import Repository

object_packs._OBJECTS_PER_PACK = 20
object_packs._MOST_PACKS = 3
repository = Repository.open(Path(sys.argv[1]))
refs, base, worker = NodeRefs(repository), repository.head().commit, int(sys.argv[2])
for number in range(1, int(sys.argv[3]) + 1):
    commit = repository.commit(base, {"src/a.txt": f"{worker} {number}\\n"}, {}, f"{worker} {number}").commit
    refs.hold(worker, [commit])
    print(commit, flush=True)
    refs.join_packs()
refs.finish_packs(worker)
"""


@pytest.fixture(autouse=True)
def small_packs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_packs, "_OBJECTS_PER_PACK", 50)
    monkeypatch.setattr(object_packs, "_FEWEST", 10)


def add_nodes(repository: Repository, count: int, run: int = 1) -> list[str]:
    """Nodes as a run adds them."""
    refs, base, commits = NodeRefs(repository), repository.head().commit, []
    for number in range(1, count + 1):
        commit = repository.commit(base, {"src/a.txt": f"{number}\n"}, {}, f"node {number}").commit
        refs.hold(run, [commit])
        refs.join_packs()
        commits.append(commit)
    refs.finish_packs(run)
    return commits


def loose_objects(user: User) -> set[str]:
    folder = user.top / ".git/objects"
    return {path.parent.name + path.name for path in folder.glob("??/*")}


def waiting_files(user: User) -> list[Path]:
    return sorted((user.top / ".git/loopty-objects").glob("*"))


def packs(user: User, prefix: str = "loopty") -> list[Path]:
    return sorted((user.top / ".git/objects/pack").glob(f"{prefix}-*.pack"))


def assert_whole(user: User, commits: list[str], at: Path | None = None) -> None:
    user.git("fsck", "--strict", "--no-dangling", at=at)
    for commit in commits:
        user.git("ls-tree", "-r", commit, at=at)


@pytest.mark.parametrize("kind", ["sha1", "sha256"])
def test_git_reads_a_pack_of_this_process(tmp_path: Path, kind: str) -> None:
    user = start_repository(tmp_path / "repo", f"--object-format={kind}")
    digest = hashlib.new(kind)
    contents = {f"{number}\n".encode() * number for number in (0, 1, 2, 3, 300, 70_000)}
    objects = []
    for content in contents:
        digest = hashlib.new(kind, f"blob {len(content)}\0".encode() + content)
        objects.append(NewObject(digest.hexdigest(), "blob", content))
    path = write_pack(user.top / ".git/objects/pack", "loopty", objects)
    user.git("verify-pack", str(path))
    assert sorted(names_in_index(path.with_suffix(".idx"))) == sorted(item.name for item in objects)
    for item in objects:
        assert user.git("cat-file", "blob", item.name) == item.content
    index = path.with_suffix(".idx").read_bytes()
    user.git("index-pack", f"--object-format={kind}", "-o", str(tmp_path / "again.idx"), str(path))
    assert (tmp_path / "again.idx").read_bytes() == index


def test_objects_of_many_nodes_are_a_few_files(user: User) -> None:
    user.commits({"src/a.txt": "0\n", "b": "b\n"})
    own = loose_objects(user)
    commits = add_nodes(user.repository, 40)
    assert own <= loose_objects(user)
    assert len(loose_objects(user)) - len(own) < 10
    assert 1 <= len(packs(user)) <= 3
    assert_whole(user, commits)


def test_objects_are_packed_before_the_session_ends(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    base, own = repository.head().commit, loose_objects(user)
    for number in range(1, 30):
        commit = repository.commit(base, {"src/a.txt": f"{number}\n"}, {}, "m").commit
    assert packs(user)
    assert loose_objects(user) == own
    assert repository.content(commit, "src/a.txt") == b"29\n"


def test_git_and_other_processes_see_what_waits_here(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository, other = user.repository, user.repository
    commit = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    assert packs(user) == []
    assert repository.content(commit, "src/a.txt") == b"1\n"
    assert other.content(commit, "src/a.txt") == b"1\n"
    second = repository.commit(commit, {"src/a.txt": "2\n"}, {}, "m").commit
    assert repository.git.run("show", f"{second}:src/a.txt") == "2\n"
    assert_whole(user, [commit, second])


def test_what_a_killed_process_left_waiting_is_found_by_the_next(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    own = loose_objects(user)
    program = (
        "import os, sys; from pathlib import Path; from loopty.git.repository import Repository\n"
        "repository = Repository.open(Path(sys.argv[1]))\n"
        "print(repository.commit(sys.argv[2], {'src/a.txt': 'left'}, {}, 'm').commit, flush=True)\n"
        "os.kill(os.getpid(), 9)"
    )
    command = [sys.executable, "-c", program, str(user.top), base]
    left = subprocess.run(command, stdout=subprocess.PIPE, text=True).stdout.strip()
    assert len(waiting_files(user)) == 1
    assert packs(user) == []
    repository = user.repository
    assert repository.git.run("show", f"{left}:src/a.txt") == "left"
    assert waiting_files(user) == []
    assert loose_objects(user) == own
    assert_whole(user, [left])


def test_a_file_of_waiting_objects_that_is_damaged_or_foreign_gives_only_whole_objects(
    user: User, tmp_path: Path
) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commits = [repository.commit(base, {"src/a.txt": f"{number}\n"}, {}, "m").commit for number in range(3)]
    (file,) = waiting_files(user)
    content = file.read_bytes()
    folder = file.parent
    last = content.rindex(f"{commits[2]} commit".encode())
    (folder / "torn").write_bytes(content[: last + 70])
    (folder / "changed").write_bytes(content.replace(b"0\n", b"9\n"))
    (folder / "garbage").write_bytes(os.urandom(5_000))
    (folder / "long").write_bytes(b"0" * 40 + b" blob 999999999\n")
    (tmp_path / "elsewhere").write_bytes(content)
    (folder / "link").symlink_to(tmp_path / "elsewhere")
    os.mkfifo(folder / "fifo")
    (folder / "folder").mkdir()
    waiting = repository.packs._waiting
    waiting.clear()  # what is found comes from the other files
    waiting.close()
    other = user.repository
    other.git.run("status")
    assert sorted(path.name for path in waiting_files(user)) == ["fifo", "folder", "link"]
    assert other.content(commits[1], "src/a.txt") == b"1\n"
    with pytest.raises(GitError, match="there is no object"):
        other.content(commits[2], "src/a.txt")
    assert (tmp_path / "elsewhere").read_bytes() == content
    assert_whole(user, commits[:2])


def test_what_a_killed_process_left_on_a_full_disk_hinders_nobody(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    base = user.commits({"src/a.txt": "0\n"})
    first = user.repository
    commit = first.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    (file,) = waiting_files(user)
    left = file.with_name("left")
    left.write_bytes(file.read_bytes())
    first.packs._waiting.clear()
    with monkeypatch.context() as full:
        full.setattr(object_packs, "write_pack", refuse)
        assert user.repository.head().commit == base
        assert left.exists()
    assert user.repository.has_commit(commit)
    assert not left.exists()


def test_objects_of_another_hash_are_left_out(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    repository.commit(base, {"src/a.txt": "1\n"}, {}, "m")
    name = object_name("blob", b"x", "0" * 64)
    (waiting_files(user)[0].parent / "left").write_bytes(f"{name} blob 1\nx".encode() * 2)
    repository.git.run("status")
    assert [path.name for path in waiting_files(user)] != ["left"]
    user.git("fsck", "--strict")


def test_a_file_of_waiting_objects_that_somebody_removes_is_written_again(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    first = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    waiting_files(user)[0].unlink()
    second = repository.commit(base, {"src/a.txt": "2\n"}, {}, "m").commit
    other = user.repository
    assert [other.content(commit, "src/a.txt") for commit in (first, second)] == [b"1\n", b"2\n"]


def test_where_there_are_no_locks_objects_wait_all_the_same(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(37, "No locks available")

    monkeypatch.setattr(fcntl, "flock", refuse)
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commit = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    assert user.repository.content(commit, "src/a.txt") == b"1\n"
    assert len(waiting_files(user)) == 1
    assert repository.has_commit(commit)


def test_a_refused_commit_takes_nothing_from_one_of_another_thread(
    user: User, monkeypatch: pytest.MonkeyPatch
) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    store = repository._store
    blob = store.write("blob", b"of another thread", base)
    with monkeypatch.context() as full:

        def refuse(*_args: object) -> None:
            raise OSError(28, "No space left on device")

        full.setattr(os, "write", refuse)
        with pytest.raises(Misuse):
            repository.commit(base, {"src/a.txt": "1\n"}, {}, "m")
    commit = repository.commit(base, {"src/a.txt": "of another thread"}, {}, "m").commit
    assert repository.files(commit)["src/a.txt"].blob == blob
    repository.packs.end()
    assert_whole(user, [commit])


def test_a_link_in_place_of_the_folder_of_waiting_objects_is_refused(user: User, tmp_path: Path) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    folder = user.top / ".git/loopty-objects"
    folder.symlink_to(tmp_path)
    with pytest.raises(Misuse, match=r"\.git/loopty-objects is a link.*: move it away, then try again$"):
        user.repository.commit(base, {"src/a.txt": "1\n"}, {}, "m")
    folder.unlink()
    assert user.repository.commit(base, {"src/a.txt": "1\n"}, {}, "m")


def test_eight_processes_leave_no_file_of_waiting_objects(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    workers = [start_worker(user, worker, 12) for worker in range(1, 9)]
    commits = [line for worker in workers for line in worker.communicate()[0].split()]
    assert len(commits) == 8 * 12
    assert waiting_files(user) == []
    assert_whole(user, commits)


def test_a_large_object_does_not_wait(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_packs, "_LARGEST_WAITING", 1_000)
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commit = repository.commit(base, {"src/a.txt": "1" * 2_000, "b": "2"}, {}, "m").commit
    assert waiting_files(user)[0].stat().st_size < 1_000
    repository.packs.end()
    assert waiting_files(user) == []
    assert_whole(user, [commit])


def test_a_full_disk_refuses_the_commit_and_keeps_the_others(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    first = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    write = os.write
    is_full = True

    def write_half(file: int, content: bytes) -> int:
        if is_full and len(content) < 100:
            raise OSError(28, "No space left on device")
        return write(file, content[: len(content) - 90] if is_full else content)

    with monkeypatch.context() as patch:
        patch.setattr(os, "write", write_half)
        with pytest.raises(Misuse, match=r"No space left on device.*free some space"):
            repository.commit(base, {"src/a.txt": "2\n"}, {}, "m")
        is_full = False
        last = repository.commit(base, {"src/a.txt": "3\n"}, {}, "m").commit
    assert user.repository.content(first, "src/a.txt") == b"1\n"
    assert user.repository.content(last, "src/a.txt") == b"3\n"
    assert_whole(user, [first, last])


def test_each_process_that_adds_one_node_leaves_few_files(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    own, commits = loose_objects(user), []
    for number in range(1, 31):
        repository = user.repository
        commit = repository.commit(repository.head().commit, {"src/a.txt": f"{number}\n"}, {}, "m").commit
        refs = NodeRefs(repository)
        refs.hold_soon(1, commit)
        refs.join_packs()
        refs.finish_node()
        commits.append(commit)
        assert not loose_objects(user) - own
        assert len(packs(user)) <= 10
    assert all(any(folder.iterdir()) for folder in (user.top / ".git/objects").glob("[0-9a-f][0-9a-f]"))
    assert_whole(user, commits)


def test_a_small_pack_does_not_keep_others_from_being_joined(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    base = repository.head().commit
    for number in range(12):
        size = 1 if number == 0 else 20
        repository.commit(base, {"src/a.txt": f"{number} {os.urandom(50 * size).hex()}\n"}, {}, "m")
        repository.packs.finish_node()
    assert len(packs(user)) < 10


def test_nothing_is_packed_for_a_user_who_does_not_let_git_pack(user: User) -> None:
    user.commits({"src/a.txt": "0\n"})
    user.git("config", "gc.auto", "0")
    for lists_settings in (False, True):
        repository = user.repository
        if lists_settings:
            assert repository.program_settings() == {}
        repository.commit(repository.head().commit, {"src/a.txt": f"{lists_settings}\n"}, {}, "m")
        repository.packs.finish_node()
    assert not packs(user)


def test_nodes_that_an_older_version_left_loose_are_packed(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    user.commits({"src/a.txt": "0\n"})
    own, commits = loose_objects(user), []
    repository = user.repository
    with monkeypatch.context() as older:
        older.setattr(object_packs, "_LARGEST_WAITING", -1)
        for number in range(10):
            commit = repository.commit(repository.head().commit, {"src/a.txt": f"{number}\n"}, {}, "m").commit
            NodeRefs(repository).hold(1, [commit])
            commits.append(commit)
    assert len(loose_objects(user) - own) > 30
    NodeRefs(user.repository).finish_packs(1)
    assert len(loose_objects(user) - own) <= 1
    assert all(any(folder.iterdir()) for folder in (user.top / ".git/objects").glob("[0-9a-f][0-9a-f]"))
    assert_whole(user, commits)


def test_a_commit_of_the_user_that_a_run_begins_with_stays_loose(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    own, repository = loose_objects(user), user.repository
    NodeRefs(repository).hold(1, [base])
    repository.packs.pack_loose("refs/loopty/runs/1")
    assert own <= loose_objects(user)


def test_the_number_of_packs_grows_slowly(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(object_packs, "_OBJECTS_PER_PACK", 8)
    monkeypatch.setattr(object_packs, "_MOST_PACKS", 3)
    user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commits = []
    refs, base = NodeRefs(repository), repository.head().commit
    for number in range(1, 61):
        commit = repository.commit(base, {"src/a.txt": f"{number}\n"}, {}, "m").commit
        refs.hold(1, [commit])
        refs.join_packs()
        if repository.packs._merging:
            repository.packs._merging.join()
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


def test_a_pack_that_a_killed_process_began_is_not_kept_for_ever(user: User) -> None:
    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    repository.commit(base, {"src/a.txt": "1\n"}, {}, "m")
    repository.packs.end()
    (pack,) = packs(user)
    keep, index = pack.with_suffix(".keep"), pack.with_suffix(".idx")
    keep.write_bytes(BEING_WRITTEN)
    assert repository.packs.packs() == []
    os.utime(keep, (1, 1))
    assert [found.path for found in repository.packs.packs()] == [pack]
    assert not keep.exists()
    index.unlink()
    keep.write_bytes(BEING_WRITTEN)
    os.utime(keep, (1, 1))
    assert repository.packs.packs() == []
    assert not keep.exists()


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


def test_what_cannot_be_packed_waits_until_it_can(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    base = user.commits({"src/a.txt": "0\n"})
    repository = user.repository
    commit = repository.commit(base, {"src/a.txt": "1\n"}, {}, "m").commit
    with monkeypatch.context() as full:
        full.setattr(object_packs, "write_pack", refuse)
        with pytest.raises(Misuse, match=r"No space left on device.*free some space"):
            NodeRefs(repository).hold(1, [commit])
        repository.packs.end()
        assert len(waiting_files(user)) == 1
    NodeRefs(repository).hold(1, [commit])
    assert_whole(user, [commit])


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
