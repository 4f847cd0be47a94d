"""A repository with a task, driven from Python."""

import pytest

from ..end_to_end.conftest import Place, code_place, parameter_place, place

__all__ = ["code_place", "parameter_place", "place"]


@pytest.fixture
def lines() -> list[str]:
    """What a campaign says to a person."""
    return []


@pytest.fixture
def campaign(code_place: Place, lines: list[str]):
    from loopty import Campaign

    return Campaign(code_place.top / "src", say=lines.append)
