"""Objects by name: how large they are, many at once."""

from typing import Any

import pytest

from loopty.workspaces.git_session import GitError


def test_small_files_are_told_from_large_ones_however_many_there_are(user: Any) -> None:
    files = {f"many/{number}.txt": f"{number}\n" for number in range(1_200)}
    user.commits({**files, "large.txt": "x" * 5_000, "just.txt": "x" * 100})
    commit = user.repository.head().commit
    found = user.repository.files_up_to(commit, 100)
    assert {path for path in found if path.startswith("many/")} == set(files)
    assert "just.txt" in found
    assert "large.txt" not in found
    assert user.repository.files_up_to(commit, 100) == found


def test_what_was_just_written_is_measured_too(user: Any) -> None:
    user.commits({"a.txt": "a"})
    head = user.repository.head().commit
    made = user.repository.commit(head, {"b.txt": "b" * 50, "c.txt": "c" * 51}, {}, "more\n")
    assert user.repository.files_up_to(made.commit, 50) == ["a.txt", "b.txt"]


def test_an_object_that_is_not_there_is_said(user: Any) -> None:
    user.commits({"a.txt": "a"})
    with pytest.raises(GitError, match="there is no object"):
        user.repository._store.sizes(["0" * 40])
    assert user.repository.files_up_to(user.repository.head().commit, 9) == ["a.txt"]
