"""The table of families says what the families define: by it, only those that an event needs are imported."""

from loopty.record.families import _TABLE, _kind, all_families


def test_the_table_lists_the_events_that_each_family_defines_and_folds():
    for file, family in all_families().items():
        own = {_kind(event) for event in family.events}
        folded = {_kind(event) for event in family.folds}
        assert tuple(set(kinds.split()) for kinds in _TABLE[file]) == (own, folded - own), file


def test_every_family_is_in_the_table():
    from importlib import import_module
    from pathlib import Path

    import loopty.record

    files = {path.stem for path in Path(loopty.record.__path__[0]).glob("*.py")}
    with_family = {file for file in files if hasattr(import_module(f"loopty.record.{file}"), "FAMILY")}
    assert with_family == set(all_families())
