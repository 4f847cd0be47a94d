"""Objects written without git equal those that git writes, even while other processes are at work."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from loopty.git import command
from loopty.git.command import GitError
from loopty.git.objects import TreeEntry
from loopty.git.repository import Repository

from .conftest import User, start_repository

Content = tuple[str, bytes]
"""The mode of a file and its content."""
Files = dict[str, Content]

# Directories sort as if they ended in a slash: here are characters that sort before and after a slash.
NAMES = [
    "a",
    "a.b",
    "a-b",
    "a0",
    "A",
    "b",
    "with space",
    "ü",
    "日本",
    "caf\udce9",
    "new\nline",
    'quo"te',
    "tab\t",
    "-rf",
]
GITLINK = b"1" * 40

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=3).map("/".join)
contents = st.one_of(
    st.tuples(
        st.sampled_from(["100644", "100755"]), st.sampled_from([b"", b"1\n", b"1\n2\n", b"\0\xff", b"no end"])
    ),
    st.just(("120000", b"a")),
    st.just(("160000", GITLINK)),
)


def possible(files: Files) -> Files:
    """Only files that do not need another file to be a directory."""
    kept: Files = {}
    for path, content in files.items():
        if not any(path.startswith(f"{other}/") or other.startswith(f"{path}/") for other in kept):
            kept[path] = content
    return kept


trees = st.dictionaries(paths, contents, max_size=8).map(possible)


def tree_by_git(user: User, files: Files) -> str:
    """The tree that git itself writes for these files."""
    env = {**os.environ, "GIT_DIR": str(user.top / ".git")}
    with tempfile.TemporaryDirectory() as folder:
        env["GIT_INDEX_FILE"] = f"{folder}/index"

        def git(*args: str, stdin: bytes = b"") -> bytes:
            return subprocess.run(["git", *args], env=env, input=stdin, check=True, capture_output=True).stdout

        rows = []
        for path, (mode, content) in files.items():
            blob = content if mode == "160000" else git("hash-object", "-w", "--stdin", stdin=content).strip()
            rows.append(f"{mode} ".encode() + blob + b"\t" + os.fsencode(path) + b"\0")
        git("update-index", "-z", "--index-info", stdin=b"".join(rows))
        return git("write-tree").decode().strip()


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> User:
    """A repository that many examples are written to."""
    return start_repository(tmp_path_factory.mktemp("objects").resolve() / "repo")


def entries_by_git(user: User, tree: str) -> dict[str, TreeEntry]:
    rows = user.git("ls-tree", "-r", "-z", "--full-tree", tree).split(b"\0")[:-1]
    split = (row.partition(b"\t") for row in rows)
    return {
        os.fsdecode(path): TreeEntry(meta.split()[0].decode(), meta.split()[2].decode()) for meta, _, path in split
    }


def changed_paths_by_git(user: User, before: str, after: str) -> list[str]:
    return [
        os.fsdecode(name)
        for name in user.git("diff-tree", "-r", "-z", "--no-renames", "--name-only", before, after).split(b"\0")[
            :-1
        ]
    ]


@settings(max_examples=25, deadline=None)
@given(before=trees, after=trees)
def test_a_commit_equals_the_one_that_git_makes(plain: User, before: Files, after: Files) -> None:
    tree = tree_by_git(plain, before)
    base = plain.git("-c", "user.name=u", "-c", "user.email=u@h", "commit-tree", tree, "-m", "m").decode().strip()
    repository = plain.repository
    # An edit changes content and keeps the mode; a new file is a plain file.
    wanted = {
        path: (before[path][0] if path in before else "100644", content)
        for path, (mode, content) in after.items()
        if mode.startswith("100")
    }
    wanted = {path: content for path, content in wanted.items() if content[0].startswith("100")}
    edits: dict[str, bytes | None] = {path: None for path in before if path not in wanted}
    edits |= {path: content for path, (_, content) in wanted.items()}
    made = repository.commit(base, edits, repository.entries(base, edits), "made\n")
    assert made.tree == tree_by_git(plain, wanted)
    assert dict(repository.files(base)) == entries_by_git(plain, tree)
    assert list(repository.files(made.commit)) == list(entries_by_git(plain, made.tree))
    assert [change.path for change in repository.changes(base, made.commit)] == changed_paths_by_git(
        plain, tree, made.tree
    )
    assert repository.patches.apply_to_tree(tree, repository.patches.between(base, made.commit)) == made.tree
    plain.git("fsck", "--strict", "--no-dangling", made.commit)


def test_deleting_missing_files_changes_nothing(user: User) -> None:
    user.commits({"file": "1", "folder/inner": "1"})
    repository = user.repository
    base = repository.head()
    edits = {"file/below": None, "folder": None, "folder/other": None, "nowhere/at": None}
    made = repository.commit(base.commit, edits, {}, "m\n")
    assert made.tree == base.tree


def test_a_message_that_git_would_refuse_makes_a_valid_commit(user: User) -> None:
    base = user.commits({"a": "1"})
    repository = user.repository
    made = repository.commit(base, {"a": "2"}, {}, "with \0 and \ud800 and\nmore")
    user.git("fsck", "--strict", made.commit)
    assert user.git("log", "-1", "--format=%B", made.commit).startswith(b"with  and ? and\nmore")


def test_the_last_file_can_be_deleted(user: User) -> None:
    base = user.commits({"a/b/c": "1"})
    repository = user.repository
    made = repository.commit(base, {"a/b/c": None}, {}, "m\n")
    assert user.git("ls-tree", made.commit) == b""
    user.git("fsck", "--strict", made.commit)


def test_a_large_file_is_read_back_unchanged(user: User) -> None:
    base = user.commits({"a": "1"})
    content = os.urandom(1 << 20) * 4
    repository = user.repository
    made = repository.commit(base, {"large": content}, {}, "m\n")
    assert repository.content(made.commit, "large") == content
    assert (
        repository.patches.apply_to_tree(repository.head().tree, repository.patches.between(base, made.commit))
        == made.tree
    )


def test_packed_objects_packed_branches_and_alternates_are_read(user: User, tmp_path: Path) -> None:
    base = user.commits({"a": "1", "b/c": "2"})
    first = user.repository
    first.refs.make_branch("loopty-1.1", base)
    user.git("pack-refs", "--all")
    user.git("gc", "--quiet")
    assert set(first.files(base)) == {"a", "b/c"}
    first.refs.make_branch("loopty-1.1", base)
    assert first.refs.branch_tip("loopty-1.1") == base
    user.git("clone", "--quiet", "--shared", str(user.top), str(tmp_path / "shared"))
    shared = Repository.open(tmp_path / "shared")
    made = shared.commit(base, {"a": "3"}, {}, "m\n")
    assert shared.content(made.commit, "b/c") == b"2"
    shared.refs.make_branch("loopty-1.2", made.commit)
    User(shared.top).git("fsck", "--strict")


def kill_sessions(repository: Repository) -> None:
    """Kill the git processes, as a user or a machine that is short of memory would."""
    for session in (repository._store._content_session, repository.patches._session, repository.refs._session):
        for child in session._child:
            child.kill()
            child.wait()


def test_a_killed_git_is_restarted(user: User) -> None:
    base = user.commits({"a": "1\n"})
    repository = user.repository
    for number in range(3):
        kill_sessions(repository)
        made = repository.commit(base, {"a": f"{number} more\n"}, {}, "m\n")
        repository.refs.make_branch(f"loopty-1.{number}", made.commit)
        assert b"+%d more" % number in repository.patches.between(base, made.commit)
        assert repository.refs.branch_tip(f"loopty-1.{number}") == made.commit
    user.git("fsck", "--strict")


def test_a_git_that_has_answered_often_is_replaced(user: User, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(command, "_MOST_ANSWERS", 3)
    base = user.commits({"a": "1\n"})
    repository = user.repository
    made = repository.commit(base, {"a": "2\n"}, {}, "m\n").commit
    processes = []
    for _ in range(7):
        assert b"\n+2\n" in repository.patches.between(base, made)
        processes.append(repository.patches._session._child[0].pid)
    assert [processes.count(one) for one in dict.fromkeys(processes)] == [3, 3, 1]


def test_a_question_that_git_cannot_answer_raises_and_the_next_one_is_answered(user: User) -> None:
    base = user.commits({"a": "1\n", "b": "1\0"})
    made = user.commits({"a": "2\n"})
    binary = user.commits({"b": "2\0"})
    repository = user.repository
    for path, commit, before in (("a", made, base), ("b", binary, made)):
        blob = repository.files(commit)[path].blob
        missing = user.top / ".git" / "objects" / blob[:2] / blob[2:]
        content = missing.read_bytes()
        missing.unlink()
        with pytest.raises(GitError, match="cat-file"):
            repository.blob(blob)
        with pytest.raises(GitError, match="diff-tree"):
            repository.patches.between(before, commit)
        missing.write_bytes(content)
        assert repository.blob(blob)[:1] == b"2"
        assert repository.patches.between(before, commit).startswith(b"diff --git ")


INTERRUPTED = """
import os, signal, sys
from pathlib import Path
from loopty.git.repository import Repository

