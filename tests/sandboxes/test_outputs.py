"""The files that get the output of a process tree."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from loopty.domain.launch import SandboxError
from loopty.sandboxes.supervise import Outputs


@pytest.fixture(name="pipe")
def _pipe() -> Iterator[tuple[int, int]]:
    ends = os.pipe()
    yield ends
    for end in ends:
        os.close(end)


def copy_output(pipe: tuple[int, int], printed: bytes, path: Path, keeps_empty: bool = True) -> None:
    """Print into the pipe, and copy it into the file."""
    os.write(pipe[1], printed)
    outputs = Outputs({pipe[0]: path}, 1 << 20, lambda: None, keeps_empty)
    try:
        outputs.drain()
    finally:
        outputs.close()


async def test_what_is_printed_gets_a_file(pipe: tuple[int, int], tmp_path: Path) -> None:
    copy_output(pipe, b"printed", tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b"printed"


async def test_a_command_that_prints_nothing_gets_an_empty_file(pipe: tuple[int, int], tmp_path: Path) -> None:
    copy_output(pipe, b"", tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b""


async def test_what_an_earlier_command_printed_goes(pipe: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "log").write_bytes(b"of another trial")
    copy_output(pipe, b"", tmp_path / "log")
    assert (tmp_path / "log").read_bytes() == b""


async def test_a_command_that_prints_nothing_gets_no_file_where_nobody_wants_one(
    pipe: tuple[int, int], tmp_path: Path
) -> None:
    (tmp_path / "log").write_bytes(b"of another trial")
    copy_output(pipe, b"", tmp_path / "log", keeps_empty=False)
    assert not (tmp_path / "log").exists()
    copy_output(pipe, b"printed", tmp_path / "log", keeps_empty=False)
    assert (tmp_path / "log").read_bytes() == b"printed"


async def test_a_link_in_place_of_a_log_is_removed_and_not_followed(pipe: tuple[int, int], tmp_path: Path) -> None:
    (tmp_path / "mine").write_bytes(b"of the user")
    (tmp_path / "log").symlink_to(tmp_path / "mine")
    copy_output(pipe, b"printed", tmp_path / "log", keeps_empty=False)
    assert (tmp_path / "mine").read_bytes() == b"of the user"
    assert not (tmp_path / "log").is_symlink()
    assert (tmp_path / "log").read_bytes() == b"printed"


@pytest.mark.parametrize("keeps_empty", [True, False])
async def test_output_that_cannot_be_written_is_the_sandboxes_fault(
    pipe: tuple[int, int], tmp_path: Path, keeps_empty: bool
) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(SandboxError, match="cannot write"):
        copy_output(pipe, b"printed", tmp_path / "file" / "log", keeps_empty)


async def test_the_folder_of_a_log_is_made_with_it(pipe: tuple[int, int], tmp_path: Path) -> None:
    log = tmp_path / "nodes" / "1" / "log"
    copy_output(pipe, b"", log, keeps_empty=False)
    assert not log.parent.exists()
    copy_output(pipe, b"printed", log, keeps_empty=False)
    assert log.read_bytes() == b"printed"
