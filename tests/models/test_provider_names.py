"""Names of providers: known names, and messages for unknown ones."""

import contextlib
import subprocess
import sys

import pytest
from pydantic_ai.providers import infer_provider_class

from loopty.models import keys
from loopty.models.keys import provider_problem
from loopty.models.prices import FREE_PROVIDERS


@pytest.mark.parametrize("name", sorted({*keys._NAMES} - {*FREE_PROVIDERS}))
def test_every_provider_name_of_ours_is_known_to_the_library(name):
    with contextlib.suppress(ImportError):  # it is known, but its dependencies are not installed
        infer_provider_class(name)


@pytest.mark.parametrize("name", ["scripted", "openai", "mistral", "bedrock-mantle", "gateway/openai"])
def test_providers_of_loopty_and_of_the_library_are_known(name):
    assert provider_problem(name) is None


def test_an_unknown_name_is_reported_with_a_suggestion():
    assert provider_problem("gogle") == "no provider is called 'gogle'; did you mean 'google'?"
    assert provider_problem("OpenAI") == "no provider is called 'OpenAI'; did you mean 'openai'?"
    for name in ("acme", "local"):
        assert provider_problem(name) == (
            f"no provider is called '{name}'; a server that speaks OpenAI's chat API "
            'is provider = "openai" with its `url`'
        )


def test_without_the_library_only_near_misses_of_known_names_are_reported():
    script = """
from importlib.machinery import PathFinder
real = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.startswith("pydantic_ai") else real(name, *more)
from loopty.models.keys import provider_problem
print(provider_problem("acme"), provider_problem("gogle"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None no provider is called 'gogle'; did you mean 'google'?"


def test_a_known_name_needs_no_import():
    script = """
import sys
from loopty.models.keys import provider_problem
assert provider_problem("anthropic") is None
print("pydantic_ai" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