signal.signal(signal.SIGINT, lambda *_: None)
repository = Repository.open(Path(sys.argv[1]))
base = repository.head().commit
made = repository.commit(base, {"a": "2"}, {}, "m")
repository.patches.between(base, made.commit), repository.refs.make_branch("loopty-1.1", made.commit)
sessions = [repository._store._content_session, repository.patches._session, repository.refs._session]
before = [session._child[0].pid for session in sessions]
os.killpg(0, signal.SIGINT)
Repository.open(Path(sys.argv[1])).blob(repository.files(made.commit)["a"].blob)
repository.patches.between(made.commit, base), repository.refs.make_branch("loopty-1.2", made.commit)
print([session._child[0].pid for session in sessions] == before)
"""


def test_an_interrupt_from_the_terminal_does_not_reach_git(user: User) -> None:
    user.commits({"a": "1"})
    command = [sys.executable, "-c", INTERRUPTED, str(user.top)]
    result = subprocess.run(command, capture_output=True, text=True, start_new_session=True, timeout=120)
    assert (result.returncode, result.stdout, result.stderr) == (0, "True\n", "")


@pytest.mark.parametrize("name", ["HEAD", "-x", "a b", "a..b", "x.lock"])
def test_an_invalid_branch_name_is_refused(user: User, name: str) -> None:
    base = user.commits({"a": "1"})
    with pytest.raises(Exception, match="cannot make branch"):
        user.repository.refs.make_branch(name, base)
    assert user.git("for-each-ref", "--format=%(refname)").decode().split() == ["refs/heads/main"]


BUSY = """
import sys
from pathlib import Path
from loopty.git.repository import Repository

