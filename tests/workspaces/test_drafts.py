"""Drafts: the edits of a node are the changes in its directory."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from loopty.domain.access import Access
from loopty.domain.errors import Misuse
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces import drafts
from loopty.workspaces.drafts import Drafts


class Draft:
    """A draft of a small repository."""

    def __init__(self, user: Any, files: Any, parent: Any, folder: Path, sparse: bool = False) -> None:
        self.folder = folder
        above = SafeFolder(folder.parent)
        self._places = above.below(folder.name), above.file("draft.json")
        self._drafts, self._root = Drafts(user.repository, files), parent
        self.laid_out = self._drafts.lay_out(parent, parent, *self._places, sparse)

    @property
    def edits(self) -> dict[str, bytes | str | None]:
        return dict(self._drafts.edits(self._root, *self._places))


@pytest.fixture
def make_draft(
    user: Any, files_of: Callable[..., Any], node: Callable[..., Any], tmp_path: Path
) -> Callable[..., Draft]:
    user.writes({"src/a.py": "a", "src/run.sh": "r", "src/deep/b.py": "b", "other": "o", "evaluate.py": "e"})
    user.writes({".gitignore": "*.o\n", "tests/data/x": "x", "secret": "s"})
    (user.top / "src" / "run.sh").chmod(0o755)
    (user.top / "tests" / "link").symlink_to("data")
    user.commits()
    files = files_of(user, Access(write=("src",), hidden=("secret",)))

    def make(sparse: bool = False) -> Draft:
        return Draft(user, files, node("1", user.repository.head()), tmp_path / "draft", sparse)

    return make


@pytest.fixture
def draft(make_draft: Callable[..., Draft]) -> Draft:
    return make_draft()


def laid_out_files(draft: Draft) -> set[str]:
    found = (Path(folder, name) for folder, _, names in os.walk(draft.folder) for name in names)
    return {str(path.relative_to(draft.folder)) for path in found}


def test_a_whole_tree_is_laid_out_and_no_change_means_no_edits(draft: Draft) -> None:
    assert draft.laid_out == ["src/a.py", "src/deep/b.py", "src/run.sh"]
    assert laid_out_files(draft) == {*draft.laid_out, ".gitignore", "evaluate.py", "other", "tests/data/x"}
    assert (draft.folder / "tests" / "link" / "x").read_text() == "x"
    assert os.access(draft.folder / "src" / "run.sh", os.X_OK)
    assert draft.edits == {}


def test_only_writable_files_can_be_written(draft: Draft) -> None:
    modes = {name: (draft.folder / name).stat().st_mode & 0o222 for name in ("src/a.py", "other", "tests/data/x")}
    assert {name for name, mode in modes.items() if mode} == {"src/a.py"}
    assert all((draft.folder / name).stat().st_nlink == 1 for name in laid_out_files(draft))


def test_a_sparse_draft_has_the_writable_files_alone(make_draft: Callable[..., Draft]) -> None:
    draft = make_draft(sparse=True)
    assert laid_out_files(draft) == set(draft.laid_out)
    assert draft.edits == {}


def test_a_read_only_file_that_was_only_touched_is_no_edit(draft: Draft) -> None:
    other = draft.folder / "other"
    other.unlink()
    other.write_text("o")
    assert draft.edits == {}


def test_a_changed_or_deleted_read_only_file_becomes_an_edit_so_that_it_can_be_refused(draft: Draft) -> None:
    (draft.folder / "other").chmod(0o644)
    (draft.folder / "other").write_text("mine")
    (draft.folder / "evaluate.py").unlink()
    (draft.folder / "tests" / "link").unlink()
    assert draft.edits == {"other": b"mine", "evaluate.py": None, "tests/link": None}


def test_new_files_that_git_ignores_are_no_part_of_the_node(draft: Draft) -> None:
    for name in ("src/a.o", "tests/b.o", ".pytest_cache/v/cache"):
        (draft.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (draft.folder / name).write_text("built")
    (draft.folder / ".pytest_cache" / ".gitignore").write_text("*\n")
    with (draft.folder / "huge.o").open("wb") as file:
        file.truncate(65 << 20)
    assert draft.edits == {}


def test_a_link_of_the_commit_that_names_something_else_now_is_refused(draft: Draft) -> None:
    (draft.folder / "tests" / "link").unlink()
    (draft.folder / "tests" / "link").symlink_to("/etc")
    with pytest.raises(Misuse, match="regular file"):
        assert draft.edits


def test_the_layout_of_an_earlier_version_is_read(make_draft: Callable[..., Draft], tmp_path: Path) -> None:
    draft = make_draft(sparse=True)
    layout = json.loads((tmp_path / "draft.json").read_text())
    assert all(isinstance(value, str) for value in layout.values())
    (draft.folder / "src/a.py").write_text("new")
    assert draft.edits == {"src/a.py": b"new"}


def test_changes_additions_and_deletions_become_edits(draft: Draft) -> None:
    (draft.folder / "src/a.py").write_bytes(b"\xff")
    (draft.folder / "src/new").mkdir()
    (draft.folder / "src/new/c.py").write_text("c")
    (draft.folder / "src/deep/b.py").unlink()
    assert draft.edits == {"src/a.py": b"\xff", "src/new/c.py": b"c", "src/deep/b.py": None}


def test_caches_and_git_directories_are_ignored(draft: Draft) -> None:
    for name in ("src/__pycache__/a.pyc", ".git/config", "src/deep/.git/hooks/x"):
        (draft.folder / name).parent.mkdir(parents=True, exist_ok=True)
        (draft.folder / name).write_text("x")
    (draft.folder / "src" / ".git").write_text("gitdir: /elsewhere")
    assert draft.edits == {}


def test_a_file_outside_the_writable_paths_becomes_an_edit_so_that_it_can_be_refused(draft: Draft) -> None:
    (draft.folder / "more").write_text("mine")
    assert draft.edits == {"more": b"mine"}


@pytest.mark.parametrize(
    "kind", ["link to a file", "link to a directory", "dangling link", "hard link", "pipe", "huge"]
)
def test_anything_but_a_regular_file_is_refused_in_one_line(draft: Draft, kind: str, tmp_path: Path) -> None:
    odd = draft.folder / "src" / "odd"
    (tmp_path / "secret").write_text("secret")
    match kind:
        case "link to a file":
            odd.symlink_to(tmp_path / "secret")
        case "link to a directory":
            odd.symlink_to("/etc")
        case "dangling link":
            odd.symlink_to("nowhere")
        case "hard link":
            odd.hardlink_to(tmp_path / "secret")
        case "pipe":
            os.mkfifo(odd)
        case _:
            with odd.open("wb") as file:
                file.truncate(65 << 20)
    with pytest.raises(Misuse, match="regular file") as caught:
        assert draft.edits
    assert len(str(caught.value).splitlines()) == 1


@pytest.mark.parametrize("level", ["the draft", "the folder of drafts"])
def test_a_draft_that_was_replaced_by_a_link_is_refused(draft: Draft, level: str, tmp_path: Path) -> None:
    (tmp_path / "elsewhere").mkdir()
    folder = SafeFolder(tmp_path, ("draft",))
    if level == "the draft":
        draft.folder.rename(tmp_path / "elsewhere" / "draft")
        draft.folder.symlink_to(tmp_path / "elsewhere" / "draft")
    else:
        (tmp_path / "drafts").symlink_to(tmp_path)
        folder = SafeFolder(tmp_path, ("drafts", "draft"))
    with pytest.raises(Misuse, match="is a link"):
        drafts.edits_in(folder, SafeFolder(tmp_path).file("draft.json"))


def test_a_layout_that_was_replaced_by_a_link_is_refused(draft: Draft, tmp_path: Path) -> None:
    layout = draft.folder.with_name("draft.json")
    layout.rename(tmp_path / "moved")
    layout.symlink_to(tmp_path / "moved")
    with pytest.raises(Misuse, match="is a link"):
        assert draft.edits


def test_a_missing_draft_is_misuse(draft: Draft) -> None:
    shutil.rmtree(draft.folder)
    with pytest.raises(Misuse, match="loopty draft new"):
        assert draft.edits
