"""A repository with a task, driven from Python."""

import re
from pathlib import Path

import pytest

from ..end_to_end.conftest import Place, code_place, parameter_place, place

PAGE = Path(__file__).parents[2] / "docs/python.md"

__all__ = ["code_place", "parameter_place", "place"]


@pytest.fixture
def lines() -> list[str]:
    """What a campaign says to a person."""
    return []


@pytest.fixture
def campaign(code_place: Place, lines: list[str]):
    from loopty import Campaign

    return Campaign(code_place.top / "src", say=lines.append)


def python_page_examples(top: Path) -> list[str]:
    """The examples of the page, for the repository there."""
    text = PAGE.read_text().partition("## A repository")[2]
    blocks = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    return [block.replace("path/of/your/repository", str(top)) for block in blocks]