def busy(repository, base, worker):
    for number in range(6):
        edits = {"shared/x": f"{number}", f"own/{worker}": f"{worker} {number}"}
        commit = repository.commit(base, edits, {}, "made").commit
        repository.refs.make_branch(f"loopty-{worker}.{number}", commit)
        assert repository.content(commit, f"own/{worker}") == f"{worker} {number}".encode()
        assert repository.patches.apply_to_tree(repository.head().tree, repository.patches.between(base, commit))
        assert repository.refs.branch_tip(f"loopty-{worker}.{number}") == commit

if __name__ == "__main__":
    busy(Repository.open(Path(sys.argv[1])), sys.argv[2], int(sys.argv[3]))
"""


def test_threads_and_processes_work_side_by_side(user: User) -> None:
    base = user.commits({"a": "1"})
    repository, space = user.repository, {"__name__": "here"}
    exec(BUSY, space)
    command = [sys.executable, "-c", BUSY, str(user.top), base]
    there = [
        subprocess.Popen([*command, str(worker)], stdout=subprocess.PIPE, stderr=subprocess.STDOUT)
        for worker in range(8)
    ]
    with ThreadPoolExecutor(4) as threads:
        here: Any = space["busy"]
        for future in [threads.submit(here, repository, base, worker) for worker in range(8, 12)]:
            future.result(timeout=300)
    assert [process.communicate(timeout=300)[0] for process in there] == [b""] * len(there)
    assert len(repository.refs.branches("loopty-*")) == 12 * 6
    user.git("fsck", "--strict")
