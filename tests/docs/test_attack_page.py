"""The page of attacks names who else may be hostile, and tests that are there."""

import runpy
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
TABLE = runpy.run_path(str(ROOT / "scripts/attack_table.py"))


def test_the_page_has_the_table_of_strangers_as_the_script_prints_it():
    assert "\n".join(TABLE["strangers"]()) in (ROOT / "docs/research/attacks.md").read_text()


@pytest.mark.parametrize("test", ["test_gone.py::test_it", "test_access.py::test_that_is_gone"])
def test_a_missing_test_is_named(test, monkeypatch):
    monkeypatch.setitem(TABLE["STRANGERS"], "somebody", (test,))
    with pytest.raises(LookupError, match=test):
        TABLE["strangers"]()
