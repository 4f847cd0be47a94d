"""Sizes of objects, many at once."""

from typing import Any

import pytest

from loopty.git.command import GitError


def test_small_files_are_separated_from_large_ones_in_any_number(user: Any) -> None:
    files = {f"many/{number}.txt": f"{number}\n" for number in range(1_200)}
    user.commits({**files, "large.txt": "x" * 5_000, "just.txt": "x" * 100})
    commit = user.repository.head().commit
    found = user.repository.files_up_to(commit, 100)
    assert {path for path in found if path.startswith("many/")} == set(files)
    assert "just.txt" in found
    assert "large.txt" not in found
    assert user.repository.files_up_to(commit, 100) == found


def test_objects_that_were_just_written_have_sizes_too(user: Any) -> None:
    user.commits({"a.txt": "a"})
    head = user.repository.head().commit
    made = user.repository.commit(head, {"b.txt": "b" * 50, "c.txt": "c" * 51}, {}, "more\n")
    assert user.repository.files_up_to(made.commit, 50) == ["a.txt", "b.txt"]


def test_a_missing_object_is_reported(user: Any) -> None:
    user.commits({"a.txt": "a"})
    with pytest.raises(GitError, match="there is no object"):
        user.repository._store.sizes(["0" * 40])
    assert user.repository.files_up_to(user.repository.head().commit, 9) == ["a.txt"]
