"""Files of a commit, looked up one by one."""

from typing import Any

import pytest

from loopty.git.repository import Repository
from loopty.workspaces.benchmark_files import CommitFiles


def test_files_are_found_by_their_path_and_directories_are_none(user: Any) -> None:
    commit = user.commits({"a.py": "1", "deep/er/b.py": "2"})
    repository = Repository.open(user.top)
    found, every = CommitFiles(repository, commit), repository.files(commit)
    assert {path: found[path] for path in every} == dict(every)
    for path in ("deep", "deep/er", "deep/er/", "", "c.py", "a.py/x", 3):
        assert path not in found
    with pytest.raises(KeyError):
        found["deep"]


def test_only_the_directories_on_the_way_are_read(user: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    commit = user.commits({f"d{number}/f.py": str(number) for number in range(20)})
    repository, read = Repository.open(user.top), list[str]()
    store, parse = repository._objects, repository._objects._parse_tree
    monkeypatch.setattr(store, "_parse_tree", lambda tree: read.append(tree) or parse(tree))
    assert "d3/f.py" in CommitFiles(repository, commit)
    assert len(read) == 2
