"""What can be measured without a benchmark and tests: how long the package takes to load or to build."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator
from pathlib import PurePosixPath

from loopty.features.setup.builds import RepositoryBuild, repository_builds
from loopty.features.setup.causes.modules import BUILD_EXTENSIONS
from loopty.features.setup.causes.results import command_with_timer
from loopty.features.setup.repository_facts import RepositoryFacts
from loopty.features.setup.repository_tests import build_line, compile_line
from loopty.kit.records import Record

_LOAD, _BUILD = "how long the package takes to load", "how long the build takes"
_LIBRARY = "how long the build of one of its libraries takes"
_HEADERS = "how long its headers take to compile"
_MOST_NAMES = 3
_NO_PACKAGES = ("setup", "conftest", "docs", "doc", "examples", "noxfile", "tasks")
_HEADER = {"c": (".h",), "c++": (".hpp", ".hh", ".hxx", ".h")}


class LastResort(Record):
    """A command that nearly always works, and what its CPU time says."""

    line: str
    measures: str
    """What the score is, in words."""
    setup: str = ""
    writable_copy: bool = False
    is_part: bool = False
    """Whether only a part of the repository is built."""

    @property
    def line_with_timer(self) -> str:
        return command_with_timer(self.line, self.setup)

    @property
    def is_build(self) -> bool:
        return self.measures in (_BUILD, _LIBRARY)


def last_resorts(facts: RepositoryFacts) -> list[LastResort]:
    """List the commands to fall back on, the most telling first."""
    return [
        *_load_of_the_top(facts),
        *(
            LastResort(line, _LOAD, BUILD_EXTENSIONS, writable_copy=True)
            if line.startswith("python3 ") and facts.is_mostly_extensions
            else LastResort(line, _LOAD)
            for line in dict.fromkeys(_lines_that_load(facts))
        ),
        *_node_loads_after_a_build(facts),
        *(_build_resort(build) for build in repository_builds(facts)),
        *(LastResort(line, _HEADERS) for line in _lines_that_compile_headers(facts)),
    ]


def _build_resort(build: RepositoryBuild) -> LastResort:
    measures = _LIBRARY if build.is_part else _BUILD
    return LastResort(build.line, measures, build.setup, build.writable_copy, build.is_part)


def _lines_that_load(facts: RepositoryFacts) -> Iterator[str]:
    """Yield commands that only load the package, in the language that most of it is written in."""
    main = facts.languages[0] if facts.languages else ""
    if facts.node_entry and main not in ("python", "perl"):
        yield f"node {shlex.quote(facts.node_entry)}"
    if main == "python" or facts.has_extensions:
        yield from (f'python3 -c "import {name}"' for name in _python_packages(facts)[:_MOST_NAMES])
    if main == "perl":
        yield from _perl_lines(facts)


def _node_loads_after_a_build(facts: RepositoryFacts) -> Iterator[LastResort]:
    """Yield the same for a package that is not complete before its build."""
    entry = facts.node_entry or facts.built_node_entry
    for build in filter(None, (build_line(facts), compile_line(facts)) if entry else ()):
        yield LastResort(f"node {shlex.quote(entry)}", _LOAD, build, writable_copy=True)


def _load_of_the_top(facts: RepositoryFacts) -> Iterator[LastResort]:
    """Load the package whose folder is the repository's top: Python finds it by a link with its name."""
    if name := facts.root_package:
        *folders, last = name.split(".")
        folder = "/".join(("$TMPDIR/packages", *folders))
        setup = f'mkdir -p "{folder}" && ln -s "$PWD" "{folder}/{last}"'
        path = 'export PYTHONPATH="$TMPDIR/packages:$PYTHONPATH"'
        yield LastResort(f'python3 -c "import {name}"', _LOAD, f"{setup} && {path}")


def _python_packages(facts: RepositoryFacts) -> list[str]:
    """List the packages and modules at the places where Python projects keep them."""
    if facts.root_package:
        return []  # what is at the top are its parts
    trainings = (script.path for script in facts.trainings)  # to import one is to train, or nothing
    aside = {*facts.tests, *facts.benchmarks, *facts.evaluators, *trainings}
    paths = [PurePosixPath(path) for path in facts.files if path.endswith(".py") and path not in aside]
    names = [
        path.parent.name
        for root in ("src", "lib", ".")
        for path in paths
        if path.name == "__init__.py" and str(path.parent.parent) == root
    ]
    names += [path.stem for root in ("src", ".") for path in paths if str(path.parent) == root]
    return [
        name
        for name in dict.fromkeys(names)
        if name.isidentifier() and name not in _NO_PACKAGES and not re.search(r"(?:^|_)tests?(?:_|$)", name)
    ]


def _perl_lines(facts: RepositoryFacts) -> Iterator[str]:
    """Load the module nearest to the top of lib, as Perl names it."""
    modules = [path for path in facts.sources if path.endswith(".pm")]
    if modules:
        path = min(modules, key=lambda path: (path.count("/"), len(path), path))
        root = "lib" if path.startswith("lib/") else "."
        yield f"perl -I{root} {shlex.quote(path)}"


def _lines_that_compile_headers(facts: RepositoryFacts) -> Iterator[str]:
    """Compile the header that is nearest to the top: for a library of headers alone, its users wait for that."""
    main = facts.languages[0] if facts.languages else ""
    headers = [path for path in facts.sources if path.endswith(_HEADER.get(main, ("/",)))]
    if headers and len(headers) == len(facts.sources):  # of others, no header has what takes time
        path = min(headers, key=lambda path: (path.count("/"), len(path), path))
        compiler = f"{'cc -x c' if main == 'c' else 'c++ -x c++'} -fsyntax-only"
        folders = dict.fromkeys((".", "include", "src", path.partition("/")[0] if "/" in path else "."))
        yield f"{compiler} {' '.join(f'-I{shlex.quote(folder)}' for folder in folders)} {shlex.quote(path)}"
