"""Every family of events is in the table that the fold follows."""

import importlib
from pathlib import Path

import loopty.record
from loopty.record.fold import Family
from loopty.record.history import FAMILIES


def test_every_family_is_in_the_table_once():
    files = Path(loopty.record.__path__[0]).glob("*.py")
    modules = [importlib.import_module(f"loopty.record.{path.stem}") for path in files]
    defined = {id(found) for module in modules for found in vars(module).values() if type(found) is Family}
    assert sorted(map(id, FAMILIES)) == sorted(defined)


def test_an_event_belongs_to_one_family():
    events = [event for family in FAMILIES for event in family.events]
    assert len(events) == len(set(events))
