"""The user's cache: nothing of it is used that another user could have put there."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from loopty.kit.kept_files import make_own_folder

_OTHER = 12_345


def _make_link(link: Path, target: Path) -> None:
    """Make a link that is not the system's own."""
    link.symlink_to(target)
    if os.geteuid() == 0:
        os.chown(link, _OTHER, _OTHER, follow_symlinks=False)


@pytest.mark.parametrize("place", ["cache", "cache/loopty", "cache/loopty/locks"])
def test_a_cache_behind_a_link_is_not_used(tmp_path: Path, place: str) -> None:
    folder = tmp_path / "cache/loopty/locks"
    make_own_folder(str(folder))
    (tmp_path / place).rename(tmp_path / "elsewhere")
    _make_link(tmp_path / place, tmp_path / "elsewhere")
    with pytest.raises(PermissionError):
        make_own_folder(str(folder))


def test_a_cache_below_a_folder_of_another_user_is_not_used(tmp_path: Path) -> None:
    if os.geteuid():
        pytest.skip("only root can make a folder of another user")
    folder = tmp_path / "cache/loopty"
    make_own_folder(str(folder))
    os.chown(tmp_path / "cache", _OTHER, _OTHER)
    with pytest.raises(PermissionError, match="another user"):
        make_own_folder(str(folder))


def test_a_cache_in_a_folder_that_everybody_may_change_is_not_used(tmp_path: Path) -> None:
    folder = tmp_path / "cache/loopty"
    make_own_folder(str(folder))
    (tmp_path / "cache").chmod(0o777)
    with pytest.raises(PermissionError, match="everybody"):
        make_own_folder(str(folder))
    (tmp_path / "cache").chmod(0o1777)
    make_own_folder(str(folder))


def test_a_missing_folder_is_made_for_this_user_alone(tmp_path: Path) -> None:
    make_own_folder(str(tmp_path / "cache/loopty/deep"))
    assert (tmp_path / "cache/loopty/deep").stat().st_mode & 0o777 == 0o700
