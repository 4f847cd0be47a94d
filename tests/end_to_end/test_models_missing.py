"""Faulty configuration and missing libraries are reported in one line with the remedy."""

import pytest

from .conftest import CODE_TASK, Place
from .serving import evolver, number, table, vendor


@pytest.fixture
def own(code_place, monkeypatch) -> Place:
    """The place with a configuration of its user's own."""
    monkeypatch.setenv("XDG_CONFIG_HOME", str(code_place.top.parent / "config"))
    return code_place


ROLE = table("roles.evolver", model="mine") + table("proposer", kind="llm-code")
GARBAGE = {
    "no TOML": (b"[models.mine\n", "is not valid TOML"),
    "no text": (b"\xff\xfe\x00", ":1: holds bytes that are not UTF-8"),
    "a key": (b'[models.mine]\nprovider = "openai"\nmodel = "m"\napi_key = "sk-1"\n', ":4: models.mine.api_key"),
    "a wrong type": (b"[models.mine]\nprovider = 3\n", ":2: models.mine.provider must be text"),
    "no provider": (b'[models.mine]\nprovider = ""\nmodel = "m"\n', ":2: models.mine.provider is empty"),
    "no table": (b"models = 7\n", ":1: models must be tables"),
    "another table": (b"[modles.mine]\n", ":1: modles is not a known key; did you mean 'models'?"),
}


@pytest.mark.parametrize("case", GARBAGE)
def test_garbage_in_the_users_config_file_is_reported_with_its_line(own, case):
    content, expected = GARBAGE[case]
    own.write("../config/loopty/config.toml", "")
    (own.top / "../config/loopty/config.toml").write_bytes(content)
    own.write("loopty.toml", CODE_TASK.format(attempts=1) + ROLE)
    refused = own.loopty("optimize", code=2)
    assert "config/loopty/config.toml" in refused.stderr
    assert expected in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert not (own.state / "ledger.sqlite").exists()


MISSING = {
    "the client library": ("pydantic_ai", {}, "[models]"),
    "the wire of Anthropic": ("anthropic", {"provider": "anthropic"}, "[anthropic]"),
}


@pytest.mark.parametrize("case", MISSING)
def test_a_missing_library_is_reported_with_the_command_that_installs_it(own, case, monkeypatch):
    module, keys, expected = MISSING[case]
    own.write("../shadow/sitecustomize.py", BLOCKS.replace("MODULE", module))
    monkeypatch.setenv("PYTHONPATH", str(own.top.parent / "shadow"))
    with vendor(number(7)) as server:
        own.write("loopty.toml", CODE_TASK.format(attempts=1) + evolver(server, **keys))
        refused = own.loopty("optimize", code=2)
    assert expected in refused.stderr
    assert refused.stderr.count("\n") == 1
    assert server.requests == []


BLOCKS = """
from importlib.machinery import PathFinder

found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.startswith("MODULE") else found(name, *more)
"""
