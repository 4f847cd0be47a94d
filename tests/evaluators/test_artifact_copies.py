"""Artifacts of trials are hostile: only plain, regular files within the limits are kept, by content."""

import hashlib
import os

import pytest

from loopty.evaluators import command
from loopty.evaluators.command import keep_artifacts
from loopty.kit.safe_folder import SafeFolder


@pytest.fixture
def folders(tmp_path):
    (tmp_path / "out").mkdir()
    return tmp_path / "out", tmp_path / "kept"


def keep(folders):
    source, target = folders
    top = SafeFolder(source.parent)
    return keep_artifacts(top.below(source.name), top.below(target.name))


def test_each_file_is_kept_once_under_its_digest(folders):
    source, target = folders
    for name in ("a.json", "b.json"):
        (source / name).write_text("same")
    digest = hashlib.sha256(b"same").hexdigest()
    assert keep(folders) == ({"a.json": digest, "b.json": digest}, 0)
    assert [path.name for path in target.iterdir()] == [digest]
    assert (target / digest).read_bytes() == b"same"


def test_links_folders_pipes_and_odd_names_are_left_out(folders, tmp_path):
    source, target = folders
    (tmp_path / "secret").write_text("secret")
    (source / "link").symlink_to(tmp_path / "secret")
    os.link(tmp_path / "secret", source / "second-name")
    os.mkfifo(source / "pipe")
    (source / "folder").mkdir()
    (source / ".hidden").write_text("x")
    (source / "a b").write_text("x")
    (source / "ok").write_text("ok")
    kept, left_out = keep(folders)
    assert (list(kept), left_out) == (["ok"], 6)
    assert all(b"secret" not in path.read_bytes() for path in target.iterdir())


def test_large_and_many_files_are_left_out(folders, monkeypatch):
    source, _ = folders
    monkeypatch.setattr(command, "LARGEST_FILE", 10)
    monkeypatch.setattr(command, "LARGEST_TOTAL", 25)
    monkeypatch.setattr(command, "MOST_FILES", 3)
    for name, size in {"a": 11, "b": 10, "c": 10, "d": 6, "e": 5, "f": 0}.items():
        (source / name).write_bytes(b"x" * size)
    kept, left_out = keep(folders)
    assert (list(kept), left_out) == (["b", "c", "e"], 3)


def test_a_folder_that_is_a_link_is_not_followed(folders, tmp_path):
    source, _ = folders
    source.rmdir()
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "elsewhere" / "a").write_text("secret")
    source.symlink_to(tmp_path / "elsewhere")
    assert keep(folders) == ({}, 0)
