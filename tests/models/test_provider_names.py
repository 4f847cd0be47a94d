"""Who serves models: names that somebody has, and names that nobody has."""

import contextlib
import subprocess
import sys

import pytest
from pydantic_ai.providers import infer_provider_class

from loopty.models import provider_names
from loopty.models.prices import FREE_PROVIDERS
from loopty.models.provider_names import provider_problem


@pytest.mark.parametrize("name", sorted({*provider_names._NAMES} - {*FREE_PROVIDERS}))
def test_a_provider_that_needs_no_look_into_the_library_is_one_of_it(name):
    with contextlib.suppress(ImportError):  # it is known, and what it needs is not installed
        infer_provider_class(name)


@pytest.mark.parametrize("name", ["local", "scripted", "openai", "mistral", "bedrock-mantle", "gateway/openai"])
def test_a_provider_of_ours_or_of_the_library_is_known(name):
    assert provider_problem(name) is None


def test_a_name_that_nobody_has_is_told_with_what_was_meant():
    assert provider_problem("gogle") == "no provider is called 'gogle'; did you mean 'google'?"
    assert provider_problem("OpenAI") == "no provider is called 'OpenAI'; did you mean 'openai'?"
    assert provider_problem("acme") == (
        "no provider is called 'acme'; a server that speaks OpenAI's chat API "
        'is provider = "openai" with its `url`'
    )


def test_without_the_library_only_what_is_close_to_a_known_name_is_told():
    script = """
from importlib.machinery import PathFinder
found = PathFinder.find_spec
PathFinder.find_spec = lambda name, *more: None if name.startswith("pydantic_ai") else found(name, *more)
from loopty.models.provider_names import unknown_provider
print(unknown_provider("acme"), unknown_provider("gogle"))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "None no provider is called 'gogle'; did you mean 'google'?"


def test_a_usual_name_costs_no_import():
    script = """
import sys
from loopty.models.provider_names import unknown_provider
assert unknown_provider("anthropic") is None
print("pydantic_ai" in sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "False"
