"""Entries in settings files: added once, replaced, removed, and nothing else in the file changes."""

import json
import tomllib
from pathlib import Path

import pytest

from loopty.domain.errors import Misuse
from loopty.features.agents.hosts.entries import JsonEntry, TomlEntry

FILE = Path("settings")
SERVER = JsonEntry(FILE, ("mcpServers", "loopty"), {"command": "loopty"})
ALLOWED = JsonEntry(FILE, ("permissions", "allow"), "mcp__loopty", is_member=True)
TABLE = TomlEntry(FILE, ("mcp_servers", "loopty"), {"command": 'a "b"\\c', "args": ["mcp"], "seconds": 600})


@pytest.mark.parametrize("entry", [SERVER, ALLOWED])
@pytest.mark.parametrize(
    "before", [{}, {"theme": "dark"}, {"mcpServers": {"x": 1}, "permissions": {"allow": ["Bash"]}}]
)
def test_a_json_entry_is_added_and_removed_without_a_trace(entry, before):
    text = json.dumps(before, indent=4) + "\n" if before else ""
    with_entry = entry.text_with(text)
    assert json.loads(with_entry) != before
    assert entry.text_with(with_entry) == with_entry
    assert entry.text_without(with_entry) == text


def test_an_older_entry_is_replaced_in_its_place():
    text = '{\n  "mcpServers": {\n    "loopty": {"command": "old"},\n    "x": 1\n  }\n}\n'
    assert json.loads(SERVER.text_with(text)) == {"mcpServers": {"loopty": {"command": "loopty"}, "x": 1}}


def test_the_users_indentation_stays():
    assert '\n\t"theme"' in SERVER.text_with('{\n\t"theme": "dark"\n}\n')


@pytest.mark.parametrize(
    "text", ['{"a": 1, // comment\n}', "[]", "{", '{"mcpServers": []}', '{"mcpServers": "x"}']
)
def test_a_file_that_cannot_be_edited_safely_is_left_with_what_to_paste(text):
    with pytest.raises(Misuse, match='"command": "loopty"'):
        SERVER.text_with(text)


def test_a_file_without_the_entry_stays_as_it_is():
    text = '{"theme":"dark","permissions":{"allow":["Bash"]}}'
    assert SERVER.text_without(text) == text
    assert ALLOWED.text_without(text) == text
    assert TABLE.text_without("x = 1 # mine\n") == "x = 1 # mine\n"


@pytest.mark.parametrize(
    "before", ["", "# mine\nmodel = 'x'", "model = 'x'\n", "[mcp_servers.other]\ncommand = 'y'\n\n"]
)
def test_a_toml_table_is_added_after_what_is_there_and_removed_again(before):
    with_table = TABLE.text_with(before)
    assert with_table.startswith(before)
    assert tomllib.loads(with_table)["mcp_servers"]["loopty"] == TABLE.values
    assert TABLE.text_with(with_table) == with_table
    assert TABLE.text_without(with_table).rstrip("\n") == before.rstrip("\n")


def test_what_follows_the_table_stays():
    text = TABLE.text_with("a = 1\n") + "[mine]\nb = 2\n"
    assert tomllib.loads(TABLE.text_without(text)) == {"a": 1, "mine": {"b": 2}}
    assert tomllib.loads(TABLE.text_with(text))["mine"] == {"b": 2}


def test_a_table_that_the_user_wrote_is_not_touched():
    with pytest.raises(Misuse, match="remove it first"):
        TABLE.text_with("[mcp_servers.loopty]\ncommand = 'mine'\n")


def test_a_broken_toml_file_is_named():
    with pytest.raises(Misuse, match="not valid TOML"):
        TABLE.text_with("a = \n")
