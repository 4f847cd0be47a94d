"""The user's repository: loopty changes nothing of the user's, and nothing planted in it runs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopty.domain.errors import Misuse
from loopty.git.command import GitError
from loopty.git.repository import Repository

NAMES = [
    "plain",
    "with space",
    'quo"te',
    "it's",
    "new\nline",
    "über/日本.txt",
    "-rf",
    "tab\there",
    "back\\slash",
    "*",
    "$HOME",
]

OURS = (
    ".git/objects",
    ".git/loopty",
    ".git/refs/loopty",
    ".git/refs/heads/loopty-",
    ".git/logs/refs/heads/loopty-",
)


def everything(top: Path) -> dict[str, tuple[object, ...]]:
    """Every file of a repository by path: its mode, time and content."""
    found: dict[str, tuple[object, ...]] = {}
    for path in sorted(top.rglob("*")):
        name, status = str(path.relative_to(top)), path.lstat()
        if name.startswith(OURS):
            continue
        content: object = None
        if path.is_symlink():
            content = path.readlink()
        elif path.is_file():
            content = hashlib.sha256(path.read_bytes()).hexdigest()
        # Git itself updates the time of a shared index whenever it reads it.
        written = None if path.is_dir() or "sharedindex" in name else status.st_mtime_ns
        found[name] = (status.st_mode, written, content)
    return found


def use(repository: Repository, into: Path) -> None:
    """Everything that loopty ever does to a repository, except applying a patch on request."""
    base = repository.working_tree.snapshot("The working tree when a run began")
    made = repository.commit(base.commit, {"added.py": "1\n", "plain": None}, repository.files(base.commit), "m")
    repository.refs.make_branch("loopty-1.1", made.commit)
    assert repository.refs.branch_tip("loopty-1.1") == made.commit
    repository.changes(base.commit, made.commit)
    repository.patches.between(base.commit, made.commit)
    repository.transplant(base.commit, made.commit, "m")
    into.mkdir()
    repository.check_out(made.commit, list(repository.files(made.commit)), into)


@pytest.fixture
def busy(user: Any) -> Any:
    """A user in the middle of something: staged, unstaged, untracked, ignored, stashed, linked."""
    user.commits({name: name for name in NAMES} | {"stays": "0", "gone": "0", ".gitignore": "*.o\n"})
    user.writes({"stays": "stashed"})
    user.git("stash")
    user.writes({"stays": "staged"})
    user.git("add", "stays")
    user.writes({"stays": "unstaged", "untracked": "u", "ignored.o": "i"})
    (user.top / "gone").unlink()
    (user.top / "link").symlink_to("stays")
    (user.top / "dangling").symlink_to("/nowhere")
    (user.top / "run.sh").write_text("#!/bin/sh\n")
    (user.top / "run.sh").chmod(0o755)
    return user


def test_the_users_files_index_and_branches_do_not_change(busy: Any, tmp_path: Path) -> None:
    status = busy.git("status", "--porcelain", "-z")
    before = everything(busy.top)
    use(busy.repository, tmp_path / "out")
    assert everything(busy.top) == before
    assert busy.git("status", "--porcelain", "-z") == status
    refs = busy.git("for-each-ref", "--format=%(refname)").decode().split()
    assert refs == ["refs/heads/loopty-1.1", "refs/heads/main", "refs/stash"]


def test_a_snapshot_is_the_working_tree_without_ignored_files(busy: Any, tmp_path: Path) -> None:
    repository = busy.repository
    base = repository.working_tree.snapshot("m")
    listing = repository.files(base.commit)
    assert set(listing) == {*NAMES, "stays", "untracked", "link", "dangling", "run.sh", ".gitignore"}
    assert (listing["link"].mode, listing["run.sh"].mode) == ("120000", "100755")
    assert repository.content(base.commit, "stays") == b"unstaged"
    out = tmp_path / "out"
    out.mkdir()
    repository.check_out(base.commit, list(listing), out)
    for path in listing:
        here, there = busy.top / path, out / path
        assert here.lstat().st_mode & 0o111 == there.lstat().st_mode & 0o111
        assert (
            here.readlink() == there.readlink() if here.is_symlink() else here.read_bytes() == there.read_bytes()
        )


def test_the_snapshot_of_a_clean_tree_is_head(user: Any) -> None:
    head = user.commits({"a": "1"})
    assert user.repository.working_tree.snapshot("m").commit == head


@pytest.mark.parametrize("name", NAMES)
def test_files_of_any_name_can_be_changed_added_and_deleted(user: Any, name: str) -> None:
    user.commits({name: "before", "other": "1"})
    repository = user.repository
    base = repository.head()
    listing = repository.files(base.commit)
    changed = repository.commit(base.commit, {name: "after", f"new {name}": b"\xff\0"}, listing, "m")
    assert repository.content(changed.commit, name) == b"after"
    assert repository.content(changed.commit, f"new {name}") == b"\xff\0"
    assert {change.path for change in repository.changes(base.commit, changed.commit)} == {name, f"new {name}"}
    deleted = repository.commit(base.commit, {name: None}, listing, "m")
    assert set(repository.files(deleted.commit)) == {"other"}


def test_a_name_that_is_not_utf_8_is_exported_unchanged(user: Any, tmp_path: Path) -> None:
    raw = os.fsencode(user.top) + b"/caf\xe9"
    Path(os.fsdecode(raw)).write_text("x")
    user.commits({"a": "1"})
    out = tmp_path / "out"
    out.mkdir()
    repository = user.repository
    repository.check_out(repository.head().commit, list(repository.files(repository.head().commit)), out)
    assert sorted(os.fsencode(path.name) for path in out.iterdir()) == [b"a", b"caf\xe9"]


def test_an_edit_keeps_the_executable_bit(user: Any) -> None:
    user.writes({"run.sh": "1"})
    (user.top / "run.sh").chmod(0o755)
    user.commits()
    repository = user.repository
    base = repository.head()
    made = repository.commit(base.commit, {"run.sh": "2"}, repository.files(base.commit), "m")
    assert repository.files(made.commit)["run.sh"].mode == "100755"


def test_no_hook_and_no_fsmonitor_ever_runs(user: Any, tmp_path: Path) -> None:
    user.commits({"plain": "1"})
    marker = tmp_path / "ran"
    script = f"#!/bin/sh\ntouch '{marker}'\n"
    hooks = user.top / ".git" / "hooks"
    for name in (
        "post-checkout",
        "pre-commit",
        "post-commit",
        "reference-transaction",
        "post-index-change",
        "fsm",
    ):
        (hooks / name).write_text(script)
        (hooks / name).chmod(0o755)
    user.git("config", "core.fsmonitor", str(hooks / "fsm"))
    user.git("config", "diff.external", str(hooks / "fsm"))
    user.writes({"plain": "2"})
    use(user.repository, tmp_path / "out")
    assert not marker.exists()
    user.git("status")
    assert marker.exists(), "the trap itself does not work"


def test_a_patch_does_not_depend_on_the_users_diff_settings(user: Any) -> None:
    user.commits({"a": "1\n", "latin": "x\n"})
    for setting in (
        "diff.noprefix=true",
        "color.ui=always",
        "diff.mnemonicPrefix=true",
        "diff.wsErrorHighlight=all",
    ):
        user.git("config", *setting.split("="))
    repository = user.repository
    base = repository.head()
    made = repository.commit(base.commit, {"a": "2\n", "b": "1\n"}, repository.files(base.commit), "m")
    repository.working_tree.apply(repository.patches.between(base.commit, made.commit))
    assert (user.top / "a").read_text() == "2\n"
    assert (user.top / "b").read_text() == "1\n"


def test_a_patch_of_bytes_that_are_not_utf_8_applies(user: Any) -> None:
    (user.top / "latin").write_bytes(b"caf\xe9\nend\n")
    user.commits()
    repository = user.repository
    base = repository.head()
    made = repository.commit(base.commit, {"latin": b"th\xe9\nend\n"}, repository.files(base.commit), "m")
    repository.working_tree.apply(repository.patches.between(base.commit, made.commit))
    assert (user.top / "latin").read_bytes() == b"th\xe9\nend\n"


def test_a_detached_head_and_a_linked_worktree_work_the_same(busy: Any, tmp_path: Path) -> None:
    busy.git("worktree", "add", "--detach", "--quiet", str(tmp_path / "linked"))
    (tmp_path / "linked" / "more").write_text("1")
    before, main = everything(tmp_path / "linked"), everything(busy.top)
    repository = Repository.open(tmp_path / "linked")
    assert repository.top == tmp_path.resolve() / "linked"
    use(repository, tmp_path / "out")
    assert "more" in repository.files(repository.working_tree.snapshot("m").commit)
    assert everything(tmp_path / "linked") == before
    assert everything(busy.top) == main


def test_a_submodule_stays_an_entry(user: Any, start: Callable[..., Any], tmp_path: Path) -> None:
    inner = start(user.top / "inner")
    inner.commits({"x": "1"})
    user.git("-c", "protocol.file.allow=always", "submodule", "--quiet", "add", "./inner", "inner")
    user.commits({"plain": "1"})
    inner.writes({"x": "dirty"})
    repository = user.repository
    assert repository.files(repository.working_tree.snapshot("m").commit)["inner"].mode == "160000"
    use(repository, tmp_path / "out")
    assert list((tmp_path / "out" / "inner").iterdir()) == []


def test_a_repository_of_sha256_objects_works(start: Callable[..., Any], tmp_path: Path) -> None:
    try:
        user = start(tmp_path / "sha256", "--object-format=sha256")
    except subprocess.CalledProcessError:
        pytest.skip("this git has no sha256 objects")
    user.commits({"plain": "1"})
    use(user.repository, tmp_path / "out")
    assert len(user.repository.head().commit) == 64


def test_sparse_and_split_index_are_left_alone(user: Any, tmp_path: Path) -> None:
    user.commits({"plain": "1", "in/a": "1", "out/b": "1"})
    user.git("config", "core.splitIndex", "true")
    user.git("update-index", "--split-index")
    user.git("sparse-checkout", "set", "in")
    user.writes({"in/a": "2"})
    before = everything(user.top)
    repository = user.repository
    use(repository, tmp_path / "out")
    assert everything(user.top) == before
    assert (tmp_path / "out" / "out" / "b").read_text() == "1"
    assert (tmp_path / "out" / "in" / "a").read_text() == "2"


def test_folders_without_a_baseline_are_misuse_with_a_remedy(
    user: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(Misuse, match="commit once"):
        user.repository.working_tree.snapshot("m")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path))
    (tmp_path / "plain").mkdir()
    with pytest.raises(Misuse, match="git init"):
        Repository.open(tmp_path / "plain")
    subprocess.run(["git", "init", "--quiet", "--bare", tmp_path / "bare"], check=True)
    with pytest.raises(Misuse):
        Repository.open(tmp_path / "bare")


@pytest.mark.skipif(os.geteuid() != 0, reason="only root gives files to another user")
def test_a_repository_of_another_user_is_refused_with_the_remedy(tmp_path):
    subprocess.run(["git", "init", "-q"], cwd=tmp_path, check=True)
    for path in (tmp_path, tmp_path / ".git"):
        os.chown(path, 1234, 1234)
    with pytest.raises(Misuse, match=r"dubious ownership.* chown"):
        Repository.open(tmp_path)


def test_a_file_that_git_cannot_add_is_misuse_with_the_message_of_git(
    user: Any, start: Callable[..., Any]
) -> None:
    user.commits({"a": "1"})
    start(user.top / "nested")
    with pytest.raises(Misuse, match="nested"):
        user.repository.working_tree.snapshot("m")


def test_variables_that_point_git_elsewhere_are_ignored(
    user: Any, start: Callable[..., Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    user.commits({"a": "1"})
    other = start(tmp_path / "other")
    monkeypatch.setenv("GIT_DIR", str(other.top / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(tmp_path / "index"))
    repository = Repository.open(user.top)
    assert set(repository.files(repository.working_tree.snapshot("m").commit)) == {"a"}
    assert not (tmp_path / "index").exists()


def test_a_repository_planted_in_a_draft_is_refused(user: Any) -> None:
    user.commits({"file": "0"})
    draft = user.top / ".loopty" / "drafts" / "1"
    (draft / "deeper").mkdir(parents=True)
    assert Repository.open(draft).top == user.top
    subprocess.run(["git", "init", "--quiet", str(draft)], check=True)
    for start in (draft, draft / "deeper"):
        with pytest.raises(Misuse, match=f"start in {user.top}$"):
            Repository.open(start)


def test_a_commit_that_reads_like_an_option_is_not_one(user: Any, tmp_path: Path) -> None:
    head = user.commits({"a": "1"})
    with pytest.raises(GitError):
        user.repository.patches.between(head, f"--output={tmp_path / 'written'}")
    with pytest.raises(GitError):
        user.repository.check_out(f"--index-output={tmp_path / 'written'}", ["a"], tmp_path)
    with pytest.raises((GitError, Misuse)):
        user.repository.refs.make_branch("mine", "--help")
    assert not (tmp_path / "written").exists()
