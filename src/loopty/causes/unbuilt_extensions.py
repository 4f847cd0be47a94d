"""Causes: a module that the repository builds from C, C++ or Cython, and that the trial has not built."""

from __future__ import annotations

from loopty.causes.cause import Cause, Setting
from loopty.causes.failure import Failure
from loopty.causes.host_facts import HostFacts

BUILD_EXTENSIONS = 'export PYTHONPATH="$PWD/src:$PWD:$PYTHONPATH"; python3 setup.py -q build_ext --inplace'
"""Builds beside the sources, so that a candidate's own C code is what is measured."""
_MISSING = (
    r"No module named '?(?P<name>[A-Za-z_][A-Za-z0-9_.]*)(?:'|;|$)",
    r"cannot import name '(?P<part>\w+)' from (?:partially initialized module )?'(?P<name>[A-Za-z_][\w.]*)'",
)
_OLD_SETUPTOOLS = r"invalid pyproject\.toml config: "
"""What setuptools prints of a key that is newer than itself."""


def unbuilt_extension(failure: Failure, facts: HostFacts) -> Cause | None:
    """A module of the repository that setup.py builds."""
    found = failure.match(*_MISSING)
    if found is None or BUILD_EXTENSIONS in failure.command:
        return None
    name = ".".join(filter(None, (found["name"], found.groupdict().get("part"))))
    if not facts.builds_module(name):
        return None
    return Cause(
        "extension-not-built",
        f"{name} is built by setup.py from sources of the repository, and trials start without built files",
        (
            failure.own_setting("command", f"{BUILD_EXTENSIONS} && {failure.command}"),
            Setting("benchmark", "writable_copy", True),
        ),
    )


def missing_build_requirement(failure: Failure, facts: HostFacts) -> Cause | None:
    """A package that setup.py needs, which pip would have installed in an environment for the build alone."""
    found, old = failure.match(_MISSING[0]), failure.match(_OLD_SETUPTOOLS)
    wanted = facts.build_requirements()
    if BUILD_EXTENSIONS not in failure.command or not wanted:
        return None
    if not old and not (found and failure.match(r"setup\.py\b")):
        return None
    lack = "a newer setuptools than is" if old or not found else f"{found['name']}, which is not"
    return Cause(
        "missing-build-requirement",
        f"setup.py needs {lack} installed for the python3 of your shell",
        shell=f"python3 -m pip install {' '.join(wanted)}",
    )
