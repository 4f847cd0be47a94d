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
    found = failure.match(_MISSING[0])
    if found is None or BUILD_EXTENSIONS not in failure.command:
        return None
    wanted = facts.build_requirements()
    if not wanted or not failure.match(r"setup\.py\b"):
        return None
    return Cause(
        "missing-build-requirement",
        f"setup.py needs {found['name']}, which is not installed for the python3 of your shell",
        shell=f"python3 -m pip install {' '.join(wanted)}",
    )
