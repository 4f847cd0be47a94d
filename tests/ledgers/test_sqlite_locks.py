"""Whatever a process does beside its connection to a ledger, the locks of the connection hold."""

from __future__ import annotations

import fcntl
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import apsw
import pytest

from loopty.kit.safe_folder import SafeFile, SafeFolder
from loopty.ledgers.sqlite import LedgerFile
from loopty.workspaces.node_folders import FoldedFolders

WRITE = """
import apsw, sys
db = apsw.Connection(sys.argv[1])
try:
    db.execute("BEGIN IMMEDIATE")
except apsw.BusyError:
    print("busy")
"""
LOCK = """
import fcntl, os, sys
try:
    fcntl.lockf(os.open(sys.argv[1], os.O_RDWR), fcntl.LOCK_EX | fcntl.LOCK_NB)
except OSError:
    print("busy")
"""


def in_another_process(program: str, path: Path) -> str:
    return subprocess.run(
        [sys.executable, "-c", program, str(path)], capture_output=True, text=True, check=True, timeout=60
    ).stdout


def open_ledger(path: Path) -> object:
    return LedgerFile(path).open()


def read_archive(path: Path) -> object:
    folders = FoldedFolders(SafeFolder(path.parent.parent, (path.parent.name,)).file(path.name))
    return folders, folders.files("1")


@pytest.mark.parametrize("open_again", [open_ledger, read_archive])
def test_a_second_connection_of_the_process_leaves_the_locks_of_the_first(
    tmp_path: Path, open_again: Callable[[Path], object]
) -> None:
    path = tmp_path.resolve() / "state" / "some.sqlite"
    path.parent.mkdir()
    first = apsw.Connection(str(path))
    first.execute("PRAGMA journal_mode = WAL")
    first.execute("CREATE TABLE folders (name, files)")
    first.execute("BEGIN IMMEDIATE")
    kept = open_again(path)
    assert in_another_process(WRITE, path) == "busy\n"
    first.execute("COMMIT")
    assert in_another_process(WRITE, path) == ""
    del kept
    first.close()


@pytest.mark.parametrize("ask", [SafeFile.exists, lambda file: file.size, SafeFile.path_for_programs])
def test_a_question_about_a_file_leaves_its_locks(tmp_path: Path, ask: Callable[[SafeFile], object]) -> None:
    path = tmp_path.resolve() / "file"
    path.write_bytes(b"x")
    descriptor = os.open(path, os.O_RDWR)
    fcntl.lockf(descriptor, fcntl.LOCK_EX)
    assert ask(SafeFolder(path.parent).file("file"))
    assert in_another_process(LOCK, path) == "busy\n"
    os.close(descriptor)
    assert in_another_process(LOCK, path) == ""
