"""Files that a hostile process may have written."""

from __future__ import annotations

from pathlib import Path

import pytest

from loopty.kit import untrusted_files
from loopty.kit.untrusted_files import Unreadable


@pytest.mark.parametrize("mode", [0o4755, 0o2755])
def test_a_file_that_makes_others_its_owner_is_not_taken(tmp_path: Path, mode: int) -> None:
    file = tmp_path / "result.json"
    file.write_bytes(b"{}")
    assert untrusted_files.content(file, 100) == b"{}"
    file.chmod(mode)
    with pytest.raises(Unreadable, match="set-id"):
        untrusted_files.content(file, 100)
