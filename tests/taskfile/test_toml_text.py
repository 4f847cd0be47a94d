"""TOML that loopty writes, and task files laid over each other."""

import tomllib
from datetime import date

import pytest
from hypothesis import given
from hypothesis import strategies as st

from loopty.domain.errors import Misuse
from loopty.taskfile.schema import lay_over, toml_text

_LEAF = st.text() | st.booleans() | st.integers(-(2**60), 2**60) | st.floats(allow_nan=False, allow_infinity=False)
_DATA = st.dictionaries(
    st.text(), st.recursive(_LEAF, lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner), max_leaves=8)
)


@given(_DATA)
def test_what_is_written_is_read_again(data):
    assert tomllib.loads(toml_text(data)) == data


def test_a_date_is_refused_with_a_reason():
    with pytest.raises(Misuse, match="dates have no use"):
        toml_text({"day": date(2026, 1, 1)})


def test_tables_are_joined_and_another_kind_replaces_its_table():
    base = {"pools": {"attempts": 3, "control": 1}, "proposer": {"kind": "mutate", "parents": "root"}, "seed": 1}
    joined = lay_over(base, {"pools": {"attempts": 9}, "proposer": {"parents": "best"}})
    assert joined["pools"] == {"attempts": 9, "control": 1}
    assert joined["proposer"] == {"kind": "mutate", "parents": "best"}
    assert lay_over(base, {"proposer": {"kind": "grid"}})["proposer"] == {"kind": "grid"}
