"""Seals detect changes of files that results depend on, and read unchanged files only once."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.kit.safe_folder import SafeFolder
from loopty.workspaces import seals
from loopty.workspaces.seals import current_seal, data_digest, load_or_make_seal


@pytest.fixture
def root(tmp_path: Path) -> Path:
    folder = tmp_path.resolve() / "frozen"
    (folder / "data").mkdir(parents=True)
    (folder / "evaluate.py").write_text("e")
    (folder / "data" / "gold").write_text("g")
    (folder / "link").symlink_to("evaluate.py")
    return folder


@pytest.fixture(params=[True, False], ids=["settled", "fresh"])
def age(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files that have not changed for long, and with files that were just written."""
    monkeypatch.setattr(seals, "_SETTLED_NS", -(1 << 62) if request.param else 1 << 62)


@pytest.mark.usefixtures("age")
def test_unchanged_files_have_no_first_change(root: Path) -> None:
    seal = current_seal(root)
    (root / "evaluate.py").chmod(0o444)
    assert seal.first_change() is None


@pytest.mark.usefixtures("age")
@pytest.mark.parametrize(
    ("change", "name"),
    [
        (lambda root: (root / "evaluate.py").write_text("E"), "evaluate.py"),
        (lambda root: (root / "data" / "gold").unlink(), "data/gold"),
        (lambda root: (root / "data" / "new").write_text(""), "data/new"),
        (lambda root: (root / "evaluate.py").chmod(0o755), "evaluate.py"),
        (lambda root: ((root / "link").unlink(), (root / "link").symlink_to("/etc/passwd")), "link"),
        (lambda root: ((root / "data").rename(root / "moved"), (root / "data").mkdir()), "data/gold"),
        (lambda root: os.mkfifo(root / "pipe"), "pipe"),
    ],
)
def test_every_change_is_detected_and_named(root: Path, change: object, name: str) -> None:
    seal = current_seal(root)
    change(root)  # type: ignore[operator]
    assert seal.first_change() == name


@pytest.mark.usefixtures("age")
def test_a_change_that_keeps_size_and_time_is_detected(root: Path) -> None:
    seal = current_seal(root)
    before = (root / "evaluate.py").stat()
    (root / "evaluate.py").write_text("E")
    os.utime(root / "evaluate.py", ns=(before.st_atime_ns, before.st_mtime_ns))
    assert seal.first_change() == "evaluate.py"


@pytest.mark.usefixtures("age")
def test_a_seal_of_some_files_covers_the_names_beside_them(root: Path) -> None:
    seal = current_seal(root, ("evaluate.py",))
    (root / "data" / "gold").write_text("other")
    assert seal.first_change() is None
    (root / "json.py").write_text("planted")
    assert seal.first_change() == "./"


@pytest.mark.usefixtures("age")
def test_a_link_in_place_of_a_folder_is_detected_though_the_file_behind_it_is_the_same(root: Path) -> None:
    seal = current_seal(root, ("data/gold",))
    (root / "data").rename(root / "moved")
    (root / "data").symlink_to("moved")
    assert seal.first_change() == "data/"


def test_unchanged_files_are_read_once(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(seals, "_SETTLED_NS", -(1 << 62))
    seal = current_seal(root)
    monkeypatch.setattr(seals, "_digest", lambda *_: pytest.fail("read again"))
    assert seal.first_change() is None


def test_a_recorded_seal_outlives_the_process(root: Path, tmp_path: Path) -> None:
    record = SafeFolder(tmp_path, ("seals",)).file("one")
    load_or_make_seal(root, None, record)
    (root / "evaluate.py").write_text("changed in between")
    assert load_or_make_seal(root, None, record).first_change() == "evaluate.py"
    assert [path.name for path in (tmp_path / "seals").iterdir()] == ["one"]


def test_the_digest_of_data_covers_names_and_contents(root: Path) -> None:
    whole = data_digest(root, ["data", "evaluate.py"])
    assert whole == data_digest(root, ["data", "evaluate.py"])
    assert whole != data_digest(root, ["evaluate.py", "data"])
    (root / "data" / "gold").rename(root / "data" / "old")
    assert whole != data_digest(root, ["data", "evaluate.py"])
    (root / "data" / "old").rename(root / "data" / "gold")
    assert whole == data_digest(root, ["data", "evaluate.py"])


def test_missing_data_is_misuse(root: Path) -> None:
    with pytest.raises(Misuse, match=r"benchmark\.data names .*/nowhere, which does not exist"):
        data_digest(root, ["nowhere"])
