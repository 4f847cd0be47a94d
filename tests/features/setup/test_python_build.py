"""What setup.py and pyproject.toml say about modules that are built."""

import pytest

from loopty.features.setup.build_facts import PythonBuild

SETUP = "from setuptools import Extension, setup\nsetup(ext_modules=[Extension('pkg._speedups', ['pkg/_s.c'])])\n"


@pytest.fixture
def build(tmp_path):
    def of(setup="", project=""):
        (tmp_path / "setup.py").write_text(setup)
        (tmp_path / "pyproject.toml").write_text(project)
        return PythonBuild(tmp_path)

    return of


def test_extensions_are_seen_in_setup_py(build):
    assert build(SETUP).has_extensions
    assert build("setup(ext_modules=cythonize('a.pyx'))").has_extensions
    assert not build("from setuptools import setup\nsetup()").has_extensions


def test_a_module_belongs_to_the_project_by_its_name_or_by_setup_py(build):
    found = build(SETUP, '[project]\nname = "Fast-Thing"\n')
    assert found.names_module("pkg._speedups")
    assert found.names_module("fast_thing")
    assert not found.names_module("hypothesis")


def test_requirements_are_quoted_and_what_is_no_requirement_is_left_out(build):
    project = """[build-system]
requires = ["setuptools>=80", "cffi; python_version > '3'", "x @ https://example.org/x", "$(reboot)", 3]
"""
    assert build("", project).requirements == ("'setuptools>=80'", "cffi")


@pytest.mark.parametrize("project", ["[build-system", "build-system = 1", "[build-system]\nrequires = 'a'", ""])
def test_a_file_that_is_no_project_says_nothing(build, project):
    assert build("", project).requirements == ()


def test_a_missing_file_and_a_folder_say_nothing(tmp_path):
    (tmp_path / "setup.py").mkdir()
    assert not PythonBuild(tmp_path).has_extensions
