"""Drafts: the edits of a node are the changes in its directory."""

from __future__ import annotations

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


class Draft:
    """A draft of a small repository."""

    def __init__(self, user: Any, files: Any, parent: Any, folder: Path) -> None:
        self.folder = folder
        above = SafeFolder(folder.parent)
        self._places = above.below(folder.name), above.file("draft.json")
        self.laid_out = drafts.lay_out(user.repository, files, parent, *self._places)

    @property
    def edits(self) -> dict[str, bytes | str | None]:
        return dict(drafts.edits_in(*self._places))


@pytest.fixture
def draft(user: Any, files_of: Callable[..., Any], node: Callable[..., Any], tmp_path: Path) -> Draft:
    user.writes({"src/a.py": "a", "src/run.sh": "r", "src/deep/b.py": "b", "other": "o", "evaluate.py": "e"})
    (user.top / "src" / "run.sh").chmod(0o755)
    user.commits()
    files = files_of(user, Access(write=("src",)))
    return Draft(user, files, node("1", user.repository.head()), tmp_path / "draft")


def test_writable_files_are_laid_out_and_no_change_means_no_edits(draft: Draft) -> None:
    assert draft.laid_out == ["src/a.py", "src/deep/b.py", "src/run.sh"]
    assert sorted(str(path.relative_to(draft.folder)) for path in draft.folder.rglob("*.*")) == draft.laid_out
    assert os.access(draft.folder / "src" / "run.sh", os.X_OK)
    assert draft.edits == {}


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
    (draft.folder / "other").write_text("mine")
    assert draft.edits == {"other": b"mine"}


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
    with pytest.raises(Misuse, match="loopty new"):
        assert draft.edits
