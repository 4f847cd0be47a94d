"""An overlay shows exactly the tree of the commit; here the mounts are copied in their order."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from loopty.domain.launch import Mount
from loopty.git.objects import PathChange, TreeEntry
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces.overlay import overlay_mounts

Tree = dict[str, tuple[str, bytes]]
"""Mode and content by path."""

_parts = st.sampled_from(["a", "b", "c", "d"])
_paths = st.lists(_parts, min_size=1, max_size=3).map("/".join)
_contents = st.tuples(
    st.sampled_from(["100644", "100644", "100644", "100755", "120000"]),
    st.sampled_from([b"a", b"b", b"a/b", b"."]),
)


def _overlay(folder: Path, changes: list[PathChange], content: Callable[[TreeEntry], bytes]) -> list[Mount]:
    here = SafeFolder(folder)
    return overlay_mounts(here.below("export"), changes, content, here.below("area"), "/tree")


@st.composite
def trees(draw: st.DrawFn) -> Tree:
    tree: Tree = {}
    for path, entry in draw(st.dictionaries(_paths, _contents, max_size=10)).items():
        below = any(other.startswith(f"{path}/") for other in tree)
        if not below and not any(path.startswith(f"{other}/") for other in tree):
            tree[path] = entry
    return tree


@st.composite
def changed_trees(draw: st.DrawFn) -> tuple[Tree, Tree]:
    """A tree, and the same with files, whole directories or kinds changed."""
    before = draw(trees())
    fresh = draw(trees())
    kept = {path: entry for path, entry in before.items() if draw(st.integers(0, 3))}
    gone = draw(st.none() | _paths)
    kept = {path: entry for path, entry in kept.items() if not gone or not f"{path}/".startswith(f"{gone}/")}
    after = dict(fresh) if draw(st.booleans()) else {}
    for path, entry in kept.items():
        clash = any(other.startswith(f"{path}/") or path.startswith(f"{other}/") for other in after)
        if not clash:
            after.setdefault(path, entry)
    return before, after


@settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(changed_trees())
def test_the_mounts_show_exactly_the_changed_tree(
    tmp_path_factory: pytest.TempPathFactory, both: tuple[Tree, Tree]
) -> None:
    before, after = both
    folder = tmp_path_factory.mktemp("overlay")
    _lay_out(folder / "export", before)
    frozen = _tree_on_disk(folder / "export")
    contents = {f"{mode} {raw!r}": raw for mode, raw in [*before.values(), *after.values()]}

    def entry(tree: Tree, path: str) -> TreeEntry | None:
        return TreeEntry(tree[path][0], f"{tree[path][0]} {tree[path][1]!r}") if path in tree else None

    changes = [
        PathChange(path, entry(before, path), entry(after, path))
        for path in sorted({*before, *after})
        if before.get(path) != after.get(path)
    ]
    mounts = overlay_mounts(
        SafeFolder(folder, ("export",)),
        changes,
        lambda file: contents[file.blob],
        SafeFolder(folder, ("area",)),
        "/tree",
    )
    _lay_out(folder / "expected", after)
    assert _visible_tree(mounts, folder / "shown") == _tree_on_disk(folder / "expected")
    assert _tree_on_disk(folder / "export") == frozen
    shutil.rmtree(folder)


def test_a_changed_file_is_one_mount_in_a_tree_of_any_size(tmp_path: Path) -> None:
    _lay_out(tmp_path / "export", {f"dir{n}/file{m}": ("100644", b"x") for n in range(30) for m in range(30)})
    change = PathChange("dir3/file4", TreeEntry("100644", "old"), TreeEntry("100644", "new"))
    mounts = overlay_mounts(
        SafeFolder(tmp_path, ("export",)), [change], lambda _: b"y", SafeFolder(tmp_path, ("area",)), "/tree"
    )
    assert [mount.target for mount in mounts] == ["/tree", "/tree/dir3/file4"]
    assert sum(path.is_file() for path in (tmp_path / "area").rglob("*")) == 1


def test_a_new_file_rebuilds_only_its_own_directory(tmp_path: Path) -> None:
    tree = {f"dir{n}/file{m}": ("100644", b"x") for n in range(30) for m in range(5)}
    _lay_out(tmp_path / "export", tree | {"dir3/sub/deep": ("100644", b"x")})
    change = PathChange("dir3/new", None, TreeEntry("100644", "new"))
    mounts = overlay_mounts(
        SafeFolder(tmp_path, ("export",)), [change], lambda _: b"y", SafeFolder(tmp_path, ("area",)), "/tree"
    )
    assert [mount.target for mount in mounts] == ["/tree", "/tree/dir3", "/tree/dir3/sub"]
    assert sum(path.is_file() for path in (tmp_path / "area").rglob("*")) == 6


def test_the_changes_of_a_real_commit_are_shown_as_git_checks_them_out(user: Any, tmp_path: Path) -> None:
    user.commits({"a/x": "1", "a/y": "1", "only/one": "1", "top": "1", 'odd "name"\n': "1"})
    repository = user.repository
    base = repository.head()
    edits = {"a/x": "2", "only/one": None, "new/deep/file": "n", 'odd "name"\n': "2", "-x": "d"}
    made = repository.commit(base.commit, edits, repository.files(base.commit), "m")
    for name, commit in (("export", base.commit), ("expected", made.commit)):
        (tmp_path / name).mkdir()
        repository.check_out(commit, list(repository.files(commit)), tmp_path / name)
    changes = repository.changes(base.commit, made.commit)
    content: Callable[[TreeEntry], bytes] = lambda entry: repository.blob(entry.blob)  # noqa: E731
    mounts = overlay_mounts(
        SafeFolder(tmp_path, ("export",)), changes, content, SafeFolder(tmp_path, ("area",)), "/tree"
    )
    assert _visible_tree(mounts, tmp_path / "shown") == _tree_on_disk(tmp_path / "expected")


def _lay_out(folder: Path, tree: Tree) -> None:
    folder.mkdir()
    for path, (mode, raw) in tree.items():
        file = folder / path
        file.parent.mkdir(parents=True, exist_ok=True)
        if mode == "120000":
            file.symlink_to(raw.decode())
        else:
            file.write_bytes(raw)
            file.chmod(0o755 if mode == "100755" else 0o644)


def _visible_tree(mounts: list[Mount], folder: Path) -> dict[str, tuple[str, bytes]]:
    """What a process would see: each mount hides what was there before, and needs a mount point."""
    for mount in mounts:
        target = folder / mount.target.removeprefix("/tree").lstrip("/")
        assert not mount.source.is_symlink(), "a mounted link is followed"
        if target != folder:
            assert target.exists(), f"no mount point {mount.target}"
            assert not target.is_symlink()
            assert target.is_dir() == mount.source.is_dir()
            assert not any(parent.is_symlink() for parent in target.parents if folder in parent.parents)
        if mount.source.is_dir():
            shutil.rmtree(target, ignore_errors=True)
            shutil.copytree(mount.source, target, symlinks=True)
        else:
            target.unlink()
            shutil.copy2(mount.source, target)
    return _tree_on_disk(folder)


def _tree_on_disk(folder: Path) -> dict[str, tuple[str, bytes]]:
    """Every file and directory below: git has no empty directories, so an extra one is a difference."""
    seen = {}
    for path in folder.rglob("*"):
        kind = "link" if path.is_symlink() else "folder" if path.is_dir() else oct(path.stat().st_mode & 0o777)
        content = (
            str(path.readlink()).encode() if path.is_symlink() else b"" if path.is_dir() else path.read_bytes()
        )
        seen[str(path.relative_to(folder))] = (kind, content)
    return seen


def test_many_changes_need_few_mounts(tmp_path: Path) -> None:
    export = tmp_path / "export"
    (export / "a").mkdir(parents=True)
    changes = []
    for number in range(300):
        (export / "a" / str(number)).write_text("old")
        entry = TreeEntry("100644", str(number))
        changes.append(PathChange(f"a/{number}", entry, entry))
    mounts = overlay_mounts(
        SafeFolder(export), changes, lambda entry: entry.blob.encode(), SafeFolder(tmp_path, ("area",)), "/tree"
    )
    assert len(mounts) == 2
    assert (mounts[1].source / "299").read_text() == "299"
