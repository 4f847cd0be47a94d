"""What tests of real agents share: where these are installed, and a repository."""

import os
from pathlib import Path

import pytest

from ...end_to_end.conftest import NUMBER_BENCH, Place


@pytest.fixture(scope="session")
def shelf(tmp_path_factory) -> Path:
    """Where the agents are installed."""
    return Path(os.environ.get("LOOPTY_AGENTS") or tmp_path_factory.mktemp("agents"))


@pytest.fixture
def place(tmp_path, monkeypatch) -> Place:
    """A repository whose score is a number in a file."""
    place = Place(tmp_path / "repo")
    place.top.mkdir()
    place.git("init", "-q")
    place.write("bench.sh", NUMBER_BENCH)
    place.write("src/x.txt", "5\n")
    place.commit()
    monkeypatch.setenv("XDG_CONFIG_HOME", str(tmp_path / "config"))
    return place
